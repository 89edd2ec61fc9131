//! The longest ttl that the nodes of a fleet know, lowered to the longest that a client still uses.
//!
//! It decides for how long the clients are waited for: until every lease of before is over, and every running client has told
//! each node its own ttl. It must never lower where one node did not begin to note these, nor before that time is over.

use std::{sync::Arc, time::Duration};

use super::errand::{self, FleetError};
use crate::{
    engine::Engine,
    node::NodeError,
    protocol::{Errand, NodeId, Timestamp, validity},
};

/// Each running client looks at every node in ten seconds, and its look takes a node timeout at most.
const ALL_HAVE_LOOKED: Duration = Duration::from_secs(12);

/// The nodes note since a while the longest ttl that any client tells them:
/// [`Redlock::watch_max_ttl`](crate::Redlock::watch_max_ttl). Dropped, it changes nothing.
#[derive(Debug)]
pub struct MaxTtlWatch {
    engine: Arc<Engine>,
    /// By which the nodes know this watch from another one that begins meanwhile.
    number: u32,
    /// Of each node.
    before: Vec<Duration>,
    until: Timestamp,
}

/// What has come of lowering the longest ttl of a fleet: [`MaxTtlWatch::lower`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoweredMaxTtl {
    /// The `max_ttl` of the handle, to which it was to be lowered.
    pub asked: Duration,
    /// The nodes, in the order of the configuration.
    pub nodes: Vec<LoweredNode>,
}

/// What has come of it on one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoweredNode {
    /// Its place in the configuration.
    pub node: NodeId,
    /// Its address, without credentials.
    pub address: Arc<str>,
    /// The longest ttl that it knew.
    pub from: Duration,
    /// The longest ttl that it knows now; or why it did not answer, and then it may have been lowered.
    pub to: Result<Duration, NodeError>,
}

impl LoweredMaxTtl {
    /// Whether every node was lowered to what was asked for, and no running client uses longer leases.
    #[must_use]
    pub fn is_lowered(&self) -> bool {
        self.nodes.iter().all(|node| node.to.as_ref().is_ok_and(|to| *to <= self.asked))
    }

    /// The longest ttl that a running client still uses, where that is longer than what was asked for. Find that process, or
    /// set it alike, and lower again.
    #[must_use]
    pub fn longer(&self) -> Option<Duration> {
        let told = self.nodes.iter().filter_map(|node| node.to.as_ref().ok());
        told.filter(|to| **to > self.asked).max().copied()
    }
}

impl MaxTtlWatch {
    /// Has all nodes begin.
    pub(crate) async fn begin(engine: &Arc<Engine>) -> Result<Self, FleetError> {
        errand::tried(engine).await?;
        let number = engine.number();
        let answers = errand::send(engine, Errand::WatchMaxTtl(number), |_| true).await?;
        let (mut before, mut failed) = (Vec::new(), Vec::new());
        for (address, answer) in engine.addresses().zip(answers) {
            match answer.unwrap_or(Err(NodeError::TimedOut)) {
                Ok(marker) => before.push(marker.max_ttl),
                Err(error) => failed.push((Arc::clone(address), error)),
            }
        }
        if !failed.is_empty() {
            return Err(FleetError::NotAll { nodes: failed });
        }
        let config = &engine.config;
        let longest = before.iter().copied().fold(config.longest_ttl(), Duration::max);
        // As for a quarantine: a clock may run at another rate, and the last round may still be under way.
        let over = longest
            .saturating_add(longest / 10)
            .saturating_add(config.node_timeout.saturating_mul(2));
        let until = engine.now().saturating_add(over.max(ALL_HAVE_LOOKED));
        Ok(Self { engine: Arc::clone(engine), number, before, until })
    }

    /// The longest ttl that a node knew when it began.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.before.iter().copied().fold(Duration::ZERO, Duration::max)
    }

    /// For how long [`lower`](MaxTtlWatch::lower) waits from now on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        errand::left(&self.engine, self.until)
    }

    /// Waits until every lease of before is over and each running client has told the nodes its `max_ttl`; then each node
    /// takes the longest that it was told since the watch began.
    ///
    /// Where another watch has begun meanwhile, nothing is lowered, and the nodes still know what they knew.
    ///
    /// A client that uses a longer `max_ttl` and reaches a node is seen by it, and [`LoweredMaxTtl::longer`] says so. One that
    /// is started later with a longer `max_ttl` raises it again, and logs that.
    ///
    /// # Errors
    ///
    /// [`FleetError::RuntimeEnded`]. A node that does not answer in the end is named by [`LoweredNode::to`].
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, nothing is lowered.
    pub async fn lower(self) -> Result<LoweredMaxTtl, FleetError> {
        let Self { engine, number, before, until } = self;
        errand::pause(&engine, until).await?;
        let answers = errand::send(&engine, Errand::LowerMaxTtl(number), |_| true).await?;
        // Nodes count whole milliseconds.
        let asked = Duration::from_millis(validity::wire_millis(engine.config.longest_ttl()));
        let nodes = answers.into_iter().zip(before).zip(engine.addresses()).enumerate();
        let nodes = nodes.map(|(index, ((answer, from), address))| {
            let answer = answer.unwrap_or(Err(NodeError::TimedOut));
            let node = NodeId::new(index);
            // This very look tells it ours.
            let to = answer.map(|marker| marker.max_ttl.max(asked));
            LoweredNode { node, address: Arc::clone(address), from, to }
        });
        let nodes = nodes.collect();
        Ok(LoweredMaxTtl { asked, nodes })
    }
}
