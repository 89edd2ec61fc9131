//! Two processes that want any of two permits, on two nodes.
//!
//! Goal: a permit is won by both nodes; where they have picked different ones, each is given back by its name. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{Setup, kind::permit};

pub(crate) const CONFIG: Config = Config {
    name: "handles_permits_nodes",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &["all permits are held", "several ask at a time in a process", "all is at rest"],
};

const SETUP: Setup =
    Setup { nodes: 2, requests: [&[permit(0), permit(1)], &[permit(0)]], ..Setup::PLAIN };
