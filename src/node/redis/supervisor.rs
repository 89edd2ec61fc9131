//! Keeps one node connected: connect, check, publish, wait for the end, and again, for ever.
//!
//! It decides how long to wait between attempts to connect. It never fails for good, not even by a panic of the client
//! library or of the runtime, and no caller waits for it.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{Either, select},
};

use super::{
    Shared,
    codec::Process,
    connecting::{self, Reached},
    joining,
    resolve::Resolver,
    session::{Lines, Session},
};
use crate::{
    node::{Claim, LineState, NodeContext, NodeError, NodeState, Refusal, haste::UNHURRIED},
    shield::persist,
    telemetry::{self, NodeShown},
};

/// The pauses between attempts grow from this one, each jittered by half, to one that depends on the held leases.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause while no short lease is held.
const LONGEST_PAUSE: Duration = UNHURRIED;

/// A connection that lasted this long was a good one: the next pause begins small again.
const GOOD_FOR: Duration = Duration::from_millis(500);

/// Supervises one node until it is closed, whatever panics meanwhile.
pub(super) async fn run(node: Arc<Shared>, context: NodeContext) {
    let pause = || {
        let at = context.runtime().now().saturating_add(LONGEST_PAUSE);
        context.runtime().sleep_until(at)
    };
    let supervised = std::pin::pin!(persist(|| supervise(&node, &context), pause));
    match node.sentinels.as_ref().zip(node.address.group()) {
        Some((sentinels, group)) => {
            select(supervised, std::pin::pin!(sentinels.attend(group, &context))).await;
        }
        None => supervised.await,
    }
}

async fn supervise(node: &Arc<Shared>, context: &NodeContext) {
    let resolver = Resolver::default();
    let mut pause = Duration::ZERO;
    while !node.view().closed {
        let started = context.runtime().now();
        match attempt(node, context, &resolver).await {
            Ok((session, claim)) => {
                let reason = {
                    let (ended, closed) = (session.link().ended(), closed(node));
                    let attend = std::pin::pin!(joining::attend_exchanges(&session));
                    let closed = std::pin::pin!(closed);
                    let stopped = select(closed, attend);
                    let left = std::pin::pin!(left(node, &session, context));
                    match select(select(std::pin::pin!(ended), left), stopped).await {
                        Either::Left((
                            Either::Left((reason, _)) | Either::Right((reason, _)),
                            _,
                        )) => reason,
                        Either::Right(_) => break,
                    }
                };
                // Another node may claim this server a node timeout later.
                drop(claim);
                publish(node, context, NodeState::Down { reason }, 0);
                if context.runtime().now().saturating_since(started) >= GOOD_FOR {
                    // The next attempt follows at once: a restarted server is back soon.
                    pause = Duration::ZERO;
                }
            }
            Err(NodeError::Refused(refusal)) => {
                publish(node, context, NodeState::Refused(refusal), 1);
                // Mostly an operator has to mend that, and each check costs the server a connection.
                pause = LONGEST_PAUSE;
            }
            Err(error) => {
                let reason = match error {
                    NodeError::NotConnected { reason } | NodeError::ConnectionLost { reason } => {
                        reason
                    }
                    other => Arc::from(other.to_string()),
                };
                // Asked each time: a short lease may have begun during the last pause.
                pause = pause.min(context.longest_pause());
                let shown = NodeShown { node: context.id(), address: node.address.display() };
                telemetry::node_unreachable(shown, &reason);
                publish(node, context, NodeState::Down { reason }, 1);
            }
        }
        let at = context.runtime().now().saturating_add(jittered(pause, context));
        pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let sleep = context.runtime().sleep_until(at);
        select(sleep, std::pin::pin!(closed(node))).await;
    }
    // The link goes with the node, once nothing that was sent on it waits for an answer.
    node.view().session = None;
}

/// Ends with the session of a server that the Sentinels do not name any more, and with no other.
async fn left(node: &Shared, session: &Session, context: &NodeContext) -> Arc<str> {
    let Some((master, group)) = session.master().zip(node.address.group()) else {
        return std::future::pending().await;
    };
    let reason = master.left(group, context.runtime()).await;
    session.link().give_up(&reason);
    reason
}

/// Half of `pause` to one and a half of it, so that the clients of a fleet do not reconnect in step.
fn jittered(pause: Duration, context: &NodeContext) -> Duration {
    let [byte, ..] = context.runtime().random();
    pause / 2 + pause.mul_f64(f64::from(byte) / 255.0)
}

async fn closed(node: &Shared) {
    // Asked again after each wake-up: the permit may be an old one.
    while !node.view().closed {
        node.wake.notified().await;
    }
}

/// Publishes the state of a node without a connection, and counts so many more failed attempts.
fn publish(node: &Shared, context: &NodeContext, state: NodeState, failed: u64) {
    {
        // Both under one lock: no command finds the session of a node that is shown as down.
        let mut view = node.view();
        view.state = state;
        view.session = None;
        view.failed_attempts = view.failed_attempts.saturating_add(failed);
    }
    context.changed();
}

/// One attempt to connect. The TLS library panics without a provider, and others may panic too: a panic is a failed
/// attempt.
async fn attempt(
    node: &Arc<Shared>,
    context: &NodeContext,
    resolver: &Resolver,
) -> Result<(Arc<Session>, Claim), NodeError> {
    let attempt = AssertUnwindSafe(connect(node, context, resolver)).catch_unwind().await;
    attempt.unwrap_or_else(|panic| Err(NodeError::panicked(false, panic)))
}

/// Connects, checks, and lets the node vote if nothing speaks against it.
async fn connect(
    node: &Arc<Shared>,
    context: &NodeContext,
    resolver: &Resolver,
) -> Result<(Arc<Session>, Claim), NodeError> {
    let Reached { link, master, identity, line, exchanges, tracked } =
        connecting::reach(node, context, resolver).await?;
    // Claimed before the session is there, so that no vote of this server counts twice.
    let address = node.address.display();
    let claim = context
        .claim(address, &identity.run_id)
        .map_err(|other| NodeError::Refused(Refusal::SameServer { other }))?;
    let process = Process {
        run_id: identity.run_id,
        database: match &master {
            Some(master) => format!("{}@{}", node.address.database(), master.place().failover),
            None => node.address.database().to_string(),
        },
        members: context.members().clone(),
        generation: Arc::default(),
        counter_retention: context.counter_retention(),
    };
    let session = Arc::new(Session::new(
        (link, master),
        process,
        Arc::clone(context.runtime()),
        Arc::clone(&node.clock),
        exchanges,
        context.node_timeout(),
        Lines::new(line == LineState::On, tracked, context.watcher()),
    ));
    if let LineState::Off { reason } = &line
        && !context.classic()
        && !node.told_of_line.swap(true, Ordering::Relaxed)
    {
        telemetry::no_line(NodeShown { node: context.id(), address }, reason);
    }
    {
        let mut view = node.view();
        view.state = NodeState::Ready;
        view.failed_attempts = 0;
        view.line = line;
        view.version = Some(Arc::clone(&identity.version));
        view.session = Some(Arc::clone(&session));
    }
    let shown = NodeShown { node: context.id(), address };
    telemetry::node_connected(shown, &identity.version);
    context.connected();
    context.changed();
    Ok((session, claim))
}

#[cfg(test)]
#[path = "supervisor_test.rs"]
mod tests;
