//! Commands as bytes, replies as answers.
//!
//! It decides what a reply means. Nothing is sent a second time here, except a script that the server said
//! it does not know.

use std::{sync::Arc, time::Duration};

use futures::future::join;
use redis::{Cmd, Value};

use super::{
    marker::CachedMarker,
    script::{self, OWN, Script, Source},
    session::{Answer, Session},
};
use crate::{
    node::{NodeCall, NodeError, NodeFuture, Refusal},
    protocol::{
        Command, Denial, FencingToken, Floor, Join, Mark, Marker, Owner, Reply, Resource,
        Timestamp, validity,
    },
};

/// Sends one command and reads the answer.
pub(super) fn execute(session: Arc<Session>, command: Command) -> NodeCall {
    match command {
        Command::Acquire { resource, owner, ttl, hint: None, mark: _ } => {
            Box::pin(acquire_classic(session, resource, owner, ttl))
        }
        Command::Acquire { resource, owner, ttl, hint: Some(hint), mark } => {
            Box::pin(acquire(session, resource, owner, ttl, hint, mark))
        }
        Command::Confirm { resource, owner, token, mark } => {
            Box::pin(confirm(session, resource, owner, token, mark))
        }
        Command::Restore { resource, owner, ttl, until, token } => {
            Box::pin(restore(session, resource, owner, ttl, until, token.is_some()))
        }
        Command::Extend { .. } => {
            let batch = extend(session, vec![command]);
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
        return Box::pin(extend_together(session, commands));
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
    // Others may have put a value of any length there.
    get.arg("GETRANGE").arg(resource.as_bytes()).arg(0).arg(63);
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
    mark: Mark,
) -> Result<Reply, NodeError> {
    let known = session.known().ok_or(NodeError::NotAdmitted)?;
    // A round that knew another state of the node than the session does now would be refused.
    let head = known.head_for(mark).ok_or(NodeError::Outdated)?;
    let now = session.now();
    let latest = session.latest(now).unwrap_or(0);
    let args = |command: &mut Cmd| {
        command.arg(head.text()).arg(owner.to_hex().as_slice()).arg(validity::wire_millis(ttl));
        command.arg(&digits(hint)[..]).arg(latest).arg(u8::from(head.allows(hint)));
    };
    let keys = &with_own(resource.as_bytes());
    let script = Script { source: &script::ACQUIRE, keys, args: &args };
    let mut told = match session.vote(script, now).await? {
        // The common case: the counter is the hint.
        Answer::AsAsked => return Ok(Reply::Granted(Some(FencingToken::new(hint)))),
        Answer::Told(told) => told,
    };
    match told.as_mut_slice() {
        [Value::Int(1), _, Value::Int(fence), Value::BulkString(head)] => {
            session.raise(head);
            Ok(Reply::Granted(u64::try_from(*fence).ok().map(FencingToken::new)))
        }
        [Value::Int(0), _, Value::Int(remaining), holder @ ..] => {
            let holder = holder.first_mut().map(std::mem::take);
            Ok(Reply::Denied(denial(holder, *remaining)))
        }
        other => Err(refused_under(&session, mark, other)),
    }
}

/// A node that refused what was asked of it in a state that has been looked at again since is well.
fn refused_under(session: &Session, mark: Mark, answer: &[Value]) -> NodeError {
    match not_a_vote(answer) {
        NodeError::NotAdmitted
            if session.known().is_some_and(|known| known.head_for(mark).is_none()) =>
        {
            NodeError::Outdated
        }
        error => error,
    }
}

/// The node's own keys, before those of the command.
const fn with_own(resource: &[u8]) -> [&[u8]; 4] {
    let [node, counters, older] = OWN;
    [node, counters, older, resource]
}

/// A counter as it is stored: sixteen digits, which is enough for all below 2^53. A hint may be above that, and is cut.
fn digits(counter: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    let mut rest = counter.min(FencingToken::MAX.get());
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    digits
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
    mark: Mark,
) -> Result<Reply, NodeError> {
    let known = session.known().ok_or(NodeError::NotAdmitted)?;
    let head = known.head_for(mark).ok_or(NodeError::Outdated)?;
    let args = |command: &mut Cmd| {
        command.arg(head.etag()).arg(owner.to_hex().as_slice());
        command.arg(&digits(token.get())[..]);
    };
    let keys = &with_own(resource.as_bytes());
    let script = Script { source: &script::CONFIRM, keys, args: &args };
    let answer = session.vote(script, session.now()).await?;
    yes_or_no(answer.told(), Some(token)).map_err(|_| refused_under(&session, mark, answer.told()))
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
    let identity = identity(&session, fenced)?;
    let args = |command: &mut Cmd| {
        command.arg(&*identity).arg(owner.to_hex().as_slice());
        command.arg(validity::wire_millis(ttl)).arg(latest);
    };
    let keys = keys(fenced, std::iter::once(resource.as_bytes()));
    let script = Script { source, keys: &keys, args: &args };
    yes_or_no(session.vote(script, now).await?.told(), None)
}

/// What the node was admitted as, when that was last read; nothing in classic mode.
fn identity(session: &Session, fenced: bool) -> Result<Arc<[u8]>, NodeError> {
    if !fenced {
        return Ok(Arc::default());
    }
    session.known().map(|known| Arc::clone(known.identity())).ok_or(NodeError::NotAdmitted)
}

/// The keys of a script that prolongs. Classic mode touches no other keys than the resources', whatever the user may
/// do, and names the first of them in place of the node's own.
fn keys<'a>(fenced: bool, resources: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<&'a [u8]> {
    let first = resources.clone().next().unwrap_or_default();
    let own = OWN.map(|own| if fenced { own } else { first });
    own.into_iter().chain(resources).collect()
}

/// Extends many keys with one script; where the server rejects it as a whole, as for one key that the user has no
/// right to, one by one, so that the others are extended.
async fn extend_together(
    session: Arc<Session>,
    commands: Vec<Command>,
) -> Result<Vec<Reply>, NodeError> {
    match extend(Arc::clone(&session), commands.clone()).await {
        Err(NodeError::Rejected { .. }) if commands.len() > 1 => {}
        answer => return answer,
    }
    let one = |command| {
        let call = extend(Arc::clone(&session), vec![command]);
        async move {
            match call.await {
                Ok(mut replies) => replies.pop().unwrap_or(Reply::Failed { sent: true }),
                Err(error) => Reply::Failed { sent: error.sent() },
            }
        }
    };
    Ok(futures::future::join_all(commands.into_iter().map(one)).await)
}

/// Extends keys with one script, in classic mode where no lease has a token.
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
    let identity = identity(&session, fenced)?;
    let keys = keys(fenced, extensions().map(|(resource, ..)| resource.as_bytes()));
    let args = |command: &mut Cmd| {
        command.arg(&*identity);
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
pub(super) async fn join_fleet(session: Arc<Session>, join: Join) -> Result<Marker, NodeError> {
    // What is learnt while the look is under way may be newer than what it tells.
    let before = session.known().map(|known| (known.mark(), known.high()));
    let args = |command: &mut Cmd| {
        let process = session.process();
        command.arg(&process.run_id).arg(process.database).arg(&*process.fleet);
        // No era is zero.
        command.arg(validity::wire_millis(join.max_ttl)).arg(join.force.unwrap_or(0));
        let asked = [(join.seal, "s"), (join.lost, "l"), (join.orphaned, "o")];
        let letters = asked.into_iter().filter(|(asked, _)| *asked).map(|(_, letter)| letter);
        command.arg(letters.collect::<String>()).arg(session.nonce());
    };
    let script = Script { source: &script::JOIN, keys: &OWN, args: &args };
    match session.vote(script, session.now()).await?.told() {
        [Value::Int(ready @ (0 | 1)), _, marker @ ..] => {
            let known = CachedMarker::read(*ready == 1, marker)
                .ok_or_else(|| unexpected("a marker of another form"))?;
            // Older data, such as a backup: it must join again. What was seen before stays known, so that this is so
            // until it has.
            if before.is_some_and(|(mark, high)| known.is_older_than(mark, high)) {
                let era = Some(known.mark().era);
                if join.force == era {
                    return Err(NodeError::NotAdmitted);
                }
                let again = join.force(era).lost();
                return Box::pin(join_fleet(session, again)).await;
            }
            let marker = known.marker();
            session.learn(Arc::new(known));
            Ok(marker)
        }
        [Value::Int(-5), _, Value::BulkString(fleet)] => {
            let other = Arc::from(String::from_utf8_lossy(fleet));
            let configured = Arc::clone(&session.process().fleet);
            Err(NodeError::Refused(Refusal::OtherFleet { other, configured }))
        }
        [Value::Int(-6), ..] => {
            // The connection stays when a master becomes a replica. A new one is checked.
            session.link().give_up("it has become a replica");
            Err(NodeError::Refused(Refusal::Replica))
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
    let identity = identity(&session, true)?;
    let args = |command: &mut Cmd| {
        command.arg(&*identity).arg(era).arg(floor.known).arg(floor.wall_us);
    };
    let script = Script { source: &script::ADMIT, keys: &OWN, args: &args };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_written_with_sixteen_digits() {
        assert_eq!(&digits(0), b"0000000000000000");
        assert_eq!(&digits(1_795_170_000_123_456), b"1795170000123456");
        assert_eq!(digits(u64::MAX), digits(FencingToken::MAX.get()));
    }
}
