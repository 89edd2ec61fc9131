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
        source: &script::ACQUIRE_SET,
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
    Script { source: &script::ACQUIRE_READ, ..acquire }
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
        [Value::Int(1), _, counter, head, Value::Int(waiting), Value::Int(_)] => {
            let counter = match count(counter) {
                None | Some(0) => return Err(unexpected("a counter that is none")),
                Some(counter) => counter,
            };
            let Ok(token) = FencingToken::try_from(counter) else {
                return Err(unexpected("a counter beyond the last token"));
            };
            let head = match mem::take(head) {
                Value::Nil => None,
                Value::BulkString(head) => Some(head),
                _ => return Err(unexpected("a head that is none")),
            };
            let others_wait = u64::try_from(*waiting).ok().map(|waiting| waiting > 0);
            let granted = Acquired::with(Reply::Granted(Granted::at(token)));
            Ok(Acquired { head, others_wait, ..granted })
        }
        [Value::Int(0), at, remaining @ Value::Int(_), holder, Value::Int(which), line @ ..]
            if matches!(line.len(), 0 | 3) =>
        {
            let head = line.first().and_then(read_client);
            let mut denial = match head {
                Some(head) => Denial::behind(head),
                None => denial(Some(mem::take(holder)), Some(remaining)),
            };
            // The script counts from one.
            denial.which = which.checked_sub(1).and_then(|which| u8::try_from(which).ok());
            let mut denied = Acquired::with(Reply::Denied(Denial::default()));
            if let [_, before, is_foreign] = line {
                let rank = count(before).and_then(|before| u32::try_from(before).ok());
                denial = denial.in_line(count(at).unwrap_or(0), rank);
                denied.is_foreign = *is_foreign == Value::Int(1);
            }
            denied.reply = Reply::Denied(denial);
            Ok(denied)
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
