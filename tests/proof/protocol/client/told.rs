//! What a client says of itself to its driver, which looks and asks, and decides nothing of that.

use std::time::Duration;

use quorlock_core::{
    Command, Drift, End, Event, Failure, FencingToken, Label, Met, NodeSet, Note, Owner, RoundLoss,
    RoundStart, Sending, Slots, Target, Wakeup, longest_release,
};

use super::{
    super::at,
    Held, MS, TTL, asks,
    driven::{COUNTED, GRANTED, LATE, Mine, moment, start},
    gives_back, held, one, permits,
    rounds::ends,
    runs, stands, waits,
};

/// The default drift is a hundredth and two milliseconds. The round has taken one.
#[test]
fn a_round_that_was_too_late_would_do_for_whoever_has_that_much_left() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let lost = leader.loses(&mut client, RoundLoss::TooLate, 10);
    let drift = Drift::default();
    let mut met: Met<Failure> =
        Met { lost, at: at(10), drift, granted: NodeSet::below(3), said: Box::default() };
    assert!(met.would_do_for(TTL, 9_897 * MS));
    assert!(!met.would_do_for(TTL, 9_897 * MS + MS / 1_000));
    assert!(met.would_do_for(4 * MS, MS / 2));
    assert!(
        !met.would_do_for(3 * MS, Duration::ZERO),
        "nothing is left of it, which nobody can want"
    );
    met.lost.loss = RoundLoss::Contended;
    assert!(!met.would_do_for(TTL, Duration::ZERO), "somebody else has the key");
}

#[test]
fn a_round_for_any_permit_begins_with_a_slot_by_lot_and_all_are_as_likely() {
    let first = |random| {
        let mut client = Mine::new();
        let queue = client.open_queue(&Target::AnyOf(Slots::new(b"", "s", 5).unwrap()));
        let asker = asks(&mut client, queue, waits("permit"), 1);
        let owner = Owner::from_random([9; 16]);
        client.begins_as(asker.id, &asker.asked, 1, RoundStart { random, ..start(owner) });
        let sent = client.takes();
        let Sending::One(Command::Acquire { first, .. }) = sent[0].sending else { panic!() };
        usize::from(first)
    };
    let mut drawn = [0; 5];
    (0..=u8::MAX).for_each(|random| drawn[first(random)] += 1);
    assert_eq!(drawn, [52, 51, 51, 51, 51], "of 256");
    assert_eq!((first(0), first(u8::MAX)), (0, 4));
}

#[test]
fn a_driver_that_has_looked_rests_until_something_comes() {
    let mut client = Mine::new();
    assert_eq!(client.look(), Wakeup::Start);
    assert!(!client.rests(), "nobody has looked");
    assert_eq!(client.next_look(at(0)), None);
    assert!(client.rests());
    assert_eq!(client.look(), Wakeup::Wake);
    assert!(!client.rests());
    // A round that its driver is to begin is such a thing.
    let queue = client.open_queue(&one("r"));
    let asker = asks(&mut client, queue, waits("r"), 1);
    runs(&mut client, 1);
    client.next_look(at(1));
    assert_eq!(client.poll_begin(), None);
    client.begin_later(asker.id);
    assert!(!client.rests() && client.has_transmits());
    assert_eq!([client.poll_begin(), client.poll_begin()], [Some(asker.id), None]);
    assert!(!client.has_transmits());
}

#[test]
fn how_many_calls_there_are_to_be_made_is_known_up_to_each_round() {
    let mut client = Mine::new();
    let names = ["a", "b"].map(one);
    let askers = names.map(|name| {
        let queue = client.open_queue(&name);
        asks(&mut client, queue, waits("r"), 1)
    });
    assert_eq!(client.transmits(), 0);
    for (begun, asker) in (1..).zip(&askers) {
        client.begins_unsent(asker.id, &asker.asked, 1, 1);
        assert_eq!(client.transmits(), 3 * begun, "each node is asked once");
    }
    assert_eq!(client.takes().len(), 6);
    assert_eq!(client.transmits(), 0);
}

#[test]
fn calls_that_are_put_back_are_made_before_all_others_in_their_order() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    gives_back(&mut client, id, End::GivenBack(0), 10);
    let released: Vec<_> = std::iter::from_fn(|| client.poll_transmit()).collect();
    assert_eq!(released.len(), 3);
    let queue = client.open_queue(&one("other"));
    let asker = asks(&mut client, queue, waits("r"), 10);
    client.begins_unsent(asker.id, &asker.asked, 1, 10);
    client.put_back(released.clone().into_iter());
    let sent = client.takes();
    assert_eq!((&sent[..3], sent.len()), (&released[..], 6));
}

/// The time for one answer is up long before a release has failed: nobody is in a hurry.
#[test]
fn a_release_is_waited_for_until_it_is_decided_and_nothing_else_is() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = client.keys(id).unwrap().1;
    gives_back(&mut client, id, End::GivenBack(0), 10);
    let released = client.takes();
    let longest = at(10).saturating_add(longest_release(500 * MS));
    assert_eq!(
        released.iter().map(|it| client.waits_longer(it.call)).collect::<Vec<_>>(),
        [Some(longest); 3]
    );
    client.answer(("release", of), &[(0, GRANTED)], &moment(11));
    assert_eq!(
        client.waits_longer(released[2].call),
        Some(longest),
        "one of three has confirmed it"
    );
    client.answer(("release", of), &[(1, GRANTED)], &moment(12));
    assert_eq!(client.waits_longer(released[2].call), None);
    let queue = client.open_queue(&one("other"));
    let asker = asks(&mut client, queue, waits("r"), 12);
    let (other, _) = asker.wins(&mut client, 12);
    client.extend(other, &moment(13));
    let sent = client.takes();
    assert_eq!(sent.len(), 6, "a round and an extension");
    assert!(sent.iter().all(|it| client.waits_longer(it.call).is_none()));
}

#[test]
fn what_is_left_beside_a_key_is_so_from_the_next_restore_on() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let note = |us| Note::new(us, Label::new("who").unwrap());
    assert_eq!(client.note(id), None);
    assert_eq!(client.set_note(id, note(1)), None);
    assert_eq!(client.note(id), Some(&note(1)));
    assert_eq!(client.set_note(id, note(2)), Some(note(1)));
    let of = client.keys(id).unwrap().1;
    client.extend(id, &moment(5));
    let gone = super::rounds::gone();
    client.answer(("extend", of), &[(0, gone), (1, GRANTED), (2, GRANTED)], &moment(6));
    let sent = client.takes();
    let restored = sent.iter().find_map(|it| match &it.sending {
        Sending::One(Command::Restore { note, .. }) => note.clone(),
        _ => None,
    });
    assert_eq!(restored, Some(note(2)));
}

#[test]
fn what_the_nodes_have_said_to_an_extension_is_known_where_it_has_failed() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = client.keys(id).unwrap().1;
    assert!(client.doubt(id).is_none());
    client.extend(id, &moment(5));
    let failed = Err(Failure::NOT_SENT);
    client.answer(("extend", of), &[(0, GRANTED), (1, failed), (2, LATE)], &moment(6));
    let said = client.doubt(id).unwrap();
    let [first, second, third] = said else { panic!("{said:?}") };
    assert!(matches!(first, quorlock_core::Said::Granted), "{said:?}");
    assert!(
        matches!(second, quorlock_core::Said::Failed(it) if *it == Failure::NOT_SENT),
        "{said:?}"
    );
    assert!(
        matches!(third, quorlock_core::Said::Failed(it) if *it == Failure::TIMED_OUT),
        "{said:?}"
    );
    client.extend(id, &moment(7));
    client.answer(("extend", of), &[(0, GRANTED), (1, GRANTED)], &moment(8));
    assert!(client.doubt(id).is_none(), "it has been extended since");
    client.answer(("extend", of), &[(2, COUNTED)], &moment(9));
    gives_back(&mut client, id, End::GivenBack(0), 9);
    ends(&mut client, 9, 0);
}

/// The nodes were asked by a hint: of what they have counted, only more than that is worth keeping.
#[test]
fn a_counter_is_told_where_it_is_above_what_the_round_asked_by() {
    let told = |hint| {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let asker = asks(&mut client, queue, waits("r"), 1);
        let owner = Owner::from_random([9; 16]);
        let hint = Some(hint);
        client.begins_as(asker.id, &asker.asked, 1, RoundStart { hint, ..start(owner) });
        let all = [0, 1, 2].map(|node| (node, COUNTED));
        client.answer(("acquire", owner), &all, &moment(2));
        let events = runs(&mut client, 2);
        let counters = events.iter().filter_map(|event| match event {
            Event::Won { counter, .. } => Some(counter.map(FencingToken::get)),
            _ => None,
        });
        counters.collect::<Vec<_>>()
    };
    assert_eq!(told(62), [Some(64)]);
    assert_eq!(told(63), [Some(64)]);
    assert_eq!(told(64), [None]);
}

#[test]
fn who_leads_is_known_by_the_place_it_came_with() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let next = stands(&mut client, queue, waits("next"));
    let leads = |client: &Mine| [leader.place, next].map(|place| client.leads(queue, place));
    assert_eq!(leads(&client), [true, false]);
    assert!(client.leave(queue, leader.place).is_some());
    assert_eq!(leads(&client), [false, true]);
    assert!(client.leave(queue, next).is_some());
    assert_eq!(leads(&client), [false, false]);
}

/// A queue keeps no finished request, so that it does not grow where it is kept for long.
#[test]
fn a_queue_keeps_nobody_who_has_asked() {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let ask = |client: &Mine| {
        let all = format!("{:?}", &**client);
        let (_, asks) = all.split_once("asks: AskList").unwrap();
        asks.split_once('}').unwrap().0.contains("AskId")
    };
    assert!(!ask(&client));
    for leaves in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let all = [0; 3].map(|_| asks(&mut client, queue, waits("permit"), 1));
        for index in leaves {
            assert!(ask(&client));
            assert!(client.leave(queue, all[index].place).is_some());
        }
        assert!(!ask(&client), "{leaves:?}");
        client.settles(1);
    }
}
