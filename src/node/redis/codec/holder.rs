//! The script that asks who holds a key, and its answer; and the record of a leader, which is told there.
//!
//! It decides what an entry of the counters says, and about which owner. Other programs may have written anything
//! there, and an entry of another owner says nothing of the present key.

use std::time::Duration;

use redis::Value;

use super::{
    super::script::{self, Arg, List, Script, Source},
    Answer, kind, refusal, unexpected,
    votes::{keys_of_leases, with_own, yes_or_no},
};
use crate::{
    node::NodeError,
    protocol::{FencingToken, KeyHolder, Label, Note, Owner, Reply, Resource, Sighting},
};

/// Stores the note of a leader beside the counter, under the identity that the node was admitted as.
pub(in crate::node::redis) fn proclaim<'a>(
    identity: &'a [u8],
    resource: &'a Resource,
    owner: Owner,
    note: &Note,
) -> Script<'a> {
    let args = [Arg::Bytes(identity), Arg::Owner(owner), Arg::Owned(note.to_bytes())];
    Script {
        source: &script::PROCLAIM,
        keys: with_own(std::slice::from_ref(resource)),
        lines: &[],
        args: List::Three(args),
    }
}

pub(in crate::node::redis) fn proclaimed(answer: &Answer) -> Result<Reply, NodeError> {
    yes_or_no(answer, None)
}

/// Asks who holds a key, under the identity that the node was admitted as; without one in classic mode, which touches
/// only the resource's key.
pub(in crate::node::redis) fn ask_holder<'a>(
    identity: Option<&'a [u8]>,
    resource: &'a Resource,
) -> Script<'a> {
    let source: &Source =
        if identity.is_some() { &script::HOLDER } else { &script::HOLDER_CLASSIC };
    let keys = keys_of_leases(identity.is_some(), std::iter::once(resource));
    Script { source, keys, lines: &[], args: List::One([Arg::Bytes(identity.unwrap_or_default())]) }
}

pub(in crate::node::redis) fn told_holder(answer: &Answer) -> Result<Sighting, NodeError> {
    let [Value::Int(1), _, Value::Int(remaining), value, entry] = answer.told() else {
        return Err(refusal(answer));
    };
    let remaining = match *remaining {
        -2 => return Ok(Sighting::Free),
        -1 => None,
        ms => match u64::try_from(ms) {
            Ok(ms) => Some(Duration::from_millis(ms)),
            Err(_) => return Err(unexpected("a time that is none")),
        },
    };
    let value = match value {
        Value::BulkString(value) => Some(value.as_slice()),
        Value::Nil => None,
        other => return Err(unexpected(kind(other))),
    };
    let holder = KeyHolder::new(value.map(Box::from), remaining);
    let granted = match (value, entry) {
        (Some(value), Value::BulkString(entry)) => granted_to(value, entry),
        _ => None,
    };
    Ok(Sighting::Held(match granted {
        Some((counter, note)) => holder.granted(counter, note),
        None => holder,
    }))
}

/// The label in a holder's note. The end of the note may be missing: only a leader's text stands there.
pub(super) fn label(note: &[u8]) -> Option<Label> {
    Note::read(note.strip_prefix(b"r").unwrap_or(note))?.label().cloned()
}

/// Sixteen digits of the counter, the owner, and a note if it has a label; `None` for another owner's. An `r` before
/// the note means that the key was restored, and that the counter is not that of its own grant.
fn granted_to(owner: &[u8], entry: &[u8]) -> Option<(Option<FencingToken>, Option<Note>)> {
    let (digits, rest) = entry.split_at_checked(16)?;
    let note = rest.strip_prefix(owner)?;
    // As long as an owner, so that no shorter value passes for the beginning of one.
    if owner.len() != 32 {
        return None;
    }
    if let Some(note) = note.strip_prefix(b"r") {
        return Some((None, Note::read(note)));
    }
    let counter = std::str::from_utf8(digits).ok()?.parse().ok().filter(|counter| *counter > 0);
    Some((counter.map(FencingToken::new), Note::read(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "07070707070747078707070707070707";
    const NOW: i64 = 1_795_170_000_123_456;

    fn text(text: impl AsRef<[u8]>) -> Value {
        Value::BulkString(text.as_ref().to_vec())
    }

    fn told(rest: impl IntoIterator<Item = Value>) -> Result<Sighting, NodeError> {
        let reply = [Value::Int(1), Value::Int(NOW)].into_iter().chain(rest).collect();
        told_holder(&Answer::read(Value::Array(reply)).unwrap().0)
    }

    fn holder(value: &str, entry: Value) -> KeyHolder {
        match told([Value::Int(1500), text(value), entry]) {
            Ok(Sighting::Held(holder)) => holder,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_free_or_held_for_a_time_or_for_ever() {
        assert_eq!(told([Value::Int(-2), text(""), Value::Nil]), Ok(Sighting::Free));
        let held = |remaining| told([Value::Int(remaining), text("them"), Value::Nil]);
        let key =
            |remaining| Ok(Sighting::Held(KeyHolder::new(Some(b"them"[..].into()), remaining)));
        assert_eq!(held(-1), key(None));
        assert_eq!(held(1500), key(Some(Duration::from_millis(1500))));
        assert!(held(-3).is_err());
        let other_type = told([Value::Int(5), Value::Nil, Value::Nil]);
        let left = Some(Duration::from_millis(5));
        assert_eq!(other_type, Ok(Sighting::Held(KeyHolder::new(None, left))));
    }

    #[test]
    fn an_entry_tells_the_counter_and_the_note_of_the_keys_own_owner() {
        let owner = Owner::from_random([7; 16]);
        assert_eq!(owner.to_string(), OWNER);
        let plain = holder(OWNER, text(format!("0000000000000042{OWNER}")));
        assert_eq!((plain.counter, plain.note), (Some(FencingToken::new(42)), None));
        let note = Note::new(7, Label::new(b"a\xff ").unwrap());
        let mut entry = format!("0000000000000042{OWNER}").into_bytes();
        entry.extend(note.to_bytes());
        let noted = holder(OWNER, text(entry));
        assert_eq!((noted.counter, noted.note), (Some(FencingToken::new(42)), Some(note)));
        assert_eq!(noted.value.as_deref(), Some(OWNER.as_bytes()));
        let restored = holder(OWNER, text(format!("0000000000000042{OWNER}r0000000000000007r")));
        let note = Note::new(7, Label::new("r").unwrap());
        assert_eq!((restored.counter, restored.note), (None, Some(note)), "of another's grant");
    }

    #[test]
    fn an_entry_of_another_form_or_of_somebody_else_says_nothing() {
        let other = OWNER.replace('7', "8");
        for entry in ["", "42", "0000000000000042", &format!("0000000000000042{other}")] {
            let holder = holder(OWNER, text(entry));
            assert_eq!((holder.counter, holder.note), (None, None), "{entry}");
        }
        assert_eq!(holder(OWNER, text(format!("00000000000000xx{OWNER}"))).counter, None);
        let short = holder("0707", text("00000000000000420707"));
        assert_eq!(short.counter, None, "no owner is as short");
    }

    #[test]
    fn whatever_else_is_answered_is_an_error() {
        let refused = |code| {
            told_holder(
                &Answer::read(Value::Array(vec![Value::Int(code), Value::Int(NOW)])).unwrap().0,
            )
        };
        assert_eq!(refused(-1), Err(NodeError::NotAdmitted));
        assert!(refused(1).is_err());
        assert!(told([Value::Int(5), Value::Okay, Value::Nil]).is_err());
        assert!(told([Value::Nil, Value::Nil, Value::Nil]).is_err());
    }

    #[test]
    fn classic_mode_touches_no_other_key() {
        let resource = Resource::new("r").unwrap();
        assert_eq!(*ask_holder(None, &resource).keys, [b"r"; 4]);
        assert_eq!(ask_holder(Some(b"abc/0/0"), &resource).keys.len(), 4);
        assert_eq!(ask_holder(Some(b"abc/0/0"), &resource).keys[0], script::OWN[0]);
    }
}
