//! Asks a server what it is, on a connection of its own, whether or not it may vote.
//!
//! It asks nothing that changes the server, touches nobody's key, and judges nothing. Where the server can be asked
//! (Redis 7), it asks for its ACL rules before a command that they may forbid, so that the log of denials stays as it
//! is.

use std::{sync::Arc, time::Duration};

use futures::future::{Either, select};
use redis::{AsyncConnectionConfig, Cmd, Value, from_redis_value};

use super::{
    Shared, check, connecting, errors, facts,
    link::Link,
    liveness::{Down, Room},
    resolve::Resolver,
    script::THROWAWAY,
    sentinels::Master,
};
use crate::{
    node::{ClockSample, NodeContext, NodeError, Refusal, ServerFacts},
    protocol::Timestamp,
    runtime::Runtime as _,
};

/// The pause between two samples of the clock, within bounds on their number.
const PAUSE: Duration = Duration::from_millis(100);
const LEAST_LOOKS: u32 = 8;
const MOST_LOOKS: u32 = 600;

/// Whether this user may ask for settings and for the time. Redis 6 cannot say, and a renamed command is an error.
const MAY_ASK: &str = "
local function may(...)
  if not redis.acl_check_cmd then
    return 1
  end
  local known, allowed = pcall(redis.acl_check_cmd, ...)
  return known and allowed and 1 or 0
end
return {may('config', 'get', 'save'), may('time'), may('client', 'list')}
";

/// All that the server reports, with samples of its clock for the time `over`.
pub(super) async fn examine(
    node: Arc<Shared>,
    context: NodeContext,
    over: Duration,
) -> Result<ServerFacts, NodeError> {
    let (link, local) = connect(&node, &context).await?;
    let asking = Asking { link: &link, context: &context };
    let mut facts = ServerFacts {
        database: node.address.database(),
        encrypted: node.address.is_encrypted(),
        local,
        ..ServerFacts::default()
    };
    asking.identity(&mut facts).await?;
    asking.rights(&mut facts).await?;
    let (settings, time, clients) = asking.may_ask().await?;
    if settings {
        asking.settings(&mut facts).await?;
    }
    if clients {
        asking.clients(&mut facts).await?;
    }
    asking.keys(&mut facts).await?;
    asking.clock(&mut facts, over, time).await;
    Ok(facts)
}

/// A connection beside the session's. Nothing watches for its end.
async fn connect(node: &Shared, context: &NodeContext) -> Result<(Link, bool), NodeError> {
    let resolver = Resolver::default();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_dns_resolver(resolver.clone());
    let deadline = context.runtime().now().saturating_add(context.connect_timeout());
    let attempt = async {
        let master = match &node.sentinels {
            Some(sentinels) => Some(sentinels.master(context.runtime()).await),
            None => None,
        };
        let place = master.as_ref().map(Master::place);
        let client = node.address.client(place, context, deadline).await?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        connection.map_err(|error| match resolver.refusal() {
            Some(refusal) => NodeError::Refused(refusal),
            None => errors::of_connect(&error, node.address.database()),
        })
    };
    let limit = context.runtime().sleep_until(deadline);
    match select(std::pin::pin!(attempt), limit).await {
        Either::Left((connection, _)) => {
            let link = Link::new(connection?, Arc::new(Down::default()), context);
            Ok((link, node.address.is_unix() || resolver.is_local()))
        }
        Either::Right(_) => {
            let reason = connecting::took_too_long(node, context);
            Err(NodeError::NotConnected { reason })
        }
    }
}

struct Asking<'a> {
    link: &'a Link,
    context: &'a NodeContext,
}

impl Asking<'_> {
    async fn identity(&self, facts: &mut ServerFacts) -> Result<(), NodeError> {
        match self.limited(check::info(self.link)).await {
            Ok(info) => facts::add_info(facts, &info),
            Err(error) => missing(facts, error)?,
        }
        Ok(())
    }

    async fn rights(&self, facts: &mut ServerFacts) -> Result<(), NodeError> {
        let context = self.context;
        let ask = self.ask(|command| check::rights(context, command)).await;
        match ask.map_err(|error| errors::of_check("eval", error)) {
            Ok(commands) => {
                let commands: Vec<String> = from_redis_value(commands).unwrap_or_default();
                facts.missing_rights.extend(commands.into_iter().map(Arc::from));
            }
            Err(error) => missing(facts, error)?,
        }
        if !context.classic() {
            let tracking = self.limited(check::hear_of_exchanges(self.link)).await;
            tracking.or_else(|error| missing(facts, error))?;
        }
        Ok(())
    }

    /// Whether settings may be asked for, the time, and the connected clients.
    async fn may_ask(&self) -> Result<(bool, bool, bool), NodeError> {
        let ask = |command: &mut Cmd| {
            command.arg("EVAL").arg(MAY_ASK).arg(0);
        };
        let answer = known(self.ask(ask).await)?;
        let may = answer.and_then(|may| from_redis_value(may).ok());
        let (settings, time, clients) = may.unwrap_or((0, 0, 0));
        Ok((settings == 1, time == 1, clients == 1))
    }

    /// The clients of this crate, but this one.
    async fn clients(&self, facts: &mut ServerFacts) -> Result<(), NodeError> {
        let ask = |command: &mut Cmd| {
            command.arg("CLIENT").arg("LIST");
        };
        let own = self.context.client().to_string();
        // A long list may take too long.
        let list = match self.ask(ask).await {
            Err(NodeError::TimedOut) => None,
            list => known(list)?.and_then(|list| from_redis_value(list).ok()),
        };
        facts.clients = list.map(|list: String| facts::clients(&list, &own));
        Ok(())
    }

    /// What cannot be asked stays unknown.
    async fn settings(&self, facts: &mut ServerFacts) -> Result<(), NodeError> {
        for (name, to) in [("appendfsync", &mut facts.append_fsync), ("save", &mut facts.save)] {
            let ask = |command: &mut Cmd| {
                command.arg("CONFIG").arg("GET").arg(name);
            };
            *to = known(self.ask(ask).await)?.as_ref().and_then(facts::setting);
        }
        Ok(())
    }

    /// The throwaway key and the marker, if the server has them.
    async fn keys(&self, facts: &mut ServerFacts) -> Result<(), NodeError> {
        if self.context.classic() {
            return Ok(());
        }
        let ask = |command: &mut Cmd| {
            command.arg("PTTL").arg(THROWAWAY);
        };
        let left = known(self.ask(ask).await)?;
        // -2 is no key.
        facts.throwaway = left.map(|left| left != Value::Int(-2));
        let ask = |command: &mut Cmd| {
            command.arg("HMGET").arg("quorlock:node").arg(&facts::MARKER);
        };
        facts.marker = known(self.ask(ask).await)?.as_ref().and_then(facts::marker);
        Ok(())
    }

    /// Samples the clock until the time is over, or only round trips where the user may not ask for the time. It counts
    /// unanswered samples, and stops when the connection fails.
    async fn clock(&self, facts: &mut ServerFacts, over: Duration, mut tells: bool) {
        let runtime = self.context.runtime();
        let pause = PAUSE.min(over / LEAST_LOOKS).max(over / MOST_LOOKS);
        let (begun, end) = (runtime.steady(), runtime.now().saturating_add(over));
        let mut late = Duration::ZERO;
        loop {
            let (sent, wall_us) = (runtime.steady(), runtime.wall_us());
            let ask = |command: &mut Cmd| {
                if tells {
                    command.arg("TIME");
                } else {
                    // Every user that locks may do this, and it touches no key.
                    command.arg("EVAL").arg("return 1").arg(0);
                }
            };
            match self.ask(ask).await {
                Ok(answer) => {
                    let arrived = runtime.steady();
                    let since = |at: Timestamp| at.saturating_since(begun);
                    let node_us = if tells { facts::time(&answer) } else { None };
                    let sample = ClockSample::new(since(sent), since(arrived), wall_us, node_us);
                    facts.samples.push(sample.woken_late(late));
                }
                Err(NodeError::Rejected { .. }) if tells => {
                    tells = false;
                    continue;
                }
                Err(NodeError::TimedOut) => facts.unanswered = facts.unanswered.saturating_add(1),
                Err(error) => {
                    facts.lost = Some(Arc::from(error.to_string()));
                    return;
                }
            }
            let now = runtime.now();
            if now >= end {
                return;
            }
            let until = now.saturating_add(pause).min(end);
            runtime.sleep_until(until).await;
            late = runtime.now().saturating_since(until);
        }
    }

    async fn ask(&self, write: impl FnMut(&mut Cmd)) -> Result<Value, NodeError> {
        self.limited(self.link.send(Room::Others, write)).await
    }

    /// Waits for the connect timeout, not the node timeout: a slow node is to be measured.
    async fn limited<T>(
        &self,
        answer: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        let runtime = self.context.runtime();
        let limit = runtime.now().saturating_add(self.context.connect_timeout());
        match select(std::pin::pin!(answer), runtime.sleep_until(limit)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), answer)) => {
                // If this process was woken late, a reply may have come long ago and be unread: it waits that long once
                // more.
                let now = runtime.now();
                let late = now.saturating_since(limit);
                match select(answer, runtime.sleep_until(now.saturating_add(late))).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(_) => Err(NodeError::TimedOut),
                }
            }
        }
    }
}

/// Records a missing right as a fact, and passes on an error that ends the examination.
fn missing(facts: &mut ServerFacts, error: NodeError) -> Result<(), NodeError> {
    match error {
        NodeError::Refused(Refusal::MissingRight { command, .. }) => {
            facts.missing_rights.push(command);
            Ok(())
        }
        // What cannot be asked is unknown; the node's refusal tells of a command that is missing altogether.
        NodeError::Refused(Refusal::MissingCommand { .. }) | NodeError::Rejected { .. } => Ok(()),
        error => Err(error),
    }
}

/// An answer, or `None` where the server rejects the command.
fn known(answer: Result<Value, NodeError>) -> Result<Option<Value>, NodeError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(NodeError::Rejected { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
