//! Askers and waiters: who is next, what each does between two rounds, and what a waiter is told that waits in vain.
//! K1, K6, K7.

use std::time::Duration;

use quorlock_core::{
    Came, Cause, End, Event, Failure, FencingToken, GiveUp, Granted, Late, Moment, NodeId, Passed,
    Reply, Resource, ResourceSet, RoundLoss, Slots, Target, WaitPolicy,
};

use super::{
    super::at,
    Ask, Held, MS, TTL, ask, asker, asks, begin_now, begins,
    driven::{Mine, denied, moment},
    first_due, for_ms, gives_back, held, joins, next_asker, once, one, runs, stands, told, waits,
};

#[test]
fn k1_a_request_is_among_the_timers_until_it_leaves() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    // It is over, and the waiters have not been told.
    client.end_unwatched(id, End::GivenBack(0));
    let says = Ask { says_at: Some(at(50)), ..for_ms("patient", 100) };
    let leaves = stands(&mut client, queue, for_ms("patient", 100));
    let two = stands(&mut client, queue, says);
    let third = stands(&mut client, queue, waits("third"));
    runs(&mut client, 1);
    assert_eq!((client.timers(), first_due(&client)), (2, Some(48)), "one waits without an end");
    assert_eq!(client.leave(queue, leaves).map(|ask| ask.name), Some("patient"));
    assert_eq!((client.timers(), client.leave(queue, leaves)), (1, None));
    // It says for whom it waits, once, and waits on.
    assert_eq!(client.handle_timeout(&moment(50)), [(queue, two)]);
    let owner = client.keys(id).unwrap().1;
    let late = client.handle_waiter_due(queue, two, at(50), |ask, held, (here, elsewhere)| {
        ask.says_at = None;
        Some((held, here, elsewhere))
    });
    assert!(matches!(late, Late::Waits(Some((Some(it), 0, None))) if it == owner), "{late:?}");
    runs(&mut client, 50);
    assert_eq!(first_due(&client), Some(98), "up to its end");
    assert_eq!(client.handle_timeout(&moment(100)), [(queue, two)]);
    let late = client.handle_waiter_due(queue, two, at(100), |_, _, _| None::<()>);
    let Late::InVain(it, GiveUp::Crowded, Some(holder)) = late else { panic!("{late:?}") };
    assert_eq!((it.name, holder, client.timers()), ("patient", id, 0));
    let nothing = client.handle_waiter_due(queue, two, at(100), |_, _, _| None::<()>);
    assert!(matches!(nothing, Late::Nothing), "it has gone");
    // All who wait are turned away at once.
    stands(&mut client, queue, for_ms("last", 100));
    let all: Vec<_> = client.take_all_waiting().into_iter().map(|ask| ask.name).collect();
    assert_eq!((all, client.timers()), (vec!["third", "last"], 0));
    assert!(client.leave(queue, third).is_none());
    stands(&mut client, queue, ask("last", WaitPolicy::For(TTL)));
    assert_eq!((client.close_queue(queue).len(), client.timers(), client.queues()), (1, 0, 0));
}

#[test]
fn one_whose_time_is_up_while_a_round_is_under_way_is_told_what_that_finds() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let of_leader = leader.place;
    let round = leader.begins(&mut client, 0);
    let place = stands(&mut client, queue, for_ms("short", 20));
    runs(&mut client, 1);
    assert_eq!(client.handle_timeout(&moment(20)), [(queue, place)]);
    let late = client.handle_waiter_due(queue, place, at(20), |_, _, _| None::<()>);
    assert!(matches!(late, Late::Waits(None)), "{late:?}");
    runs(&mut client, 20);
    assert_eq!(first_due(&client), Some(518), "for no longer than a round takes");
    round.hears(&mut client, denied(), &moment(40));
    let events = runs(&mut client, 40);
    assert_eq!((told(&events).len(), told(&events)[0].0), (1, "short"));
    // A newcomer knows, and asks once in vain; a leader begins where the one before would go on.
    let came = joins(&mut client, queue, once("once"));
    let Came::Told(met, ask) = came else { panic!("{came:?}") };
    assert_eq!((ask.name, met.lost.loss, met.granted.len()), ("once", RoundLoss::Contended, 0));
    let next = stands(&mut client, queue, waits("next"));
    assert!(client.leave(queue, of_leader).is_some());
    assert!(begin_now(&mut client, 40).is_empty(), "it pauses as the one before would");
    let ends = first_due(&client).unwrap();
    client.handle_timeout(&moment(ends));
    let next = next_asker(&mut client, queue, next, ends);
    let knows = client.request(next.id).unwrap();
    assert_eq!((knows.name, knows.met.as_ref()), ("next", Some(&met)));
    // What was found by then is of no use to a newcomer when nobody is left.
    client.handle_gone_away(next.id);
    let later = asks(&mut client, queue, once("later"), 90);
    assert_eq!(client.request(later.id).unwrap().met, None);
}

#[test]
fn whoever_waits_here_or_has_lately_has_more_tokens_asked_for() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let several = |client: &Mine, ms| client.tokens_wanted(leader.id, &leader.asked, at(ms)) > 1;
    assert!(!several(&client, 1), "nobody has come");
    let place = stands(&mut client, queue, waits("first"));
    assert!(several(&client, 1));
    assert!(several(&client, 60_000), "it has stood there for long");
    client.leave(queue, place);
    assert!(several(&client, 1_000), "it was there a moment ago");
    assert!(!several(&client, 1_001));
    // How many come before whom.
    let place = stands(&mut client, queue, waits("second"));
    let ahead = |client: &Mine, place| client.ahead(queue, place).map(|(ahead, _)| ahead);
    assert_eq!((ahead(&client, leader.place), ahead(&client, place)), (Some(0), Some(1)));
    let other = stands(&mut client, queue, waits("third"));
    assert_eq!(ahead(&client, other), Some(2));
    client.handle_gone_away(leader.id);
    assert_eq!((ahead(&client, leader.place), ahead(&client, place)), (None, Some(0)));
}

#[test]
fn k7_a_pause_ends_when_its_time_is_up_or_the_key_is_gone() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let pauses = asks(&mut client, queue, waits("pauses"), 10);
    let place = pauses.place;
    pauses.loses(&mut client, RoundLoss::Contended, 10);
    assert!(begin_now(&mut client, 10).is_empty());
    let ends = first_due(&client).unwrap();
    assert!((11..15).contains(&ends), "{ends}");
    client.handle_timeout(&moment(ends - 1));
    assert!(begin_now(&mut client, ends - 1).is_empty(), "no sooner");
    client.handle_timeout(&moment(ends));
    let again = next_asker(&mut client, queue, place, ends);
    // The key is gone while it is in its round: the next pause does not begin, the one behind it does.
    let name = Resource::new("r").unwrap();
    let gone = |client: &mut Mine, node| client.handle_gone(NodeId::new(node), &name);
    gone(&mut client, 0);
    gone(&mut client, 0);
    gone(&mut client, 1);
    again.loses(&mut client, RoundLoss::Contended, 22);
    let again = next_asker(&mut client, queue, place, 22);
    again.loses(&mut client, RoundLoss::Contended, 23);
    assert!(begin_now(&mut client, 23).is_empty());
    gone(&mut client, 2);
    assert!(begin_now(&mut client, 23).is_empty(), "it is counted anew, and one is no quorum");
    gone(&mut client, 0);
    let again = next_asker(&mut client, queue, place, 23);
    // It was released here.
    again.loses(&mut client, RoundLoss::Contended, 24);
    client.handle_released(queue);
    let again = next_asker(&mut client, queue, place, 24);
    client.handle_gone_away(again.id);
    let events = runs(&mut client, 25);
    assert!(matches!(&events[..], [Event::Gone(ask)] if ask.name == "pauses"), "{events:?}");
    assert_eq!(client.timers(), 0);
}

#[test]
fn k7_one_whose_nodes_are_to_be_looked_at_goes_on_when_they_have_been_or_after_a_while() {
    for is_looked in [false, true] {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let asker = asks(&mut client, queue, waits("r"), 10);
        let (id, place) = (asker.id, asker.place);
        let round = asker.begins(&mut client, 10);
        let outdated = Err(Failure::new(false, Cause::Outdated));
        let lost = round.hears(&mut client, outdated, &moment(10));
        assert!(lost.outdated && lost.loss == RoundLoss::NoQuorum);
        let events = runs(&mut client, 10);
        let [Event::Look(looks, until)] = events[..] else { panic!("{events:?}") };
        assert_eq!((looks, until), (id, at(510)));
        if is_looked {
            client.handle_looked(id, at(509));
            assert!(runs(&mut client, 20).is_empty(), "that was another look");
            client.handle_looked(id, until);
            client.handle_looked(id, until);
        } else {
            client.handle_timeout(&moment(510));
        }
        let ms = if is_looked { 20 } else { 510 };
        let again = next_asker(&mut client, queue, place, ms);
        assert_eq!(client.request(again.id).unwrap().name, "r");
    }
}

#[test]
fn a_leader_whose_caller_has_gone_in_its_round_is_answered_by_nobody() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, Ask { goes_in_round: true, ..waits("gone") }, 1);
    stands(&mut client, queue, waits("next"));
    leader.loses(&mut client, RoundLoss::Contended, 2);
    let events = runs(&mut client, 2);
    assert!(events.iter().any(|event| matches!(event, Event::Gone(ask) if ask.name == "gone")));
    assert_eq!(told(&events).len(), 0);
    // It goes on with the pause of the one before.
    let ends = first_due(&client).unwrap();
    client.handle_timeout(&moment(ends));
    assert_eq!(begin_now(&mut client, ends), ["next"]);
    // Where that is known at once, so that its round is given up, the next one asks at once.
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("gone"), 1);
    leader.begins(&mut client, 1);
    stands(&mut client, queue, waits("next"));
    assert_eq!(client.leave(queue, leader.place).map(|ask| ask.name), Some("gone"));
    let events = runs(&mut client, 2);
    assert_eq!((begins(&client, &events), told(&events).len()), (vec!["next"], 0));
}

#[test]
fn all_who_wait_or_ask_between_two_rounds_are_answered_when_it_closes() {
    let mut client = Mine::new();
    let (queue, other) = (client.open_queue(&one("r")), client.open_queue(&one("other")));
    let in_round = asks(&mut client, other, waits("in a round"), 1).begins(&mut client, 1);
    let pauses = asks(&mut client, queue, waits("pauses"), 1);
    pauses.loses(&mut client, RoundLoss::Contended, 1);
    stands(&mut client, queue, waits("waits"));
    runs(&mut client, 1);
    client.close();
    let closed = |name| (name, GiveUp::Closed);
    let events = runs(&mut client, 1);
    assert_eq!(told(&events), [closed("waits"), closed("pauses")]);
    assert!(matches!(joins(&mut client, queue, waits("comes")), Came::Closed(_)));
    in_round.hears(&mut client, denied(), &moment(2));
    assert_eq!(told(&runs(&mut client, 2)), [closed("in a round")]);
}

/// One of the two resources of a set is asked for here by itself, again and again.
#[test]
fn who_wants_several_and_has_waited_for_long_keeps_back_who_comes_anew_for_one_of_them() {
    let mut client = Mine::new();
    let names = ["a", "b"].map(|name| Resource::new(name).unwrap());
    let both = client.open_queue(&Target::Set(ResourceSet::new(names).unwrap()));
    let set = asks(&mut client, both, waits("both"), 0);
    let place = set.place;
    let a = client.open_queue(&one("a"));
    // It has waited for as long as a turn: for a quarter of that it keeps others back.
    let round = set.begins(&mut client, 0);
    round.hears(&mut client, denied(), &Moment { turn: 10 * MS, ..moment(0) });
    runs(&mut client, 0);
    let came = client.join(a, None, waits("one"), at(10));
    assert!(matches!(came, Came::Waits(_)), "{came:?}");
    runs(&mut client, 10);
    let mut other = client.clone();
    // Its time is up,
    other.handle_timeout(&Moment { turn: 10 * MS, ..moment(13) });
    assert!(begin_now(&mut other, 13).contains(&"one"));
    // or the set is served.
    assert!(client.leave(both, place).is_some());
    assert_eq!(begin_now(&mut client, 10), ["one"]);
    // A request that asks once does not wait for it.
    let b = client.open_queue(&one("b"));
    let came = client.join(b, None, once("b"), at(10));
    assert!(matches!(came, Came::Begins(..)), "{came:?}");
}

#[test]
fn who_asks_beside_the_queue_comes_to_stand_where_it_came() {
    let mut client = Mine::new();
    let permits = Target::AnyOf(Slots::new(b"", "s", 3).unwrap());
    let queue = client.open_queue(&permits);
    let one = asks(&mut client, queue, waits("one"), 1);
    let two = asks(&mut client, queue, waits("two"), 1);
    let round = one.begins(&mut client, 1);
    assert_eq!(round.stand, None, "it stands in no line");
    let (first, second) = (one.place, two.place);
    round.hears(&mut client, denied(), &moment(2));
    assert!(begin_now(&mut client, 2).is_empty(), "it asks for all, and pauses");
    two.loses(&mut client, RoundLoss::Contended, 2);
    assert!(begin_now(&mut client, 2).is_empty());
    assert!(matches!(client.ahead(queue, second), Some((1, Some(_)))));
    let came = client.join(queue, None, once("once"), at(2));
    assert!(matches!(&came, Came::Told(met, _) if met.lost.found_held()), "{came:?}");
    // What the leader has won is one of several: there may be more, whatever was met before.
    let ends = first_due(&client).unwrap();
    client.handle_timeout(&moment(ends));
    let one = next_asker(&mut client, queue, first, ends);
    let slot = Ok(Reply::Granted(Granted::at(FencingToken::new(64)).in_slot(0)));
    let (won, events) = one.begins(&mut client, ends).wins(&mut client, slot, ends);
    assert_eq!(begins(&client, &events), ["two"]);
    assert!(client.holder(queue).is_none());
    assert!(client.hand_on(won, 0, &moment(ends)).is_none(), "it is not handed on");
}

#[test]
fn a_leader_whose_rounds_take_too_long_for_it_stands_behind_those_who_wait() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let slow = asks(&mut client, queue, waits("slow"), 1);
    let came_with = slow.place;
    // Nobody else stands there: it goes on.
    slow.loses(&mut client, RoundLoss::TooLate, 2);
    client.handle_timeout(&moment(4));
    let slow = next_asker(&mut client, queue, came_with, 4);
    let quick = Ask { is_in_time: true, ..waits("quick") };
    let place = stands(&mut client, queue, quick);
    slow.loses(&mut client, RoundLoss::TooLate, 5);
    runs(&mut client, 5);
    client.handle_timeout(&moment(7));
    let quick = next_asker(&mut client, queue, place, 7);
    let knows = client.request(quick.id).unwrap();
    assert_eq!((knows.name, &knows.met), ("quick", &None));
    assert_eq!(client.leave(queue, came_with).map(|ask| ask.name), Some("slow"));
}

/// Others are left a moment: here overlapping requests of this process.
#[test]
fn the_next_leader_rests_where_it_is_told_to() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    let names = ["r", "other"].map(|name| Resource::new(name).unwrap());
    let both = client.open_queue(&Target::Set(ResourceSet::new(names).unwrap()));
    asks(&mut client, both, waits("both"), 1);
    let place = stands(&mut client, queue, waits("next"));
    assert!(gives_back(&mut client, id, End::GivenBack(0), 6).is_some());
    assert!(begin_now(&mut client, 6).is_empty());
    client.settles(6);
    let events = runs(&mut client, 6);
    assert!(matches!(&events[..], [Event::Released(..)]), "whether or not it is free: {events:?}");
    client.handle_timeout(&moment(8));
    assert!(begin_now(&mut client, 8).is_empty(), "no sooner");
    client.handle_timeout(&moment(9));
    let events = runs(&mut client, 9);
    let next = asker(&mut client, queue, place, events);
    assert_eq!(client.request(next.id).unwrap().name, "next");
    // A hand-over to nobody says so by itself.
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    stands(&mut client, queue, Ask { linger: TTL, ..waits("long") });
    assert!(matches!(client.hand_on(id, 0, &moment(6_000)), Some((Passed::ToNobody, ..))));
}

/// It may have something to undo on the nodes.
#[test]
fn one_that_is_answered_is_so_before_the_next_one_asks() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, for_ms("leader", 20), 1);
    stands(&mut client, queue, waits("next"));
    leader.loses(&mut client, RoundLoss::Contended, 30);
    assert!(client.has_events());
    let mut events = std::iter::from_fn(|| client.poll_event())
        .filter(|event| !matches!(event, Event::Wake(_)))
        .collect::<Vec<_>>()
        .into_iter();
    assert!(matches!(events.next(), Some(Event::GiveUp(ask, ..)) if ask.name == "leader"));
    assert!(matches!(events.next(), Some(Event::GoOn(_))));
    assert_eq!((events.next(), client.has_events()), (None, false));
}

/// It was told that the key is gone, and has gone itself, before it has its turn or before its round begins.
#[test]
fn k7_the_next_leader_asks_at_once_where_the_pause_of_the_one_before_had_ended() {
    for has_turn in [false, true] {
        let mut client = Mine::new();
        let queue = client.open_queue(&one("r"));
        let leader = asks(&mut client, queue, waits("leader"), 1);
        let place = leader.place;
        leader.loses(&mut client, RoundLoss::Contended, 2);
        runs(&mut client, 2);
        stands(&mut client, queue, waits("next"));
        client.handle_released(queue);
        if has_turn {
            next_asker(&mut client, queue, place, 2);
        }
        assert!(client.leave(queue, place).is_some());
        assert_eq!(begin_now(&mut client, 2), ["next"], "{has_turn}");
    }
}

/// Nobody can say what time it is.
#[test]
fn one_that_cannot_go_on_asks_no_more_unless_it_is_in_a_round() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    stands(&mut client, queue, waits("next"));
    client.handle_not_gone_on(leader.id);
    assert!(begin_now(&mut client, 1).is_empty(), "it is in its round");
    leader.loses(&mut client, RoundLoss::Contended, 2);
    client.handle_not_gone_on(leader.id);
    let events = runs(&mut client, 2);
    assert!(matches!(&events[..], [Event::Gone(ask), ..] if ask.name == "leader"), "{events:?}");
}
