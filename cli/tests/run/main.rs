//! Goal: a command of `quorlock run` runs while its resource is held and never beside another, whichever process, node or
//! terminal fails it, and its user finds streams, signals and statuses as in a shell.
//!
//! Method: the program itself on real servers, with a shell as the command. The tests judge its output, the files that
//! it leaves, and what the kernel says of its processes. They judge no duration, but in `exclusion`, whose log has the
//! times of a clock that all processes share. `QUORLOCK_CLI_RUNS` sets how often it runs.
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
mod once;
mod said;
mod signals;
mod statuses;
mod streams;
mod terminal;
