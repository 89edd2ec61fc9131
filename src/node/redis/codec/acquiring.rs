//! Acquires as scripts, of one resource and of several, and what is answered to them.
//!
//! It decides which reply is a grant. It must never take one for a grant whose form it does not know in full.

use std::{mem, slice, time::Duration};

use redis::Value;

use super::{
    super::{
        marker::Head,
        script::{self, Arg, List, Script},
    },
    Answer, count, refusal, unexpected,
    votes::{denial, digits, noted, with_own},
};
use crate::{
    node::NodeError,
    protocol::{
        ClientId, Denial, FencingToken, Granted, Note, Owner, Reply, Resource, Stand, validity,
    },
};

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
    lines: &'a [Resource],
    stand: Option<Stand>,
) -> Script<'a> {
    acquire.lines = lines;
    if let Some(Stand { client, ticket, skip }) = stand {
        let mut args = acquire.args.to_vec();
        // They stand behind the note, whether there is one or not.
        args.resize(args.len().max(7), Arg::Bytes(b""));
        let ticket = ticket.map_or(Arg::Bytes(b""), |ticket| Arg::Number(ticket.get()));
        let skip = skip.map_or(Arg::Bytes(b""), Arg::Client);
        args.extend([Arg::Client(client), ticket, skip]);
        acquire.args = List::Many(args);
    }
    acquire
}

/// The acquire of a reader: the same of one resource, by another script.
pub(in crate::node::redis) fn read(acquire: Script<'_>) -> Script<'_> {
    Script { source: &script::READ, ..acquire }
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
    pub(super) const fn with(reply: Reply) -> Self {
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
