//! What follows for waiters here where a grant is given back or taken, and where one of them has gone.

use std::time::Duration;

use quorlock_core::{
    Came, End, Event, FencingToken, Granted, Moment, Place, QueueId, Reply, RoundLoss,
};

use super::{
    super::at,
    Ask, Held, MS, asks, begin_now,
    driven::{Answered, GRANTED, LATE, Mine, denied, moment},
    gives_back, held, once, one, permits, runs, set, stands, waits,
};

/// A resource that is held, and a set with it that has been asked for in vain.
fn held_beside_a_set() -> (Held, QueueId, Place) {
    let mut held = held(Duration::ZERO);
    let both = held.client.open_queue(&set(&["r", "other"]));
    let set = asks(&mut held.client, both, waits("both"), 2);
    set.loses(&mut held.client, RoundLoss::Contended, 2);
    runs(&mut held.client, 2);
    held.client.takes();
    (held, both, set.place)
}

/// When this one begins.
fn begins_at(client: &mut Mine, name: &str) -> u64 {
    let next = |ms: &u64| {
        client.handle_timeout(&moment(*ms));
        begin_now(client, *ms).contains(&name)
    };
    (10..1_000).find(next).unwrap()
}

/// The set would never find both free if the next waiter asked for one of them at once.
#[test]
fn who_is_next_leaves_a_resource_to_a_set_of_the_same_process_for_two_round_trips() {
    let behind = |round_trip: Option<Duration>| {
        let (Held { mut client, queue, id }, ..) = held_beside_a_set();
        stands(&mut client, queue, waits("next"));
        let at = Moment { round_trip, ..moment(10) };
        client.give_back(id, End::GivenBack(0), |_, _| "given back", &at).unwrap();
        begins_at(&mut client, "next")
    };
    assert_eq!(behind(None), 13, "or a moment");
    assert_eq!(behind(Some(MS)), 13);
    assert_eq!(behind(Some(50 * MS)), 110);
}

#[test]
fn who_comes_then_leaves_it_too_but_one_who_asks_once_and_where_nobody_wants_the_set() {
    let (Held { mut client, queue, id }, both, place) = held_beside_a_set();
    gives_back(&mut client, id, End::GivenBack(0), 10);
    let comes = |client: &Mine, ask: Ask| {
        let mut client = client.clone();
        let name = ask.name;
        match client.join(queue, None, ask, at(10)) {
            Came::Begins(..) => 10,
            Came::Waits(_) => begins_at(&mut client, name),
            came => panic!("{came:?}"),
        }
    };
    assert_eq!(comes(&client, waits("next")), 13);
    assert_eq!(comes(&client, once("once")), 10);
    assert!(client.leave(both, place).is_some());
    assert_eq!(comes(&client, waits("next")), 10);
}

/// Until the key is gone, it denies overlapping rounds of the same process.
#[test]
fn a_release_that_is_confirmed_ends_the_pause_of_who_wants_it_with_others() {
    let goes_on = |kept: bool, says: Answered| {
        let (Held { mut client, id, .. }, ..) = held_beside_a_set();
        let of = client.keys(id).unwrap().1;
        if kept {
            client.change(id, |leases| leases.hold(0, at(1_000))).unwrap();
        }
        gives_back(&mut client, id, End::GivenBack(0), 10);
        assert!(begin_now(&mut client, 10).is_empty());
        let all = [0, 1, 2].map(|node| (node, says.clone()));
        client.answer(("release", of), &all, &moment(11));
        begin_now(&mut client, 11) == ["both"]
    };
    assert!(goes_on(false, GRANTED));
    assert!(!goes_on(true, GRANTED), "its key stands yet");
    assert!(!goes_on(false, LATE), "nobody knows");
}

/// Whether a pausing request for a permit asks at once when one ends, that was to be kept for 100 ms at least.
fn goes_on(ms: u64) -> bool {
    let mut client = Mine::new();
    let queue = client.open_queue(&permits());
    let mut first = asks(&mut client, queue, waits("first"), 0);
    first.asked.hold_at_least = Some(100 * MS);
    let slot = Ok(Reply::Granted(Granted::at(FencingToken::new(1)).in_slot(0)));
    let (id, _) = first.begins(&mut client, 0).wins(&mut client, slot, 0);
    client.change(id, |leases| leases.handle_taken(0)).unwrap();
    let next = asks(&mut client, queue, waits("next"), 1);
    next.loses(&mut client, RoundLoss::Contended, 1);
    assert!(begin_now(&mut client, 1).is_empty(), "it pauses");
    client.give_back(id, End::GivenBack(0), |_, _| "given back", &moment(ms)).unwrap();
    begin_now(&mut client, ms) == ["next"]
}

#[test]
fn who_waits_for_a_permit_asks_when_one_is_given_back_that_is_not_kept() {
    assert!(!goes_on(99), "its key stands for another millisecond");
    assert!(goes_on(100));
    assert!(goes_on(500));
}

#[test]
fn one_that_was_kept_and_is_taken_is_extended_where_that_is_due_and_it_lasts() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = client.keys(id).unwrap().1;
    let is_extended = |client: &Mine, extend| {
        let mut client = client.clone();
        client.handle_taken(id, extend, &moment(5));
        client.takes().len() == 3
    };
    assert!(!is_extended(&client, false));
    assert!(is_extended(&client, true));
    // An extension still refers to the grant that has ended.
    client.extend(id, &moment(5));
    client.answer(("extend", of), &[(0, GRANTED)], &moment(6));
    gives_back(&mut client, id, End::GivenBack(0), 6);
    client.takes();
    assert!(!is_extended(&client, true));
}

/// A request that has been kept back for a set, and has gone since, is not called when the set has been served.
#[test]
fn nobody_is_called_who_has_gone() {
    let mut client = Mine::new();
    let both = client.open_queue(&set(&["a", "b"]));
    let set = asks(&mut client, both, waits("both"), 0);
    let round = set.begins(&mut client, 0);
    round.hears(&mut client, denied(), &Moment { turn: 10 * MS, ..moment(0) });
    runs(&mut client, 0);
    let a = client.open_queue(&one("a"));
    let kept_back = |client: &mut Mine| {
        let came = client.join(a, None, waits("one"), at(10));
        let Came::Waits(place) = came else { panic!("{came:?}") };
        runs(client, 10);
        place
    };
    let place = kept_back(&mut client);
    let mut other = client.clone();
    assert!(other.leave(a, place).is_some());
    runs(&mut other, 10);
    let called = |client: &mut Mine| {
        assert!(client.leave(both, set.place).is_some());
        let events = std::iter::from_fn(|| client.poll_event());
        events.filter(|event| matches!(event, Event::GoOn(_))).count()
    };
    assert_eq!((called(&mut client), called(&mut other)), (1, 0));
}
