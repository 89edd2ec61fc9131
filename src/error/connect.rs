//! Why a connect did not come to its end, with how each node was.
//!
//! It must name every node that is in the way, and not only the first.

use std::{fmt, sync::Arc};

use thiserror::Error;

use super::WOULD_DEADLOCK;
use crate::{
    config::ConfigError,
    node::{NodeState, NodeStatus, Refusal},
    protocol::Quorum,
    text::{self, Said, counted},
};

/// Why [`Redlock::connect`](crate::Redlock::connect) gave up. Nothing is left on any node.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration cannot work. Nothing has been connected. The field says what to change.
    #[error("invalid configuration; nothing was connected: {0}")]
    Config(ConfigError),
    /// The blocking form was called on the very thread that has to answer it. Await it there, or block another thread.
    #[error("{WOULD_DEADLOCK}; nothing was connected; await it instead, or block another thread")]
    WouldDeadlock,
    /// Nodes were reached that must not vote, and without them there is no quorum, or not all nodes where
    /// `require_all_nodes` asks for that; or one of them says that the list of nodes, or a setting, is wrong. Fix them,
    /// or build without waiting for the nodes. All others have been tried too, so that all that must not vote are named, but
    /// for those that did not answer in time.
    #[error(
        "{} of {} cannot vote as configured; nothing was locked; fix each as told here: {nodes}",
        .nodes.refused().count(), counted(.nodes.0.len(), "node")
    )]
    Refused {
        /// How each node is.
        nodes: NodeStates,
    },
    /// A quorum could be reached and not all nodes, which `require_all_nodes` asks for. Fix the nodes that are down,
    /// or their addresses, or connect without that setting.
    #[error(
        "require_all_nodes is set, but only {ready} of {} could be reached; nothing was locked or left there; fix the \
         nodes that are down or their addresses, or connect without require_all_nodes: {nodes}",
        counted(*needed, "node")
    )]
    NotAllNodes {
        /// The nodes that are ready.
        ready: usize,
        /// The nodes that are configured.
        needed: usize,
        /// How each node is.
        nodes: NodeStates,
    },
    /// Too few nodes could be reached within the connect timeout, or within `wait` by `wait_through_outages`. Fix them, or build without waiting.
    #[error(
        "no quorum: {} usable in time, {needed} needed; nothing was locked; fix the nodes that are not ready, or their \
         addresses; or use Builder::build, which does not wait for nodes: {nodes}",
        counted(*ready, "node")
    )]
    NoQuorum {
        /// The nodes that are ready.
        ready: usize,
        /// The nodes that are needed.
        needed: usize,
        /// How each node is.
        nodes: NodeStates,
    },
}

debug_is_text! { enum ConnectError {
    Config(error),
    WouldDeadlock,
    Refused { nodes },
    NotAllNodes { ready, needed, nodes },
    NoQuorum { ready, needed, nodes },
} }

// Not by `#[from]`, which would make it a source.
impl From<ConfigError> for ConnectError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// How each node was when connecting gave up, printed in one line. Nodes that are alike are named together.
///
/// The default has no node, and a list of addresses and states can be collected into one: for tests.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeStates(Box<[(Arc<str>, NodeState)]>);

impl NodeStates {
    /// The address of each node, and how it is, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &(Arc<str>, NodeState)> {
        self.0.iter()
    }

    /// Whether waiting is useless until nodes are fixed: so many must not vote that the others are no quorum;
    /// or one of them says that the list of nodes, or a setting, is wrong. One that must not vote for a reason of its own, as
    /// with a wrong password, is none of that while the others are a quorum.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use quorlock::{NodeStates, Redlock, node::{NodeState, Refusal}};
    ///
    /// let address = |node: &str| Arc::<str>::from(node);
    /// let of = |second: NodeState| -> NodeStates {
    ///     let replica = || NodeState::Refused(Refusal::Replica);
    ///     let all = [("a", replica()), ("b", second), ("c", NodeState::Ready)];
    ///     all.into_iter().map(|(node, state)| (address(node), state)).collect()
    /// };
    /// assert!(!of(NodeState::Connecting).is_refused());
    /// assert!(of(NodeState::Refused(Refusal::Cluster)).is_refused());
    /// ```
    pub fn is_refused(&self) -> bool {
        let (nodes, refused) = (self.0.len(), self.refused().count());
        let needed = Quorum::of(nodes).needed();
        let ready = self.iter().filter(|(_, state)| *state == NodeState::Ready).count();
        // A fleet whose majority votes goes on without a node that belongs to another list.
        let is_of_handle = |refusal: &Refusal| {
            let of_others =
                matches!(refusal, Refusal::OtherMembers { .. } | Refusal::MembersChanged { .. });
            refusal.is_of_handle() && !(of_others && ready >= needed)
        };
        let is_left = nodes - refused >= needed;
        refused > 0 && (!is_left || self.refused().any(|(_, refusal)| is_of_handle(refusal)))
    }

    /// How many are connected and vote, or will when their quarantine is over, which those who acquire meanwhile are told of.
    pub(crate) fn usable(&self) -> usize {
        let usable = |(_, state): &&(Arc<str>, NodeState)| {
            matches!(state, NodeState::Ready | NodeState::Quarantined { .. })
        };
        self.iter().filter(usable).count()
    }

    /// The addresses of the nodes that must not vote, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&Arc<str>, &Refusal)> {
        self.0.iter().filter_map(|(address, state)| match state {
            NodeState::Refused(refusal) => Some((address, refusal)),
            _ => None,
        })
    }
}

impl FromIterator<(Arc<str>, NodeState)> for NodeStates {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, NodeState)>>(states: I) -> Self {
        Self(states.into_iter().collect())
    }
}

/// Of [`Redlock::nodes`](crate::Redlock::nodes).
impl FromIterator<NodeStatus> for NodeStates {
    fn from_iter<I: IntoIterator<Item = NodeStatus>>(statuses: I) -> Self {
        statuses.into_iter().map(|status| (status.address, status.state)).collect()
    }
}

impl fmt::Display for NodeStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |state: &NodeState| match state {
            NodeState::Connecting => Said::plain("no answer yet"),
            NodeState::Ready => Said::plain("ready"),
            NodeState::Quarantined { remaining } => Said::lasting("in quarantine for", *remaining),
            NodeState::Down { reason } => Said::plain(format_args!("down, {reason}")),
            NodeState::Refused(refusal) => Said::plain(refusal),
        };
        let nodes = self.0.iter().enumerate();
        text::write_said(f, nodes.map(|(index, (address, state))| (index, address, said(state))))
    }
}
