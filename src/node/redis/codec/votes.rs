//! Votes: confirm, extend, restore and release, as scripts, and what is answered to them; acquires of classic mode.
//!
//! It decides which reply is a grant. It must never take a reply for a grant unless it knows all of its form.

use std::{slice, time::Duration};

use redis::{Cmd, Value};

use super::{
    super::{
        marker::Head,
        script::{self, Arg, List, OWN, Script, Source},
    },
    Answer, kind, refusal, unexpected,
};
use crate::{
    node::NodeError,
    protocol::{
        ClientId, Command, Denial, FencingToken, Granted, Note, Owner, Reply, Resource, Target,
        Ticket, validity,
    },
};

/// > "SET resource_name my_random_value NX PX 30000" (the Redis page)
pub(in crate::node::redis) fn acquire_classic(
    resource: &Resource,
    owner: Owner,
    ttl: Duration,
    command: &mut Cmd,
) {
    command.arg("SET").arg(resource.as_bytes()).arg(owner.to_hex().as_slice());
    command.arg("NX").arg("PX").arg(validity::wire_millis(ttl));
}

/// Whether it was granted. A denial says nothing of the holder.
pub(in crate::node::redis) fn acquired_classic(reply: &Value) -> Result<bool, NodeError> {
    match reply {
        Value::Okay => Ok(true),
        Value::Nil => Ok(false),
        other => Err(unexpected(kind(other))),
    }
}

/// Asks who holds a key.
pub(in crate::node::redis) fn holder(resource: &Resource, command: &mut Cmd) {
    // Another program may have put a value of any length there.
    command.arg("GETRANGE").arg(resource.as_bytes()).arg(0).arg(63);
}

/// Asks for the remaining life of a key of any type: -2 means that there is none.
pub(in crate::node::redis) fn remaining(resource: &Resource, command: &mut Cmd) {
    command.arg("PTTL").arg(resource.as_bytes());
}

/// Makes the server track what the next command reads.
pub(in crate::node::redis) fn track_next(command: &mut Cmd) {
    command.arg("CLIENT").arg("CACHING").arg("YES");
}

/// Reads one byte of a key, which fails unless it is a string.
pub(in crate::node::redis) fn first_byte(resource: &Resource, command: &mut Cmd) {
    command.arg("GETRANGE").arg(resource.as_bytes()).arg(0).arg(0);
}

/// A denial from the value of a key and its remaining life, as far as told. The key may be gone by then, and may be of
/// any type.
pub(in crate::node::redis) fn denial(
    holder: Option<Value>,
    remaining_ms: Option<&Value>,
) -> Denial {
    let (holder, label) = match holder {
        Some(Value::BulkString(bytes)) => (Some(bytes.into_boxed_slice()), None),
        // With the holder's note; a note of another owner is not told.
        Some(Value::Array(told)) => match <[Value; 2]>::try_from(told) {
            Ok([Value::BulkString(bytes), Value::BulkString(note)]) => {
                (Some(bytes.into_boxed_slice()), super::holder::label(&note))
            }
            _ => (None, None),
        },
        _ => (None, None),
    };
    // A key without an end, or none at all, has a negative number left.
    let remaining = match remaining_ms {
        Some(Value::Int(ms)) => u64::try_from(*ms).ok().map(Duration::from_millis),
        _ => None,
    };
    Denial::new(holder, remaining).labelled(label)
}

pub(in crate::node::redis) fn confirm<'a>(
    head: &'a Head,
    target: &'a Target,
    owner: Owner,
    token: FencingToken,
) -> Script<'a> {
    let token = Arg::Counter(digits(token.get()));
    let args = List::Three([Arg::Bytes(head.etag()), Arg::Owner(owner), token]);
    let source: &Source = if target.is_shared() { &script::CONFIRM_READ } else { &script::CONFIRM };
    Script { source, keys: with_own(target.resources()), lines: &[], args }
}

pub(in crate::node::redis) fn confirmed(
    answer: &Answer,
    token: FencingToken,
) -> Result<Reply, NodeError> {
    yes_or_no(answer, Some(token))
}

/// A restore under the identity that the node was admitted as; without one in classic mode, which reads no clock
/// either.
pub(in crate::node::redis) fn restore<'a>(
    identity: Option<&'a [u8]>,
    target: &'a Target,
    owner: Owner,
    ttl: Duration,
    latest: u64,
    note: Option<&Note>,
) -> Script<'a> {
    let source: &Source = match (identity, target) {
        (Some(_), Target::Shared(_) | Target::Downgraded(_)) => &script::RESTORE_READ,
        (Some(_), _) => &script::RESTORE,
        (None, _) => &script::RESTORE_CLASSIC,
    };
    let args = [
        Arg::Bytes(identity.unwrap_or_default()),
        Arg::Owner(owner),
        Arg::Number(validity::wire_millis(ttl)),
        Arg::Number(if identity.is_some() { latest } else { 0 }),
    ];
    let keys = keys_of_leases(identity.is_some(), target.resources().iter());
    // Nodes keep no notes in classic mode.
    let note = note.filter(|_| identity.is_some());
    Script { source, keys, lines: &[], args: noted(args, note, List::Four) }
}

pub(in crate::node::redis) fn restored(answer: &Answer) -> Result<Reply, NodeError> {
    yes_or_no(answer, None)
}

/// Several extensions, under the identity that the node was admitted as; without one in classic mode. Other commands
/// are left out. Either all are of readers, or none is.
pub(in crate::node::redis) fn extend<'a>(
    identity: Option<&'a [u8]>,
    commands: &'a [Command],
) -> Script<'a> {
    let is_read = |command: &Command| command.target().is_some_and(Target::is_shared);
    let source: &Source = match identity {
        Some(_) if commands.iter().all(is_read) => &script::EXTEND_READ,
        Some(_) => &script::EXTEND,
        None => &script::EXTEND_CLASSIC,
    };
    // The script reads owner and ttl by the place of the key, so keys and arguments are made of one list.
    let extensions = commands.iter().filter_map(|command| match command {
        Command::Extend { target, owner, ttl, .. } => Some((target.resources(), *owner, *ttl)),
        _ => None,
    });
    let extensions = extensions.flat_map(|(resources, owner, ttl)| {
        resources.iter().map(move |resource| (resource, owner, ttl))
    });
    let mut args = Vec::with_capacity(2 * commands.len() + 1);
    args.push(Arg::Bytes(identity.unwrap_or_default()));
    for (_, owner, ttl) in extensions.clone() {
        args.extend([Arg::Owner(owner), Arg::Number(validity::wire_millis(ttl))]);
    }
    let keys = keys_of_leases(identity.is_some(), extensions.map(|(resource, ..)| resource));
    Script { source, keys, lines: &[], args: List::Many(args) }
}

/// An extension of a reader that was a writer.
pub(in crate::node::redis) fn downgrade<'a>(
    identity: &'a [u8],
    target: &'a Target,
    owner: Owner,
    ttl: Duration,
    has_line: bool,
) -> Script<'a> {
    let ttl = Arg::Number(validity::wire_millis(ttl));
    let args = List::Three([Arg::Bytes(identity), Arg::Owner(owner), ttl]);
    let lines = if has_line { target.lines() } else { &[] };
    Script { source: &script::EXTEND_DOWNGRADED, keys: with_own(target.resources()), lines, args }
}

/// One answer for each extension; `keys` counts the keys of each.
pub(in crate::node::redis) fn extended(
    answer: &Answer,
    keys: impl Iterator<Item = usize> + Clone,
) -> Result<Vec<Result<Reply, NodeError>>, NodeError> {
    match answer.told() {
        [Value::Int(1), _, answers @ ..] if answers.len() == keys.clone().sum::<usize>() => {
            let mut rest = answers;
            let of_one = |keys| {
                let (own, others) = rest.split_at_checked(keys)?;
                rest = others;
                Some(all_extended(own))
            };
            Ok(keys.map_while(of_one).collect())
        }
        _ => Err(refusal(answer)),
    }
}

/// A lease of several keys is extended only if all of them are. A key of another owner counts for more than one that is
/// gone, which may be set again.
fn all_extended(answers: &[Value]) -> Result<Reply, NodeError> {
    let mut all = Reply::Granted(Granted::DONE);
    for answer in answers {
        match (one_extended(answer)?, &all) {
            (Reply::Granted(_), _) => {}
            (Reply::Denied(denial), Reply::Denied(before)) if denial.gone || !before.gone => {}
            (denied, _) => all = denied,
        }
    }
    Ok(all)
}

fn one_extended(answer: &Value) -> Result<Reply, NodeError> {
    match answer {
        Value::Int(1) => Ok(Reply::Granted(Granted::DONE)),
        Value::Int(0) => Ok(Reply::Denied(Denial::gone())),
        Value::Int(2) => Ok(Reply::Denied(Denial::default())),
        other => Err(unexpected(kind(other))),
    }
}

pub(in crate::node::redis) fn release(
    target: &Target,
    owner: Owner,
    keep: Option<Duration>,
    has_line: bool,
) -> Script<'_> {
    let resources = target.resources();
    let lines = if has_line { target.lines() } else { &[] };
    let keep = keep.map(|keep| Arg::Number(validity::wire_millis(keep)));
    if let [resource] = resources {
        let keys = List::One([resource.as_bytes()]);
        let args = match keep {
            None => List::One([Arg::Owner(owner)]),
            Some(keep) => List::Two([Arg::Owner(owner), keep]),
        };
        let source: &Source = match target {
            Target::Downgraded(_) | Target::Shared(_) => &script::RELEASE_READ,
            _ => &script::RELEASE,
        };
        return Script { source, keys, lines, args };
    }
    let keys = List::Many(resources.iter().map(Resource::as_bytes).collect());
    let args = [Arg::Owner(owner), Arg::Number(resources.len() as u64)];
    let args = List::Many(args.into_iter().chain(keep).collect());
    Script { source: &script::RELEASE_SET, keys, lines, args }
}

/// The answer is that of a release.
pub(in crate::node::redis) fn hand_back(target: &Target, owner: Owner, to: Owner) -> Script<'_> {
    let keys = with_own(target.resources());
    let args = List::Two([Arg::Owner(owner), Arg::Owner(to)]);
    Script { source: &script::HAND_BACK, keys, lines: &[], args }
}

/// The answer is that of a release which has done what it was asked.
pub(in crate::node::redis) fn leave(
    resource: &Resource,
    client: ClientId,
    ticket: Ticket,
) -> Script<'_> {
    let keys = List::One([resource.as_bytes()]);
    let args = List::Two([Arg::Client(client), Arg::Number(ticket.get())]);
    Script { source: &script::LEAVE, keys, lines: slice::from_ref(resource), args }
}

/// A release tells no clock: that a key is gone is true whatever becomes of the node.
pub(in crate::node::redis) fn released(reply: &Value) -> Result<Reply, NodeError> {
    match reply {
        Value::Int(1) => Ok(Reply::Granted(Granted::DONE)),
        Value::Int(0) => Ok(Reply::Denied(Denial::gone())),
        Value::Int(2) => Ok(Reply::Denied(Denial::default())),
        other => Err(unexpected(kind(other))),
    }
}

/// Arguments with the note behind them, if there is one. Without it they need no memory of their own.
pub(super) fn noted<'a, const N: usize>(
    args: [Arg<'a>; N],
    note: Option<&Note>,
    list: impl FnOnce([Arg<'a>; N]) -> List<Arg<'a>>,
) -> List<Arg<'a>> {
    match note {
        None => list(args),
        Some(note) => List::Many(args.into_iter().chain([Arg::Owned(note.to_bytes())]).collect()),
    }
}

pub(super) fn yes_or_no(answer: &Answer, token: Option<FencingToken>) -> Result<Reply, NodeError> {
    match answer.told() {
        [Value::Int(1), _] => Ok(Reply::Granted(token.into())),
        [Value::Int(0), _] => Ok(Reply::Denied(Denial::default())),
        _ => Err(refusal(answer)),
    }
}

/// The node's own keys, before those of the command.
pub(super) fn with_own(resources: &[Resource]) -> List<&[u8]> {
    let [node, counters, older] = OWN;
    match resources {
        [resource] => List::Four([node, counters, older, resource.as_bytes()]),
        _ => List::Many(OWN.into_iter().chain(resources.iter().map(Resource::as_bytes)).collect()),
    }
}

/// The keys of a script that extends or restores. Classic mode touches only the resources' keys, whatever the user may
/// do, and names the first of them in place of the node's own.
pub(super) fn keys_of_leases<'a>(
    fenced: bool,
    resources: impl Iterator<Item = &'a Resource> + Clone,
) -> List<&'a [u8]> {
    let resources = resources.map(Resource::as_bytes);
    let first = resources.clone().next().unwrap_or_default();
    let own = OWN.map(|own| if fenced { own } else { first });
    List::Many(own.into_iter().chain(resources).collect())
}

/// A counter as stored: sixteen digits, enough for all below 2^53. A hint may be above that, and is cut.
pub(super) fn digits(counter: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    let mut rest = counter.min(FencingToken::MAX.get());
    // By hand, into an array: an acquire allocates nothing for its hint.
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    digits
}

#[cfg(test)]
#[path = "votes_test.rs"]
mod tests;
