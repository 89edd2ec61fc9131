//! An acquire of any slot of a semaphore as a script, and what is answered to it.
//!
//! It decides which reply is a grant, and of which slot. It must never take one for a grant whose form it does not know in
//! full.

use std::time::Duration;

use redis::Value;

use super::{
    super::{
        marker::Head,
        script::{self, Arg, List, Script},
    },
    Answer,
    acquiring::{Acquired, acquired},
    unexpected,
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
    Script { source: &script::ACQUIRE_ANY, keys, lines: &[], args: List::Many(args) }
}

/// The reply to that, of slots in this order.
pub(in crate::node::redis) fn picked(
    answer: Answer,
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
    // The script counts from one.
    let at = match answer.told() {
        [Value::Int(1), .., Value::Int(which)] => {
            which.checked_sub(1).and_then(|at| usize::try_from(at).ok())
        }
        _ => None,
    };
    let mut acquired = acquired(answer, hint)?;
    if let Reply::Granted(granted) = &mut acquired.reply {
        let Some((slot, _)) = at.and_then(|at| slots.from(first).nth(at)) else {
            return Err(unexpected("a slot that was not asked for"));
        };
        *granted = granted.in_slot(slot);
    }
    Ok(acquired)
}
