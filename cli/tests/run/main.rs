//! Goal: a command of `quorlock run` runs while its resource is held and never beside another, whichever process, node or
//! terminal fails it, and whoever started it finds what he knows of a shell: streams, signals, statuses.
//!
//! Method: the program itself on real servers, with a shell as the command; what it says, what it leaves in files, and what
//! the kernel says of its processes is judged. Nothing is told from how long something took, but in `exclusion`, whose log
//! has the times of a clock that all processes share. `QUORLOCK_CLI_RUNS` sets how often it runs.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod ends;
mod exclusion;
mod host;
mod kinds;
mod machine;
mod said;
mod signals;
mod statuses;
mod streams;
mod terminal;
