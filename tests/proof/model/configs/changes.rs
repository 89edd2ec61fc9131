//! Fleets that change their list of nodes, by random walks.
//!
//! Goal: one of three replaced, all three replaced, one to three, three to one, three to five, with a node that forgets and
//! messages that are lost. Method: `changes`, the fleets in turn.

use super::{Config, Ends};
use crate::model::{
    changes::{
        Changes, From, Kind, Setup, Step,
        walk::{Manner, walk},
    },
    search::{Found, Limits},
};

pub(crate) const CONFIG: Config = Config {
    name: "changes",
    search: all,
    states: 6_000_000,
    long: 300_000_000,
    ends: Ends::Open,
    sometimes: &[
        "a client with the old list held",
        "a client with both lists held",
        "a client with the new list held",
        "a node was open",
        "a node that forgot was admitted",
    ],
};

pub(super) const PLAIN: Setup = Setup {
    before: &[0, 1, 2],
    after: &[1, 2, 3],
    fresh: false,
    keepers: &[(Kind::Old, 200), (Kind::Both, 200), (Kind::New, 200)],
    voters: &[Kind::Old, Kind::Both, Kind::New],
    rounds: 12,
    extensions: 200,
    forgets: 2,
    losses: 2,
    from: From::Start,
    until: 40,
};

/// The fleets, each with nodes that clients with both lists have let in, and with fresh ones.
pub(crate) const FLEETS: [Setup; 5] = [
    PLAIN,
    Setup { after: &[3, 4, 5], ..PLAIN },
    Setup { before: &[0], after: &[0, 1, 2], ..PLAIN },
    Setup { after: &[2], ..PLAIN },
    Setup { after: &[0, 1, 2, 3, 4], ..PLAIN },
];

/// Where the walks begin, and how many steps they have.
const FROM: [(bool, From, usize); 4] = [
    (false, From::Held, 300),
    (false, From::Sealing, 700),
    (false, From::Start, 800),
    (true, From::Start, 800),
];

fn all(limits: Limits) -> Found {
    let share = Limits { states: limits.states / (FROM.len() * FLEETS.len()), ..limits };
    let fleets = FROM.into_iter().flat_map(|from| FLEETS.map(|fleet| (from, fleet)));
    // One node of one may not forget.
    let is_there = |((_, from, _), fleet): &((bool, From, usize), Setup)| {
        *from != From::Sealing || fleet.before.len() > 1
    };
    Found::of_all(fleets.filter(is_there), |((fresh, from, length), fleet)| {
        let manner = Manner { length, is_rare: Step::is_rare, actor: Step::actor };
        walk(&mut Changes::new(Setup { fresh, from, ..fleet }), manner, share)
    })
}
