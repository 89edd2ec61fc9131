//! Extensions of many leases together, what is known of each of them, and a key that is set again where a node has lost it.

use std::time::Duration;

use quorlock_core::{
    Command, End, Event, ExtendOutcome, Failure, GrantId, Owner, Said, Sending, Target,
};

use super::{
    super::at,
    MS, asks,
    driven::{Answered, COUNTED, GRANTED, LATE, Mine, denied, moment, node, start, won},
    first_due, one,
    rounds::{ends, gone, on},
    runs, set, waits,
};

/// Grants of these targets, which are due together, and when.
fn held(targets: &[Target]) -> (Mine, Vec<GrantId>, u64) {
    let mut client = Mine::new();
    let won = targets.iter().map(|target| {
        let queue = client.open_queue(target);
        asks(&mut client, queue, waits("holds"), 0).wins(&mut client, 0).0
    });
    let all = won.collect();
    client.settles(0);
    client.takes();
    let due = first_due(&client).unwrap();
    client.handle_timeout(&moment(due));
    (client, all, due)
}

/// What is known of what each node has said of one of several leases that share a message.
#[test]
fn each_lease_of_a_message_is_told_what_the_nodes_have_said_of_itself() {
    let (mut client, all, due) = held(&["a", "b", "c"].map(one));
    client.answer_extends(0, &[gone(), GRANTED, GRANTED], &moment(due));
    client.answer_extends(1, &[denied(), LATE, GRANTED], &moment(due));
    let said = |client: &Mine, id| {
        let said: Option<&[Said<Failure>]> = client.doubt(id);
        said.map(|said| said.iter().map(|said| format!("{said:?}")).collect::<Vec<_>>())
    };
    let is = |said: Option<Vec<String>>, all: [&str; 3]| {
        let said = said.unwrap();
        assert!(said.iter().zip(all).all(|(said, is)| said.starts_with(is)), "{said:?}");
    };
    is(said(&client, all[0]), ["Denied", "Denied", "Unanswered"]);
    assert_eq!(said(&client, all[1]), None, "it is not decided");
    client.answer_extends(2, &[GRANTED, Err(Failure::NOT_SENT), GRANTED], &moment(due));
    is(said(&client, all[1]), ["Granted", "Failed", "Failed"]);
    assert_eq!(said(&client, all[2]), None, "it is extended");
    let events = runs(&mut client, due);
    let outcome = |id: GrantId| {
        let of_it = events.iter().filter_map(|event| match event {
            Event::Extended { grant, outcome, .. } if *grant == id => Some(*outcome),
            _ => None,
        });
        of_it.collect::<Vec<_>>()
    };
    assert_eq!(outcome(all[0]), [ExtendOutcome::Lost]);
    assert_eq!(outcome(all[1]), [ExtendOutcome::InDoubt]);
    assert!(matches!(outcome(all[2])[..], [ExtendOutcome::Extended(_)]));
}

/// A node does nothing else while it executes a command: 128 keys are a message.
#[test]
fn no_message_has_more_keys_than_a_batch() {
    let messages = |sizes: &[usize]| {
        let of_size = |(number, size): (usize, &usize)| {
            let names: Vec<_> = (0..*size).map(|key| format!("{number}/{key}")).collect();
            set(&names)
        };
        let targets: Vec<_> = sizes.iter().enumerate().map(of_size).collect();
        let (mut client, ..) = held(&targets);
        let sent = client.takes().into_iter().filter(|it| it.node.index() == 0);
        let keys = |command: &Command| match command {
            Command::Extend { target, .. } => target.len(),
            other => panic!("{other:?}"),
        };
        let of_message = |sending: &Sending| match sending {
            Sending::Several(all) => all.iter().map(keys).collect::<Vec<_>>(),
            Sending::One(other) => panic!("{other:?}"),
        };
        sent.map(|it| of_message(&it.sending)).collect::<Vec<_>>()
    };
    assert_eq!(messages(&[32; 4]), [[32; 4]]);
    assert_eq!(messages(&[30; 5]), [vec![30; 4], vec![30]]);
    assert_eq!(messages(&[32, 32, 32, 32, 2]), [vec![32; 4], vec![2]]);
}

/// A lease whose key a node has lost, and the restore that was sent there. Its owner ends with this byte.
fn restores(byte: u8, ms: u64) -> (Mine, GrantId, Owner) {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let asker = asks(&mut client, queue, waits("r"), 0);
    let owner = Owner::from_random([byte; 16]);
    client.begins_as(asker.id, &asker.asked, 0, start(owner));
    let all = [0, 1, 2].map(|index| (index, COUNTED));
    client.answer(("acquire", owner), &all, &moment(0));
    let (id, _) = won(runs(&mut client, 0));
    client.extend(id, &moment(ms));
    client.answer(("extend", owner), &[(0, gone()), (1, GRANTED), (2, GRANTED)], &moment(ms));
    runs(&mut client, ms);
    client.takes();
    (client, id, owner)
}

/// For how long it pauses behind a first restore that was answered this.
fn pauses(says: Answered, byte: u8, ms: u64) -> Duration {
    let (mut client, _, owner) = restores(byte, ms);
    client.answer(("restore", owner), &[(0, says)], &moment(ms));
    client.next_look(at(ms)).unwrap().saturating_since(at(ms))
}

/// Clients whose rounds have its key for a moment come again and again; both sides draw lots, by who they are and when
/// it is.
#[test]
fn a_restore_that_was_in_somebodys_way_is_sent_once_more_behind_a_short_pause() {
    // The lowest byte of the microseconds is 0 in the first of these milliseconds, and 248 in the other.
    let (none, most) = (32, 11);
    assert_eq!(pauses(denied(), 0, none), 2 * MS);
    assert_eq!(pauses(denied(), 255, none), 18 * MS);
    assert_eq!(pauses(denied(), 0, most), 2 * MS + 16 * MS * 248 / 255);
    assert_eq!(pauses(denied(), 248, most), 2 * MS, "the two part");
    let longest = 18 * MS;
    assert!(pauses(GRANTED, 0, none) > longest, "it is there again");
    assert!(pauses(Err(Failure::NOT_SENT), 0, none) > longest, "nobody was in its way");

    let (mut client, _, owner) = restores(0, none);
    client.answer(("restore", owner), &[(0, denied())], &moment(none));
    client.takes();
    client.handle_timeout(&moment(none + 2));
    assert_eq!(client.takes_named(), on("restore", &[0], owner));
    client.answer(("restore", owner), &[(0, denied())], &moment(none + 3));
    client.takes();
    let next = client.next_look(at(none + 3)).unwrap().saturating_since(at(none + 3));
    assert!(next > longest, "it is not sent a third time: {next:?}");
    assert_eq!(client.under_way(), 0);
}

/// It may land behind the release, which has deleted what stood there before.
#[test]
fn behind_a_restore_that_may_be_late_a_node_is_asked_once_more() {
    let (mut client, id, owner) = restores(0, 32);
    client.answer(("restore", owner), &[(0, LATE)], &moment(33));
    client.give_back(id, End::GivenBack(0), |_, _| "given back", &moment(34)).unwrap();
    assert_eq!(client.takes_nodes("release", owner), [0, 1, 2]);
    client.answer(("release", owner), &[0, 1, 2].map(|index| (index, GRANTED)), &moment(35));
    assert_eq!([0, 1, 2].map(|index| client.unconfirmed(node(index))), [1, 0, 0]);
    ends(&mut client, 36, 0);
}
