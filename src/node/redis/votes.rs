//! Runs the commands that vote, restore or release on a session.
//!
//! It decides whether a command may be sent: never under another state of the node than its round knew. Nothing is sent
//! twice here, except the extensions of a message that the server rejected as a whole.

use std::{sync::Arc, time::Duration};

use futures::future::{join, join_all};

use super::{
    codec::{self, Acquired, Wanted},
    session::Session,
    track::track,
};
use crate::{
    node::{NodeCall, NodeError, NodeFuture},
    protocol::{
        ClientId, Command, Completed, Denial, EpochMark, FencingToken, Granted, LineHint, Note,
        Owner, Reply, Resource, Sighting, Stand, Target, Ticket, Timestamp,
    },
};

/// Sends one command and reads the answer.
pub(super) fn execute(session: Arc<Session>, command: Command) -> NodeCall {
    match command {
        Command::Acquire { target, owner, ttl, hint: None, .. } if !target.is_any() => {
            Box::pin(acquire_classic(session, target, owner, ttl))
        }
        Command::Acquire { target, owner, ttl, hint, count, first, mark, note, stand } => {
            let asked = Asked { target, owner, ttl, note };
            Box::pin(acquire(
                session,
                asked,
                (Wanted { hint: hint.unwrap_or_default(), count }, first),
                mark,
                stand,
            ))
        }
        Command::Adopt { target, from, owner, ttl, hint, mark, note } => {
            let asked = Asked { target, owner, ttl, note };
            Box::pin(adopt(session, asked, (from, hint), mark))
        }
        Command::HandBack { target, owner, to } => Box::pin(hand_back(session, target, owner, to)),
        Command::Confirm { target, owner, token, mark } => {
            Box::pin(confirm(session, target, owner, token, mark))
        }
        Command::Restore { target, owner, ttl, until, fenced, note } => {
            let asked = Asked { target, owner, ttl, note };
            Box::pin(restore(session, asked, until, fenced))
        }
        Command::Extend { .. } => {
            let batch = extend(session, vec![command]);
            Box::pin(async move { only(batch.await?) })
        }
        Command::Release { target, owner, keep } => Box::pin(release(session, target, owner, keep)),
        Command::Proclaim { target, owner, note } => {
            Box::pin(proclaim(session, target, owner, note))
        }
        Command::Leave { resource, client, ticket } => {
            Box::pin(leave(session, resource, client, ticket))
        }
    }
}

/// Sends several commands: together if all are extensions, otherwise one by one.
pub(super) fn execute_many(
    session: Arc<Session>,
    commands: Vec<Command>,
) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
    let extension = |command: &Command| matches!(command, Command::Extend { .. });
    if commands.iter().all(extension) {
        return Box::pin(extend_together(session, commands));
    }
    let calls = commands.into_iter().map(|command| execute(Arc::clone(&session), command));
    let calls: Vec<NodeCall> = calls.collect();
    Box::pin(async move { Ok(join_all(calls).await) })
}

async fn acquire_classic(
    session: Arc<Session>,
    target: Target,
    owner: Owner,
    ttl: Duration,
) -> Result<Reply, NodeError> {
    let resource = target.resource();
    let answer = session.send(|to| codec::acquire_classic(resource, owner, ttl, to)).await?;
    if codec::acquired_classic(&answer)? {
        return Ok(Reply::Granted(Granted::DONE));
    }
    // Boxed: it is larger than all the rest, and rare.
    Ok(Reply::Denied(Box::pin(holder(&session, resource)).await))
}

/// Who holds the key of a resource.
pub(super) async fn who_holds(
    session: Arc<Session>,
    resource: Resource,
    fenced: bool,
) -> Result<Sighting, NodeError> {
    let identity = if fenced { Some(session.identity()?) } else { None };
    let script = || codec::ask_holder(identity.as_deref(), &resource);
    codec::told_holder(&session.vote(script, session.now()).await?)
}

/// What is said to be done of a resource, and what is to be kept of that.
pub(super) async fn completed(
    session: Arc<Session>,
    resource: Resource,
    every: Duration,
    done: Option<Completed>,
) -> Result<Option<Completed>, NodeError> {
    let identity = session.identity()?;
    let key = codec::completion_of(&resource, every);
    let script = || codec::ask_completed(&identity, &key, done.as_ref());
    codec::told_completed(&session.vote(script, session.now()).await?)
}

/// The key that is to be set.
struct Asked {
    target: Target,
    owner: Owner,
    ttl: Duration,
    note: Option<Note>,
}

/// Who holds the key, asked only after a denial.
async fn holder(session: &Session, resource: &Resource) -> Denial {
    let holder = session.send(|to| codec::holder(resource, to));
    let remaining = session.send(|to| codec::remaining(resource, to));
    let (holder, remaining) = join(holder, remaining).await;
    codec::denial(holder.ok(), remaining.ok().as_ref())
}

async fn acquire(
    session: Arc<Session>,
    asked: Asked,
    (wanted, first): (Wanted, u8),
    mark: EpochMark,
    stand: Option<Stand>,
) -> Result<Reply, NodeError> {
    let Asked { target, owner, ttl, note } = asked;
    let known = session.ready()?;
    // The node would refuse a round that knew another state of it than the session does: it is not sent.
    let head = known.head_for(mark).ok_or_else(|| known.refusal())?;
    let now = session.now();
    // Zero means no limit: a clock that was never read gives none.
    let latest = session.latest(now).unwrap_or(0);
    let (order, has_line) = ((&target, first), session.lines().are_on());
    let script = || {
        let script = codec::acquire(head, order, owner, ttl, wanted, latest, note.as_ref());
        if has_line { codec::in_line(script, target.lines(), stand) } else { script }
    };
    let answer = session.vote(script, now).await.inspect_err(|error| forbidden(&session, error))?;
    let Acquired { reply, head, others_wait, is_foreign } =
        codec::acquired(answer, order, wanted.hint)
            .map_err(|error| refused_under(&session, mark, error))?;
    if let Some(head) = head {
        session.raise(&head);
    }
    if let Some(others_wait) = others_wait.filter(|_| stand.is_some()) {
        let hint = if others_wait { LineHint::Wanted } else { LineHint::Alone };
        let watcher = session.lines().watcher();
        target.lines().iter().for_each(|resource| watcher.line(resource, hint));
    }
    // Not for slots: another slot may be freed before the one that ends first.
    if is_foreign
        && !target.is_any()
        && let Some(resource) = in_the_way(&target, &reply)
    {
        Box::pin(track(&session, resource)).await;
    }
    Ok(reply)
}

async fn adopt(
    session: Arc<Session>,
    asked: Asked,
    (from, hint): (Owner, u64),
    mark: EpochMark,
) -> Result<Reply, NodeError> {
    let Asked { target, owner, ttl, note } = asked;
    let known = session.ready()?;
    let head = known.head_for(mark).ok_or_else(|| known.refusal())?;
    let now = session.now();
    let latest = session.latest(now).unwrap_or(0);
    let script = || codec::adopt(head, &target, (from, owner), ttl, hint, latest, note.as_ref());
    let answer = session.vote(script, now).await?;
    let Acquired { reply, head, .. } =
        codec::adopted(answer, &target).map_err(|error| refused_under(&session, mark, error))?;
    if let Some(head) = head {
        session.raise(&head);
    }
    Ok(reply)
}

async fn hand_back(
    session: Arc<Session>,
    target: Target,
    owner: Owner,
    to: Owner,
) -> Result<Reply, NodeError> {
    codec::released(&session.run(|| codec::hand_back(&target, owner, to)).await?)
}

/// The resource that a denial is about.
fn in_the_way<'a>(target: &'a Target, reply: &Reply) -> Option<&'a Resource> {
    match reply {
        Reply::Denied(Denial { which: Some(which), .. }) => {
            target.resources().get(usize::from(*which))
        }
        _ => Some(target.resource()),
    }
}

/// Turns lines off: the missing right may be one that they need, revoked since the connection was checked.
fn forbidden(session: &Session, error: &NodeError) {
    if matches!(error, NodeError::Rejected { code, .. } if &**code == "NOPERM") {
        session.lines().turn_off();
    }
}

async fn confirm(
    session: Arc<Session>,
    target: Target,
    owner: Owner,
    token: FencingToken,
    mark: EpochMark,
) -> Result<Reply, NodeError> {
    let known = session.ready()?;
    let head = known.head_for(mark).ok_or_else(|| known.refusal())?;
    let script = || codec::confirm(head, &target, owner, token);
    let answer = session.vote(script, session.now()).await?;
    codec::confirmed(&answer, token).map_err(|error| refused_under(&session, mark, error))
}

/// The marker was read again since the send, and is another one: the round is outdated, and the node is well.
fn refused_under(session: &Session, mark: EpochMark, error: NodeError) -> NodeError {
    match error {
        NodeError::NotAdmitted
            if session.known().is_some_and(|known| known.head_for(mark).is_none()) =>
        {
            NodeError::Outdated
        }
        error => error,
    }
}

async fn restore(
    session: Arc<Session>,
    asked: Asked,
    until: Timestamp,
    fenced: bool,
) -> Result<Reply, NodeError> {
    let Asked { target, owner, ttl, note } = asked;
    let now = session.now();
    // Zero is always past by a node's clock: with a clock that was never read, nothing is restored.
    let latest = session.latest_until(now, until).unwrap_or(0);
    let identity = if fenced { Some(session.identity()?) } else { None };
    let script = || codec::restore(identity.as_deref(), &target, owner, ttl, latest, note.as_ref());
    codec::restored(&session.vote(script, now).await?)
}

/// Extends many keys with one script. If the server rejects it as a whole, as for one key without rights, extends them
/// one by one, so that the others are extended.
async fn extend_together(
    session: Arc<Session>,
    commands: Vec<Command>,
) -> Result<Vec<Result<Reply, NodeError>>, NodeError> {
    let is_read = |command: &Command| command.target().is_some_and(Target::is_shared);
    let is_downgraded = |command: &Command| command.target().is_some_and(Target::is_downgraded);
    let of_both =
        |some: &dyn Fn(&Command) -> bool| commands.iter().any(some) && !commands.iter().all(some);
    if of_both(&is_downgraded) {
        return extend_both(session, commands, is_downgraded).await;
    }
    if of_both(&is_read) {
        return extend_both(session, commands, is_read).await;
    }
    if commands.len() > 1 && commands.iter().all(is_downgraded) {
        return Ok(one_by_one(session, commands).await);
    }
    match extend(Arc::clone(&session), commands.clone()).await {
        // Extensions may be sent again: each sets an expiry, and none makes a key.
        Err(NodeError::Rejected { .. }) if commands.len() > 1 => {}
        answer => return answer,
    }
    Ok(one_by_one(session, commands).await)
}

async fn one_by_one(
    session: Arc<Session>,
    commands: Vec<Command>,
) -> Vec<Result<Reply, NodeError>> {
    let one = |command| {
        let call = extend(Arc::clone(&session), vec![command]);
        async move { only(call.await?) }
    };
    join_all(commands.into_iter().map(one)).await
}

/// Splits a mix: readers' extensions are one script, the others another, and each downgraded writer's one of its own.
async fn extend_both(
    session: Arc<Session>,
    commands: Vec<Command>,
    is_read: impl Fn(&Command) -> bool,
) -> Result<Vec<Result<Reply, NodeError>>, NodeError> {
    let reads: Vec<bool> = commands.iter().map(is_read).collect();
    let of = |wanted: bool| {
        let all = commands.iter().zip(&reads).filter(|(_, reads)| **reads == wanted);
        let of_these = all.map(|(command, _)| command.clone()).collect();
        Box::pin(extend_together(Arc::clone(&session), of_these))
    };
    // A part that fails as a whole leaves the answers of the other part as they are.
    let each = |answers: Result<Vec<_>, NodeError>| {
        let count = reads.len();
        answers.unwrap_or_else(|error| vec![Err(error); count]).into_iter()
    };
    let (others, read) = join(of(false), of(true)).await;
    let (mut others, mut read) = (each(others), each(read));
    let next = |reads: &bool| if *reads { read.next() } else { others.next() };
    let missing = || Err(NodeError::Unexpected { message: Arc::from("too short an answer") });
    Ok(reads.iter().map(next).map(|answer| answer.unwrap_or_else(missing)).collect())
}

fn only(mut replies: Vec<Result<Reply, NodeError>>) -> Result<Reply, NodeError> {
    let missing = || Err(NodeError::Unexpected { message: Arc::from("an empty answer") });
    replies.pop().unwrap_or_else(missing)
}

/// Extends keys with one script: the classic one unless every lease has a token.
async fn extend(
    session: Arc<Session>,
    commands: Vec<Command>,
) -> Result<Vec<Result<Reply, NodeError>>, NodeError> {
    let fenced = |command: &Command| matches!(command, Command::Extend { fenced: true, .. });
    let identity = if commands.iter().all(fenced) { Some(session.identity()?) } else { None };
    let has_line = session.lines().are_on();
    let script = || match (identity.as_deref(), &commands[..]) {
        (Some(identity), [Command::Extend { target, owner, ttl, .. }])
            if target.is_downgraded() =>
        {
            codec::downgrade(identity, target, *owner, *ttl, has_line)
        }
        (identity, _) => codec::extend(identity, &commands),
    };
    let answer = session.vote(script, session.now()).await;
    let answer = answer.inspect_err(|error| forbidden(&session, error))?;
    codec::extended(&answer, commands.iter().map(|command| command.target().map_or(0, Target::len)))
}

async fn release(
    session: Arc<Session>,
    target: Target,
    owner: Owner,
    keep: Option<Duration>,
) -> Result<Reply, NodeError> {
    let has_line = session.lines().are_on();
    let answer = session.run(|| codec::release(&target, owner, keep, has_line)).await;
    codec::released(&answer.inspect_err(|error| forbidden(&session, error))?)
}

async fn proclaim(
    session: Arc<Session>,
    target: Target,
    owner: Owner,
    note: Note,
) -> Result<Reply, NodeError> {
    let identity = session.identity()?;
    let script = || codec::proclaim(&identity, target.resource(), owner, &note);
    codec::proclaimed(&session.vote(script, session.now()).await?)
}

async fn leave(
    session: Arc<Session>,
    resource: Resource,
    client: ClientId,
    ticket: Ticket,
) -> Result<Reply, NodeError> {
    if session.lines().are_on() {
        let answer = session.run(|| codec::leave(&resource, client, ticket)).await;
        return codec::released(&answer.inspect_err(|error| forbidden(&session, error))?);
    }
    Ok(Reply::Granted(Granted::DONE))
}
