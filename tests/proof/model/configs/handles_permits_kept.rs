//! Two processes that want permits, and one of them by its name, which is kept as nobody's.
//!
//! Goal: what is kept is in nobody's way in its process. Method: `handles` with this setup.

use super::{Config, Ends};
use crate::model::handles::{
    Setup,
    kind::{ALONE, permit},
};

pub(crate) const CONFIG: Config = Config {
    name: "handles_permits_kept",
    search: |limits| SETUP.search(limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["a grant was nobody's", "all permits are held"],
};

const SETUP: Setup = Setup {
    requests: [&[ALONE, permit(0), permit(1)], &[permit(0)]],
    rounds: 3,
    lingers: true,
    until: 1,
    ttl_ticks: 3,
    ..Setup::PLAIN
};
