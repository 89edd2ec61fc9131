//! Rounds: one fan-out of a command to the nodes, and the verdict on the replies.
//!
//! There are two kinds. [`Round`] acquires: it agrees on a fencing token, has a deadline, and knows what to undo when
//! it is lost. [`Tally`] counts answers to an extension or a release: it undoes nothing, because the earlier promise
//! still runs. Both decide by the same [`Quorum`]. Neither sends, waits or reads a clock.

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
    /// Enough nodes answered, and other owners hold too many of them; for a release or an extension, the key was gone
    /// from too many.
    Contended,
    /// Too many nodes failed to win a round, whether or not the resource is held; for a release or an extension, the
    /// failed nodes might have made the quorum.
    NoQuorum,
    /// A quorum granted, with less than the minimum validity left.
    TooLate,
    /// The caller went away before the verdict.
    Abandoned,
}
