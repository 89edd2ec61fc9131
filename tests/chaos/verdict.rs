//! The verdict on a run, and the first of what it found with the faults around it.

use std::time::Duration;

use quorlock_harness::{
    Server,
    history::{Verdict, record::History},
    register,
};

use super::{IDLE, nemesis::Strikes};

pub(crate) fn on(history: &History, store: &Server) -> Verdict {
    Verdict::on(history, register::falls(store, 0..=IDLE))
}

/// Panics where anything was found, with the first of each kind and the faults around it.
#[track_caller]
pub(crate) fn assert_clean(verdict: &Verdict, strikes: &Strikes) {
    let overlap = verdict.overlaps.first();
    let lease = overlap.or_else(|| verdict.wrong_tokens.first()).map(|(_, later)| later.start);
    let effect = verdict.stale.first().map(|(_, later)| later).or_else(|| verdict.refused.first());
    let first = lease.or_else(|| effect.map(|effect| effect.before));
    let around = strikes.around(first.unwrap_or(Duration::ZERO));
    assert!(verdict.overlaps.is_empty(), "two holders at once: {overlap:#?} {around:#?}");
    let wrong = verdict.wrong_tokens.first();
    assert!(wrong.is_none(), "tokens that repeat or fall: {wrong:#?} {around:#?}");
    let stale = verdict.stale.first();
    assert!(stale.is_none(), "a stale effect was accepted: {stale:#?} {around:#?}");
    assert!(verdict.falls.is_empty(), "tokens fall at the register: {:?}", verdict.falls.first());
    let refused = verdict.refused.first();
    assert!(refused.is_none(), "a holder was refused: {refused:#?} {around:#?}");
}
