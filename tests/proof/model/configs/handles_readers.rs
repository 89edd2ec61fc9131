//! Two processes, in each of which one wants to read and one to write, on one node; a writer reads on.
//!
//! Goal: nobody reads while somebody writes, tokens are in their order, and readers wait for nobody of their process. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{
    Setup,
    kind::{ALONE, READS},
};

pub(crate) const CONFIG: Config = Config {
    name: "handles_readers",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &[
        "several read",
        "one pauses while others read",
        "a writer reads on",
        "all is at rest",
    ],
};

const SETUP: Setup = Setup {
    requests: [&[READS, ALONE, ALONE], &[READS, READS]],
    rounds: 3,
    cancels: 1,
    downgrades: 1,
    ..Setup::PLAIN
};
