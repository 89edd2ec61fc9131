//! Chooses TCP ports for servers and keeps them for as long as the server may come back.
//!
//! A killed server must find its port free on restart. So ports come from below the range that the
//! kernel hands out by itself, and each is held by a UDP socket of the same number, which no
//! redis-server uses: two test processes never choose the same one, and the kernel gives it back
//! when a process dies. It must never hold the TCP port itself.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

/// Linux hands out ports from 32768 on, macOS and the BSDs from 49152 on.
const FIRST: u16 = 12_000;
const LAST: u16 = 32_000;

/// A TCP port that no other user of this module takes until it is dropped.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: u16,
    _reservation: Option<UdpSocket>,
}

impl PortLease {
    /// A port that is free now.
    pub(crate) fn free() -> Self {
        let range = u64::from(LAST - FIRST);
        for _ in 0..1000 {
            let draw = RandomState::new().build_hasher().finish() % range;
            let port = FIRST + u16::try_from(draw).expect("the range fits a port");
            let Ok(reservation) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Self { port, _reservation: Some(reservation) };
            }
        }
        panic!("no free TCP port between {FIRST} and {LAST} in 1000 draws")
    }

    /// The port that a test asked for, reserved where that is possible.
    pub(crate) fn fixed(port: u16) -> Self {
        Self { port, _reservation: UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Whether this machine has the IPv6 loopback address; many containers do not.
pub fn ipv6_available() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}
