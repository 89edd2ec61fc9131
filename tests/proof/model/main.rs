//! The model checker over the production core: `mod.rs` says what it looks at and how.
//!
//! Here each configuration is a test. In `tests/run` it goes as far as the configuration says, which takes about a second.
//! With `QUORLOCK_MODEL_SECONDS` it goes much further, for so many seconds at the most:
//! `QUORLOCK_MODEL_SECONDS=600 cargo test --profile proof -p quorlock-proof --test model -- --nocapture --test-threads=1`
//! takes ten minutes of one core and less than ten gigabytes, and says at the end what it has seen in all. No clock says
//! whether it passes.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use quorlock_core as protocol;

#[path = "mod.rs"]
mod model;

use self::model::{
    configs,
    configs::{Config, Ends},
    report,
    search::{self, Limits},
    terms,
};

fn check(config: &Config) {
    let long = Limits::long();
    let states = if long.is_some() { config.long } else { config.states };
    let found = (config.search)(Limits { time: long, ..Limits::of(states) });
    report::print("model", config.name, &found);
    assert!(found.trace.is_none(), "{}", report::trace(config.name, &found));
    if long.is_some() {
        report::add_up(&found);
    }
    if found.cut {
        return;
    }
    for what in config.sometimes {
        let seen = found.sometimes.0.iter().find(|(name, _)| name == what);
        assert!(
            seen.is_some_and(|(_, count)| *count > 0),
            "never: {what}, so that it proves nothing"
        );
    }
    let ends = config.ends == Ends::Soon || long.is_some() && config.ends == Ends::Late;
    assert!(found.exhausted || !ends, "there were to be no more: {found:?}");
}

macro_rules! checks {
    ($($config:ident),* $(,)?) => {
        $(
            #[test]
            fn $config() {
                check(&configs::$config::CONFIG);
            }
        )*
    };
}

checks![
    admission_silent,
    admission_time,
    admission_tokens,
    changes,
    changes_small,
    detached,
    doubles,
    exclusive,
    exclusive_cuts,
    exclusive_echoes,
    exclusive_plain,
    exclusive_ranges,
    exclusive_restores,
    exclusive_undo,
    exclusive_vanish,
    exclusive_wipes,
    hand_overs,
    hand_overs_all,
    hand_overs_soon,
    handles,
    handles_drops,
    handles_hurry,
    handles_lingers,
    handles_nodes,
    handles_once,
    handles_permits,
    handles_permits_kept,
    handles_permits_named,
    handles_permits_nodes,
    handles_permits_time,
    handles_readers,
    handles_readers_time,
    handles_three,
    handles_time,
    handles_vanish,
    handles_vanish_soon,
    late_delays,
    late_downgrades,
    late_holds,
    late_kept,
    late_lingers,
    late_renewals,
    lines,
    lines_behind,
    lines_hang,
    lines_two,
    permits,
    permits_cuts,
    permits_lost,
    permits_two,
    ranges_apart,
    ranges_tokens,
    readers,
    readers_tokens,
    readers_two,
    renewals,
    renewals_late,
    sets,
    sets_both,
    sets_tokens,
    sets_vanish,
    timed,
    timed_all,
    timed_steps,
    timed_steps_all,
];

/// Whether a search finds that two hold at once.
fn breaks(search: impl FnOnce(Limits) -> search::Found) -> bool {
    let found = search(Limits::of(3_000_000));
    println!("{}", report::trace("tight", &found));
    found.trace.is_some_and(|trace| trace.property == terms::ONE)
}

#[test]
fn the_drift_is_tight_a_thousandth_less_lets_two_hold() {
    assert!(breaks(|limits| configs::timed::with(249, 1, limits)));
}

#[test]
fn the_lock_delay_is_tight_clocks_that_step_by_a_tick_more_let_two_hold() {
    assert!(breaks(|limits| configs::timed_steps::with(3, 1, limits)));
}

#[test]
fn the_quarantine_is_tight_a_tick_less_lets_two_hold() {
    assert!(breaks(|limits| configs::admission_time::with(10, limits)));
}
