//! Small fleets that change their list of nodes, to the end.
//!
//! Goal: one client with the old list, one with the new one, and who seals, waits and opens, with leases over time, in all
//! orders: one node of three replaced, one to three, three to one; in a long search also all three replaced, lost messages, a
//! node that forgets and who lets it in, and clients with both lists. Method: `changes`, these worlds in turn. Everybody has
//! looked at all nodes when they begin.

use super::{
    Config, Ends,
    changes::{FLEETS, PLAIN},
};
use crate::model::{
    changes::{Changes, From, Kind, Setup},
    search::{Found, Limits, search},
};

pub(crate) const CONFIG: Config = Config {
    name: "changes_small",
    search: all,
    states: 2_000_000,
    long: 100_000_000,
    ends: Ends::Soon,
    sometimes: &[
        "a client with the old list held",
        "a client with the new list held",
        "a node was open",
    ],
};

const SMALL: Setup = Setup {
    keepers: &[(Kind::Both, 2)],
    voters: &[Kind::Old, Kind::New],
    rounds: 1,
    extensions: 1,
    forgets: 0,
    losses: 0,
    from: From::Looked,
    until: 5,
    ..PLAIN
};

/// A world with a fleet of those: one of three replaced, all three, one to three, three to one.
const fn fleet(number: usize, setup: Setup) -> Setup {
    let Setup { before, after, .. } = FLEETS[number];
    Setup { before, after, ..setup }
}

const SOON: [Setup; 3] = [fleet(2, Setup { losses: 1, ..SMALL }), fleet(0, SMALL), fleet(3, SMALL)];

const LATE: [Setup; 10] = [
    fleet(0, Setup { losses: 1, ..SMALL }),
    fleet(1, SMALL),
    fleet(3, Setup { losses: 1, ..SMALL }),
    fleet(0, Setup { forgets: 1, ..SMALL }),
    fleet(2, Setup { forgets: 1, keepers: &[(Kind::Both, 3)], ..SMALL }),
    fleet(3, Setup { forgets: 1, ..SMALL }),
    fleet(2, Setup { forgets: 1, keepers: &[(Kind::Old, 2), (Kind::Both, 2)], ..SMALL }),
    fleet(2, Setup { voters: &[Kind::Old, Kind::Both, Kind::New], ..SMALL }),
    fleet(2, Setup { voters: &[Kind::Old, Kind::Both], ..SMALL }),
    fleet(3, Setup { voters: &[Kind::Both, Kind::New], ..SMALL }),
];

fn all(limits: Limits) -> Found {
    let late = if limits.states > CONFIG.states { &LATE[..] } else { &[] };
    Found::of_all(SOON.iter().chain(late), |setup| search(&mut Changes::new(setup.clone()), limits))
}
