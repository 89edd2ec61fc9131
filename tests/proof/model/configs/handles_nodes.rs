//! Two processes, in each of which two want one resource, on three nodes.
//!
//! Goal: exclusion and service by quorums, with answers in every order. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "handles_nodes",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 20_000_000,
    ends: Ends::Open,
    sometimes: &["somebody waits", "all is at rest"],
};

const SETUP: Setup = Setup { nodes: 3, ..Setup::PLAIN };
