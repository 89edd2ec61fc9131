//! Readers and writers: a reader's token, and why readers and writers exclude each other.
//!
//! It decides nothing by itself: a reader is a [`Round`](super::Round) for [`Target::Shared`](super::Target::Shared),
//! won, confirmed, extended and released as any other. A writer is a plain lease. Only the node acts differently, where
//! R is the key, E the entries of readers beside it, and F the counter:
//!
//! ```text
//! acquire:          if R is absent or shared: E += owner; R := shared; reply Granted(F)               else Denied
//! confirm(S):       if R is shared and the owner's entry stands: F := max(F, S); reply Granted        else Denied
//! extend, restore:  the entry, and R until the end of the last entry; an extension never makes one
//! release:          the entry goes; the last one takes R with it
//! ```
//!
//! # Invariants
//!
//! - **RW1** At a node R is a writer's or shared. An entry counts only while R is shared; where R is absent it is void.
//! - **RW2** A shared R outlives every entry that has not ended; only the end, or the release, of the last one ends it.
//! - **RW3** A reader's vote: its grant answered at most S, and its entry stood from there to a moment at which F >= S.
//! - **RW4** A reader never lowers F; it raises it only to its S, only while its entry stands, or from nothing as a writer
//!   would.
//! - **RW5** No verdict, vote or token depends on a line.
//! - **RW6** An entry is made by an acquire or, after a confirmed extension, by a restore.
//!
//! **Why it holds.** Readers and a writer are never at one node together (RW1, RW2), and two quorums share a node, so
//! that their leases do not overlap. S is the largest F of a quorum of grants. A writer behind a reader shares a voting
//! node with it. There its acquire came after the reader's vote, and found F >= S, so that its token is above S. The
//! grant of a reader behind a writer found F >= T there, and answered at most S. A reader's confirm needs no guard `F
//! <= S` as a writer's does: while its entry stands only other readers can have raised F.

use alloc::string::{String, ToString};
use core::{fmt, str::FromStr};

use super::fencing::{FencingToken, InvalidToken};

/// The last write that a reader may see: the point in the order of a resource's writers at which it reads.
///
/// A writer that was granted its lease before this reader asked has a token of at most this. A writer that asks after
/// the reader's grant has a larger one. A reader that asks later has a token that is no smaller. Readers may have equal
/// tokens, which means nothing.
///
/// A paused reader may read after its lease has ended, when a writer has written since. A store that keeps the largest
/// [`FencingToken`] beside its data can tell: [`covers`](ReadToken::covers) says whether the reader may see the data.
///
/// ```
/// use quorlock_core::{FencingToken, ReadToken};
///
/// let reader = ReadToken::new(34);
/// assert!(reader.covers(FencingToken::new(33)) && reader.covers(FencingToken::new(34)));
/// assert!(!reader.covers(FencingToken::new(35)), "it was written after this reader's lease");
/// assert_eq!((i64::from(reader), reader.to_string().parse()), (34, Ok(reader)));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ReadToken(FencingToken);

impl ReadToken {
    /// The token of this number. A number above [`FencingToken::MAX`], which no node grants, is cut to it; `try_from`
    /// refuses it.
    pub const fn new(number: u64) -> Self {
        Self(FencingToken::new(number))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Whether a reader with this token may see what the writer with token `written` has left.
    pub fn covers(self, written: FencingToken) -> bool {
        written <= self.0
    }
}

impl From<FencingToken> for ReadToken {
    /// The token of a reader that may see what the holder of `token` has written, and nothing later.
    fn from(token: FencingToken) -> Self {
        Self(token)
    }
}

impl fmt::Display for ReadToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<ReadToken> for u64 {
    fn from(token: ReadToken) -> Self {
        token.get()
    }
}

impl From<ReadToken> for i64 {
    fn from(token: ReadToken) -> Self {
        token.0.into()
    }
}

impl From<ReadToken> for String {
    fn from(token: ReadToken) -> Self {
        token.to_string()
    }
}

impl TryFrom<u64> for ReadToken {
    type Error = InvalidToken;

    fn try_from(number: u64) -> Result<Self, InvalidToken> {
        number.try_into().map(Self)
    }
}

impl TryFrom<i64> for ReadToken {
    type Error = InvalidToken;

    fn try_from(number: i64) -> Result<Self, InvalidToken> {
        number.try_into().map(Self)
    }
}

impl FromStr for ReadToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        text.parse().map(Self)
    }
}
