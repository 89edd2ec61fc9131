//! Two processes, in each of which two want one resource, on one node.
//!
//! Goal: of four requests one at most holds, each is answered once, and a caller that goes away is not let in. Method:
//! `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "handles",
    search: |limits| SETUP.search(limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "a lease was handed on",
        "somebody waits",
        "one pauses while another process holds",
        "all is at rest",
    ],
};

const SETUP: Setup = Setup { cancels: 2, rounds: 3, ..Setup::PLAIN };
