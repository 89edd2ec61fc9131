//! Looks at a fleet as an operator would: whether its nodes are fit for locks, which resources are held, who waits, and how one is
//! taken from its holder.
//!
//! It is for people, and for programs that alert them, such as the command `quorlock doctor`. It changes nothing but by
//! [`Redlock::force_release`](crate::Redlock::force_release), [`claim_nodes`](crate::Redlock::claim_nodes) and
//! [`MaxTtlWatch::lower`], and nothing that it decides is ever a vote: which node may
//! vote, and who holds a resource, is decided elsewhere, from answers of its own.

mod claim;
mod clock;
mod errand;
mod finding;
mod fleet;
mod forced;
mod lines;
mod longest;
mod node;
mod offset;
mod pace;
mod pages;
mod refusal;
mod resources;
mod rules;
mod seen;

use std::{sync::Arc, time::Duration};

use futures::future::join;

pub use self::{
    claim::{Claimed, Outcome},
    clock::{ClockFacts, ClockRate, RoundTrips},
    errand::FleetError,
    finding::{Finding, Ill, Severity},
    forced::{ForceError, Forced},
    lines::{Line, Lines},
    longest::{LoweredMaxTtl, LoweredNode, MaxTtlWatch},
    resources::{Listed, Resources},
};
use crate::{
    engine::Engine,
    node::{NodeError, NodeState, NodeStatus, ServerFacts},
    protocol::{AdmissionPolicy, Members, NodeId},
    shield::shield,
};

/// What was seen of a fleet: facts of each node, and what the handle that asked is set to. Made by
/// [`Redlock::inspect`](crate::Redlock::inspect).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<NodeFacts>,
    /// How many votes a lease needs.
    pub needed: usize,
    /// For how long the clocks were looked at.
    pub over: Duration,
    /// The list of nodes that the handle that asked is configured with.
    pub members: Members,
    /// What the handle that asked is set to.
    pub settings: InspectedSettings,
}

/// The settings of the handle that asked, as far as they make a difference to what is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct InspectedSettings {
    /// No tokens and no admission: [`Builder::classic`](crate::Builder::classic).
    pub classic: bool,
    /// The time for one command.
    pub node_timeout: Duration,
    /// The longest ttl.
    pub max_ttl: Duration,
    /// By how many thousandths clocks may differ in their rates.
    pub drift_per_mille: u32,
    /// Servers that may evict locks are accepted.
    pub allow_eviction: bool,
    /// Nodes that may have forgotten leases vote at once.
    pub skip_quarantine: bool,
}

/// What was seen of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeFacts {
    /// Its place in the configuration.
    pub node: NodeId,
    /// How it is, as [`Redlock::nodes`](crate::Redlock::nodes) says.
    pub status: NodeStatus,
    /// What its server says of itself on a connection of its own, also where it must not vote; or why it says nothing.
    pub server: Result<ServerFacts, NodeError>,
}

impl NodeFacts {
    /// How long its replies took.
    #[must_use]
    pub fn round_trips(&self) -> Option<RoundTrips> {
        RoundTrips::of(&self.server.as_ref().ok()?.samples)
    }

    /// How its clock stands to ours, and runs.
    #[must_use]
    pub fn clock(&self) -> Option<ClockFacts> {
        ClockFacts::of(&self.server.as_ref().ok()?.samples)
    }
}

impl Inspection {
    /// Asks all nodes.
    pub(crate) async fn ask(engine: &Arc<Engine>, over: Duration) -> Self {
        // Two times the connect timeout: one for the attempt that is under way, and one for the next.
        let connected = engine.config.connect_timeout.saturating_mul(2);
        let tried = engine.tried(engine.now().saturating_add(connected));
        let asked = join(tried, engine.ask_facts(over));
        let facts = engine.process().awaits(shield(asked)).await.map(|(_, facts)| facts);
        let ended = || {
            let reason = Arc::from("the runtime has ended, or this process was forked");
            NodeError::NotConnected { reason }
        };
        let mut facts = facts.and_then(Result::ok).unwrap_or_default().into_iter();
        let nodes = engine.statuses().into_iter().enumerate().map(|(index, status)| NodeFacts {
            node: NodeId::new(index),
            status,
            server: facts.next().unwrap_or_else(|| Err(ended())),
        });
        let nodes: Vec<NodeFacts> = nodes.collect();
        let config = &engine.config;
        Self {
            needed: engine.quorum.needed(),
            nodes,
            over,
            members: engine.members(),
            settings: InspectedSettings {
                classic: config.classic,
                node_timeout: config.node_timeout,
                max_ttl: config.max_ttl,
                drift_per_mille: config.drift_per_mille,
                allow_eviction: config.allow_eviction,
                skip_quarantine: config.admission == AdmissionPolicy::DangerSkip,
            },
        }
    }

    /// How many nodes vote.
    fn votes(&self) -> usize {
        self.nodes.iter().filter(|node| node.status.state == NodeState::Ready).count()
    }

    /// Whether enough nodes vote for something to be acquired.
    fn has_quorum(&self) -> bool {
        self.votes() >= self.needed
    }

    /// How late this process was woken while it looked, but for the worst tenth. Where that is more than a few milliseconds
    /// this machine is busy: the round trips are longer by it than the nodes and the network have made them, and a node is
    /// called slow only for what is beyond.
    #[must_use]
    pub fn woken_late(&self) -> Duration {
        let asked = self.nodes.iter().filter_map(|node| node.server.as_ref().ok());
        clock::woken_late(asked.flat_map(|server| &server.samples))
    }

    /// What is wrong, and what to do about it: what is about all nodes first, and then node by node. It is empty for a fleet
    /// that is fit. It asks nothing: the same facts give the same findings.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = fleet::findings(self);
        for facts in &self.nodes {
            let found = node::findings(self, facts);
            findings
                .extend(found.into_iter().map(|found| found.of(facts.node, &facts.status.address)));
        }
        findings
    }
}

#[cfg(test)]
#[path = "findings_test.rs"]
mod tests;
