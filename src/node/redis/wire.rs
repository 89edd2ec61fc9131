//! Commands as bytes, replies as answers.
//!
//! It decides what a reply means. Nothing is sent a second time here, except a script that the server said
//! it does not know.

use std::{sync::Arc, time::Duration};

use futures::future::join;
use redis::{Cmd, Value};

use super::{
    marker::Known,
    script::{self, Script, Source, fence_key},
    session::{Answer, Session},
};
use crate::{
    node::{NodeCall, NodeError, NodeFuture},
    protocol::{
        Command, Denial, FencingToken, Floor, Marker, Owner, Reply, Resource, Timestamp, validity,
    },
};

/// Sends one command and reads the answer.
pub(super) fn execute(session: Arc<Session>, command: Command) -> NodeCall {
    match command {
        Command::Acquire { resource, owner, ttl, hint: None } => {
            Box::pin(acquire_classic(session, resource, owner, ttl))
        }
        Command::Acquire { resource, owner, ttl, hint: Some(hint) } => {
            Box::pin(acquire(session, resource, owner, ttl, hint))
        }
        Command::Confirm { resource, owner, token } => {
            Box::pin(confirm(session, resource, owner, token))
        }
        Command::Restore { resource, owner, ttl, until, token } => {
            Box::pin(restore(session, resource, owner, ttl, until, token.is_some()))
        }
        Command::Extend { .. } => {
            let batch = execute_many(session, vec![command]);
            Box::pin(async move { batch.await?.pop().ok_or_else(|| unexpected("an empty answer")) })
        }
        Command::Release { resource, owner } => Box::pin(release(session, resource, owner)),
    }
}

/// Sends several commands: extensions as one script, whatever else one by one.
pub(super) fn execute_many(
    session: Arc<Session>,
    commands: Vec<Command>,
) -> NodeFuture<Vec<Reply>> {
    let extension = |command: &Command| matches!(command, Command::Extend { .. });
    if commands.iter().all(extension) {
        return Box::pin(extend(session, commands));
    }
    let calls = commands.into_iter().map(|command| execute(Arc::clone(&session), command));
    Box::pin(futures::future::try_join_all(calls.collect::<Vec<_>>()))
}

/// > "SET resource_name my_random_value NX PX 30000" (the Redis page)
async fn acquire_classic(
    session: Arc<Session>,
    resource: Resource,
    owner: Owner,
    ttl: Duration,
) -> Result<Reply, NodeError> {
    let mut command = Cmd::with_capacity(6, resource.as_bytes().len() + 96);
    command.arg("SET").arg(resource.as_bytes()).arg(owner.to_hex().as_slice());
    command.arg("NX").arg("PX").arg(validity::wire_millis(ttl));
    match session.send(command).await? {
        Value::Okay => Ok(Reply::Granted(None)),
        Value::Nil => Ok(Reply::Denied(holder(&session, &resource).await)),
        other => Err(unexpected(kind(&other))),
    }
}

/// Who holds the key, asked only after a denial. It may be gone by then, and it may be of any type.
async fn holder(session: &Session, resource: &Resource) -> Denial {
    let (mut get, mut pttl) = (Cmd::new(), Cmd::new());
    get.arg("GET").arg(resource.as_bytes());
    pttl.arg("PTTL").arg(resource.as_bytes());
    match join(session.send(get), session.send(pttl)).await {
        (value, Ok(Value::Int(remaining))) => denial(value.ok(), remaining),
        (value, _) => denial(value.ok(), -1),
    }
}

async fn acquire(
    session: Arc<Session>,
    resource: Resource,
    owner: Owner,
    ttl: Duration,
    hint: u64,
) -> Result<Reply, NodeError> {
    let fence = fence_key(&resource);
    let now = session.now();
    let latest = session.latest(now).unwrap_or(0);
    let era = session.era_for(ttl, hint, latest);
    let args = |command: &mut Cmd| {
        command.arg(era.as_deref().unwrap_or_default()).arg(owner.to_hex().as_slice());
        command.arg(validity::wire_millis(ttl)).arg(hint).arg(latest).arg(session.run_id());
    };
    let keys = &[script::MARKER, resource.as_bytes(), &fence];
    let script = Script { source: &script::ACQUIRE, keys, args: &args };
    let mut told = match session.vote(script, now).await? {
        // The common case: the counter is the hint.
        Answer::AsAsked => return Ok(Reply::Granted(Some(FencingToken::new(hint)))),
        Answer::Told(told) => told,
    };
    match told.as_mut_slice() {
        [Value::Int(1), _, Value::Int(fence), marker @ ..] => {
            if let known @ Some(_) = Known::read(marker) {
                session.learn(known);
            }
            Ok(Reply::Granted(u64::try_from(*fence).ok().map(FencingToken::new)))
        }
        [Value::Int(0), _, Value::Int(remaining), holder @ ..] => {
            let holder = holder.first_mut().map(std::mem::take);
            Ok(Reply::Denied(denial(holder, *remaining)))
        }
        other => Err(not_a_vote(other)),
    }
}

fn denial(holder: Option<Value>, remaining_ms: i64) -> Denial {
    let holder = match holder {
        Some(Value::BulkString(bytes)) => Some(bytes.into_boxed_slice()),
        _ => None,
    };
    Denial::new(holder, u64::try_from(remaining_ms).ok().map(Duration::from_millis))
}

async fn confirm(
    session: Arc<Session>,
    resource: Resource,
    owner: Owner,
    token: FencingToken,
) -> Result<Reply, NodeError> {
    let fence = fence_key(&resource);
    let args = |command: &mut Cmd| {
        command.arg(session.run_id()).arg(owner.to_hex().as_slice()).arg(token.get());
    };
    let keys = &[script::MARKER, resource.as_bytes(), &fence];
    let script = Script { source: &script::CONFIRM, keys, args: &args };
    yes_or_no(session.vote(script, session.now()).await?.told(), Some(token))
}

async fn restore(
    session: Arc<Session>,
    resource: Resource,
    owner: Owner,
    ttl: Duration,
    until: Timestamp,
    fenced: bool,
) -> Result<Reply, NodeError> {
    let source: &Source = if fenced { &script::RESTORE } else { &script::RESTORE_CLASSIC };
    let now = session.now();
    // Zero is always past by a node's clock, and never in classic mode, which does not read it.
    let latest = session.latest_until(now, until).filter(|_| fenced).unwrap_or(0);
    let args = |command: &mut Cmd| {
        command.arg(session.run_id()).arg(owner.to_hex().as_slice());
        command.arg(validity::wire_millis(ttl)).arg(latest);
    };
    // Classic mode touches no other key than the resource's, whatever the user may do.
    let name = resource.as_bytes();
    let keys = [if fenced { script::MARKER } else { name }, name];
    let script = Script { source, keys: &keys, args: &args };
    yes_or_no(session.vote(script, now).await?.told(), None)
}

/// Extends many keys with one script, in classic mode where no lease has a token.
async fn extend(session: Arc<Session>, commands: Vec<Command>) -> Result<Vec<Reply>, NodeError> {
    let fenced = |command: &Command| matches!(command, Command::Extend { token: Some(_), .. });
    let fenced = commands.iter().all(fenced);
    let source: &Source = if fenced { &script::EXTEND } else { &script::EXTEND_CLASSIC };
    let extensions = || {
        commands.iter().filter_map(|command| match command {
            Command::Extend { resource, owner, ttl, .. } => Some((resource, *owner, *ttl)),
            _ => None,
        })
    };
    // Classic mode touches no other keys than the resources'.
    let first = extensions().next().map_or(script::MARKER, |(resource, ..)| resource.as_bytes());
    let keys: Vec<&[u8]> = std::iter::once(if fenced { script::MARKER } else { first })
        .chain(extensions().map(|(resource, ..)| resource.as_bytes()))
        .collect();
    let args = |command: &mut Cmd| {
        command.arg(session.run_id());
        for (_, owner, ttl) in extensions() {
            command.arg(owner.to_hex().as_slice()).arg(validity::wire_millis(ttl));
        }
    };
    let script = Script { source, keys: &keys, args: &args };
    match session.vote(script, session.now()).await?.told() {
        [Value::Int(1), _, answers @ ..] if answers.len() == commands.len() => {
            answers.iter().map(extended).collect()
        }
        other => Err(not_a_vote(other)),
    }
}

fn extended(answer: &Value) -> Result<Reply, NodeError> {
    match answer {
        Value::Int(1) => Ok(Reply::Granted(None)),
        Value::Int(0) => Ok(Reply::Denied(Denial::gone())),
        Value::Int(2) => Ok(Reply::Denied(Denial::default())),
        other => Err(unexpected(kind(other))),
    }
}

async fn release(
    session: Arc<Session>,
    resource: Resource,
    owner: Owner,
) -> Result<Reply, NodeError> {
    let args = |command: &mut Cmd| {
        command.arg(owner.to_hex().as_slice());
    };
    let keys = &[resource.as_bytes()];
    match session.run(&Script { source: &script::RELEASE, keys, args: &args }).await? {
        Value::Int(1) => Ok(Reply::Granted(None)),
        Value::Int(0) => Ok(Reply::Denied(Denial::default())),
        other => Err(unexpected(kind(&other))),
    }
}

/// Reads the marker, and marks a node that was not admitted.
pub(super) async fn join_fleet(
    session: Arc<Session>,
    max_ttl: Duration,
    force: Option<u64>,
) -> Result<Marker, NodeError> {
    let args = |command: &mut Cmd| {
        // No era is zero.
        command.arg(session.run_id()).arg(validity::wire_millis(max_ttl)).arg(force.unwrap_or(0));
    };
    let script = Script { source: &script::JOIN, keys: &[script::MARKER], args: &args };
    match session.vote(script, session.now()).await?.told() {
        [Value::Int(ready), _, marker @ ..] => {
            let (ready, known) = (*ready == 1, Known::read(marker));
            let marker = known.as_ref().and_then(|known| known.marker(ready));
            session.learn(known.filter(|_| ready));
            marker.ok_or_else(|| unexpected("a marker of another form"))
        }
        other => Err(not_a_vote(other)),
    }
}

/// Lets a joining node vote.
pub(super) async fn admit(
    session: Arc<Session>,
    era: u64,
    floor: Floor,
) -> Result<bool, NodeError> {
    let args = |command: &mut Cmd| {
        command.arg(session.run_id()).arg(era).arg(floor.known).arg(floor.wall_us);
    };
    let script = Script { source: &script::ADMIT, keys: &[script::MARKER], args: &args };
    match session.vote(script, session.now()).await?.told() {
        [Value::Int(answer), ..] => Ok(*answer == 1),
        other => Err(not_a_vote(other)),
    }
}

fn yes_or_no(answer: &[Value], token: Option<FencingToken>) -> Result<Reply, NodeError> {
    match answer {
        [Value::Int(1), ..] => Ok(Reply::Granted(token)),
        [Value::Int(0), ..] => Ok(Reply::Denied(Denial::default())),
        other => Err(not_a_vote(other)),
    }
}

/// What a script says instead of voting.
fn not_a_vote(answer: &[Value]) -> NodeError {
    match answer {
        [Value::Int(-1), ..] => NodeError::NotAdmitted,
        [Value::Int(-2), ..] => NodeError::TtlTooLong,
        [Value::Int(-3), ..] => NodeError::ArrivedLate,
        [Value::Int(-4), ..] => NodeError::CounterExhausted,
        _ => unexpected("an array of another form"),
    }
}

fn unexpected(kind: &'static str) -> NodeError {
    NodeError::Unexpected { message: Arc::from(kind) }
}

/// A reply may be long, and may hold what is none of a log's business.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Int(_) => "an integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => "a string",
        Value::Okay => "OK",
        Value::Array(_) => "an array",
        _ => "another type",
    }
}
