//! Two processes that want any of two permits, and one of them by its name, on one node.
//!
//! Goal: a permit is a lock, and a lock of its name is a permit that is taken, also in one process. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{
    Setup,
    kind::{ALONE, permit},
};

pub(crate) const CONFIG: Config = Config {
    name: "handles_permits_named",
    search: |limits| SETUP.search(limits),
    states: 300_000,
    long: 10_000_000,
    ends: Ends::Late,
    sometimes: &["all permits are held", "somebody waits", "all is at rest"],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE, permit(0)], &[permit(0), permit(1)]],
    rounds: 3,
    cancels: 1,
    ..Setup::PLAIN
};
