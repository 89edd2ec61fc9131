//! When a holder is certain, and what is told of it.

use alloc::{string::ToString, vec};

use super::*;
use crate::Label;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn key(value: &str, left: u64) -> KeyHolder {
    KeyHolder::new(Some(value.as_bytes().into()), Some(secs(left)))
}

fn held(value: &str, left: u64) -> Sighting {
    Sighting::Held(key(value, left))
}

fn of(nodes: usize, seen: &[Sighting]) -> Finding {
    Finding::of(Quorum::of(nodes), (0..).map(NodeId::new).zip(seen))
}

#[track_caller]
fn holder(nodes: usize, seen: &[Sighting]) -> KeyHolder {
    match of(nodes, seen) {
        Finding::Held(holder) => holder,
        other => panic!("{other:?}"),
    }
}

/// One to five nodes in every state: free, of X, of Y, of another type, or silent. A holder is named exactly where a
/// quorum of all nodes says so.
#[test]
fn a_holder_is_named_exactly_by_a_quorum_of_all_nodes() {
    for nodes in 1..=5_usize {
        for code in 0..5_usize.pow(u32::try_from(nodes).unwrap()) {
            let kinds = (0..nodes).map(|node| code / 5_usize.pow(u32::try_from(node).unwrap()) % 5);
            let kinds: Vec<usize> = kinds.collect();
            let seen: Vec<Sighting> = kinds
                .iter()
                .filter_map(|kind| match kind {
                    0 => Some(Sighting::Free),
                    1 => Some(held("x", 1)),
                    2 => Some(held("y", 1)),
                    3 => Some(Sighting::Held(KeyHolder::new(None, None))),
                    _ => None,
                })
                .collect();
            let count = |kind| kinds.iter().filter(|other| **other == kind).count() > nodes / 2;
            let finding = of(nodes, &seen);
            let named = match &finding {
                Finding::Held(holder) => holder.value.as_deref(),
                _ => None,
            };
            assert_eq!(finding == Finding::Free, count(0), "{kinds:?}");
            assert_eq!(named == Some(b"x"), count(1), "{kinds:?}");
            assert_eq!(named == Some(b"y"), count(2), "{kinds:?}");
        }
    }
}

#[test]
fn the_time_that_is_told_is_when_a_quorum_has_lost_the_key() {
    let times = |nodes, times: &[u64]| {
        let seen: Vec<Sighting> = times.iter().map(|left| held("x", *left)).collect();
        holder(nodes, &seen).remaining
    };
    assert_eq!(times(5, &[1, 2, 3, 4, 5]), Some(secs(3)));
    assert_eq!(times(5, &[9, 2, 3]), Some(secs(9)), "two may have it for longer");
    assert_eq!(times(5, &[9, 2, 3, 4]), Some(secs(4)), "one may");
    assert_eq!(times(1, &[7]), Some(secs(7)));
    assert_eq!(times(4, &[1, 2, 3]), Some(secs(2)));
    let without_end = Sighting::Held(KeyHolder::new(Some(b"x"[..].into()), None));
    let some = [without_end.clone(), held("x", 2), held("x", 1)];
    assert_eq!(holder(3, &some).remaining, Some(secs(2)));
    let most = [without_end.clone(), without_end, held("x", 1)];
    assert_eq!(holder(3, &most).remaining, None);
}

#[test]
fn a_token_is_told_that_a_quorum_has() {
    let counted = |token: Option<u64>| {
        Sighting::Held(key("x", 1).granted(token.map(FencingToken::new), None))
    };
    let token = |counters: &[Option<u64>]| {
        let seen: Vec<Sighting> = counters.iter().copied().map(counted).collect();
        holder(3, &seen).counter.map(FencingToken::get)
    };
    assert_eq!(token(&[Some(7), Some(7), Some(9)]), Some(7));
    assert_eq!(token(&[Some(9), Some(7), Some(7)]), Some(7));
    assert_eq!(token(&[Some(7), Some(8), Some(9)]), None);
    assert_eq!(token(&[Some(7), None, None]), None);
    assert_eq!(token(&[None, None, None]), None);
}

#[test]
fn the_note_that_most_have_is_told() {
    let note = |text: &str| Note::new(5, Label::new(text).unwrap());
    let noted = |text: Option<&str>| {
        let text = text.map(note);
        Sighting::Held(key("x", 1).granted(None, text))
    };
    let told = |texts: &[Option<&str>]| {
        let seen: Vec<Sighting> = texts.iter().copied().map(noted).collect();
        holder(5, &seen).note
    };
    assert_eq!(told(&[None, None, Some("a")]), Some(note("a")));
    for most in [["b", "a", "a"], ["a", "b", "a"], ["a", "a", "b"]] {
        assert_eq!(told(&most.map(Some)), Some(note("a")), "{most:?}");
    }
    assert_eq!(told(&[None, None, None]), None);
}

#[test]
fn an_owner_is_told_from_any_other_value() {
    let owner = Owner::from_random([0xab; 16]);
    let hex = owner.to_string();
    assert_eq!(key(&hex, 1).owner(), Some(owner));
    let others = vec![hex.to_uppercase(), hex.clone() + "0", hex[1..].into(), "0".repeat(32)];
    for other in others {
        assert_eq!(key(&other, 1).owner(), None, "{other}");
    }
    assert_eq!(KeyHolder::new(None, None).owner(), None);
}
