//! Bugs and broken assumptions, planted on purpose: each must be seen from end to end.
//!
//! Goal: a green run means something. Method: the same worlds as in `seeds.rs` with one thing wrong; some
//! seed among a few must show it, as the violation that it is.

use crate::{
    invariants::Violation,
    node::Bug,
    setup::{Mode, Setup},
    world,
};

/// The violations of the first seeds.
fn violations(setup: Setup) -> impl Iterator<Item = Violation> {
    (0..100).filter_map(move |seed| world::run(seed, setup).verdict.err())
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
    let setup = Setup { releases_lost: true, ..Setup::DELAYED };
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
    // Nobody may get anything for a while, so liveness is not asked for.
    let setup = Setup { mode: Mode::Fenced, ..RESTARTS };
    let seen: Vec<_> =
        violations(setup).filter(|seen| !matches!(seen, Violation::NotLive { .. })).collect();
    assert_eq!(seen, []);
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

#[test]
fn a_key_of_readers_that_ends_with_the_first_breaks_exclusion() {
    let setup = Setup { bug: Bug::EndsWithFirst, bugged: 5, ..READERS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_reader_that_releases_for_all_breaks_exclusion() {
    let setup = Setup { bug: Bug::ReleasesForAll, bugged: 5, ..READERS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_writer_that_reads_on_and_has_no_entry_breaks_exclusion() {
    let setup = Setup { bug: Bug::LowersToNobody, bugged: 5, ..READERS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn even_one_server_that_lets_readers_in_beside_a_writer_is_seen() {
    let setup = Setup { bug: Bug::LetsReadersIn, bugged: 1, ..READERS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}

#[test]
fn a_short_quarantine_breaks_exclusion_of_readers() {
    let by = std::time::Duration::from_secs(60);
    let setup = Setup { readers: true, bug: Bug::CutsQuarantines(by), bugged: 5, ..RESTARTS };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
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
