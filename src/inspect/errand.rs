//! Errands of operators to all nodes: what is sent, what is awaited, and why nothing was done.
//!
//! It decides nothing of a node. It must never send an errand where there are no markers, as in classic mode.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    engine::Engine,
    error::Reports,
    node::NodeError,
    protocol::{Errand, Marker, NodeId, Timestamp},
    shield::shield,
};

/// Why a fleet did not do what an operator asked: [`claim_nodes`](crate::Redlock::claim_nodes),
/// [`watch_max_ttl`](crate::Redlock::watch_max_ttl), [`resources`](crate::Redlock::resources) and
/// [`lines`](crate::Redlock::lines). Nothing was changed.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum FleetError {
    /// In classic mode a node keeps no list, no longest ttl and no lines. Nothing was sent. Leave classic mode out.
    #[error(
        "in classic mode a node keeps no list of nodes, no longest ttl and no lines; nothing was sent; leave classic mode out"
    )]
    Classic,
    /// These nodes did not answer, or refused, and nothing was lowered. Bring them back, or fix what they report.
    #[error("all nodes must answer; nothing was lowered; fix those that did not{}", failed(.nodes))]
    NotAll {
        /// The nodes that did not answer, and why.
        nodes: Vec<(Arc<str>, NodeError)>,
    },
    /// No node has listed its keys: none can be reached, or the user lacks the right `+scan`. Fix the nodes, or grant it.
    #[error(
        "no node lists its keys; check that the nodes can be reached and that the user has the right +scan: {nodes}"
    )]
    NotTold {
        /// What each node said.
        nodes: Reports,
    },
    /// The runtime has ended, or the process was forked since: make a new [`Redlock`](crate::Redlock).
    #[error(
        "the runtime of this Redlock ended, or this process was forked; connect a new one in the process that asks"
    )]
    RuntimeEnded,
    /// The thread that would have to give the answer was about to wait for it. Nothing was asked.
    #[error(
        "blocking here would stop the thread that has to answer it; nothing was asked; await it instead, or block another thread"
    )]
    WouldDeadlock,
}

debug_is_text! { enum FleetError {
    Classic,
    NotAll { nodes },
    NotTold { nodes },
    RuntimeEnded,
    WouldDeadlock,
} }

fn failed(nodes: &[(Arc<str>, NodeError)]) -> String {
    nodes.iter().map(|(address, error)| format!("; {address}: {error}")).collect()
}

/// What each node has answered, in their order; `None` of one to which nothing was sent.
pub(super) type Answers = Vec<Option<Result<Marker, NodeError>>>;

/// Waits until all nodes have been tried, so that none is missed that is being connected to.
pub(super) async fn tried(engine: &Arc<Engine>) -> Result<(), FleetError> {
    if engine.config.classic {
        return Err(FleetError::Classic);
    }
    // One attempt is under way, and the next follows.
    let limit = engine.config.connect_timeout.saturating_mul(2);
    let tried = engine.tried(engine.now().saturating_add(limit));
    awaited(engine, tried).await.map(drop)
}

/// Sends it to some nodes, and awaits their answers for the node timeout.
pub(super) async fn send(
    engine: &Arc<Engine>,
    errand: Errand,
    to: impl Fn(NodeId) -> bool,
) -> Result<Answers, FleetError> {
    awaited(engine, engine.errand(errand, to)).await
}

/// Pauses until then.
pub(super) async fn pause(engine: &Arc<Engine>, until: Timestamp) -> Result<(), FleetError> {
    // A timer of the runtime may end a little early.
    while engine.now() < until {
        awaited(engine, engine.sleep_until(until)).await?;
    }
    Ok(())
}

/// How long is left until then.
pub(super) fn left(engine: &Arc<Engine>, until: Timestamp) -> Duration {
    until.saturating_since(engine.now())
}

async fn awaited<T>(engine: &Arc<Engine>, work: impl Future<Output = T>) -> Result<T, FleetError> {
    if !engine.is_served() {
        return Err(FleetError::RuntimeEnded);
    }
    engine.process().awaits(shield(work)).await.ok_or(FleetError::RuntimeEnded)
}
