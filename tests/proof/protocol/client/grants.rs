//! The grants of a client: K1 to K5, each by name.

use std::time::Duration;

use quorlock_core::{
    Asks, Came, Cohort, Drift, End, Event, ExtendOutcome, FencingToken, Footprint, GrantId,
    LeaseAction, Leases, Lifecycle, LossReason, NewGrant, NodeId, Passed, RenewalPolicy, Reply,
    WaitPolicy, Wakeup,
};

use super::{
    super::at, Held, MS, Mine, TTL, ask, asks, begins, first_due, held, joins, now, once, runs,
    stands, waits,
};

#[test]
fn k1_a_grant_is_among_the_timers_until_it_ends() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!(client.timers(), 1);
    let first = first_due(&client).unwrap();
    let look = client.clone().next_look(at(first - 100)).unwrap();
    assert!(look > at(first - 100) && look <= at(first + 2), "{look:?}, {first}");
    assert_eq!(client.clone().next_look(at(0)), Some(at(500)), "it never sleeps for long");
    let due = client.handle_timeout(at(first));
    assert_eq!((due.extend, due.tell, due.give_back), (vec![id], vec![], vec![]));
    assert!(client.are_scheduled() && client.timers() == 1, "for when the extension is late");
    // It is extended, and is to be again.
    let extended = ExtendOutcome::Extended(at(first + 9_898));
    assert_eq!(client.handle_extension(id, extended, at(first + 2)).0, None);
    assert!(client.are_scheduled());
    assert!(first_due(&client).is_some_and(|next| next > first && next < first + 9_898));
    // Where nobody extends it, that is told, and nothing is told twice.
    let mut told = Vec::new();
    for ms in (0..40_000).step_by(10) {
        let due = client.handle_timeout(at(ms));
        due.extend.iter().for_each(|id| {
            let _ = client.handle_extension(*id, ExtendOutcome::InDoubt, at(ms));
        });
        told.extend(due.tell);
        assert!(client.are_scheduled(), "at {ms}");
    }
    let lost = |(of, action): &(GrantId, LeaseAction)| {
        *of == id && *action == LeaseAction::Lose(LossReason::RenewalFailed)
    };
    assert_eq!(told.iter().filter(|told| lost(told)).count(), 1, "{told:?}");
    assert_eq!(client.timers(), 0, "it is over");
    // What ends is looked at no more.
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert!(client.end(id, End::GivenBack(0)).is_some_and(|ended| ended.lease.was_held));
    assert_eq!((client.timers(), first_due(&client), client.held_count()), (0, None, 0));
    assert_eq!(client.next_look(at(1)), None);
    // One that nobody has put there yet is not.
    let Held { mut client, queue, footprint, .. } = held(Duration::ZERO);
    let leases = held(Duration::ZERO).client.leases(id).unwrap().clone();
    let other = NewGrant { leases, footprint, station: None, data: "other" };
    let other = client.begin(other);
    assert!(!client.are_scheduled());
    assert_ne!(client.schedule(other), Wakeup::Start, "somebody sees to the timers");
    assert!(client.are_scheduled());
    // Whoever saw to them has come to a bad end.
    client.abandon_timers();
    while client.poll_event().is_some() {}
    stands(&mut client, queue, ask("next", WaitPolicy::For(TTL)));
    assert_eq!(client.poll_event(), Some(Event::Wake(Wakeup::Start)));
    assert_eq!(client.schedule(id), Wakeup::Silent);
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!((client.forget(id), client.forget(id)), (Some("grant"), None));
    assert_eq!((client.timers(), client.held_count()), (0, 0));
}

/// A lease that is watched is never asked early: it might be told that its heartbeat is late, which is not.
#[test]
fn k1_a_watched_lease_that_is_handed_on_is_taken_along_no_more_than_one_that_is_won() {
    let mut watched = waits("watched");
    watched.renewal.heartbeat_within = Some(5_000 * MS);
    for kept in [false, true] {
        let Held { mut client, queue, id, .. } = held(if kept { 300 * MS } else { Duration::ZERO });
        let first = first_due(&client).unwrap();
        if kept {
            assert!(matches!(client.hand_on(id, 0, now(1)), Some((Passed::Kept(_), ..))));
            let next = watched.next(at(1));
            let _ = client.resume(id, &next, now(1)).unwrap();
        } else {
            stands(&mut client, queue, watched.clone());
            let passed = client.hand_on(id, 0, now(1));
            assert!(matches!(passed, Some((Passed::To(..), ..))), "{passed:?}");
        }
        assert!(client.are_scheduled());
        // Another grant of the same client is due a little before.
        let footprint = client.add_footprint(Footprint::new(3));
        let lifecycle =
            Lifecycle::new(at(0), at(9_898 - 300), TTL, Drift::default(), RenewalPolicy::default());
        let (cohort, token) = Cohort::begin(None, at(0));
        let asked = (Duration::ZERO, Duration::ZERO, false);
        let leases = Leases::new(lifecycle, cohort, token, asked, None);
        let other = client.begin(NewGrant { leases, footprint, station: None, data: "other" });
        let _ = client.schedule(other);
        let next = first_due(&client).unwrap();
        assert!(next < first, "{next}, {first}");
        assert_eq!(client.handle_timeout(at(next)).extend, [other], "kept: {kept}");
    }
}

#[test]
fn k2_what_is_kept_is_kept_by_one_queue_until_it_is_taken_or_given_back() {
    let Held { mut client, queue, id, .. } = held(300 * MS);
    let Some((Passed::Kept(_), before, late)) = client.hand_on(id, 0, now(5)) else {
        panic!("nobody is in line")
    };
    assert_eq!((before.map(FencingToken::get), late.len()), (Some(1), 0));
    assert!(client.are_scheduled() && client.leases(id).unwrap().is_kept());
    let taken = client.clone();
    // Who comes takes it.
    let mut client = taken.clone();
    let came = joins(&mut client, queue, waits("next"));
    let Came::Takes(kept, ask) = came else { panic!("{came:?}") };
    assert_eq!((kept, client.take_kept(queue)), (id, None));
    let (begun, _) = client.resume(kept, &ask.next(at(6)), now(6)).unwrap();
    assert_eq!((begun.number, begun.token.map(FencingToken::get)), (2, Some(2)));
    assert!(client.end(id, End::Kept).is_none(), "it is not kept");
    assert!(client.resume(kept, &ask.next(at(6)), now(6)).is_none());
    // Its time is up.
    let mut client = taken.clone();
    let due = client.handle_timeout(at(305));
    assert_eq!((due.give_back, due.tell), (vec![(id, false)], vec![]));
    assert!(client.end(id, End::Kept).is_some_and(|ended| !ended.lease.was_held));
    assert_eq!((client.take_kept(queue), client.end(id, End::Kept)), (None, None));
    // Somebody else wants it.
    let mut client = taken.clone();
    assert_eq!((client.take_kept(queue), client.take_kept(queue)), (Some(id), None));
    // Everything that is kept is given back at once.
    let mut client = taken;
    assert_eq!((client.take_all_kept(), client.take_all_kept()), (vec![id], vec![]));
    // Nothing is kept of a client that is closed.
    let Held { mut client, id, .. } = held(300 * MS);
    client.close();
    assert!(matches!(client.hand_on(id, 0, now(5)), Some((Passed::ToNobody, ..))));
}

#[test]
fn k3_nothing_is_set_for_a_grant_that_is_over() {
    let node = NodeId::new(0);
    type Over = fn(&mut Mine, GrantId);
    let all: [Over; 5] = [
        |client, id| {
            let _ = client.end(id, End::GivenBack(0));
        },
        |client, id| {
            let _ = client.end(id, End::Over(0, LossReason::LeftToExpire));
        },
        |client, id| {
            let _ = client.change(id, |leases| leases.handle_check(at(20_000)));
        },
        |client, id| {
            let _ = client.handle_extension(id, ExtendOutcome::Lost, at(5));
        },
        |client, id| {
            let _ = client.change(id, Leases::shut_down);
        },
    ];
    for over in all {
        let Held { mut client, id, footprint, .. } = held(Duration::ZERO);
        assert!(client.clone().begin_restore(id, node));
        over(&mut client, id);
        assert!(!client.begin_restore(id, node));
        assert!(!client.footprint(footprint).unwrap().handle_restore_sent(node));
        client.forget_footprint(footprint);
        assert!(client.footprint(footprint).is_none());
    }
}

/// The answer to a restore may come at the same time, and would take the orders of others.
#[test]
fn k3_whoever_ends_a_grant_has_all_orders() {
    let Held { mut client, id, footprint, .. } = held(Duration::ZERO);
    let of_it = client.footprint(footprint).unwrap();
    (0..3).for_each(|node| of_it.handle_acquire_sent(NodeId::new(node)));
    assert!(client.begin_restore(id, NodeId::new(0)));
    let orders = client.end(id, End::GivenBack(0)).unwrap().orders;
    assert_eq!(orders.iter().map(|order| order.node.index()).collect::<Vec<_>>(), [0, 1, 2]);
    let of_it = client.footprint(footprint).unwrap();
    assert_eq!(of_it.poll_release(), None);
    of_it.handle_restore(NodeId::new(0), &Ok(Reply::Granted(None.into())));
    assert_eq!(of_it.poll_release().map(|order| order.node.index()), Some(0), "what it has set");
    // What is left for its lock-delay, or left to expire, is ordered nowhere.
    for end in [End::Left(0), End::Over(0, LossReason::LeftToExpire)] {
        let Held { mut client, id, footprint, .. } = held(Duration::ZERO);
        let of_it = client.footprint(footprint).unwrap();
        of_it.handle_acquire_sent(NodeId::new(0));
        assert_eq!(client.end(id, end).map(|ended| ended.orders), Some(vec![]));
        assert_eq!(client.footprint(footprint).unwrap().poll_release(), None);
    }
}

#[test]
fn k4_a_grant_goes_to_the_first_that_is_in_time_or_to_nobody() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    assert!(!client.may_pass(id), "nobody wants it");
    stands(&mut client, queue, ask("late", WaitPolicy::For(20 * MS)));
    stands(&mut client, queue, waits("first"));
    stands(&mut client, queue, waits("second"));
    assert!(client.may_pass(id));
    let Some((Passed::To(ask, begun, _), before, late)) = client.hand_on(id, 0, now(20)) else {
        panic!("somebody is in line")
    };
    let late: Vec<_> = late.into_iter().map(|ask| ask.name).collect();
    assert_eq!((ask.name, late), ("first", vec!["late"]));
    assert_eq!((before.map(FencingToken::get), begun.number), (Some(1), 1));
    assert_eq!(client.timers(), 1, "that of the grant");
    assert!(client.are_scheduled());
    assert!(client.hand_on(id, 0, now(20)).is_none(), "the lease before gives nothing back");
    // It is over: the next asks.
    assert!(client.end(id, End::GivenBack(1)).is_some());
    client.handle_grant_over(id);
    client.handle_grant_over(id);
    assert_eq!(begins(&runs(&mut client, 20)), ["second"]);
    // One that does not pass: its holder shares it.
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    stands(&mut client, queue, waits("first"));
    client.change(id, |leases| leases.lower(0)).unwrap().unwrap();
    assert!(client.hand_on(id, 1, now(20)).is_none());
}

#[test]
fn what_is_held_counts_until_it_ends_and_nothing_counts_behind_a_shutdown() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!((client.held_count(), client.held().count()), (1, 1));
    assert!(client.count(id), "once");
    assert_eq!(client.held_count(), 1);
    client.shut_down();
    assert!(!client.count(id));
    client.end(id, End::GivenBack(0));
    assert_eq!((client.held_count(), client.held().count()), (0, 0));
    assert_eq!(client.data_mut(id).map(|data| *data = "other"), Some(()));
    assert_eq!(client.data(id), Some(&"other"));
}

/// As where a panic has ended whoever was about to have it.
#[test]
fn k5_a_grant_that_nobody_has_any_more_holds_no_queue() {
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    assert_eq!(client.forget(id), Some("grant"));
    let asker = asks(&mut client, queue, waits("first"), 1);
    // Who still asks says so itself.
    let begun = asker.begins(&mut client, 1);
    let footprint = client.add_footprint(Footprint::new(3));
    let leases = held(Duration::ZERO).client.leases(id).unwrap().clone();
    let new = NewGrant { leases, footprint, station: begun.station, data: "grant" };
    let won = client.begin(new);
    client.forget(won);
    stands(&mut client, queue, waits("second"));
    assert!(begins(&runs(&mut client, 2)).is_empty());
    client.handle_gone_away(asker.id);
    assert_eq!(begins(&runs(&mut client, 2)), ["second"]);
}

#[test]
fn k5_whoever_comes_while_a_grant_passes_finds_it_held_or_kept() {
    let Held { mut client, queue, id, .. } = held(300 * MS);
    stands(&mut client, queue, waits("first"));
    let finds = |client: &mut Mine| match joins(client, queue, once("once")) {
        Came::Held(grant, _) => grant == id,
        came => panic!("{came:?}"),
    };
    assert!(finds(&mut client) && client.holder(queue) == Some(id));
    assert!(matches!(client.hand_on(id, 0, now(5)), Some((Passed::To(..), ..))));
    assert!(finds(&mut client));
    assert!(client.change(id, |leases| leases.handle_taken(1)).is_some());
    // The one that has it now asked for no more than its time.
    assert!(matches!(client.hand_on(id, 1, now(6)), Some((Passed::ToNobody, ..))));
    assert!(finds(&mut client), "until it has ended");
    client.end(id, End::GivenBack(1)).unwrap();
    client.handle_grant_over(id);
    assert!(matches!(joins(&mut client, queue, once("once")), Came::Begins(..)));
    // One who knows that it is over is not told of it again.
    let Held { mut client, queue, id, .. } = held(Duration::ZERO);
    let came = client.join(queue, Some(id), once("once"), at(1));
    assert!(matches!(came, Came::Waits(..)), "{came:?}");
    client.close();
    let came = client.join(queue, None, once("once"), at(1));
    assert!(matches!(came, Came::Closed(_)), "{came:?}");
}
