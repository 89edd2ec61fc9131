//! One attempt to reach a server that may vote: where it is, a connection, and the checks of `check`.
//!
//! It decides how an attempt ends that takes too long, or whose server the Sentinels name no more. It must never publish
//! anything: that is the supervisor's work.

use std::sync::Arc;

use futures::future::{Either, select};
use redis::{AsyncConnectionConfig, PushInfo};

use super::{
    Shared,
    address::Place,
    check,
    check::Identity,
    errors,
    link::Link,
    liveness::{self, Down},
    push::{Exchanges, Listener, Tracked},
    resolve::Resolver,
    sentinels::Master,
};
use crate::{
    node::{LineState, NodeContext, NodeError, Refusal},
    protocol::Timestamp,
};

/// A connection to a server that may vote.
pub(super) struct Reached {
    pub(super) link: Link,
    /// Which master it is, if Sentinels have named it.
    pub(super) master: Option<Master>,
    pub(super) identity: Identity,
    pub(super) line: LineState,
    pub(super) exchanges: Arc<Exchanges>,
    pub(super) tracked: Arc<Tracked>,
}

/// Reaches the server within the connect timeout.
pub(super) async fn reach(
    node: &Shared,
    context: &NodeContext,
    resolver: &Resolver,
) -> Result<Reached, NodeError> {
    let deadline = context.runtime().now().saturating_add(context.connect_timeout());
    let attempt = async {
        let Some((sentinels, group)) = node.sentinels.as_ref().zip(node.address.group()) else {
            return connect(node, context, resolver, None, deadline).await;
        };
        let master = sentinels.master(context.runtime()).await;
        let place = Some(master.place());
        let attempt = std::pin::pin!(connect(node, context, resolver, place, deadline));
        let left = std::pin::pin!(master.left(group, context.runtime()));
        let reason = match select(attempt, left).await {
            Either::Left((Err(NodeError::Refused(Refusal::Replica)), _)) => {
                Arc::from(format!("the Sentinels name {}, which is a replica", master.place()))
            }
            Either::Left((Err(NodeError::NotConnected { reason }), _)) => {
                Arc::from(format!("{reason}, at {}", master.place()))
            }
            Either::Left((reached, _)) => {
                return Ok(Reached { master: Some(master.clone()), ..reached? });
            }
            Either::Right((reason, _)) => reason,
        };
        Err(NodeError::NotConnected { reason })
    };
    match select(std::pin::pin!(attempt), context.runtime().sleep_until(deadline)).await {
        Either::Left((reached, _)) => reached,
        Either::Right(((), _)) => {
            Err(NodeError::NotConnected { reason: took_too_long(node, context) })
        }
    }
}

pub(super) fn took_too_long(node: &Shared, context: &NodeContext) -> Arc<str> {
    if let Some((sentinels, group)) = node.sentinels.as_ref().zip(node.address.group())
        && !sentinels.name_one(context.runtime().now())
    {
        return sentinels.trouble(group);
    }
    // A server without TLS waits for the end of a line, which never comes.
    Arc::from(if node.address.is_encrypted() {
        "no answer within the connect timeout, as of a port without TLS: write redis:// for one"
    } else {
        "no answer within the connect timeout"
    })
}

/// Connects and checks.
async fn connect(
    node: &Shared,
    context: &NodeContext,
    resolver: &Resolver,
    place: Option<&Place>,
    deadline: Timestamp,
) -> Result<Reached, NodeError> {
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
        // The limit of the attempt has the better message.
        .set_connection_timeout(None)
        // The engine has a limit of its own, and a late reply is a sign of life that must be heard.
        .set_response_timeout(None)
        .set_pipeline_buffer_size(liveness::MOST_UNANSWERED)
        .set_dns_resolver(resolver.clone())
        .set_push_sender(move |message: PushInfo| {
            listener.handle(&message);
            Ok::<(), redis::aio::SendError>(())
        });
    let client = node.address.client(place, context, deadline).await?;
    let connection =
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(|error| {
            match resolver.refusal() {
                Some(refusal) => NodeError::Refused(refusal),
                None => errors::of_connect(&error, node.address.database()),
            }
        })?;
    let mut subscriber = connection.clone();
    let link = Link::new(connection, down, context);
    let local = node.address.is_unix() || resolver.is_local();
    let identity = check::check(&link, context, local).await?;
    let line = check::line(&link, &mut subscriber, context).await?;
    Ok(Reached { link, master: None, identity, line, exchanges, tracked })
}
