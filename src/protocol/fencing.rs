//! Fencing tokens: unique, rising numbers for the leases of a resource, without consensus.
//!
//! It decides what a token is. Which hint a client sends, `admission` decides; how a quorum agrees on a token, `round`:
//! at a node, atomically, h being the hint and f the resource's counter,
//!
//! ```text
//! acquire(owner, h):  if the lock is absent: f := max(f + 1, h); lock := owner; reply Granted(f)   else Denied
//! confirm(owner, T):  if lock = owner and f <= T: f := T; reply Granted                           else Denied
//! ```
//!
//! The client takes T, the largest f of a quorum of grants. A node votes when its f was exactly T, or its
//! confirm was granted; a quorum of votes wins.
//!
//! **Why it holds.** f never falls, and every grant at a node raises it. Right after a vote for (owner, T)
//! at a node, lock = owner and f = T. If A's vote at a node comes before B's, B's acquire ran in between, so
//! T(B) > T(A). Two quorums share a node. So tokens are unique, and a grant that returned before another
//! acquire began has the smaller token, under any delay, loss, reordering, duplication, pause or clock, as
//! long as no node loses f. The guard `f <= T` is what makes it true: without it there are schedules of 18
//! steps that give two holders one token (`tests/scenarios/guard.rs` replays them).
//!
//! A key that is restored for a held lease is no vote, and changes no counter. It is restored only after its
//! round was won, so that whatever that round counted as a vote found the key as its acquire had set it. A
//! restore before that would break the proof (`tests/protocol/schedules.rs` finds how).

use core::fmt;

/// A number larger than that of every lease on the resource that was granted before this one was asked for. A store
/// that refuses a token smaller than the largest it has seen cannot be written to by a holder before that one.
///
/// Tokens of one resource are unique, and there are gaps; those of acquires that overlap have no order. Tokens of
/// different resources have nothing to do with each other.
///
/// ```
/// use quorlock::protocol::FencingToken;
///
/// let (earlier, later) = (FencingToken::new(33), FencingToken::new(34));
/// assert!(later > earlier);
/// assert_eq!(later.get(), 34);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The largest token. The scripts on the nodes count in doubles, which are exact up to here; a clock
    /// in microseconds gets there in the year 2255.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The token of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
