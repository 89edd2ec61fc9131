//! Goal: whoever starts `quorlock hold` has a lease for as long as it is told so, and never longer; and nothing that a caller
//! does, or fails to do, keeps a lease that nobody has any more.
//!
//! Method: the program itself on real servers, with this test as its caller. What it says is read line by line, and the keys on
//! the servers are looked at. No test waits for a fixed time.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod ends;
mod fleet;
mod hostile;
mod losses;
mod said;
