//! Histories of workers that fight for resources: how they are written down (`record`), what is searched in them
//! (`checker`), and what came of that (`verdict`).
//!
//! Pure but for the clock that all processes share. It knows nothing of how leases are made, and never decides what is done
//! about what it finds.

pub mod checker;
pub mod record;
mod verdict;

pub use verdict::Verdict;
