//! What the checker finds in a history, of every kind, and in numbers.
//!
//! It judges nothing by itself.

use std::fmt;

use super::{
    checker::{self, Effect, Held},
    record::History,
};

/// What was found. Each pair has the one that came first in front.
#[derive(Debug)]
pub struct Verdict {
    /// Two valid leases at once.
    pub overlaps: Vec<(Held, Held)>,
    /// Tokens that repeat or fall.
    pub wrong_tokens: Vec<(Held, Held)>,
    /// Effects that were accepted after those of a later holder.
    pub stale: Vec<(Effect, Effect)>,
    /// Tokens that fall in the order of the register.
    pub falls: Vec<(u64, u64)>,
    /// Effects that were refused though their lease held.
    pub refused: Vec<Effect>,
}

impl Verdict {
    /// Searches a history; `falls` are those of the register.
    pub fn on(history: &History, falls: Vec<(u64, u64)>) -> Self {
        Self {
            overlaps: checker::overlaps(&history.leases),
            wrong_tokens: checker::wrong_tokens(&history.leases),
            stale: checker::stale(&history.effects),
            falls,
            refused: checker::refused_though_held(&history.effects),
        }
    }

    /// How much was found, of whatever kind.
    pub const fn found(&self) -> usize {
        self.overlaps.len()
            + self.wrong_tokens.len()
            + self.stale.len()
            + self.falls.len()
            + self.refused.len()
    }

    /// Whether nothing was found.
    pub const fn is_clean(&self) -> bool {
        self.found() == 0
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
