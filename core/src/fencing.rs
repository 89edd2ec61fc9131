//! Fencing tokens: unique, rising numbers for the leases of a resource, without consensus.
//!
//! It decides what a token is, and in which order the tokens of a grant are taken. `admission` decides which hint a
//! client sends; `round` how a quorum agrees on a token. At a node, atomically, where h is the hint, n the count of
//! wanted tokens, and f the resource's counter:
//!
//! ```text
//! acquire(owner, h, n):  if the lock is absent: f := max(f + n, h); lock := owner; reply Granted(f)   else Denied
//! confirm(owner, T):     if lock = owner and f <= T: f := T; reply Granted                           else Denied
//! ```
//!
//! The client takes T, the largest f of a quorum of grants. A node votes when its f was exactly T, or its
//! confirm was granted; a quorum of votes wins the tokens T - n + 1 to T.
//!
//! **Why it holds.** f never falls, and every grant at a node raises it by its n. Right after a vote for (owner, T) at
//! a node, lock = owner and f = T. If A's vote at a node comes before B's, B's acquire ran in between: it found T(A) or
//! more, so that T(B) - n(B) >= T(A), and B's first token is above A's last. Two quorums share a node. So tokens are
//! unique, and those of a grant that returned before another acquire began are smaller. This holds under any delay,
//! loss, reordering, duplication, pause or clock, as long as no node loses f. It does not matter which tokens of a
//! range were taken, nor whether its key still stands. But every node has to count by the same n: any may be the node
//! that two quorums share. The proof needs the guard `f <= T`: without it there are schedules of 18 steps that give two
//! holders one token (`tests/scenarios/guard.rs` replays them).
//!
//! A key that is restored for a held lease is no vote, and changes no counter. It is restored only after its round was
//! won, so that each vote of that round found the key as its acquire had set it. A restore before that would break the
//! proof (`tests/proof/protocol/tokens.rs` finds how).

use alloc::string::{String, ToString};
use core::{fmt, num::NonZeroU64, str::FromStr};

/// The largest token.
const LARGEST: u64 = (1 << 53) - 1;

/// A number larger than the token of every lease on the resource that was granted before this lease was requested. (A
/// lease that its process handed on counts as requested when its grant was: `docs/safety.md`.) If a store refuses every
/// token smaller than the largest it has seen, no holder before that one can write to it.
///
/// Tokens of one resource are unique, and have gaps; those of overlapping acquires have no order. Tokens of different
/// resources are unrelated.
///
/// It is below 2^53, so that it is exact as `u64`, `i64`, JSON number and text, and converts into each of them.
/// `TryFrom` and `FromStr` read it back from a store or a header.
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
    /// The number plus one, so that an `Option` of it needs no more room.
    NonZeroU64,
);

impl FencingToken {
    /// The largest token. The scripts on the nodes count in doubles, which are exact up to here; a clock
    /// in microseconds gets there in the year 2255.
    pub const MAX: Self = Self(NonZeroU64::MIN.saturating_add(LARGEST));

    /// The token of this number. A number above [`MAX`](FencingToken::MAX), which no node grants, is cut to it;
    /// `try_from` refuses it.
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
        // Lossless: `new` and `try_from` let no token exceed `MAX`.
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

/// The fencing tokens that a round has won, for the successive leases of its owner: each takes the next. Tokens left
/// when the key is given back are never used.
///
/// Each is taken once. A clone counts by itself, so tokens may be taken from only one of the two.
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

    /// `count` tokens, of which this is the last.
    pub const fn ending_at(last: FencingToken, count: u64) -> Self {
        // A counter begins at zero, which is no lease's.
        let left = if count < last.get() { count } else { last.get() };
        let first = FencingToken::new(last.get().saturating_sub(left.saturating_sub(1)));
        Self { first, last, left }
    }

    /// The smallest token, taken or not.
    pub const fn first(&self) -> FencingToken {
        self.first
    }

    /// The largest token, taken or not: the counter of the nodes that voted.
    pub const fn last(&self) -> FencingToken {
        self.last
    }

    /// The number of tokens not taken yet.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Takes the next token, in order.
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

/// The value is no fencing token, a number from 0 to 2^53 - 1. Refuse the request that it came with.
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
