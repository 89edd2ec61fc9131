//! Acquires as scripts, of every kind of target, and what is answered to them.
//!
//! It decides which reply is a grant, and of which slot. It must never take a reply for a grant unless it knows all of
//! its form.

use std::{mem, time::Duration};

use redis::Value;

use super::{
    super::{
        marker::Head,
        script::{self, Arg, List, Script},
    },
    Answer, count, refusal, unexpected,
    votes::{denial, digits, keys_of_leases, noted, with_own},
};
use crate::{
    node::NodeError,
    protocol::{
        ClientId, Denial, FencingToken, Granted, Note, Owner, Reply, Resource, Stand, Target,
        validity,
    },
};

/// The tokens that an acquire asks for.
#[derive(Clone, Copy, Debug)]
pub(in crate::node::redis) struct Wanted {
    pub(in crate::node::redis) hint: u64,
    pub(in crate::node::redis) count: u64,
}

/// An acquire of a target; of any slot, in the order that begins with `first`. At `latest`, by the node's clock, it
/// becomes useless; zero if that clock is not known yet.
pub(in crate::node::redis) fn acquire<'a>(
    head: &'a Head,
    (target, first): (&'a Target, u8),
    owner: Owner,
    ttl: Duration,
    Wanted { hint, count }: Wanted,
    latest: u64,
    note: Option<&Note>,
) -> Script<'a> {
    // A negative count makes the node look at its own numbers. A count of zero asks for one.
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
    let own = || with_own(target.resources());
    let (source, keys, args) = match target {
        Target::One(_) | Target::Slot(_) => (&script::ACQUIRE, own(), noted(args, note, List::Six)),
        // Readers leave no note.
        Target::Shared(_) | Target::Downgraded(_) => {
            (&script::ACQUIRE_READ, own(), List::Six(args))
        }
        Target::Set(_) => (&script::ACQUIRE_SET, own(), of_several(args, target, note)),
        Target::AnyOf(slots) => {
            let keys = keys_of_leases(true, slots.from(first).map(|(_, resource)| resource));
            (&script::ACQUIRE_ANY, keys, of_several(args, target, note))
        }
    };
    Script { source, keys, lines: &[], args }
}

/// An acquire that takes the keys over from another owner.
pub(in crate::node::redis) fn adopt<'a>(
    head: &'a Head,
    target: &'a Target,
    (from, owner): (Owner, Owner),
    ttl: Duration,
    hint: u64,
    latest: u64,
    note: Option<&Note>,
) -> Script<'a> {
    let args = vec![
        Arg::Bytes(head.text()),
        Arg::Owner(owner),
        Arg::Number(validity::wire_millis(ttl)),
        Arg::Counter(digits(hint)),
        Arg::Number(latest),
        Arg::Owner(from),
        note.map_or(Arg::Bytes(b""), |note| Arg::Owned(note.to_bytes())),
    ];
    let keys = with_own(target.resources());
    Script { source: &script::ADOPT, keys, lines: &[], args: List::Many(args) }
}

/// What is answered to that. A key that is gone is denied as such.
pub(in crate::node::redis) fn adopted(
    answer: Answer,
    target: &Target,
) -> Result<Acquired, NodeError> {
    if let Answer::AsAsked = answer {
        return Err(unexpected("a counter that is not told"));
    }
    let is_gone = matches!(answer.told(), [Value::Int(0), _, Value::Int(-2), ..]);
    let mut acquired = acquired(answer, (target, 0), 0)?;
    if let Reply::Denied(denial) = &mut acquired.reply {
        denial.gone = is_gone;
    }
    Ok(acquired)
}

fn of_several<'a>(args: [Arg<'a>; 6], target: &Target, note: Option<&Note>) -> List<Arg<'a>> {
    let mut args = Vec::from(args);
    let note = note.map_or(Arg::Bytes(b""), |note| Arg::Owned(note.to_bytes()));
    args.extend([Arg::Number(target.len() as u64), note]);
    List::Many(args)
}

/// Adds the lines to an acquire, and the client's stand in them.
pub(in crate::node::redis) fn in_line<'a>(
    mut acquire: Script<'a>,
    lines: &'a [Resource],
    stand: Option<Stand>,
) -> Script<'a> {
    acquire.lines = lines;
    if let Some(Stand { client, ticket, skip }) = stand {
        let mut args = acquire.args.to_vec();
        // The stand follows the note, even where that is missing.
        args.resize(args.len().max(7), Arg::Bytes(b""));
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
    /// The head of the node's counters, if told.
    pub(in crate::node::redis) head: Option<Vec<u8>>,
    /// After a grant: whether others wait in the line, if told.
    pub(in crate::node::redis) others_wait: Option<bool>,
    /// The client is the first in the line, and the key's holder does not wake it.
    pub(in crate::node::redis) is_foreign: bool,
}

impl Acquired {
    const fn with(reply: Reply) -> Self {
        Self { reply, head: None, others_wait: None, is_foreign: false }
    }
}

/// Reads the answer to an acquire with this hint.
pub(in crate::node::redis) fn acquired(
    answer: Answer,
    asked: (&Target, u8),
    hint: u64,
) -> Result<Acquired, NodeError> {
    let mut told = match answer {
        // The common case: the counter is the hint.
        Answer::AsAsked => {
            let granted = Granted { slot: slot(asked, 1)?, ..Granted::at(FencingToken::new(hint)) };
            return Ok(Acquired::with(Reply::Granted(granted)));
        }
        Answer::Told(told) => told,
    };
    match told.as_mut_slice() {
        [Value::Int(1), _, counter, head, Value::Int(waiting), Value::Int(which)] => {
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
            let granted = Granted { slot: slot(asked, *which)?, ..Granted::at(token) };
            Ok(Acquired { head, others_wait, ..Acquired::with(Reply::Granted(granted)) })
        }
        [Value::Int(0), at, remaining @ Value::Int(_), holder, Value::Int(which), line @ ..]
            if matches!(line.len(), 0 | 1 | 3) =>
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

/// The slot at this place of the order, counted from one, if any slot was asked for.
fn slot((target, first): (&Target, u8), which: i64) -> Result<Option<u8>, NodeError> {
    let Target::AnyOf(slots) = target else { return Ok(None) };
    let at = which.checked_sub(1).and_then(|at| usize::try_from(at).ok());
    let slot = at.and_then(|at| slots.from(first).nth(at));
    slot.map(|(slot, _)| Some(slot)).ok_or_else(|| unexpected("a slot that was not asked for"))
}

fn read_client(value: &Value) -> Option<ClientId> {
    match value {
        Value::BulkString(name) => ClientId::from_hex(name),
        _ => None,
    }
}
