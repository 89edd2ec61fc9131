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
use redis::{AsyncConnectionConfig, PushInfo};

use super::{
    Shared, check,
    codec::Process,
    errors, joining,
    link::Link,
    liveness::{self, Down},
    push::{Exchanges, Listener, Tracked},
    resolve::Resolver,
    session::{Lines, Session},
};
use crate::{
    node::{Claim, LineState, NodeContext, NodeError, NodeState, Refusal, haste::UNHURRIED},
    protocol::Timestamp,
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
    persist(|| supervise(&node, &context), pause).await;
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
                    match select(std::pin::pin!(ended), stopped).await {
                        Either::Left((reason, _)) => reason,
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
    let down = Arc::new(Down::default());
    let exchanges = Arc::new(Exchanges::default());
    let tracked = Arc::new(Tracked::default());
    let listener = Listener {
        down: Arc::clone(&down),
        exchanges: Arc::clone(&exchanges),
        tracked: Arc::clone(&tracked),
        watcher: context.watcher(),
    };
    let config = AsyncConnectionConfig::new()
        // The limit below has the better message.
        .set_connection_timeout(None)
        // The engine has a limit of its own, and a late reply is a sign of life that must be heard.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(liveness::MOST_UNANSWERED)
        .set_dns_resolver(resolver.clone())
        .set_push_sender(move |message: PushInfo| {
            listener.handle(&message);
            Ok::<(), redis::aio::SendError>(())
        });
    let deadline: Timestamp = context.runtime().now().saturating_add(context.connect_timeout());
    let attempt = async {
        let client = node.address.client(context, deadline).await?;
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| match resolver.refusal() {
                Some(refusal) => NodeError::Refused(refusal),
                None => errors::of_connect(&error, node.address.database()),
            })?;
        let mut subscriber = connection.clone();
        let link = Link::new(connection, down, context);
        let local = node.address.is_unix() || resolver.is_local();
        let identity = check::check(&link, context, local).await?;
        let line = check::line(&link, &mut subscriber, context).await?;
        Ok((link, identity, line))
    };
    let attempt = std::pin::pin!(attempt);
    let (link, identity, line) = match select(attempt, context.runtime().sleep_until(deadline))
        .await
    {
        Either::Left((result, _)) => result?,
        Either::Right(((), _)) => {
            // A server without TLS waits for the end of a line, which never comes.
            let reason = Arc::from(if node.address.is_encrypted() {
                "no answer within the connect timeout, as of a port without TLS: write redis:// for one"
            } else {
                "no answer within the connect timeout"
            });
            return Err(NodeError::NotConnected { reason });
        }
    };
    // Claimed before the session is there, so that no vote of this server counts twice.
    let address = node.address.display();
    let claim = context
        .claim(address, &identity.run_id)
        .map_err(|other| NodeError::Refused(Refusal::SameServer { other }))?;
    let process = Process {
        run_id: identity.run_id,
        database: node.address.database(),
        members: context.members().clone(),
        generation: Arc::default(),
        counter_retention: context.counter_retention(),
    };
    let session = Arc::new(Session::new(
        link,
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
