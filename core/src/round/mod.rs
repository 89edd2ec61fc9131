//! Rounds: one fan-out of a command to the nodes, and what the replies amount to.
//!
//! There are two kinds. [`Round`] acquires: it agrees on a fencing token, has a deadline, and knows what must be undone
//! when it is lost. [`Tally`] counts what extends or ends a lease: it undoes nothing, because what was promised before
//! still runs. Both decide by the same [`Quorum`]. Neither sends, waits or looks at a clock.

mod acquire;
mod quorum;
mod spec;
mod tally;
mod vote;

pub(super) use self::vote::IMPLAUSIBLY_AHEAD;
pub use self::{
    acquire::Round,
    quorum::{Quorum, Verdict},
    spec::RoundSpec,
    tally::{ExtendSpec, Tally},
};

/// Why a round was lost.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RoundLoss {
    /// Enough nodes answered, and someone else holds too many of them; for a release or an extension, the
    /// key was gone from too many.
    Contended,
    /// Too many nodes failed: no round could be won, whoever holds the resource; for a release or an
    /// extension, the nodes that failed might have made the quorum.
    NoQuorum,
    /// A quorum granted, with less than the minimum validity left.
    TooLate,
    /// The caller went away before the verdict.
    Abandoned,
}
