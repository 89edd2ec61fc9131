//! How waiters come to an end other than by a lease: by their time, by a close, and where what was held is in nobody's
//! hands. K6, K7 and W2.
//!
//! Goal: no waiter waits on behind one that has gone, and none asks behind its own deadline. Method: as in `asks`.

use std::time::Duration;

use quorlock_core::{
    Command, Event, GiveUp, LeaseAction, Place, QueueId, Reply, Resource, ResourceSet, RoundLoss,
    Sending, Slots, Target, Transmit,
};

use super::{
    Ask, Held, asks, begin_now,
    driven::{COUNTED, Mine, denied, moment, named},
    first_due, for_ms, held, next_asker, once, one,
    places::denial,
    runs, stands, told, waits,
};

/// As where a clock has panicked while it was given back.
#[test]
fn k6_whoever_stands_behind_a_grant_that_nobody_has_any_more_asks() {
    let Held { mut client, queue, id } = held(Duration::ZERO);
    stands(&mut client, queue, waits("next"));
    assert_eq!(client.forget(id), Some("grant"));
    assert_eq!(begin_now(&mut client, 2), ["next"]);
}

/// As where the process stood still: its own timer is not looked at before the one of the lease.
#[test]
fn w2_one_that_stood_in_line_begins_no_round_behind_its_deadline() {
    let Held { mut client, queue, id } = held(Duration::ZERO);
    stands(&mut client, queue, for_ms("short", 20));
    client.handle_timeout(&moment(20_000));
    client.handle_grant_over(id);
    let events = runs(&mut client, 20_000);
    assert_eq!(told(&events), [("short", GiveUp::Crowded)]);
    // A request that asks once is told nothing by the time.
    let Held { mut client, queue, id } = held(Duration::ZERO);
    let leader = stands(&mut client, queue, waits("leader"));
    client.handle_grant_over(id);
    let leader = next_asker(&mut client, queue, leader, 1);
    stands(&mut client, queue, once("once"));
    client.handle_gone_away(leader.id);
    assert_eq!(begin_now(&mut client, 20_000), ["once"]);
}

/// No request stands in line behind a leader whose rounds take too long for it, but one that would be in time shares
/// them.
#[test]
fn one_who_asks_once_and_would_be_in_time_asks_in_place_of_a_leader_that_never_is() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let slow = asks(&mut client, queue, waits("slow"), 1);
    let came_with = slow.place;
    stands(&mut client, queue, Ask { is_in_time: true, ..once("quick") });
    slow.loses(&mut client, RoundLoss::TooLate, 5);
    assert!(told(&runs(&mut client, 5)).is_empty());
    client.handle_timeout(&moment(7));
    assert_eq!(begin_now(&mut client, 7), ["quick"]);
    assert_eq!(client.leave(queue, came_with).map(|ask| ask.name), Some("slow"));
}

/// Its round goes on behind the close, and its caller leaves under the place that it came with.
#[test]
fn one_that_stood_back_and_asks_again_may_leave_behind_a_close() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let slow = asks(&mut client, queue, waits("slow"), 1);
    let came_with = slow.place;
    let quick = Ask { is_in_time: true, ..waits("quick") };
    let quick = stands(&mut client, queue, quick);
    slow.loses(&mut client, RoundLoss::TooLate, 2);
    runs(&mut client, 2);
    assert!(client.leave(queue, quick).is_some());
    runs(&mut client, 2);
    let ends = first_due(&client).unwrap();
    client.handle_timeout(&moment(ends));
    let again = next_asker(&mut client, queue, came_with, ends);
    again.begins(&mut client, ends);
    client.close();
    assert!(runs(&mut client, ends).is_empty(), "it learns it when its round is lost");
    assert_eq!(client.leave(queue, came_with).map(|ask| ask.name), Some("slow"));
}

/// What lingers as a slot of a semaphore by its own name is one permit less.
#[test]
fn what_lingers_is_given_back_for_whoever_wants_a_permit_that_it_is_in_the_way_of() {
    let mut client = Mine::new();
    let slot = client.open_queue(&one("s/0"));
    let other = client.open_queue(&one("s/7"));
    let keeps = |client: &mut Mine, queue: QueueId| {
        let mut first = asks(client, queue, waits("first"), 1);
        first.asked.linger = Duration::from_secs(1);
        let round = client.begins(first.id, &first.asked, 64, 1);
        let (id, _) = round.wins(client, COUNTED, 1);
        client.change(id, |leases| leases.handle_taken(0)).unwrap();
        assert!(client.hand_on(id, 0, &moment(2)).is_some());
        id
    };
    let id = keeps(&mut client, slot);
    let beside = keeps(&mut client, other);
    let permits = client.open_queue(&Target::AnyOf(Slots::new(b"", "s", 1).unwrap()));
    assert_eq!(client.take_kept_beside(permits), [id]);
    assert_eq!(client.take_kept(other), Some(beside), "no slot of so few");
}

/// So many requests for 32 resources each, which stand in every line on every node; with the places that they came
/// with.
fn stand_for_sets(client: &mut Mine, count: usize) -> Vec<(QueueId, Place)> {
    let sets = (0..count).map(|set| {
        let names = (0..32).map(|name| Resource::new(format!("{set} {name}")).unwrap());
        let queue = client.open_queue(&Target::Set(ResourceSet::new(names).unwrap()));
        let first = asks(client, queue, waits("set"), 1);
        let denied = || Ok(Reply::Denied(denial(1, Duration::from_secs(9))));
        first.begins(client, 1).hears(client, denied(), &moment(1));
        // The second round stands in the lines.
        let again = next_asker(client, queue, first.place, 1);
        again.begins(client, 1).hears(client, denied(), &moment(1));
        runs(client, 1);
        (queue, first.place)
    });
    let sets = sets.collect();
    client.settles(20);
    client.takes();
    sets
}

/// Each of them stands in many lines, on every node; and renewals need their room.
#[test]
fn places_that_are_given_up_at_once_are_so_a_part_at_a_time() {
    let mut client = Mine::new();
    stand_for_sets(&mut client, 40);
    client.close();
    runs(&mut client, 20);
    let leaves = |client: &mut Mine| {
        let sent = client.takes_named();
        assert!(sent.iter().all(|(name, ..)| *name == "leave"), "{sent:?}");
        [0, 1, 2].map(|node| sent.iter().filter(|(_, at, _)| *at == node).count())
    };
    assert_eq!((leaves(&mut client), client.under_way()), ([1024; 3], 40 * 32 * 3));
    client.settles(21);
    assert_eq!((leaves(&mut client), client.under_way()), ([40 * 32 - 1024; 3], 0));
}

/// It would be denied for the sake of its own client.
#[test]
fn a_place_is_given_up_before_the_same_process_asks_for_the_same_again() {
    let mut client = Mine::new();
    let sets = stand_for_sets(&mut client, 40);
    for (queue, place) in &sets {
        assert!(client.leave(*queue, *place).is_some());
    }
    runs(&mut client, 20);
    let mut sent = client.takes();
    for (queue, _) in sets {
        let again = asks(&mut client, queue, once("again"), 21);
        let target = client.target(queue).unwrap().clone();
        let round = again.begins(&mut client, 21);
        sent.extend(client.takes());
        let of_it = |transmit: &&Transmit| match &transmit.sending {
            Sending::One(Command::Leave { resource, .. }) => target.resources().contains(resource),
            Sending::One(Command::Acquire { target: asked, .. }) => *asked == target,
            _ => false,
        };
        let names: Vec<_> = sent.iter().filter(of_it).map(|it| named(it).0).collect();
        assert_eq!(names, [vec!["leave"; 32 * 3], vec!["acquire"; 3]].concat());
        round.hears(&mut client, denied(), &moment(21));
        runs(&mut client, 21);
    }
    client.settles(22);
    assert_eq!(client.under_way(), 0);
}

/// It has its turn when the process stands still.
#[test]
fn w2_one_whose_time_is_up_before_its_round_begins_asks_no_node() {
    for comes in [false, true] {
        let Held { mut client, queue, id } = held(Duration::ZERO);
        if comes {
            client.handle_grant_over(id);
        }
        let ask = for_ms("short", 20);
        let asker = if comes {
            // A request that has just come is not late.
            asks(&mut client, queue, ask, 1)
        } else {
            let place = stands(&mut client, queue, ask);
            client.handle_grant_over(id);
            next_asker(&mut client, queue, place, 2)
        };
        client.takes();
        client.begins_unsent(asker.id, &asker.asked, 1, 20_000);
        let acquires = client.takes().len();
        let events = runs(&mut client, 20_000);
        let (told, sent) = if comes { (vec![], 3) } else { (vec![("short", GiveUp::Crowded)], 0) };
        assert_eq!((super::told(&events), acquires), (told, sent));
    }
}

/// What was found before is over: a quorum has just granted it.
#[test]
fn who_comes_behind_a_round_that_was_too_late_is_not_told_of_a_holder_of_before() {
    let mut client = Mine::new();
    let queue = client.open_queue(&one("r"));
    let slow = asks(&mut client, queue, waits("slow"), 1);
    let came_with = slow.place;
    slow.loses(&mut client, RoundLoss::Contended, 2);
    runs(&mut client, 2);
    let ends = first_due(&client).unwrap();
    client.handle_timeout(&moment(ends));
    let again = next_asker(&mut client, queue, came_with, ends);
    again.loses(&mut client, RoundLoss::TooLate, ends + 1);
    runs(&mut client, ends + 1);
    stands(&mut client, queue, once("comes"));
}

/// What a holder does behind its lease goes on until it is told; a waiter that waits in vain has lost nothing.
#[test]
fn whoever_has_lost_a_lease_is_told_so_before_those_who_wait_in_vain() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let other = client.open_queue(&one("other"));
    let leader = asks(&mut client, other, for_ms("leader", 3), 1);
    leader.loses(&mut client, RoundLoss::Contended, 1);
    runs(&mut client, 1);
    client.handle_timeout(&moment(20_000));
    let told = std::iter::from_fn(|| client.poll_event()).filter_map(|event| match event {
        Event::Tell(of, LeaseAction::Lose(_)) => Some(of == id),
        Event::GiveUp(..) => Some(false),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [true, false]);
}
