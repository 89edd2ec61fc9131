//! A set of nodes, as one number.
//!
//! A plain value. It decides nothing.

use super::command::NodeId;

/// Some of the nodes of a fleet. A place above 31 is in no set: no fleet has more nodes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct NodeSet(u32);

impl NodeSet {
    /// No node.
    pub const NONE: Self = Self(0);

    /// The nodes in the places below this one.
    pub const fn below(nodes: usize) -> Self {
        Self(if nodes < 32 { (1 << nodes) - 1 } else { u32::MAX })
    }

    /// The same set and this node.
    #[must_use]
    pub const fn with(self, node: NodeId) -> Self {
        Self(self.0 | Self::bit(node))
    }

    /// Adds a node.
    pub const fn insert(&mut self, node: NodeId) {
        self.0 |= Self::bit(node);
    }

    /// Removes a node.
    pub const fn remove(&mut self, node: NodeId) {
        self.0 &= !Self::bit(node);
    }

    /// Whether the node is in it.
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 & Self::bit(node) != 0
    }

    /// The nodes of both sets together.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The nodes that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes of this set that are not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The number of nodes.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it has no node.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes, in the order of their places.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..32).map(NodeId::new).filter(move |node| self.contains(*node))
    }

    const fn bit(node: NodeId) -> u32 {
        if node.index() < 32 { 1 << node.index() } else { 0 }
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::NONE, Self::with)
    }
}
