//! The same as `late_downgrades`, smaller, with a release that keeps others out for longer than any lease asks for.
//!
//! Goal: what comes late behind such a release ends nothing of it. Production has no lease of a reader that is held for a least
//! time, so that nothing else could meet something longer. Method: that of `late_renewals`.

use super::{Config, Ends, late_downgrades, late_renewals};
use crate::model::terms::Setup;

pub(crate) const CONFIG: Config = Config {
    name: "late_kept",
    search: |limits| late_renewals::with(SETUP, limits),
    states: 3_000_000,
    long: 30_000_000,
    ends: Ends::Open,
    sometimes: &["a writer went on as a reader", "a key was kept behind a release"],
};

const SETUP: Setup =
    Setup { later_ticks: 4, hold_ticks: 6, count: 2, until: 6, ..late_downgrades::SETUP };
