//! Fencing tokens: unique, rising numbers for the leases of a resource, without consensus.
//!
//! It decides what a token is, and in which order those of a grant are taken. Which hint a client sends, `admission`
//! decides; how a quorum agrees on a token, `round`: at a node, atomically, h being the hint, n the count of tokens that are
//! wanted, and f the resource's counter,
//!
//! ```text
//! acquire(owner, h, n):  if the lock is absent: f := max(f + n, h); lock := owner; reply Granted(f)   else Denied
//! confirm(owner, T):     if lock = owner and f <= T: f := T; reply Granted                           else Denied
//! ```
//!
//! The client takes T, the largest f of a quorum of grants. A node votes when its f was exactly T, or its
//! confirm was granted; a quorum of votes wins the tokens T - n + 1 to T.
//!
//! **Why it holds.** f never falls, and every grant at a node raises it by its n. Right after a vote for (owner, T)
//! at a node, lock = owner and f = T. If A's vote at a node comes before B's, B's acquire ran in between: it found
//! T(A) or more, so that T(B) - n(B) >= T(A), and B's first token is above A's last. Two quorums share a node. So
//! tokens are unique, and those of a grant that returned before another acquire began are smaller, under any delay,
//! loss, reordering, duplication, pause or clock, as long as no node loses f. What was taken of a range does not
//! matter, nor whether its key still stands. But every node has to count by the same n: any may be the one that two
//! quorums share. The guard `f <= T` is what makes it true: without it there are schedules of 18 steps that give two
//! holders one token (`tests/scenarios/guard.rs` replays them).
//!
//! A key that is restored for a held lease is no vote, and changes no counter. It is restored only after its
//! round was won, so that whatever that round counted as a vote found the key as its acquire had set it. A
//! restore before that would break the proof (`tests/proof/protocol/tokens.rs` finds how).

use alloc::string::{String, ToString};
use core::{fmt, num::NonZeroU64, str::FromStr};

/// The largest token.
const LARGEST: u64 = (1 << 53) - 1;

/// A number larger than that of every lease on the resource that was granted before this one was asked for. (One that its
/// process has handed on from the lease before counts as asked for when that grant was: `docs/safety.md`.) A store
/// that refuses a token smaller than the largest it has seen cannot be written to by a holder before that one.
///
/// Tokens of one resource are unique, and there are gaps; those of acquires that overlap have no order. Tokens of
/// different resources have nothing to do with each other.
///
/// It is below 2^53, so that it is exact as `u64`, `i64`, JSON number and text, and converts into each of them. Back
/// from a store or a header it comes by `TryFrom` and `FromStr`.
///
/// ```
/// use quorlock_core::{FencingToken, InvalidToken};
///
/// let (earlier, later) = (FencingToken::new(33), FencingToken::new(34));
/// assert!(later > earlier);
/// assert_eq!((u64::from(later), i64::from(later), String::from(later)), (34, 34, "34".into()));
/// assert_eq!(FencingToken::try_from(34_i64)?, later);
/// assert_eq!("34".parse::<FencingToken>()?, later);
/// assert!("-1".parse::<FencingToken>().is_err());
/// # Ok::<(), InvalidToken>(())
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FencingToken(
    /// One more than the number, so that an `Option` of it needs no more room.
    NonZeroU64,
);

impl FencingToken {
    /// The largest token. The scripts on the nodes count in doubles, which are exact up to here; a clock
    /// in microseconds gets there in the year 2255.
    pub const MAX: Self = Self(NonZeroU64::MIN.saturating_add(LARGEST));

    /// The token of this number. One above [`MAX`](FencingToken::MAX), which no node grants, is cut to it; `try_from`
    /// refuses it.
    pub const fn new(number: u64) -> Self {
        if number > LARGEST { Self::MAX } else { Self(NonZeroU64::MIN.saturating_add(number)) }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get() - 1
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FencingToken").field(&self.get()).finish()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.get()
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        // Lossless: no token is above `MAX`, which `new` and `try_from` see to.
        token.get().cast_signed()
    }
}

impl From<FencingToken> for String {
    fn from(token: FencingToken) -> Self {
        token.to_string()
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = InvalidToken;

    fn try_from(number: u64) -> Result<Self, InvalidToken> {
        if number > LARGEST { Err(InvalidToken) } else { Ok(Self::new(number)) }
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = InvalidToken;

    fn try_from(number: i64) -> Result<Self, InvalidToken> {
        u64::try_from(number).map_err(|_| InvalidToken)?.try_into()
    }
}

impl FromStr for FencingToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        text.parse::<u64>().map_err(|_| InvalidToken)?.try_into()
    }
}

/// The fencing tokens that a round has won. They belong to the leases that its owner has one after the other, each with
/// the next one; those that are left over when the key is given back are never used.
///
/// Each is taken once. A clone counts on by itself, so that only one of the two may be taken from.
///
/// ```
/// use quorlock_core::{FencingToken, TokenRange};
///
/// let mut tokens = TokenRange::ending_at(FencingToken::new(42), 3);
/// assert_eq!((tokens.first().get(), tokens.last().get(), tokens.left()), (40, 42, 3));
/// let taken: Vec<u64> = std::iter::from_fn(|| tokens.next()).map(FencingToken::get).collect();
/// assert_eq!((taken, tokens.left()), (vec![40, 41, 42], 0));
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TokenRange {
    first: FencingToken,
    last: FencingToken,
    left: u64,
}

impl TokenRange {
    /// The most tokens that a round asks for.
    pub const MOST: u64 = 64;

    /// So many tokens, of which this is the last.
    pub const fn ending_at(last: FencingToken, count: u64) -> Self {
        // A counter begins at zero, which is nobody's.
        let left = if count < last.get() { count } else { last.get() };
        let first = FencingToken::new(last.get().saturating_sub(left.saturating_sub(1)));
        Self { first, last, left }
    }

    /// The smallest, whether or not it has been taken.
    pub const fn first(&self) -> FencingToken {
        self.first
    }

    /// The largest, whether or not it has been taken: the counter of the nodes that voted.
    pub const fn last(&self) -> FencingToken {
        self.last
    }

    /// How many have not been taken.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Takes the next one, in order.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator's `last` would take them all, and its adapters would lose some"
    )]
    pub const fn next(&mut self) -> Option<FencingToken> {
        let Some(left) = self.left.checked_sub(1) else { return None };
        self.left = left;
        Some(FencingToken::new(self.last.get().saturating_sub(left)))
    }
}

/// What was read is no fencing token: a number from 0 to 2^53 - 1. Refuse the request that it came with.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct InvalidToken;

debug_is_text! { struct InvalidToken }

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a fencing token is a whole number from 0 to {}", FencingToken::MAX)
    }
}

impl core::error::Error for InvalidToken {}
