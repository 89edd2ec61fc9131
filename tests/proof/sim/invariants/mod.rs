//! The judge: what must be true of every history, one invariant a file, each with its source.
//!
//! Goal: a violation is data, which names both leases. It knows nothing of how the history came about, and
//! is itself tested here on histories written by hand.

#[cfg(test)]
mod by_hand;
mod exclusion;
mod lock_delay;
mod owners;
mod tokens;

use std::fmt;

use quorlock::protocol::Timestamp;

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
    /// It was lost and left, so that nobody else gets it before this.
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
    LeftBehind {
        server: usize,
        keys: Vec<String>,
    },
    NotClosed {
        client: usize,
        unfinished: usize,
    },
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

/// All that must be true of a history.
pub(crate) fn check(history: &[Hold]) -> Result<(), Violation> {
    exclusion::check(history)?;
    tokens::check(history)?;
    lock_delay::check(history)?;
    owners::check(history)
}
