//! What a quorum is, and when the count of replies settles a round.
//!
//! The quorum is always of the *configured* nodes, never of the reachable ones: two majorities of different sets need
//! not meet (safety scenario "clients disagree on N").

use crate::{command::NodeId, node_set::NodeSet};

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

/// A majority of the configured nodes. While a fleet changes from one list of nodes to another, a majority of each.
///
/// Any two quorums of one list share a node, and so do a quorum of one list and one of both: the exclusion rests on
/// nothing else.
///
/// ```
/// use quorlock_core::{NodeId, NodeSet, Quorum, Verdict};
///
/// let five = Quorum::of(5);
/// assert_eq!(five.needed(), 3);
/// let nodes = |of: &[usize]| of.iter().copied().map(NodeId::new).collect::<NodeSet>();
/// assert_eq!(five.verdict(nodes(&[0, 1]), nodes(&[2])), Verdict::Pending);
/// assert_eq!(five.verdict(nodes(&[0, 1, 4]), nodes(&[])), Verdict::Won);
/// assert_eq!(five.verdict(nodes(&[0, 1]), nodes(&[2, 3, 4])), Verdict::Lost);
///
/// let both = Quorum::of_both(nodes(&[0, 1, 2]), nodes(&[2, 3, 4]));
/// assert!(both.is_met_by(nodes(&[0, 2, 3])));
/// assert!(!both.is_met_by(nodes(&[0, 1, 3])), "one of the new list");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Quorum {
    nodes: usize,
    /// A majority of each is needed. Where there is one list, it stands twice.
    lists: [NodeSet; 2],
}

impl Quorum {
    /// The quorum of `nodes` configured nodes.
    pub const fn of(nodes: usize) -> Self {
        let all = NodeSet::below(nodes);
        Self { nodes, lists: [all, all] }
    }

    /// The quorum of a client that knows the list before a change and the list behind it. The places of both begin at
    /// zero and have no gap.
    pub const fn of_both(before: NodeSet, after: NodeSet) -> Self {
        Self { nodes: before.or(after).len(), lists: [before, after] }
    }

    /// The number of configured nodes, each counted once.
    pub const fn nodes(self) -> usize {
        self.nodes
    }

    /// The list before a change, and the list behind it. They are equal where no change is under way.
    pub const fn lists(self) -> [NodeSet; 2] {
        self.lists
    }

    /// The smallest number of grants that can win: floor(N/2) + 1 of one list.
    ///
    /// > "If and only if the client was able to acquire the lock in the majority of the instances (at least
    /// > 3)" (the Redis page, of five nodes)
    pub fn needed(self) -> usize {
        self.needed_beyond(NodeSet::NONE)
    }

    /// The smallest number of grants that can win where these nodes have granted.
    pub fn needed_beyond(self, granted: NodeSet) -> usize {
        let [before, after] = self.lists;
        let lacks = |list: NodeSet| majority(list).saturating_sub(granted.and(list).len());
        let shared = before.and(after).without(granted).len();
        let (one, other) = (lacks(before), lacks(after));
        granted.len() + one + other - one.min(other).min(shared)
    }

    /// The number of nodes that may be missing without harm, whichever they are.
    pub fn spare(self) -> usize {
        let spare = |list: NodeSet| list.len().saturating_sub(majority(list));
        self.lists.into_iter().map(spare).min().unwrap_or_default()
    }

    /// Whether these nodes are a quorum.
    pub const fn is_met_by(self, nodes: NodeSet) -> bool {
        self.is_met_before_by(nodes) && self.is_met_after_by(nodes)
    }

    /// Whether these nodes are a majority of the list before the change.
    pub const fn is_met_before_by(self, nodes: NodeSet) -> bool {
        let [before, _] = self.lists;
        nodes.and(before).len() >= majority(before)
    }

    /// Whether these nodes are a majority of the list behind the change.
    pub const fn is_met_after_by(self, nodes: NodeSet) -> bool {
        let [_, after] = self.lists;
        nodes.and(after).len() >= majority(after)
    }

    /// All nodes of both lists.
    pub const fn everyone(self) -> NodeSet {
        let [before, after] = self.lists;
        before.or(after)
    }

    /// Whether the others are a quorum, where these nodes are missing.
    pub const fn can_miss(self, nodes: NodeSet) -> bool {
        self.is_met_by(self.everyone().without(nodes))
    }

    /// The verdict on the nodes that have granted, and those that will not grant any more.
    pub const fn verdict(self, granted: NodeSet, refused: NodeSet) -> Verdict {
        if self.is_met_by(granted) {
            Verdict::Won
        } else if !self.can_miss(refused) {
            Verdict::Lost
        } else {
            Verdict::Pending
        }
    }

    /// The first of `coming`, in their order, with which `there` and those before it are a quorum.
    pub fn met_at<T: Copy>(self, there: NodeSet, coming: &[(T, NodeId)]) -> Option<T> {
        let mut there = there;
        let met = coming.iter().find(|(_, node)| {
            there.insert(*node);
            self.is_met_by(there)
        });
        met.map(|(at, _)| *at)
    }
}

const fn majority(list: NodeSet) -> usize {
    list.len() / 2 + 1
}
