//! A set and a part of it, and a key that vanishes: tokens alone.
//!
//! Goal: of two leases that have a resource in common the tokens are unique, and the later one has the larger, also where a node
//! has lost a part of a set. Method: all orders of what two of them send to nodes whose counters differ.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup, steps::Step};

pub(crate) const CONFIG: Config = Config {
    name: "sets_tokens",
    search: |limits| {
        let budget = Budget { vanish: 2, ..Budget::default() };
        let ask = |client, keys, hint| Ask { hint, ..Ask::set(client, keys) };
        let asks = vec![ask(0, 0b001, 2), ask(1, 0b011, 0), ask(2, 0b010, 0)];
        // The counters of one resource differ from those of the other.
        let before = [0, 2].into_iter().flat_map(|at| [Step::Execute(0, at), Step::Hear(0, at)]);
        let before = std::iter::once(Step::Begin(0)).chain(before).chain([Step::GiveBack(0)]);
        let (before, counters) = (before.collect(), [0, 1, 0]);
        let setup = Setup { prompt: true, tokens_only: true, ..Setup::of(asks, budget) };
        Setup { counters, before, ..setup }.search(limits)
    },
    states: 1_000_000,
    long: 30_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};
