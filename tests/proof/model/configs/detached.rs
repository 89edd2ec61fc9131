//! A detached lease with two who adopt it, and one who acquires.
//!
//! Goal: `detached`, to the end: a message that is lost or late, a second round behind a lost one, ttls that differ, the end of
//! the keys; in a long search also a node that forgets. Method: these worlds in turn.

use super::{Config, Ends};
use crate::model::{
    detached::{Detached, Setup},
    search::{Found, Limits, search},
};

pub(crate) const CONFIG: Config = Config {
    name: "detached",
    search: all,
    states: 2_000_000,
    long: 100_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "it was adopted",
        "another acquired what nobody adopted",
        "it was adopted behind a lost round",
        "a message was late",
    ],
};

const PLAIN: Setup = Setup {
    adopters: 2,
    has_other: false,
    ttls: [2, 2],
    rounds: 1,
    losses: 0,
    forgets: 0,
    until: 4,
};

const SOON: [Setup; 5] = [
    Setup { rounds: 2, ..PLAIN },
    Setup { losses: 1, ..PLAIN },
    // Whose keys end before the other's, or before the detached lease.
    Setup { ttls: [1, 2], ..PLAIN },
    Setup { ttls: [2, 1], rounds: 2, ..PLAIN },
    Setup { has_other: true, ..PLAIN },
];

/// The same with a node that forgets; and with both, a late message and one who acquires.
const LATE: [Setup; 4] = [
    Setup { has_other: true, forgets: 1, ..PLAIN },
    Setup { has_other: true, losses: 1, ..PLAIN },
    Setup { has_other: true, losses: 1, ttls: [1, 2], ..PLAIN },
    Setup { has_other: true, forgets: 1, ttls: [2, 1], ..PLAIN },
];

fn all(limits: Limits) -> Found {
    let is_long = limits.states > CONFIG.states;
    let late = if is_long { &LATE[..] } else { &[] };
    Found::of_all(SOON.iter().chain(late), |setup| search(&mut Detached::new(*setup), limits))
}
