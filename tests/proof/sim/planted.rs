//! Bugs and broken assumptions, planted on purpose: each must be seen from end to end.
//!
//! Goal: a green run means something. Method: the same worlds as in `seeds.rs` with one thing wrong; some
//! seed among a few must show it, as the violation that it is.

use crate::{
    faults::{Fault, Faults},
    invariants::Violation,
    node::Bug,
    seeds,
    setup::{Flaw, Mode, Setup},
    world,
};

/// The violations of the first seeds.
fn violations(setup: Setup) -> impl Iterator<Item = Violation> {
    violations_of(100, setup)
}

fn violations_of(seeds: u64, setup: Setup) -> impl Iterator<Item = Violation> {
    (0..seeds).filter_map(move |seed| world::run(seed, setup).verdict.err())
}

/// Whether one of the first seeds shows it.
fn shows(setup: Setup, is_it: impl Fn(&Violation) -> bool) -> bool {
    violations(setup).any(|seen| is_it(&seen))
}

/// No fault but these, so that nothing else can be what is seen.
const fn only(fault: Fault) -> Faults {
    Faults::NONE.with(fault, 2)
}

// One for each invariant that has none below.

#[test]
fn servers_that_count_nothing_break_the_order_of_tokens_and_refuse_holders() {
    let setup = Setup { bug: Bug::CountsNothing, bugged: 5, ..Setup::CLOCKS };
    assert!(shows(setup, |seen| matches!(seen, Violation::TokenFell { .. })));
}

#[test]
fn tokens_that_fall_have_the_store_refuse_a_holder() {
    use crate::invariants::{Hold, store};
    // The history that such servers make, judged by the store alone.
    let setup = Setup { bug: Bug::CountsNothing, bugged: 5, ..Setup::CLOCKS };
    let refused = (0..100).any(|seed| {
        let (history, writes): (Vec<Hold>, Vec<store::Write>) = world::history(seed, setup);
        matches!(store::check(&writes, &history, true), Err(Violation::HolderRefused { .. }))
    });
    assert!(refused);
}

#[test]
fn a_store_that_compares_nothing_takes_what_is_stale() {
    let setup = Setup { flaw: Flaw::WritesUnfenced, ..Setup::BUSY };
    assert!(shows(setup, |seen| matches!(seen, Violation::StaleWrite { .. })));
}

#[test]
fn owners_that_repeat_are_seen() {
    let setup = Setup { flaw: Flaw::RepeatsOwners, ..Setup::BUSY };
    assert!(shows(setup, |seen| matches!(seen, Violation::OwnerUsedTwice { .. })));
}

#[test]
fn timers_that_ring_late_tell_too_late() {
    let setup = Setup { flaw: Flaw::RingsLate, ..Setup::CLOCKS };
    // Whatever else its process does has it look at the clock, too.
    assert!(violations_of(1_500, setup).any(|seen| matches!(seen, Violation::NotTold { .. })));
}

#[test]
fn a_handle_that_is_closed_in_haste_leaves_something_unfinished() {
    let setup = Setup { flaw: Flaw::ClosesInHaste, ..Setup::BUSY };
    assert!(shows(setup, |seen| matches!(seen, Violation::NotClosed { .. })));
}

#[test]
fn servers_that_keep_what_is_released_are_not_live() {
    let setup = Setup { bug: Bug::KeepsReleased, bugged: 5, ..Setup::SOUND };
    assert!(shows(setup, |seen| matches!(seen, Violation::NotLive { .. })));
}

#[test]
fn code_of_a_node_that_panics_is_seen_also_where_the_engine_catches_it() {
    let setup = Setup { bug: Bug::Panics, bugged: 1, ..Setup::SOUND };
    let failed = seeds::run(1, setup, "planted").map(drop).unwrap_err();
    assert!(failed.contains("panicked"), "{failed}");
}

// One for each assumption that can be broken here: each is needed.

#[test]
fn a1_clocks_whose_rates_differ_by_more_than_the_drift_break_exclusion() {
    let faults = Faults::NONE;
    let setup = Setup { rates: (100, 100), faults, ..Setup::BUSY };
    assert!(shows(setup, |seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a2_clocks_of_servers_that_jump_forward_break_exclusion() {
    let faults = only(Fault::StepAhead);
    let setup = Setup { faults, excludes: true, spared: std::time::Duration::ZERO, ..Setup::AHEAD };
    assert!(violations_of(1_000, setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a6_a_halt_that_no_clock_counts_breaks_exclusion_and_one_that_the_wall_clock_counts_does_not() {
    let with = |fault| Setup { faults: only(fault), ..Setup::CLOCKS };
    let overlap = |seen: &Violation| matches!(seen, Violation::Overlap { .. });
    assert!(shows(with(Fault::HaltUnnoticed), overlap));
    assert_eq!(violations(with(Fault::HaltClient)).collect::<Vec<_>>(), []);
}

#[test]
fn a7_a_holder_that_acts_without_a_look_at_the_clock_breaks_exclusion() {
    let setup = Setup { flaw: Flaw::IgnoresStops, ..Setup::CLOCKS };
    assert!(shows(setup, |seen| matches!(seen, Violation::Overlap { .. })));
    let setup = Setup { flaw: Flaw::GoesOn, ..Setup::BUSY };
    assert!(shows(setup, |seen| matches!(seen, Violation::Overlap { .. })));
}

// What is wrong with servers and clients, one by one.

#[test]
fn extensions_that_shorten_break_exclusion() {
    let setup = Setup { bug: Bug::Shortens, bugged: 5, ..Setup::RENEWALS };
    // It takes a chain of leases, and what was sent for the first of them in a bad moment.
    assert!(violations_of(3_000, setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_majority_that_grants_without_looking_breaks_exclusion() {
    let setup = Setup { bug: Bug::GrantsBlindly, bugged: 3, ..Setup::SOUND };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn even_one_server_that_grants_without_looking_is_seen() {
    // Two majorities may have no more than that server in common.
    let setup = Setup { bug: Bug::GrantsBlindly, bugged: 1, ..Setup::SOUND };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn clients_with_servers_of_their_own_do_not_exclude_each_other() {
    let setup = Setup { apart: true, ..Setup::SOUND };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_server_that_keeps_what_it_said_it_deleted_is_seen() {
    let setup = Setup { bug: Bug::KeepsReleased, bugged: 1, ..Setup::SOUND };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::LeftBehind { .. })));
}

/// Servers that restart at once, whatever the others do.
const RESTARTS: Setup = Setup {
    spared: std::time::Duration::ZERO,
    longest_ttl: std::time::Duration::from_secs(2),
    ..Setup::SOUND
};

#[test]
fn servers_that_restart_empty_at_once_break_plain_redlock() {
    let setup = Setup { mode: Mode::Classic, ..RESTARTS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn servers_that_restart_empty_at_once_break_exclusion_without_the_quarantine() {
    let setup = Setup { mode: Mode::Skip, ..RESTARTS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn servers_that_keep_a_wait_of_before_they_forgot_break_exclusion() {
    let setup = Setup { bug: Bug::KeepsWaits, bugged: 5, ..RESTARTS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_deadline_that_counts_the_lock_delay_too_breaks_exclusion() {
    let bug = Bug::CutsKeys(std::time::Duration::from_millis(500));
    let setup = Setup { bug, bugged: 5, lock_delay: std::time::Duration::ZERO, ..Setup::DELAYED };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_drop_that_releases_what_was_lost_cuts_the_lock_delay() {
    let setup = Setup { flaw: Flaw::ReleasesLost, ..Setup::DELAYED };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::TooSoon { .. })));
}

/// One quarantine follows another, and most of what is lost is lost to them.
const DELAYED_RESTARTS: Setup =
    Setup { lock_delay: std::time::Duration::from_secs(2), ..Setup::BUSY };

#[test]
fn a_quarantine_that_leaves_the_lock_delay_out_cuts_it() {
    // As long as one of the ttl alone.
    let bug = Bug::CutsQuarantines(DELAYED_RESTARTS.lock_delay.mul_f64(1.1));
    let setup = Setup { bug, bugged: 5, ..DELAYED_RESTARTS };
    // About one seed in a hundred shows it: a majority has to forget between a renewal and the loss.
    let is_found = |seed| matches!(world::run(seed, setup).verdict, Err(Violation::TooSoon { .. }));
    assert!((0..1000).any(is_found));
}

#[test]
fn servers_that_restart_empty_at_once_break_no_lock_delay_with_the_quarantine() {
    let setup = DELAYED_RESTARTS;
    let seen: Vec<_> =
        violations(setup).filter(|seen| !matches!(seen, Violation::NotLive { .. })).collect();
    assert_eq!(seen, []);
}

#[test]
fn the_same_servers_break_nothing_with_clients_that_come_and_go() {
    let setup = Setup { short_lives: true, ..RESTARTS };
    let seen: Vec<_> =
        violations(setup).filter(|seen| !matches!(seen, Violation::NotLive { .. })).collect();
    assert_eq!(seen, []);
}

#[test]
fn the_same_servers_break_nothing_with_the_quarantine() {
    // Nobody may get anything for a while, so liveness is not asked for. A majority may forget together, too.
    let setup = Setup { mode: Mode::Fenced, reckless: 0.5, ..RESTARTS };
    let mut granted = 0;
    let seen: Vec<_> = (0..100)
        .map(|seed| world::run(seed, setup))
        .inspect(|outcome| granted += outcome.grants)
        .filter_map(|outcome| outcome.verdict.err())
        .filter(|seen| !matches!(seen, Violation::NotLive { .. }))
        .collect();
    assert_eq!(seen, []);
    assert!(granted > 100, "{granted} were granted, and nothing could break");
}

/// In worlds in which nothing is forgotten, so that nothing else can be wrong.
const SETS: Setup = Setup { sets: true, ..Setup::SOUND };

#[test]
fn servers_that_take_a_part_of_a_set_are_seen() {
    let setup = Setup { bug: Bug::TakesApart, bugged: 1, ..SETS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::LeftBehind { .. })));
}

#[test]
fn servers_that_release_a_part_of_a_set_are_seen() {
    let setup = Setup { bug: Bug::ReleasesFirst, bugged: 1, ..SETS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::LeftBehind { .. })));
}

/// Nothing is forgotten here either.
const READERS: Setup =
    Setup { readers: true, longest_ttl: std::time::Duration::from_secs(2), ..Setup::SOUND };

/// Somebody wrote while another one read.
fn is_beside_a_reader(seen: &Violation) -> bool {
    matches!(seen, Violation::Overlap { first, second } if first.reads != second.reads)
}

#[test]
fn the_same_readers_and_writers_break_nothing_where_no_server_is_wrong() {
    assert_eq!(violations(READERS).collect::<Vec<_>>(), []);
}

#[test]
fn a_key_of_readers_that_ends_with_the_first_breaks_exclusion() {
    let setup = Setup { bug: Bug::EndsWithFirst, bugged: 5, ..READERS };
    assert!(shows(setup, is_beside_a_reader));
}

/// Of its own entry nobody could see it: all that a reader asks for under one owner is for the same time.
#[test]
fn extensions_of_readers_that_shorten_their_key_break_exclusion() {
    let setup = Setup { bug: Bug::ShortensShared, bugged: 5, ..READERS };
    assert!(shows(setup, is_beside_a_reader));
}

#[test]
fn a_reader_that_releases_for_all_breaks_exclusion() {
    let setup = Setup { bug: Bug::ReleasesForAll, bugged: 5, ..READERS };
    assert!(shows(setup, is_beside_a_reader));
}

#[test]
fn a_writer_that_reads_on_and_has_no_entry_breaks_exclusion() {
    let setup = Setup { bug: Bug::LowersToNobody, bugged: 5, ..READERS };
    assert!(shows(setup, is_beside_a_reader));
}

#[test]
fn even_one_server_that_lets_readers_in_beside_a_writer_is_seen() {
    let setup = Setup { bug: Bug::LetsReadersIn, bugged: 1, ..READERS };
    assert!(shows(setup, is_beside_a_reader));
}

#[test]
fn a_short_quarantine_breaks_exclusion_of_readers() {
    let by = std::time::Duration::from_secs(60);
    let setup = Setup { readers: true, bug: Bug::CutsQuarantines(by), bugged: 5, ..RESTARTS };
    assert!(shows(setup, is_beside_a_reader));
}

const PERMITS: Setup = Setup { permits: Some(2), ..Setup::SOUND };

#[test]
fn servers_whose_picks_are_added_up_give_a_slot_to_two() {
    let setup = Setup { bug: Bug::SaysFirst, bugged: 5, ..PERMITS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn servers_that_release_one_slot_of_those_that_may_have_been_picked_are_seen() {
    let setup = Setup { bug: Bug::ReleasesFirst, bugged: 5, ..PERMITS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::LeftBehind { .. })));
}
