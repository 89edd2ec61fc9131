//! Bugs and broken assumptions, planted on purpose: each must be seen from end to end.
//!
//! Goal: a green run means something. Method: the same worlds as in `seeds.rs` with one thing wrong; some
//! seed among a few must show it, as the violation that it is.

use crate::{
    checker::Violation,
    node::Bug,
    world::{self, Setup},
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

#[test]
fn servers_that_restart_empty_at_once_break_plain_redlock() {
    let setup = Setup { quick_restart: true, ..Setup::SOUND };
    assert!(violations(setup).any(|seen| matches!(seen, Violation::Overlap { .. })));
}
