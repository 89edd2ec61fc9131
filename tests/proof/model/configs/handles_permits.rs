//! Two processes, in each of which two want any of two permits, on one node.
//!
//! Goal: never more permits are held than there are, each by one; a request that asks beside a queue comes to stand in
//! it where it came, and is served. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::permit};

pub(crate) const CONFIG: Config = Config {
    name: "handles_permits",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &[
        "all permits are held",
        "several ask at a time in a process",
        "somebody waits",
        "one pauses while another process holds",
        "all is at rest",
    ],
};

const SETUP: Setup =
    Setup { requests: [&[permit(0), permit(1)]; 2], rounds: 3, cancels: 1, ..Setup::PLAIN };
