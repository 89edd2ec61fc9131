//! Real redis-servers, clusters of them, a faulty TCP proxy and a runtime in virtual time, for the tests and benchmarks.
//!
//! Every function blocks and may be called from synchronous and asynchronous tests alike. A failure
//! of the harness is a panic with a message, because a test can do nothing else with it.
//! It must never stop a process that it did not start, and must never let a test pass by waiting
//! for a fixed time: it waits for a condition, up to a deadline.
#![allow(
    clippy::disallowed_methods,
    reason = "the ban on clocks, sleeps and spawns is for the library; the harness is outside it"
)]

mod altered;
mod cluster;
mod companion;
pub mod evidence;
pub mod history;
mod machine;
mod ports;
mod process;
mod proxy;
mod ready;
pub mod register;
mod server;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "virtual-time")]
mod virtual_time;
mod wall_clock;

pub use altered::{Alter, Altered};
pub use cluster::{Cluster, eventually};
pub use companion::Companion;
pub use evidence::Evidence;
pub use machine::{Lateness, cpu_time};
pub use ports::ipv6_available;
pub use process::server_program;
pub use proxy::Proxy;
pub use ready::{admit, all_ready, alone, chain, connected};
pub use server::{LINE_RIGHTS, RIGHTS, Server, ServerBuilder};
#[cfg(feature = "tls")]
pub use tls::TestCa;
#[cfg(feature = "virtual-time")]
pub use virtual_time::{SimRuntime, Timer};
pub use wall_clock::WallClock;

/// The client library of the control connections, for tests that read a [`redis::Value`].
pub use redis;
