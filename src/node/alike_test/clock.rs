//! One clock for a server, for a node in memory and for their clients, which stands still until a test moves it.
//!
//! Time passes only by [`Clock::pass`], so that both nodes see every command at the same microsecond. It can be set
//! back.
#![allow(clippy::disallowed_methods, reason = "it is a runtime, for tests alone")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use quorlock_harness::{Server, WallClock};

use crate::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};

/// The first of January 2100, after the system's clock even when set back: the node in memory takes the later of both.
pub(super) const START_US: u64 = 4_102_444_800_000_000;

/// The clock, as a runtime on the caller's tokio.
#[derive(Clone, Debug)]
pub(super) struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    us: AtomicU64,
    /// How far it was set back; no client's steady clock is.
    back: AtomicU64,
    drawn: AtomicU64,
    /// The server's clock.
    wall: WallClock,
}

impl Clock {
    pub(super) fn new() -> Self {
        let (us, back, drawn) = (AtomicU64::new(START_US), AtomicU64::new(0), AtomicU64::new(0));
        let wall = WallClock::standing_at(START_US.cast_signed());
        Self(Arc::new(Shared { us, back, drawn, wall }))
    }

    /// A server that goes by this clock, and neither deletes what has expired by itself nor writes to disk.
    pub(super) fn server(&self) -> Server {
        self.0.wall.give_to(Server::builder()).arg("save", "").start()
    }

    pub(super) fn us(&self) -> u64 {
        self.0.us.load(Ordering::Relaxed)
    }

    /// So much time passes, for everybody.
    pub(super) fn pass(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("a time");
        self.0.us.fetch_add(us, Ordering::Relaxed);
        self.0.wall.set(self.us().cast_signed());
    }

    /// An operator sets it back by so much.
    pub(super) fn set_back(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("a time");
        self.0.us.fetch_sub(us, Ordering::Relaxed);
        self.0.back.fetch_add(us, Ordering::Relaxed);
        self.0.wall.set(self.us().cast_signed());
    }

    /// The time of a node in memory: since 1970, as that of a server.
    pub(super) fn timestamp(&self) -> Timestamp {
        Timestamp::from_origin(Duration::from_micros(self.us()))
    }
}

impl Runtime for Clock {
    fn now(&self) -> Timestamp {
        let steady = self.us() + self.0.back.load(Ordering::Relaxed);
        Timestamp::from_origin(Duration::from_micros(steady - START_US))
    }

    fn wall_us(&self) -> u64 {
        self.us()
    }

    fn sleep_until(&self, _: Timestamp) -> Task {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, task: Task) {
        tokio::spawn(task);
    }

    fn random(&self) -> [u8; 16] {
        u128::from(self.0.drawn.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }
}
