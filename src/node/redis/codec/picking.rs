//! An acquire of any slot of a semaphore as a script, and what is answered to it.
//!
//! It decides which reply is a grant, and of which slot. It must never take one for a grant whose form it does not know in
//! full.

use std::{mem, time::Duration};

use redis::Value;

use super::{
    super::{
        marker::Head,
        script::{self, Arg, List, Script},
    },
    Answer,
    acquiring::{Acquired, acquired},
    count, unexpected,
    votes::{digits, keys_of_leases},
};
use crate::{
    node::NodeError,
    protocol::{FencingToken, Granted, Note, Owner, Reply, Slots, validity},
};

/// An acquire of any slot, in the order that begins with `first`.
pub(in crate::node::redis) fn pick<'a>(
    head: &'a Head,
    (slots, first): (&'a Slots, u8),
    owner: Owner,
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
        Arg::Count(if head.allows(hint, 1) { 1 } else { -1 }),
        Arg::Number(slots.len() as u64),
        note.map_or(Arg::Bytes(b""), |note| Arg::Owned(note.to_bytes())),
    ];
    let keys = keys_of_leases(true, slots.from(first).map(|(_, resource)| resource));
    Script { source: &script::SLOT, keys, lines: &[], args: List::Many(args) }
}

/// The reply to that, of slots in this order.
pub(in crate::node::redis) fn picked(
    mut answer: Answer,
    hint: u64,
    (slots, first): (&Slots, u8),
) -> Result<Acquired, NodeError> {
    if matches!(answer, Answer::AsAsked) {
        // The common case: the first that was asked for, and its counter is the hint.
        let Some((slot, _)) = slots.from(first).next() else {
            return Err(unexpected("a slot that was not asked for"));
        };
        let granted = Granted::at(FencingToken::new(hint)).in_slot(slot);
        return Ok(Acquired::with(Reply::Granted(granted)));
    }
    if let Answer::Told(told) = &mut answer
        && let [Value::Int(1), _, counter, at, Value::Int(waiting), head @ ..] = told.as_mut_slice()
        && head.len() <= 1
    {
        let token = count(counter).filter(|counter| *counter > 0);
        let Some(Ok(token)) = token.map(FencingToken::try_from) else {
            return Err(unexpected("a counter that is none"));
        };
        // The script counts from one.
        let at = count(at).and_then(|at| usize::try_from(at.checked_sub(1)?).ok());
        let Some((slot, _)) = at.and_then(|at| slots.from(first).nth(at)) else {
            return Err(unexpected("a slot that was not asked for"));
        };
        let others_wait = u64::try_from(*waiting).ok().map(|waiting| waiting > 0);
        let head = match head.first_mut().map(mem::take) {
            None => None,
            Some(Value::BulkString(head)) => Some(head),
            Some(_) => return Err(unexpected("a head that is none")),
        };
        let reply = Reply::Granted(Granted::at(token).in_slot(slot));
        return Ok(Acquired { head, others_wait, ..Acquired::with(reply) });
    }
    match acquired(answer, hint)? {
        Acquired { reply: Reply::Granted(_), .. } => Err(unexpected("a grant without a slot")),
        denied => Ok(denied),
    }
}
