//! The judge: what must be true of every history, one invariant a file, each with its source.
//!
//! Goal: a violation is data, which names both leases. It knows nothing of how the history came about, and
//! is itself tested here on histories written by hand.

#[cfg(test)]
mod by_hand;
mod exclusion;
mod lock_delay;
mod owners;
pub(crate) mod store;
pub(crate) mod tidy;
mod tokens;
pub(crate) mod told;

use std::fmt;

use quorlock_core::Timestamp;

/// What one client believed: that it held the resource from then until then.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    pub(crate) resource: String,
    pub(crate) owner: String,
    /// Together with other readers.
    pub(crate) reads: bool,
    /// None in classic mode.
    pub(crate) token: Option<u64>,
    /// When it was asked for: no round began before that.
    pub(crate) asked: Timestamp,
    /// When the lease was in the client's hands.
    pub(crate) from: Timestamp,
    /// The first moment at which it no longer relied on it: released, dropped, or out of validity.
    pub(crate) until: Timestamp,
    /// It was lost and left, or was to be held for a least time, so that nobody else gets it before this.
    pub(crate) kept_out: Option<Timestamp>,
}

/// What went wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Violation {
    Overlap {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    /// Both got one token.
    TokenTwice {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    /// The second was asked for when the first had been granted, and has the smaller token.
    TokenFell {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    /// The second came before the lock-delay of the first was over.
    TooSoon {
        first: Box<Hold>,
        second: Box<Hold>,
    },
    OwnerUsedTwice {
        owner: String,
    },
    /// A holder was told too much or too little.
    NotTold {
        owner: String,
        what: &'static str,
    },
    /// A store has taken the second behind the first.
    StaleWrite {
        first: Box<store::Write>,
        second: Box<store::Write>,
    },
    /// A store has refused what a holder wrote.
    HolderRefused {
        write: Box<store::Write>,
        hold: Box<Hold>,
    },
    LeftBehind {
        server: usize,
        keys: Vec<String>,
    },
    /// I8: `Redlock::close` comes to an end, and everything is answered for.
    NotClosed {
        client: usize,
        unfinished: usize,
    },
    /// I9: once all is well again, everybody gets what is free (redis.io, liveness properties A and B).
    NotLive {
        resource: String,
        error: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}

/// All that must be true of a history; where exclusion is not promised, all that then must be.
pub(crate) fn check(
    history: &[Hold],
    writes: &[store::Write],
    excludes: bool,
) -> Result<(), Violation> {
    if excludes {
        exclusion::check(history)?;
        lock_delay::check(history)?;
    }
    tokens::check(history)?;
    owners::check(history)?;
    store::check(writes, history, excludes)
}
