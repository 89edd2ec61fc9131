//! Votes: acquire, confirm, extend, restore and release, as scripts, and what is answered to them.
//!
//! It decides which reply is a grant. It must never take one for a grant whose form it does not know in full.

use std::{mem, slice, time::Duration};

use redis::{Cmd, Value};

use super::{
    super::{
        marker::Head,
        script::{self, Arg, List, OWN, Script, Source},
    },
    Answer, count, kind, refusal, unexpected,
};
use crate::{
    node::NodeError,
    protocol::{
        ClientId, Command, Denial, FencingToken, Granted, Note, Owner, Reply, Resource, Stand,
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
    // Others may have put a value of any length there.
    command.arg("GETRANGE").arg(resource.as_bytes()).arg(0).arg(63);
}

/// Asks for how long a key lives still.
pub(in crate::node::redis) fn remaining(resource: &Resource, command: &mut Cmd) {
    command.arg("PTTL").arg(resource.as_bytes());
}

/// Has the server track what the next command reads.
pub(in crate::node::redis) fn track_next(command: &mut Cmd) {
    command.arg("CLIENT").arg("CACHING").arg("YES");
}

/// Reads next to nothing of a key.
pub(in crate::node::redis) fn first_byte(resource: &Resource, command: &mut Cmd) {
    command.arg("GETRANGE").arg(resource.as_bytes()).arg(0).arg(0);
}

/// A denial from the value of a key and what it has left, as far as they were told. It may be gone by then, and it may
/// be of any type.
pub(in crate::node::redis) fn denial(
    holder: Option<Value>,
    remaining_ms: Option<&Value>,
) -> Denial {
    let holder = match holder {
        Some(Value::BulkString(bytes)) => Some(bytes.into_boxed_slice()),
        _ => None,
    };
    // A key without an end, or none at all, has a negative number left.
    let remaining = match remaining_ms {
        Some(Value::Int(ms)) => u64::try_from(*ms).ok().map(Duration::from_millis),
        _ => None,
    };
    Denial::new(holder, remaining)
}

/// The tokens that an acquire asks for.
#[derive(Clone, Copy, Debug)]
pub(in crate::node::redis) struct Wanted {
    pub(in crate::node::redis) hint: u64,
    pub(in crate::node::redis) count: u64,
}

/// An acquire. `latest` is the node's time at which it has become useless; zero where the clock is not known yet.
pub(in crate::node::redis) fn acquire<'a>(
    head: &'a Head,
    resource: &'a Resource,
    owner: Owner,
    ttl: Duration,
    Wanted { hint, count }: Wanted,
    latest: u64,
    note: Option<&Note>,
) -> Script<'a> {
    // A negative number says that the node has to look at its own. What is no count asks for one.
    let count = i64::try_from(count).unwrap_or(i64::MAX).max(1);
    let allowed = head.allows(hint, count.unsigned_abs());
    let args = [
        Arg::Bytes(head.text()),
        Arg::Owner(owner),
        Arg::Number(validity::wire_millis(ttl)),
        Arg::Counter(digits(hint)),
        Arg::Number(latest),
        Arg::Count(if allowed { count } else { -count }),
    ];
    Script {
        source: &script::ACQUIRE,
        keys: with_own(slice::from_ref(resource)),
        lines: &[],
        args: noted(args, note, List::Six),
    }
}

/// An acquire of several resources, all or none. The rest is as for one.
pub(in crate::node::redis) fn acquire_together<'a>(
    head: &'a Head,
    resources: &'a [Resource],
    owner: Owner,
    ttl: Duration,
    wanted: Wanted,
    latest: u64,
    note: Option<&Note>,
) -> Script<'a> {
    let first =
        resources.first().map(|first| acquire(head, first, owner, ttl, wanted, latest, None));
    let mut args = first.map(|first| first.args.to_vec()).unwrap_or_default();
    let note = note.map_or(Arg::Bytes(b""), |note| Arg::Owned(note.to_bytes()));
    args.extend([Arg::Number(resources.len() as u64), note]);
    Script {
        source: &script::TOGETHER,
        keys: with_own(resources),
        lines: &[],
        args: List::Many(args),
    }
}

/// The same acquire of a client that knows of the line, and what it says of its place there.
pub(in crate::node::redis) fn in_line<'a>(
    mut acquire: Script<'a>,
    resources: &'a [Resource],
    stand: Option<Stand>,
) -> Script<'a> {
    acquire.lines = resources;
    if let Some(Stand { client, ticket, skip }) = stand {
        let mut args = acquire.args.to_vec();
        // They stand behind the note, whether there is one or not.
        args.resize(if resources.len() > 1 { 8 } else { 7 }, Arg::Bytes(b""));
        let ticket = ticket.map_or(Arg::Bytes(b""), |ticket| Arg::Number(ticket.get()));
        let skip = skip.map_or(Arg::Bytes(b""), Arg::Client);
        args.extend([Arg::Client(client), ticket, skip]);
        acquire.args = List::Many(args);
    }
    acquire
}

/// What a node has answered to an acquire.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::node::redis) struct Acquired {
    pub(in crate::node::redis) reply: Reply,
    /// The head of the node's counters, where that is told.
    pub(in crate::node::redis) head: Option<Vec<u8>>,
    /// Of what was granted: whether others wait in the line, where that is told.
    pub(in crate::node::redis) others_wait: Option<bool>,
    /// The client is the first in the line, and whoever holds the key does not wake it.
    pub(in crate::node::redis) is_foreign: bool,
}

impl Acquired {
    const fn with(reply: Reply) -> Self {
        Self { reply, head: None, others_wait: None, is_foreign: false }
    }
}

/// The reply to an acquire with this hint.
pub(in crate::node::redis) fn acquired(answer: Answer, hint: u64) -> Result<Acquired, NodeError> {
    let mut told = match answer {
        // The common case: the counter is the hint.
        Answer::AsAsked => {
            return Ok(Acquired::with(Reply::Granted(Granted::at(FencingToken::new(hint)))));
        }
        Answer::Told(told) => told,
    };
    match told.as_mut_slice() {
        [Value::Int(1), _, counter, Value::BulkString(head), waiting @ ..]
            if waiting.len() <= 1 && waiting.iter().all(|waiting| count(waiting).is_some()) =>
        {
            let counter = match count(counter) {
                None | Some(0) => return Err(unexpected("a counter that is none")),
                Some(counter) => counter,
            };
            let Ok(token) = FencingToken::try_from(counter) else {
                return Err(unexpected("a counter beyond the last token"));
            };
            let granted = Acquired::with(Reply::Granted(Granted::at(token)));
            let others_wait = waiting.first().and_then(count).map(|waiting| waiting > 0);
            Ok(Acquired { head: Some(mem::take(head)), others_wait, ..granted })
        }
        [Value::Int(0), _, remaining @ Value::Int(_), holder @ ..] if holder.len() <= 1 => {
            let holder = holder.first_mut().map(mem::take);
            Ok(Acquired::with(Reply::Denied(denial(holder, Some(remaining)))))
        }
        [Value::Int(0), at, remaining @ Value::Int(_), holder, first, before, is_foreign] => {
            let denial = match read_client(first) {
                Some(head) => Denial::behind(head),
                None => denial(Some(mem::take(holder)), Some(remaining)),
            };
            let rank = count(before).and_then(|before| u32::try_from(before).ok());
            let denial = denial.in_line(count(at).unwrap_or(0), rank);
            let is_foreign = *is_foreign == Value::Int(1);
            Ok(Acquired { is_foreign, ..Acquired::with(Reply::Denied(denial)) })
        }
        // Of several resources, with the place of the one that is in the way, and whether all have a line.
        [
            Value::Int(0),
            at,
            remaining @ Value::Int(_),
            holder,
            first,
            before,
            is_foreign,
            Value::Int(which),
            is_lined,
        ] => {
            let mut denial = match read_client(first) {
                Some(head) => Denial::behind(head),
                None => denial(Some(mem::take(holder)), Some(remaining)),
            };
            // The script counts from one.
            denial.which = which.checked_sub(1).and_then(|which| u8::try_from(which).ok());
            if *is_lined == Value::Int(1) {
                let rank = count(before).and_then(|before| u32::try_from(before).ok());
                denial = denial.in_line(count(at).unwrap_or(0), rank);
            }
            let is_foreign = *is_foreign == Value::Int(1);
            Ok(Acquired { is_foreign, ..Acquired::with(Reply::Denied(denial)) })
        }
        _ => Err(refusal(&Answer::Told(told))),
    }
}

fn read_client(value: &Value) -> Option<ClientId> {
    match value {
        Value::BulkString(name) => ClientId::from_hex(name),
        _ => None,
    }
}

pub(in crate::node::redis) fn confirm<'a>(
    head: &'a Head,
    resources: &'a [Resource],
    owner: Owner,
    token: FencingToken,
) -> Script<'a> {
    let token = Arg::Counter(digits(token.get()));
    let args = List::Three([Arg::Bytes(head.etag()), Arg::Owner(owner), token]);
    Script { source: &script::CONFIRM, keys: with_own(resources), lines: &[], args }
}

pub(in crate::node::redis) fn confirmed(
    answer: &Answer,
    token: FencingToken,
) -> Result<Reply, NodeError> {
    yes_or_no(answer, Some(token))
}

/// A restore under the identity that the node was admitted as; with none in classic mode, which reads no clock either.
pub(in crate::node::redis) fn restore<'a>(
    identity: Option<&'a [u8]>,
    resources: &'a [Resource],
    owner: Owner,
    ttl: Duration,
    latest: u64,
    note: Option<&Note>,
) -> Script<'a> {
    let source: &Source =
        if identity.is_some() { &script::RESTORE } else { &script::RESTORE_CLASSIC };
    let args = [
        Arg::Bytes(identity.unwrap_or_default()),
        Arg::Owner(owner),
        Arg::Number(validity::wire_millis(ttl)),
        Arg::Number(if identity.is_some() { latest } else { 0 }),
    ];
    let keys = keys_of_leases(identity.is_some(), resources.iter());
    // Nodes keep none in classic mode.
    let note = note.filter(|_| identity.is_some());
    Script { source, keys, lines: &[], args: noted(args, note, List::Four) }
}

pub(in crate::node::redis) fn restored(answer: &Answer) -> Result<Reply, NodeError> {
    yes_or_no(answer, None)
}

/// Extensions together, under the identity that the node was admitted as; with none in classic mode. Other commands
/// are left out.
pub(in crate::node::redis) fn extend<'a>(
    identity: Option<&'a [u8]>,
    commands: &'a [Command],
) -> Script<'a> {
    let source: &Source =
        if identity.is_some() { &script::EXTEND } else { &script::EXTEND_CLASSIC };
    // The script reads owner and ttl by the place of the key, so that keys and arguments are made of one list.
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

/// One answer for each extension, of so many keys.
pub(in crate::node::redis) fn extended(
    answer: &Answer,
    keys: impl Iterator<Item = usize> + Clone,
) -> Result<Vec<Result<Reply, NodeError>>, NodeError> {
    match answer.told() {
        [Value::Int(1), _, answers @ ..] if answers.len() == keys.clone().sum() => {
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

/// Of several keys of one lease all must have been extended. A key that is somebody else's counts for more than one that is
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
    resources: &[Resource],
    owner: Owner,
    keep: Option<Duration>,
    has_line: bool,
) -> Script<'_> {
    let lines = if has_line { resources } else { &[] };
    let keep = keep.map(|keep| Arg::Number(validity::wire_millis(keep)));
    if let [resource] = resources {
        let keys = List::One([resource.as_bytes()]);
        let args = match keep {
            None => List::One([Arg::Owner(owner)]),
            Some(keep) => List::Two([Arg::Owner(owner), keep]),
        };
        return Script { source: &script::RELEASE, keys, lines, args };
    }
    let keys = List::Many(resources.iter().map(Resource::as_bytes).collect());
    let args = [Arg::Number(resources.len() as u64), Arg::Owner(owner)];
    let args = List::Many(args.into_iter().chain(keep).collect());
    Script { source: &script::RELEASE_TOGETHER, keys, lines, args }
}

/// It is answered as a release that has done what it was asked.
pub(in crate::node::redis) fn leave(
    resource: &Resource,
    client: ClientId,
    ticket: Ticket,
) -> Script<'_> {
    let keys = List::One([resource.as_bytes()]);
    let args = List::Two([Arg::Client(client), Arg::Number(ticket.get())]);
    Script { source: &script::LEAVE, keys, lines: slice::from_ref(resource), args }
}

/// It tells no clock: that a key is gone is true whatever becomes of the node.
pub(in crate::node::redis) fn released(reply: &Value) -> Result<Reply, NodeError> {
    match reply {
        Value::Int(1) => Ok(Reply::Granted(Granted::DONE)),
        Value::Int(0) => Ok(Reply::Denied(Denial::gone())),
        Value::Int(2) => Ok(Reply::Denied(Denial::default())),
        other => Err(unexpected(kind(other))),
    }
}

/// Arguments with the note behind them, if there is one. Without it they need no memory of their own.
fn noted<'a, const N: usize>(
    args: [Arg<'a>; N],
    note: Option<&Note>,
    list: impl FnOnce([Arg<'a>; N]) -> List<Arg<'a>>,
) -> List<Arg<'a>> {
    match note {
        None => list(args),
        Some(note) => List::Many(args.into_iter().chain([Arg::Owned(note.to_bytes())]).collect()),
    }
}

fn yes_or_no(answer: &Answer, token: Option<FencingToken>) -> Result<Reply, NodeError> {
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

/// The keys of a script that extends or restores. Classic mode touches no other keys than the resources', whatever the
/// user may do, and names the first of them in place of the node's own.
pub(super) fn keys_of_leases<'a>(
    fenced: bool,
    resources: impl Iterator<Item = &'a Resource> + Clone,
) -> List<&'a [u8]> {
    let resources = resources.map(Resource::as_bytes);
    let first = resources.clone().next().unwrap_or_default();
    let own = OWN.map(|own| if fenced { own } else { first });
    List::Many(own.into_iter().chain(resources).collect())
}

/// A counter as it is stored: sixteen digits, which is enough for all below 2^53. A hint may be above that, and is cut.
fn digits(counter: u64) -> [u8; 16] {
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
