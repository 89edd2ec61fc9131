//! Goal: a set is confirmed where all its keys are the owner's and no counter is above the token. A restore sets only
//! missing keys, and none where another owner has one. A release of several keys deletes the owner's, whatever the
//! others are.
//!
//! Method: single commands to a node. `tests/scenarios/restore.rs` and `lines/several.rs` ask a server the same.

use super::*;
use crate::{ClientId, Join, LeaderText, Record, ResourceSet, Slots, Stand, Ticket};

fn one() -> Owner {
    Owner::from_random([1; 16])
}

fn another() -> Owner {
    Owner::from_random([2; 16])
}
const TTL: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["r", "s", "t"];

fn resource(name: &str) -> Resource {
    Resource::new(name.as_bytes()).unwrap()
}

fn set_of(names: &[&str]) -> Target {
    ResourceSet::new(names.iter().map(|name| resource(name))).unwrap().into()
}

/// A node in memory. Its messages to clients are ignored.
struct Node(NodeStore);

impl Node {
    fn new() -> Self {
        Self(NodeStore::new())
    }

    fn put(&mut self, name: &str, owner: Owner) {
        self.0.set(&resource(name), owner, TTL, Timestamp::ORIGIN);
    }

    fn of(&mut self, name: &str) -> Option<Vec<u8>> {
        let keys = self.0.keys(Timestamp::ORIGIN);
        keys.get(name.as_bytes()).map(|entry| entry.value.clone())
    }

    fn left(&mut self, name: &str) -> Option<Duration> {
        let entry = self.0.keys(Timestamp::ORIGIN).get(name.as_bytes())?;
        entry.expires.map(Timestamp::since_origin)
    }

    fn execute(&mut self, command: Command) -> Reply {
        self.0.execute(command, Timestamp::ORIGIN, 0, &|_| true).0.unwrap()
    }
}

fn restore(names: &[&str]) -> Command {
    let (target, until, ttl) = (set_of(names), Timestamp::ORIGIN, TTL / 2);
    Command::Restore { target, owner: one(), ttl, until, fenced: true, note: None }
}

fn release(keep: Option<Duration>) -> Command {
    Command::Release { target: set_of(&NAMES), owner: one(), keep }
}

#[test]
fn a_set_is_confirmed_up_to_its_own_counter_and_not_below_what_was_granted_since() {
    let mut node = Node::new();
    let confirm = |node: &mut Node, token| {
        let (target, token, mark) =
            (set_of(&NAMES), FencingToken::new(token), EpochMark::new(1, 0));
        match node.execute(Command::Confirm { target, owner: one(), token, mark }) {
            Reply::Granted(granted) => granted.token.map(FencingToken::get),
            Reply::Denied(_) => None,
        }
    };
    let acquire = Command::Acquire {
        target: set_of(&NAMES),
        owner: one(),
        ttl: TTL,
        hint: Some(200),
        count: 1,
        first: 0,
        mark: EpochMark::new(1, 0),
        note: None,
        stand: None,
    };
    assert_eq!(confirm(&mut node, 200), None, "nothing stands there");
    assert!(matches!(node.execute(acquire), Reply::Granted(_)));
    assert_eq!(confirm(&mut node, 199), None, "two holders could have one token");
    assert_eq!(confirm(&mut node, 200), Some(200));
    assert_eq!(confirm(&mut node, 300), Some(300));
    assert_eq!(confirm(&mut node, 299), None, "it has risen");
    node.put("s", another());
    assert_eq!(confirm(&mut node, 400), None);
    node.put("s", one());
    assert_eq!(confirm(&mut node, 300), Some(300), "no counter has moved");
}

#[test]
fn what_a_round_asks_under_another_state_of_the_node_is_no_vote() {
    let mut node = Node::new();
    let mut ask = |command| node.0.execute(command, Timestamp::ORIGIN, 0, &|_| true).0;
    let acquire = |mark| Command::Acquire {
        target: set_of(&NAMES),
        owner: one(),
        ttl: TTL,
        hint: Some(200),
        count: 1,
        first: 0,
        mark,
        note: None,
        stand: None,
    };
    let confirm = |mark| {
        let (target, token) = (set_of(&NAMES), FencingToken::new(300));
        Command::Confirm { target, owner: one(), token, mark }
    };
    // Of another epoch, and sealed since.
    let others = [EpochMark::new(2, 0), EpochMark::new(0, 0), EpochMark::new(1, 1)];
    for other in others {
        assert_eq!(ask(acquire(other)).unwrap_err(), NodeRefusal::NotAdmitted);
    }
    assert!(matches!(ask(acquire(EpochMark::new(1, 0))), Ok(Reply::Granted(_))));
    for other in others {
        assert_eq!(ask(confirm(other)).unwrap_err(), NodeRefusal::NotAdmitted);
    }
    assert!(matches!(ask(confirm(EpochMark::new(1, 0))), Ok(Reply::Granted(_))));
}

#[test]
fn a_restore_sets_what_is_missing_and_leaves_what_stands() {
    let mut node = Node::new();
    node.put("s", one());
    assert_eq!(node.execute(restore(&NAMES)), Reply::Granted(Granted::DONE));
    assert!(NAMES.iter().all(|name| node.of(name).unwrap() == one().to_hex()));
    assert_eq!(NAMES.map(|name| node.left(name).unwrap()), [TTL / 2, TTL, TTL / 2]);
    assert_eq!(node.execute(restore(&NAMES)), Reply::Denied(Denial::default()), "none is missing");
}

#[test]
fn a_restore_sets_nothing_where_somebody_else_has_any_of_it() {
    for held in NAMES {
        let mut node = Node::new();
        node.put(held, another());
        assert_eq!(node.execute(restore(&NAMES)), Reply::Denied(Denial::default()));
        for name in NAMES {
            let stands = (name == held).then(|| another().to_hex().to_vec());
            assert_eq!(node.of(name), stands, "{held}");
        }
        assert_eq!(node.left(held), Some(TTL), "its end is what it was");
    }
}

#[test]
fn a_release_of_several_gives_back_what_is_its_owners_whatever_the_others_are() {
    let (own, other, gone) = (Some(one()), Some(another()), None);
    let (done, denied) = (Reply::Granted(Granted::DONE), Reply::Denied(Denial::default()));
    for (stands, expected) in [
        ([own, own, own], done),
        ([gone, own, own], Reply::Denied(Denial::gone())),
        ([own, own, gone], Reply::Denied(Denial::gone())),
        ([other, own, own], denied.clone()),
        ([own, own, other], denied.clone()),
        // A foreign key outweighs a missing key.
        ([gone, other, own], denied.clone()),
        ([own, other, gone], denied),
    ] {
        for keep in [None, Some(TTL / 4)] {
            let mut node = Node::new();
            for (name, owner) in NAMES.iter().zip(stands) {
                owner.into_iter().for_each(|owner| node.put(name, owner));
            }
            assert_eq!(node.execute(release(keep)), expected, "{stands:?}");
            for (name, owner) in NAMES.iter().zip(stands) {
                let left = if owner == own { keep } else { owner.map(|_| TTL) };
                assert_eq!(node.left(name), left, "{stands:?}, {keep:?}: {name}");
            }
        }
    }
}

#[test]
fn no_epoch_of_one_life_is_one_of_another() {
    let epochs = |life| {
        let mut store = NodeStore::in_life(life);
        let mut look = |join| store.join(join, Timestamp::ORIGIN).epoch;
        let before = look(Join::look(TTL));
        (before, look(Join { force: Some(before), lost: true, ..Join::look(TTL) }))
    };
    let (one, two) = (epochs(1), epochs(2));
    assert!(one.0 < one.1 && one.1 < two.0 && two.0 < two.1, "{one:?} {two:?}");
}

fn note(number: u64) -> Note {
    let text = LeaderText::new("leads").unwrap();
    Note::of_leader(0, None, Record::new(FencingToken::new(7), number, text))
}

/// A restore under way carries an earlier record of its leader.
#[test]
fn a_restore_leaves_what_its_own_leader_has_said_since_and_not_what_another_did() {
    for owner in [one(), another()] {
        let mut node = Node::new();
        let target = || Target::from(resource("r"));
        node.put("r", owner);
        let said = Command::Proclaim { target: target(), owner, note: note(5) };
        assert_eq!(node.execute(said), Reply::Granted(Granted::DONE));
        node.0.keys(Timestamp::ORIGIN).clear();
        let restore = Command::Restore {
            target: target(),
            owner: one(),
            ttl: TTL,
            until: Timestamp::ORIGIN,
            fenced: true,
            note: Some(note(4)),
        };
        assert_eq!(node.execute(restore), Reply::Granted(Granted::DONE));
        let seen = node.0.holder(&resource("r"), true, Timestamp::ORIGIN).unwrap();
        let Sighting::Held(seen) = seen else { panic!("it is restored") };
        let number = seen.note.and_then(|note| Some(note.record()?.number));
        assert_eq!(number, Some(if owner == one() { 5 } else { 4 }));
    }
}

const fn client(number: u8) -> ClientId {
    ClientId::new([number; 8])
}

/// Asks for any of this many slots, as a waiter in the line, or once.
fn pick(node: &mut Node, slots: usize, number: u8, waits: bool) -> Reply {
    let stand = if waits {
        Stand::with(client(number), Ticket::new(number.into()))
    } else {
        Stand::named(client(number))
    };
    node.execute(Command::Acquire {
        target: Slots::new(b"", "s", slots).unwrap().into(),
        owner: Owner::from_random([number; 16]),
        ttl: TTL,
        hint: Some(200),
        count: 1,
        first: 0,
        mark: EpochMark::new(1, 0),
        note: None,
        stand: Some(stand),
    })
}

fn behind(reply: Reply) -> Option<ClientId> {
    match reply {
        Reply::Denied(denial) => denial.behind,
        Reply::Granted(granted) => panic!("{granted:?}"),
    }
}

#[test]
fn whoever_asks_once_for_a_slot_that_is_free_is_told_who_comes_before() {
    let mut node = Node::new();
    node.put("s/0", another());
    assert_eq!(behind(pick(&mut node, 1, 3, true)), None, "it is taken");
    node.0.keys(Timestamp::ORIGIN).clear();
    assert_eq!(behind(pick(&mut node, 1, 5, false)), Some(client(3)));
    assert!(matches!(pick(&mut node, 1, 3, true), Reply::Granted(_)));
}

/// A place is not stuck if a slot was free when it was denied: it may take that slot now.
#[test]
fn a_place_is_left_out_for_the_slots_that_were_all_taken_when_it_asked() {
    for was_free in [true, false] {
        let mut node = Node::new();
        node.put("s/0", another());
        node.put("s/1", another());
        assert_eq!(behind(pick(&mut node, 2, 3, true)), None);
        if was_free {
            node.0.keys(Timestamp::ORIGIN).remove(b"s/1".as_slice());
        }
        let first = was_free.then_some(client(3));
        assert_eq!(behind(pick(&mut node, 2, 4, true)), first);
        let (resource, ticket) = (Slots::new(b"", "s", 2).unwrap().line().clone(), Ticket::new(3));
        node.execute(Command::Leave { resource, client: client(3), ticket });
        node.put("s/1", another());
        // Of three slots, one is free.
        match pick(&mut node, 3, 5, false) {
            Reply::Granted(granted) => assert!(!was_free && granted.slot == Some(2)),
            Reply::Denied(denial) => assert!(was_free && denial.behind == Some(client(4))),
        }
    }
}

/// An entry ends before its key where another reader's entry lasts longer.
#[test]
fn whoever_reads_holds_up_to_the_end_of_its_own_entry() {
    let mut node = Node::new();
    for (owner, ttl) in [(one(), TTL), (another(), 2 * TTL)] {
        let target = Target::Shared(resource("r"));
        let until = Timestamp::ORIGIN;
        let restores = Command::Restore { target, owner, ttl, until, fenced: true, note: None };
        assert!(matches!(node.execute(restores), Reply::Granted(_)));
    }
    let at = |time: Duration| Timestamp::ORIGIN.saturating_add(time);
    let holds = |owner, time| node.0.holds(&resource("r"), owner, at(time));
    let moment = Duration::from_nanos(1);
    assert!(holds(one(), TTL - moment) && !holds(one(), TTL) && holds(another(), TTL));
    assert!(holds(another(), 2 * TTL - moment) && !holds(another(), 2 * TTL));
}
