//! Real redis-servers, clusters of them, a faulty TCP proxy and a runtime in virtual time, for the tests and benchmarks.
//!
//! Every function blocks and may be called from synchronous and asynchronous tests alike. A failure
//! of the harness is a panic with a message, because a test can do nothing else with it.
//! It must never stop a process that it did not start, and must never let a test pass by waiting
//! for a fixed time: it waits for a condition, up to a deadline. Elsewhere than on Unix there is only what starts no process.
#![allow(
    clippy::disallowed_methods,
    reason = "the ban on clocks, sleeps and spawns is for the library; the harness is outside it"
)]

#[cfg(unix)]
mod altered;
#[cfg(unix)]
mod asking;
#[cfg(unix)]
mod cluster;
#[cfg(unix)]
mod companion;
pub mod evidence;
#[cfg(feature = "log")]
mod hearing;
#[cfg(unix)]
pub mod history;
#[cfg(unix)]
mod machine;
#[cfg(unix)]
mod ports;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod ready;
#[cfg(unix)]
pub mod register;
#[cfg(unix)]
mod server;
#[cfg(feature = "tls")]
mod tls;
mod undecided;
#[cfg(feature = "virtual-time")]
mod virtual_time;
#[cfg(unix)]
mod wall_clock;

#[cfg(unix)]
pub use altered::{Alter, Altered};
#[cfg(unix)]
pub use asking::Asking;
#[cfg(unix)]
pub use cluster::{Cluster, eventually};
#[cfg(unix)]
pub use companion::Companion;
pub use evidence::Evidence;
#[cfg(feature = "log")]
pub use hearing::every_thread_hears_for_itself;
#[cfg(unix)]
pub use machine::{Lateness, cpu_time};
#[cfg(unix)]
pub use ports::ipv6_available;
#[cfg(unix)]
pub use process::server_program;
#[cfg(unix)]
pub use proxy::Proxy;
#[cfg(unix)]
pub use ready::{admit, all_ready, chain, connected};
#[cfg(unix)]
pub use server::{LINE_RIGHTS, RIGHTS, Server, ServerBuilder};
#[cfg(feature = "tls")]
pub use tls::TestCa;
pub use undecided::{decide, leave_undecided};
#[cfg(feature = "virtual-time")]
pub use virtual_time::{SimRuntime, Timer};
#[cfg(unix)]
pub use wall_clock::WallClock;

/// The client library of the control connections, for tests that read a [`redis::Value`].
pub use redis;
