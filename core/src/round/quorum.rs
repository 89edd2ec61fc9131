//! What a majority is, and when the count of replies settles a round.
//!
//! The quorum is always of the *configured* nodes, never of the reachable ones: two majorities of different sets need
//! not meet (safety scenario "clients disagree on N").

/// The verdict on a round.
///
/// It leaves `Pending` once, at the earliest reply that settles it, and then stays.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    /// Neither outcome is certain yet.
    Pending,
    /// A quorum has granted.
    Won,
    /// A quorum of grants is out of reach, or came too late.
    Lost,
}

/// A majority of `nodes` configured nodes.
///
/// Any two quorums share a node: the exclusion rests on nothing else.
///
/// ```
/// use quorlock_core::{Quorum, Verdict};
///
/// let five = Quorum::of(5);
/// assert_eq!(five.needed(), 3);
/// assert_eq!(five.verdict(2, 1), Verdict::Pending);
/// assert_eq!(five.verdict(3, 0), Verdict::Won);
/// assert_eq!(five.verdict(2, 3), Verdict::Lost);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Quorum {
    nodes: usize,
}

impl Quorum {
    /// The quorum of `nodes` configured nodes.
    pub const fn of(nodes: usize) -> Self {
        Self { nodes }
    }

    /// The number of configured nodes.
    pub const fn nodes(self) -> usize {
        self.nodes
    }

    /// The number of grants that win: floor(N/2) + 1.
    ///
    /// > "If and only if the client was able to acquire the lock in the majority of the instances (at least
    /// > 3)" (the Redis page, of five nodes)
    pub const fn needed(self) -> usize {
        self.nodes / 2 + 1
    }

    /// The number of nodes that may be missing without harm.
    pub const fn spare(self) -> usize {
        self.nodes.saturating_sub(self.needed())
    }

    /// The verdict on `granted` grants and `refused` nodes that will no longer grant.
    pub const fn verdict(self, granted: usize, refused: usize) -> Verdict {
        if granted >= self.needed() {
            Verdict::Won
        } else if self.nodes.saturating_sub(refused) < self.needed() {
            Verdict::Lost
        } else {
            Verdict::Pending
        }
    }
}
