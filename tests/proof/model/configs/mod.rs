//! The configurations: which world, of what size, with which faults, and what it has to show.

pub(crate) mod admission_silent;
pub(crate) mod admission_time;
pub(crate) mod admission_tokens;
pub(crate) mod changes;
pub(crate) mod changes_small;
pub(crate) mod detached;
pub(crate) mod doubles;
pub(crate) mod exclusive;
pub(crate) mod exclusive_cuts;
pub(crate) mod exclusive_echoes;
pub(crate) mod exclusive_plain;
pub(crate) mod exclusive_ranges;
pub(crate) mod exclusive_restores;
pub(crate) mod exclusive_undo;
pub(crate) mod exclusive_vanish;
pub(crate) mod exclusive_wipes;
pub(crate) mod hand_overs;
pub(crate) mod hand_overs_all;
pub(crate) mod hand_overs_soon;
pub(crate) mod handles;
pub(crate) mod handles_drops;
pub(crate) mod handles_hurry;
pub(crate) mod handles_lingers;
pub(crate) mod handles_nodes;
pub(crate) mod handles_once;
pub(crate) mod handles_permits;
pub(crate) mod handles_permits_kept;
pub(crate) mod handles_permits_named;
pub(crate) mod handles_permits_nodes;
pub(crate) mod handles_permits_time;
pub(crate) mod handles_readers;
pub(crate) mod handles_readers_time;
pub(crate) mod handles_three;
pub(crate) mod handles_time;
pub(crate) mod handles_vanish;
pub(crate) mod handles_vanish_soon;
pub(crate) mod late_delays;
pub(crate) mod late_downgrades;
pub(crate) mod late_holds;
pub(crate) mod late_kept;
pub(crate) mod late_lingers;
pub(crate) mod late_renewals;
pub(crate) mod lines;
pub(crate) mod lines_behind;
pub(crate) mod lines_hang;
pub(crate) mod lines_two;
pub(crate) mod permits;
pub(crate) mod permits_cuts;
pub(crate) mod permits_lost;
pub(crate) mod permits_two;
pub(crate) mod ranges_apart;
pub(crate) mod ranges_tokens;
pub(crate) mod readers;
pub(crate) mod readers_tokens;
pub(crate) mod readers_two;
pub(crate) mod renewals;
pub(crate) mod renewals_late;
pub(crate) mod sets;
pub(crate) mod sets_both;
pub(crate) mod sets_tokens;
pub(crate) mod sets_vanish;
pub(crate) mod timed;
pub(crate) mod timed_all;
pub(crate) mod timed_steps;
pub(crate) mod timed_steps_all;

use super::search::{Found, Limits};

/// One configuration.
pub(crate) struct Config {
    pub(crate) name: &'static str,
    pub(crate) search: fn(Limits) -> Found,
    /// After so many states it is enough in `tests/run`.
    pub(crate) states: usize,
    /// And after so many in a long search.
    pub(crate) long: usize,
    pub(crate) ends: Ends,
    /// What it has to have seen.
    pub(crate) sometimes: &'static [&'static str],
}

/// Where there are no other states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ends {
    /// In `tests/run`.
    Soon,
    /// In a long search.
    Late,
    /// There are more than anybody has seen.
    Open,
}

/// All of them.
pub(crate) const ALL: &[&Config] = &[
    &admission_silent::CONFIG,
    &admission_time::CONFIG,
    &admission_tokens::CONFIG,
    &changes::CONFIG,
    &changes_small::CONFIG,
    &detached::CONFIG,
    &doubles::CONFIG,
    &exclusive::CONFIG,
    &exclusive_cuts::CONFIG,
    &exclusive_echoes::CONFIG,
    &exclusive_ranges::CONFIG,
    &exclusive_plain::CONFIG,
    &exclusive_restores::CONFIG,
    &exclusive_undo::CONFIG,
    &exclusive_vanish::CONFIG,
    &exclusive_wipes::CONFIG,
    &hand_overs::CONFIG,
    &hand_overs_all::CONFIG,
    &hand_overs_soon::CONFIG,
    &handles::CONFIG,
    &handles_drops::CONFIG,
    &handles_hurry::CONFIG,
    &handles_lingers::CONFIG,
    &handles_nodes::CONFIG,
    &handles_once::CONFIG,
    &handles_permits::CONFIG,
    &handles_permits_kept::CONFIG,
    &handles_permits_named::CONFIG,
    &handles_permits_nodes::CONFIG,
    &handles_permits_time::CONFIG,
    &handles_readers::CONFIG,
    &handles_readers_time::CONFIG,
    &handles_three::CONFIG,
    &handles_time::CONFIG,
    &handles_vanish::CONFIG,
    &handles_vanish_soon::CONFIG,
    &late_delays::CONFIG,
    &late_downgrades::CONFIG,
    &late_holds::CONFIG,
    &late_kept::CONFIG,
    &late_lingers::CONFIG,
    &late_renewals::CONFIG,
    &lines::CONFIG,
    &lines_behind::CONFIG,
    &lines_hang::CONFIG,
    &lines_two::CONFIG,
    &permits::CONFIG,
    &permits_cuts::CONFIG,
    &permits_lost::CONFIG,
    &permits_two::CONFIG,
    &ranges_apart::CONFIG,
    &ranges_tokens::CONFIG,
    &readers::CONFIG,
    &readers_tokens::CONFIG,
    &readers_two::CONFIG,
    &renewals::CONFIG,
    &renewals_late::CONFIG,
    &sets::CONFIG,
    &sets_both::CONFIG,
    &sets_tokens::CONFIG,
    &sets_vanish::CONFIG,
    &timed::CONFIG,
    &timed_all::CONFIG,
    &timed_steps::CONFIG,
    &timed_steps_all::CONFIG,
];
