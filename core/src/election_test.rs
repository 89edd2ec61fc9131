//! What an observer may report.

use alloc::string::ToString;

use super::*;
use crate::{KeyHolder, Label};

/// The answers of the nodes in the first places.
fn numbered(seen: &[Sighting]) -> impl Iterator<Item = (NodeId, &Sighting)> + Clone {
    seen.iter().enumerate().map(|(index, seen)| (NodeId::new(index), seen))
}

fn owner(seed: u8) -> Owner {
    Owner::from_random([seed; 16])
}

fn record(term: u64, number: u64) -> Record {
    let text = LeaderText::new(alloc::format!("{term}.{number}")).unwrap();
    Record::new(FencingToken::new(term), number, text)
}

fn key(owner: Owner, note: Option<Note>) -> Sighting {
    let key = KeyHolder::new(Some(owner.to_hex().to_vec().into()), Some(Duration::from_secs(1)));
    Sighting::Held(key.granted(None, note))
}

fn led(seed: u8, record: Record) -> Sighting {
    key(owner(seed), Some(Note::of_leader(5, None, record)))
}

fn term(look: &Look) -> Option<u64> {
    match look {
        Look::Leads(leader) => Some(leader.term.get()),
        _ => None,
    }
}

/// Every state of up to five nodes: free, of X with the record of one term or without, of Y, of another library, or
/// silent.
#[test]
fn e2_a_term_is_reported_exactly_where_a_quorum_has_its_key_and_its_record() {
    for nodes in 1..=5_usize {
        for code in 0..6_usize.pow(u32::try_from(nodes).unwrap()) {
            let kinds = (0..nodes).map(|node| code / 6_usize.pow(u32::try_from(node).unwrap()) % 6);
            let kinds: Vec<usize> = kinds.collect();
            let seen: Vec<Sighting> = kinds
                .iter()
                .filter_map(|kind| match kind {
                    0 => Some(Sighting::Free),
                    1 => Some(led(1, record(7, 1))),
                    2 => Some(key(owner(1), Label::new("x").map(|label| Note::new(5, label)))),
                    3 => Some(led(2, record(8, 1))),
                    4 => Some(Sighting::Held(KeyHolder::new(Some(b"them"[..].into()), None))),
                    _ => None,
                })
                .collect();
            let count = |kind| kinds.iter().filter(|other| **other == kind).count() > nodes / 2;
            let look = Look::of(Quorum::of(nodes), numbered(&seen));
            assert_eq!(look == Look::Nobody, count(0), "{kinds:?}");
            assert_eq!(term(&look) == Some(7), count(1), "{kinds:?}");
            assert_eq!(term(&look) == Some(8), count(3), "{kinds:?}");
        }
    }
}

#[test]
fn the_newest_text_of_a_term_is_told() {
    let seen = [led(1, record(7, 1)), led(1, record(7, 3)), led(1, record(7, 2))];
    let Look::Leads(leader) = Look::of(Quorum::of(3), numbered(&seen)) else {
        panic!("somebody leads")
    };
    assert_eq!((leader.text.as_bytes(), leader.owner), (&b"7.3"[..], owner(1)));
    assert_eq!(leader.since, Duration::from_micros(5));
}

#[test]
fn terms_are_not_added_up() {
    let seen = [led(1, record(7, 1)), led(1, record(8, 1)), led(1, record(9, 1))];
    assert_eq!(Look::of(Quorum::of(3), numbered(&seen)), Look::Between);
    let seen = [led(1, record(7, 1)), led(2, record(7, 1)), key(owner(1), None)];
    assert_eq!(Look::of(Quorum::of(3), numbered(&seen)), Look::Between, "of two owners");
}

#[test]
fn e2_a_smaller_term_than_before_is_not_reported() {
    let leads = |term| {
        let seen = [led(1, record(term, 1))];
        Look::of(Quorum::of(1), numbered(&seen))
    };
    let mut observation = Observation::default();
    assert_eq!(term(&observation.handle_look(leads(8))), Some(8));
    assert_eq!(observation.handle_look(leads(7)), Look::Between);
    assert_eq!(observation.handle_look(Look::Nobody), Look::Nobody);
    assert_eq!(observation.handle_look(leads(7)), Look::Between);
    assert_eq!(term(&observation.handle_look(leads(8))), Some(8));
    assert_eq!(term(&observation.handle_look(leads(9))), Some(9));
    assert_eq!(observation.latest(), Some(FencingToken::new(9)));
}

/// One node has the newer text, and then does not answer: the newer text stays reported.
#[test]
fn a_text_is_not_followed_by_one_that_was_said_before() {
    let (old, new) = (led(1, record(7, 1)), led(1, record(7, 2)));
    let mut observation = Observation::default();
    let mut told = |seen: &[&Sighting]| match observation
        .handle_look(Look::of(Quorum::of(3), (0..).map(NodeId::new).zip(seen.iter().copied())))
    {
        Look::Leads(leader) => leader.text.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&[&old, &old]), "7.1");
    assert_eq!(told(&[&old, &new]), "7.2");
    assert_eq!(told(&[&old, &old]), "7.2");
}

#[test]
fn a_later_record_is_of_a_later_term_or_number() {
    assert!(record(8, 1).is_later_than(&record(7, 9)));
    assert!(record(7, 2).is_later_than(&record(7, 1)));
    assert!(!record(7, 1).is_later_than(&record(7, 1)));
    assert!(!record(7, 9).is_later_than(&record(8, 1)));
}
