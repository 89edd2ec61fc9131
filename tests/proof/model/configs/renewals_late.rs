//! The same as `renewals` where one node never answers, for longer, and with a holder whose clock is slow.
//!
//! Goal and method are the same; extensions come later than what they would extend.

use super::{Config, Ends, renewals};

pub(crate) const CONFIG: Config = Config {
    name: "renewals_late",
    search: |limits| renewals::with(1, 750, 8, limits),
    states: 3_000_000,
    long: 3_000_000,
    ends: Ends::Soon,
    sometimes: &["a lease was lost in time", "a lease was extended"],
};
