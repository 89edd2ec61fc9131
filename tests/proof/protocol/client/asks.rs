//! Those who ask and those who wait: who is next, who waits for its turn, and what those are told who wait in vain. K1, K6, K7.

use std::time::Duration;

use quorlock_core::{
    Came, End, Event, Footprint, GiveUp, Lane, Late, LostRound, NewGrant, Passed, Resource,
    ResourceSet, RoundLoss, Slots, Target, Turn, WaitPolicy,
};

use super::{
    super::at, Ask, Held, MS, Mine, TTL, ask, asker, asks, begins, first_due, held, joins,
    lost_round, new, now, once, one, runs, stands, waits,
};

/// Who is answered, and how.
fn told(events: &[super::Decided]) -> Vec<(&'static str, GiveUp)> {
    let told = events.iter().filter_map(|event| match event {
        Event::GiveUp(ask, told, _) => Some((ask.name, *told)),
        _ => None,
    });
    told.collect()
}

fn for_ms(name: &'static str, ms: u32) -> Ask {
    ask(name, WaitPolicy::For(ms * MS))
}

/// As many rounds as may be under way at once.
fn crowd(client: &mut Mine) -> Vec<Turn> {
    let turns = (0..64).map(|number| {
        let queue = client.open_queue(&one(&format!("crowd {number}")));
        asks(client, queue, waits("crowd"), 1).turn
    });
    turns.collect()
}

#[test]
fn k1_a_request_is_among_the_timers_until_it_leaves() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    client.end(id, End::GivenBack(0));
    let says = Ask { says_at: Some(at(50)), ..for_ms("patient", 100) };
    let leaves = stands(&mut client, queue, for_ms("patient", 100));
    let two = stands(&mut client, queue, says);
    let third = stands(&mut client, queue, waits("third"));
    runs(&mut client, 1);
    assert_eq!((client.timers(), first_due(&client)), (2, Some(48)), "one waits without an end");
    assert_eq!(client.leave(queue, leaves).map(|ask| ask.name), Some("patient"));
    assert_eq!((client.timers(), client.leave(queue, leaves)), (1, None));
    // It says for whom it waits, once, and waits on.
    assert_eq!(client.handle_timeout(at(50)).waiting, [(queue, two)]);
    let late = client.handle_waiter_due(queue, two, at(50), |ask, held, (here, elsewhere)| {
        ask.says_at = None;
        Some((held.copied(), here, elsewhere))
    });
    assert!(matches!(late, Late::Waits(Some((Some("grant"), 0, None)))), "{late:?}");
    runs(&mut client, 50);
    assert_eq!(first_due(&client), Some(98), "up to its end");
    assert_eq!(client.handle_timeout(at(100)).waiting, [(queue, two)]);
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
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let of_leader = leader.place;
    leader.begins(&mut client, 0);
    let place = stands(&mut client, queue, for_ms("short", 20));
    runs(&mut client, 1);
    assert_eq!(client.handle_timeout(at(20)).waiting, [(queue, place)]);
    let late = client.handle_waiter_due(queue, place, at(20), |_, _, _| None::<()>);
    assert!(matches!(late, Late::Waits(None)), "{late:?}");
    runs(&mut client, 20);
    assert_eq!(first_due(&client), Some(518), "for no longer than a round takes");
    leader.loses(&mut client, RoundLoss::Contended, 40);
    let events = runs(&mut client, 40);
    assert_eq!((told(&events).len(), told(&events)[0].0), (1, "short"));
    // Whoever comes now knows, and asks once in vain; a leader begins where the one before would go on.
    let came = joins(&mut client, queue, once("once"));
    assert!(matches!(&came, Came::Told("held", ask) if ask.name == "once"), "{came:?}");
    let next = stands(&mut client, queue, waits("next"));
    assert!(client.leave(queue, of_leader).is_some());
    assert!(begins(&runs(&mut client, 40)).is_empty(), "it pauses as the one before would");
    let ends = first_due(&client).unwrap();
    client.handle_timeout(at(ends));
    let next = asker(runs(&mut client, ends), next);
    assert_eq!((next.ask.name, next.ask.met), ("next", Some("held")));
    // What was found by then is of no use to whoever comes when nobody is left.
    client.handle_gone_away(next.id);
    assert_eq!(asks(&mut client, queue, once("later"), 90).ask.met, None);
}

#[test]
fn whoever_waits_here_or_has_lately_has_more_tokens_asked_for() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let several = |client: &mut Mine, ms| leader.begins(client, ms).several;
    assert!(!several(&mut client, 1), "nobody has come");
    let place = stands(&mut client, queue, waits("first"));
    assert!(several(&mut client, 1));
    assert!(several(&mut client, 60_000), "it has stood there for long");
    client.leave(queue, place);
    assert!(several(&mut client, 1_000), "it was there a moment ago");
    assert!(!several(&mut client, 1_001));
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
fn k6_whoever_goes_away_makes_room_for_the_next_from_wherever_it_is() {
    let mut client = new();
    let (queue, other) = (client.open_queue(&one("r")), client.open_queue(&one("other")));
    let mut turns = crowd(&mut client);
    // It waits for its turn.
    let first = stands(&mut client, queue, waits("first"));
    let second = stands(&mut client, queue, waits("second"));
    let elsewhere = stands(&mut client, other, waits("elsewhere"));
    assert!(begins(&runs(&mut client, 1)).is_empty());
    assert_eq!(client.crowd(Lane::Acquires), 2);
    assert_eq!(client.leave(queue, first).map(|ask| ask.name), Some("first"));
    assert_eq!(client.leave(queue, first), None, "once");
    runs(&mut client, 1);
    assert_eq!(client.crowd(Lane::Acquires), 2, "the next one is behind the one elsewhere");
    for (name, place) in [("elsewhere", elsewhere), ("second", second)] {
        let mut turn = turns.pop().unwrap();
        assert!(client.give_back(Lane::Acquires, &mut turn, None, at(2)));
        client.let_in(at(2));
        let next = asker(runs(&mut client, 2), place);
        assert_eq!((next.ask.name, next.turn.waited()), (name, true));
        let mut turn = next.turn;
        client.give_back(Lane::Acquires, &mut turn, None, at(2));
        // In a round it goes on until that is decided.
        let queue = if name == "second" { queue } else { other };
        assert_eq!(client.leave(queue, place), None);
        client.handle_gone_away(next.id);
    }
    // It pauses.
    let pauses = asks(&mut client, queue, waits("pauses"), 3);
    let place = pauses.place;
    pauses.loses(&mut client, RoundLoss::Contended, 3);
    let behind = stands(&mut client, queue, waits("behind"));
    assert_eq!(client.leave(queue, place).map(|ask| ask.name), Some("pauses"));
    runs(&mut client, 3);
    assert_eq!(client.leave(queue, behind).map(|ask| ask.name), Some("behind"));
    assert_eq!((runs(&mut client, 3).len(), client.timers()), (0, 0));
}

#[test]
fn one_that_waits_for_its_turn_in_vain_is_in_a_crowd_and_so_are_those_behind_it() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let _turns = crowd(&mut client);
    stands(&mut client, queue, for_ms("leader", 30));
    let behind = stands(&mut client, queue, for_ms("short", 20));
    runs(&mut client, 1);
    let late = client.handle_waiter_due(queue, behind, at(20), |_, _, _| None::<()>);
    assert!(matches!(late, Late::InVain(_, GiveUp::Crowded, None)), "{late:?}");
    client.handle_timeout(at(29));
    assert!(told(&runs(&mut client, 29)).is_empty(), "not before its time");
    client.handle_timeout(at(30));
    assert_eq!(told(&runs(&mut client, 30)), [("leader", GiveUp::Crowded)]);
    assert_eq!((client.crowd(Lane::Acquires), client.timers()), (0, 0));
}

#[test]
fn a_release_that_waits_for_its_turn_is_told_when_its_time_is_up_and_waits_behind_no_acquire() {
    let mut client = new();
    let _turns = crowd(&mut client);
    let begun = (0..64).filter_map(|_| client.want_release("now", None, at(1)));
    let mut begun: Vec<_> = begun.collect();
    assert_eq!(begun.len(), 64);
    assert_eq!(client.want_release("short", Some(at(20)), at(1)), None);
    assert_eq!(client.want_release("long", Some(at(30)), at(1)), None);
    assert_eq!(client.crowd(Lane::Releases), 2);
    runs(&mut client, 1);
    client.handle_timeout(at(20));
    let [Event::Release("short", Err(_))] = runs(&mut client, 20)[..] else {
        panic!("one is late")
    };
    assert_eq!(client.want_release("short", None, at(20)), None);
    for name in ["long", "short"] {
        let (_, mut turn) = begun.pop().unwrap();
        assert!(client.give_back(Lane::Releases, &mut turn, None, at(21)));
        assert!(!client.give_back(Lane::Releases, &mut turn, None, at(21)), "once");
        client.let_in(at(21));
        let events = runs(&mut client, 21);
        let [Event::Release(given, Ok(_))] = events[..] else { panic!("{events:?}") };
        assert_eq!(given, name);
    }
}

#[test]
fn k7_a_pause_ends_when_its_time_is_up_or_the_key_is_gone() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let pauses = |client: &mut Mine, ms| {
        let asker = asks(client, queue, waits("pauses"), ms);
        let place = asker.place;
        asker.loses(client, RoundLoss::Contended, ms);
        assert!(begins(&runs(client, ms)).is_empty());
        place
    };
    let place = pauses(&mut client, 10);
    let ends = first_due(&client).unwrap();
    assert!((11..15).contains(&ends), "{ends}");
    client.handle_timeout(at(ends - 1));
    assert!(begins(&runs(&mut client, ends - 1)).is_empty(), "no sooner");
    client.handle_timeout(at(ends));
    let again = asker(runs(&mut client, ends), place);
    // The key is gone while it is in its round: the next pause does not begin, the one behind it does.
    let name = Resource::new("r").unwrap();
    let gone =
        |client: &mut Mine, node| client.handle_gone(quorlock_core::NodeId::new(node), &name);
    gone(&mut client, 0);
    gone(&mut client, 0);
    gone(&mut client, 1);
    again.loses(&mut client, RoundLoss::Contended, 22);
    let again = asker(runs(&mut client, 22), place);
    again.loses(&mut client, RoundLoss::Contended, 23);
    assert!(begins(&runs(&mut client, 23)).is_empty());
    gone(&mut client, 2);
    assert!(begins(&runs(&mut client, 23)).is_empty(), "it is counted anew, and one is no quorum");
    gone(&mut client, 0);
    let again = asker(runs(&mut client, 23), place);
    // It was released here.
    again.loses(&mut client, RoundLoss::Contended, 24);
    client.handle_released(queue);
    let again = asker(runs(&mut client, 24), place);
    client.handle_gone_away(again.id);
    assert!(runs(&mut client, 25).is_empty() && client.timers() == 0);
}

#[test]
fn k7_one_whose_nodes_are_to_be_looked_at_goes_on_when_they_have_been_or_after_a_while() {
    for is_looked in [false, true] {
        let mut client = new();
        let queue = client.open_queue(&one("r"));
        let asker = asks(&mut client, queue, waits("r"), 10);
        let (id, place) = (asker.id, asker.place);
        let lost = LostRound { outdated: true, ..lost_round(RoundLoss::NoQuorum, 10) };
        let by = (TTL, None, 0);
        client.handle_lost(id, asker.ask, (lost, "held"), by, at(10), |_, _| None::<()>);
        let events = runs(&mut client, 10);
        let [Event::Look(looks, until)] = events[..] else { panic!("{events:?}") };
        assert_eq!((looks, until), (id, at(510)));
        if is_looked {
            client.handle_looked(id, at(509));
            assert!(runs(&mut client, 20).is_empty(), "that was another look");
            client.handle_looked(id, until);
            client.handle_looked(id, until);
        } else {
            client.handle_timeout(until);
        }
        let ms = if is_looked { 20 } else { 510 };
        let again = super::asker(runs(&mut client, ms), place);
        assert_eq!(again.ask.name, "r");
    }
}

#[test]
fn a_leader_whose_caller_has_gone_in_its_round_is_answered_by_nobody() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let mut leader = asks(&mut client, queue, waits("gone"), 1);
    stands(&mut client, queue, waits("next"));
    leader.ask.gone = true;
    leader.loses(&mut client, RoundLoss::Abandoned, 2);
    let events = runs(&mut client, 2);
    assert!(events.iter().any(|event| matches!(event, Event::Gone(ask) if ask.name == "gone")));
    assert_eq!((begins(&events), told(&events).len()), (vec!["next"], 0));
}

#[test]
fn all_who_wait_or_ask_between_two_rounds_are_answered_when_it_closes() {
    let mut client = new();
    let (queue, other) = (client.open_queue(&one("r")), client.open_queue(&one("other")));
    let in_round = asks(&mut client, other, waits("in a round"), 1);
    let pauses = asks(&mut client, queue, waits("pauses"), 1);
    pauses.loses(&mut client, RoundLoss::Contended, 1);
    stands(&mut client, queue, waits("waits"));
    runs(&mut client, 1);
    client.close();
    let closed = |name| (name, GiveUp::Closed);
    let events = runs(&mut client, 1);
    assert_eq!(told(&events), [closed("waits"), closed("pauses")]);
    assert!(matches!(joins(&mut client, queue, waits("comes")), Came::Closed(_)));
    in_round.loses(&mut client, RoundLoss::Contended, 2);
    assert_eq!(told(&runs(&mut client, 2)), [closed("in a round")]);
}

/// Of two of a set one is asked for here by itself, again and again.
#[test]
fn who_wants_several_and_has_waited_for_long_keeps_back_who_comes_anew_for_one_of_them() {
    let mut client = new();
    let names = ["a", "b"].map(|name| Resource::new(name).unwrap());
    let both = client.open_queue(&Target::Set(ResourceSet::new(names).unwrap()));
    let set = asks(&mut client, both, waits("both"), 0);
    let place = set.place;
    let a = client.open_queue(&one("a"));
    // It has waited for as long as a turn: for a quarter of that it keeps others back.
    let by = (10 * MS, None, 0);
    let lost = lost_round(RoundLoss::Contended, 0);
    client.handle_lost(set.id, set.ask, (lost, "held"), by, at(0), |_, _| None::<()>);
    runs(&mut client, 0);
    let came = client.join(a, None, waits("one"), at(10));
    assert!(matches!(came, Came::Waits(_)), "{came:?}");
    runs(&mut client, 10);
    let mut other = client.clone();
    // Its time is up,
    other.handle_timeout(at(13));
    assert!(begins(&runs(&mut other, 13)).contains(&"one"));
    // or the set is served.
    assert!(client.leave(both, place).is_some());
    assert_eq!(begins(&runs(&mut client, 10)), ["one"]);
    // One who asks once does not wait for it.
    let came = client.join(client.clone().open_queue(&one("b")), None, once("b"), at(10));
    assert!(matches!(came, Came::Closed(_) | Came::Begins(..)), "{came:?}");
}

#[test]
fn who_asks_beside_the_queue_comes_to_stand_where_it_came() {
    let mut client = new();
    let permits = Target::AnyOf(Slots::new(b"", "s", 3).unwrap());
    let queue = client.open_queue(&permits);
    let one = asks(&mut client, queue, waits("one"), 1);
    let two = asks(&mut client, queue, waits("two"), 1);
    assert_eq!(one.begins(&mut client, 1).stand, None, "it stands in no line");
    let (first, second) = (one.place, two.place);
    one.loses(&mut client, RoundLoss::Contended, 2);
    assert!(begins(&runs(&mut client, 2)).is_empty(), "it asks for all, and pauses");
    two.loses(&mut client, RoundLoss::Contended, 2);
    assert!(begins(&runs(&mut client, 2)).is_empty());
    assert!(matches!(client.ahead(queue, second), Some((1, Some(_)))));
    let told = |client: &mut Mine| client.join(queue, None, once("once"), at(2));
    assert!(matches!(told(&mut client), Came::Told("held", _)));
    // What the leader has won is one of several: there may be more, whatever was met before.
    let ends = first_due(&client).unwrap();
    client.handle_timeout(at(ends));
    let one = asker(runs(&mut client, ends), first);
    assert_eq!(one.begins(&mut client, ends).station, None, "it is not handed on");
    let footprint = client.add_footprint(Footprint::new(3));
    let leases = {
        let Held { client, id, .. } = held(Duration::ZERO);
        client.leases(id).unwrap().clone()
    };
    let won = client.begin(NewGrant { leases, footprint, station: None, data: "permit" });
    assert!(client.handle_won(one.id, won, TTL, at(ends)).is_empty());
    assert_eq!(begins(&runs(&mut client, ends)), ["two"]);
    assert!(client.holder(queue).is_none());
}

#[test]
fn a_leader_whose_rounds_take_too_long_for_it_stands_behind_those_who_wait() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let slow = asks(&mut client, queue, waits("slow"), 1);
    let came_with = slow.place;
    // Nobody else stands there: it goes on.
    slow.loses(&mut client, RoundLoss::TooLate, 2);
    client.handle_timeout(at(4));
    let slow = asker(runs(&mut client, 4), came_with);
    let quick = Ask { is_in_time: true, ..waits("quick") };
    let place = stands(&mut client, queue, quick);
    slow.loses(&mut client, RoundLoss::TooLate, 5);
    runs(&mut client, 5);
    client.handle_timeout(at(7));
    let quick = asker(runs(&mut client, 7), place);
    assert_eq!((quick.ask.name, quick.ask.met), ("quick", None));
    assert_eq!(client.leave(queue, came_with).map(|ask| ask.name), Some("slow"));
}

/// Others are left a moment where hand-overs have kept them from it.
#[test]
fn the_next_leader_rests_where_it_is_told_to() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    let place = stands(&mut client, queue, waits("next"));
    client.rest_until(queue, at(9));
    client.end(id, End::GivenBack(0));
    client.handle_grant_over(id);
    assert!(begins(&runs(&mut client, 2)).is_empty());
    client.handle_released(queue);
    assert!(begins(&runs(&mut client, 2)).is_empty(), "whether or not it is free");
    client.handle_timeout(at(9));
    assert_eq!(asker(runs(&mut client, 9), place).ask.name, "next");
    // A hand-over to nobody says so by itself.
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    stands(&mut client, queue, Ask { linger: TTL, ..waits("long") });
    assert!(matches!(client.hand_on(id, 0, now(6_000)), Some((Passed::ToNobody, ..))));
}

/// It may have something to undo on the nodes.
#[test]
fn one_that_is_answered_is_so_before_the_next_one_asks() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, for_ms("leader", 20), 1);
    stands(&mut client, queue, waits("next"));
    leader.loses(&mut client, RoundLoss::Contended, 30);
    assert!(client.has_events());
    assert!(matches!(client.poll_event(), Some(Event::GiveUp(ask, ..)) if ask.name == "leader"));
    assert!(matches!(client.poll_event(), Some(Event::GoOn(_))));
    assert_eq!((client.poll_event(), client.has_events()), (None, false));
}

/// As where the clock of the one who gave a turn back has panicked.
#[test]
fn where_nobody_is_let_in_the_next_one_who_comes_makes_that_good() {
    let mut client = new();
    let (queue, other) = (client.open_queue(&one("r")), client.open_queue(&one("other")));
    let turns = crowd(&mut client);
    stands(&mut client, queue, waits("first"));
    let begun: Vec<_> = (0..64).filter_map(|_| client.want_release("now", None, at(1))).collect();
    assert_eq!(client.want_release("first", None, at(1)), None);
    for mut turn in turns {
        assert!(client.give_back(Lane::Acquires, &mut turn, None, at(2)));
    }
    for (_, mut turn) in begun {
        assert!(client.give_back(Lane::Releases, &mut turn, None, at(2)));
    }
    assert_eq!(asks(&mut client, other, waits("second"), 3).ask.name, "second");
    assert_eq!(begins(&runs(&mut client, 3)), ["first"]);
    assert_eq!(client.want_release("second", None, at(3)), None);
    let events = runs(&mut client, 3);
    let released = |event: &super::Decided| match event {
        Event::Release(name, Ok(_)) => Some(*name),
        _ => None,
    };
    assert_eq!(events.iter().filter_map(released).collect::<Vec<_>>(), ["first", "second"]);
}

/// It was told that the key is gone, and has gone itself.
#[test]
fn k7_the_next_leader_asks_at_once_where_the_pause_of_the_one_before_had_ended() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    let place = leader.place;
    leader.loses(&mut client, RoundLoss::Contended, 2);
    runs(&mut client, 2);
    stands(&mut client, queue, waits("next"));
    client.handle_released(queue);
    assert!(client.leave(queue, place).is_some());
    assert_eq!(begins(&runs(&mut client, 2)), ["next"]);
}

/// Nobody can say what time it is.
#[test]
fn one_that_cannot_go_on_asks_no_more_unless_it_is_in_a_round() {
    let mut client = new();
    let queue = client.open_queue(&one("r"));
    let leader = asks(&mut client, queue, waits("leader"), 1);
    stands(&mut client, queue, waits("next"));
    client.handle_not_gone_on(leader.id);
    assert!(begins(&runs(&mut client, 1)).is_empty(), "it is in its round");
    let id = leader.id;
    leader.loses(&mut client, RoundLoss::Contended, 2);
    client.handle_not_gone_on(id);
    let events = runs(&mut client, 2);
    assert!(matches!(&events[..], [Event::Gone(ask), ..] if ask.name == "leader"), "{events:?}");
}
