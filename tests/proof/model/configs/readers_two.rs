//! Two readers and a writer behind them: tokens alone.
//!
//! Goal: a reader's confirm that comes late takes nothing back that another reader has left for the next writer. Method: all
//! orders from the moment on at which the first reader has been let in by two nodes, and has one of them to confirm.

use super::{Config, Ends};
use crate::model::leases::{Ask, Budget, Setup, steps::Step};

pub(crate) const CONFIG: Config = Config {
    name: "readers_two",
    search: |limits| {
        let asks = vec![Ask::read(0, 0), Ask::read(1, 0), Ask::write(2, 0)];
        let before = [0, 1].into_iter().flat_map(|at| [Step::Execute(0, at), Step::Hear(0, at)]);
        let before = std::iter::once(Step::Begin(0)).chain(before).collect();
        let setup = Setup { prompt: true, tokens_only: true, ..Setup::of(asks, Budget::default()) };
        Setup { counters: [1, 2, 3], before, ..setup }.search(limits)
    },
    states: 1_000_000,
    long: 10_000_000,
    ends: Ends::Soon,
    sometimes: &["two have won", "a round was lost"],
};
