//! What the checker finds in a history, in numbers, and the first of it with the faults around it.

use std::{fmt, time::Duration};

use quorlock_harness::Server;

use super::{
    checker::{self, Effect, Held},
    nemesis::Strikes,
    record::History,
    register,
};

pub(crate) struct Verdict {
    /// Two valid leases at once.
    pub(crate) overlaps: Vec<(Held, Held)>,
    /// Tokens that repeat or fall.
    pub(crate) wrong_tokens: Vec<(Held, Held)>,
    /// Effects that were accepted after those of a later holder.
    pub(crate) stale: Vec<(Effect, Effect)>,
    /// Tokens that fall in the order of the register.
    pub(crate) falls: Vec<(u64, u64)>,
    /// Effects that were refused though their lease held.
    pub(crate) refused: Vec<Effect>,
}

impl Verdict {
    pub(crate) fn on(history: &History, register: &Server) -> Self {
        Self {
            overlaps: checker::overlaps(&history.leases),
            wrong_tokens: checker::wrong_tokens(&history.leases),
            stale: checker::stale(&history.effects),
            falls: register::falls(register),
            refused: checker::refused_though_held(&history.effects),
        }
    }

    /// Panics where anything was found, with the first of each kind and the faults around it.
    #[track_caller]
    pub(crate) fn assert_clean(&self, strikes: &Strikes) {
        let overlap = self.overlaps.first();
        let lease = overlap.or_else(|| self.wrong_tokens.first()).map(|(_, later)| later.start);
        let effect = self.stale.first().map(|(_, later)| later).or_else(|| self.refused.first());
        let first = lease.or_else(|| effect.map(|effect| effect.before));
        let around = strikes.around(first.unwrap_or(Duration::ZERO));
        assert!(self.overlaps.is_empty(), "two holders at once: {overlap:#?} {around:#?}");
        let wrong = self.wrong_tokens.first();
        assert!(wrong.is_none(), "tokens that repeat or fall: {wrong:#?} {around:#?}");
        let stale = self.stale.first();
        assert!(stale.is_none(), "a stale effect was accepted: {stale:#?} {around:#?}");
        assert!(self.falls.is_empty(), "tokens fall at the register: {:?}", self.falls.first());
        let refused = self.refused.first();
        assert!(refused.is_none(), "a holder was refused: {refused:#?} {around:#?}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} overlaps, {} wrong tokens, {} stale effects accepted, {} falls at the register, \
             {} holders refused",
            self.overlaps.len(),
            self.wrong_tokens.len(),
            self.stale.len(),
            self.falls.len(),
            self.refused.len()
        )
    }
}
