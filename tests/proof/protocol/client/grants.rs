//! The grants of a client: K1 to K5, each by name.

use std::time::Duration;

use quorlock_core::{
    Asks, Came, Command, Denial, End, Event, ExtendOutcome, FencingToken, GrantId, LeaseAction,
    Leases, LossReason, Owner, Passed, Reply, Sending, WaitPolicy, Wakeup,
};

use super::{
    super::at,
    Decided, Held, MS, TTL, ask, asks, begin_now,
    driven::{Answered, GRANTED, LATE, Mine, moment, node},
    first_due, gives_back, held, joins, once, one, runs, said, stands, waits,
};

fn gone() -> Answered {
    Ok(Reply::Denied(Denial::gone()))
}

fn owner(client: &Mine, id: GrantId) -> Owner {
    client.keys(id).unwrap().1
}

/// Whose leases are extended by what has been sent since this was asked last: the same on all nodes.
fn extended(client: &mut Mine) -> Vec<Owner> {
    let sent = client.takes();
    let of_node = |index: usize| {
        let to = sent.iter().filter(move |transmit| transmit.node == node(index));
        let all = to.flat_map(|transmit| match &transmit.sending {
            Sending::Several(all) => all.iter(),
            Sending::One(other) => panic!("{other:?}"),
        });
        all.map(|command| match command {
            Command::Extend { owner, .. } => *owner,
            other => panic!("{other:?}"),
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(of_node(0), of_node(1));
    assert_eq!(of_node(0), of_node(2));
    of_node(0)
}

/// How extensions have ended.
fn outcomes(events: &[Decided]) -> Vec<(GrantId, ExtendOutcome)> {
    let ended = events.iter().filter_map(|event| match event {
        Event::Extended { grant, outcome, .. } => Some((*grant, *outcome)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn k1_a_grant_is_among_the_timers_until_it_ends() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = owner(&client, id);
    assert_eq!(client.timers(), 1);
    let first = first_due(&client).unwrap();
    let look = client.clone().next_look(at(first - 100)).unwrap();
    assert!(look > at(first - 100) && look <= at(first + 2), "{look:?}, {first}");
    assert_eq!(client.clone().next_look(at(0)), Some(at(500)), "it never sleeps for long");
    assert!(client.handle_timeout(&moment(first)).is_empty());
    assert!(runs(&mut client, first).is_empty());
    assert_eq!(extended(&mut client), [of]);
    assert!(client.are_scheduled() && client.timers() == 1, "for when the extension is late");
    // It is extended, and is to be again.
    let all = [0, 1, 2].map(|node| (node, GRANTED));
    client.answer(("extend", of), &all, &moment(first + 2));
    let events = runs(&mut client, first + 2);
    let until = ExtendOutcome::Extended(at(first + 9_898));
    assert_eq!((outcomes(&events), said(&events)), (vec![(id, until)], vec![]));
    assert!(client.are_scheduled());
    assert!(first_due(&client).is_some_and(|next| next > first && next < first + 9_898));
    // Where nobody extends it, that is told, and nothing is told twice.
    let mut told = Vec::new();
    for ms in (0..40_000).step_by(10) {
        assert!(client.handle_timeout(&moment(ms)).is_empty());
        for _ in extended(&mut client) {
            client.answer(("extend", of), &[0, 1, 2].map(|node| (node, LATE)), &moment(ms));
        }
        told.extend(said(&runs(&mut client, ms)));
        assert!(client.are_scheduled(), "at {ms}");
    }
    let lost = |(of, action): &(GrantId, LeaseAction)| {
        *of == id && *action == LeaseAction::Lose(LossReason::RenewalFailed)
    };
    assert_eq!(told.iter().filter(|told| lost(told)).count(), 1, "{told:?}");
    assert_eq!(client.timers(), 0, "it is over");
    // What ends is looked at no more.
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!(gives_back(&mut client, id, End::GivenBack(0), 1), Some(true));
    assert_eq!((client.timers(), first_due(&client), client.held_count()), (0, None, 0));
    assert!(client.has_transmits(), "it is to be released");
    client.settles(1);
    assert_eq!(client.next_look(at(1)), None);
    // A grant that begins is there in the same step, and starts no driver where one sees to the timers.
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let queue = client.open_queue(&one("other"));
    let round = asks(&mut client, queue, waits("other"), 1).begins(&mut client, 1);
    round.is_told(&mut client, &[0, 1].map(|node| (node, super::COUNTED)), 1);
    assert!(client.are_scheduled());
    assert_eq!(client.timers(), 2);
    while let Some(event) = client.poll_event() {
        assert_ne!(event, Event::Wake(Wakeup::Start), "somebody sees to the timers");
    }
    // The driver that saw to them has come to a bad end.
    client.abandon_timers();
    let queue = client.open_queue(&one("r"));
    stands(&mut client, queue, ask("next", WaitPolicy::For(TTL)));
    assert_eq!(client.poll_event(), Some(Event::Wake(Wakeup::Start)));
    assert_eq!(client.schedule(id), Wakeup::Silent);
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!((client.forget(id), client.forget(id)), (Some("grant"), None));
    assert_eq!((client.timers(), client.held_count()), (0, 0));
}

/// A watched lease is never asked early: it might be told that its heartbeat is late, which it is not.
#[test]
fn k1_a_watched_lease_that_is_handed_on_is_taken_along_no_more_than_one_that_is_won() {
    for (kept, is_watched) in [(false, true), (true, true), (false, false)] {
        let mut next = waits("next");
        next.renewal.heartbeat_within = is_watched.then_some(5_000 * MS);
        let Held { mut client, queue, id, .. } = held(if kept { 300 * MS } else { Duration::ZERO });
        let first = first_due(&client).unwrap();
        if kept {
            assert!(matches!(client.hand_on(id, 0, &moment(1)), Some((Passed::Kept(_), ..))));
            let next = next.next(at(1));
            let _ = client.resume(id, &next, &moment(1)).unwrap();
        } else {
            stands(&mut client, queue, next);
            let passed = client.hand_on(id, 0, &moment(1));
            assert!(matches!(passed, Some((Passed::To(..), ..))), "{passed:?}");
        }
        assert!(client.are_scheduled());
        // Another grant of the same client is due a little before.
        let queue = client.open_queue(&one("other"));
        let mut other = asks(&mut client, queue, waits("other"), 0);
        other.asked.ttl = TTL - 300 * MS;
        let (other, _) = other.wins(&mut client, 0);
        client.takes();
        let next = first_due(&client).unwrap();
        assert!(next < first, "{next}, {first}");
        client.handle_timeout(&moment(next));
        let mut due = vec![owner(&client, other)];
        // An unwatched lease would be.
        due.extend((!is_watched).then(|| owner(&client, id)));
        assert_eq!(extended(&mut client), due, "kept: {kept}");
    }
}

#[test]
fn k2_what_is_kept_is_kept_by_one_queue_until_it_is_taken_or_given_back() {
    let Held { mut client, queue, id } = held(300 * MS);
    let Some((Passed::Kept(_), before, late)) = client.hand_on(id, 0, &moment(5)) else {
        panic!("nobody is in line")
    };
    assert_eq!((before.map(FencingToken::get), late.len()), (Some(1), 0));
    assert!(client.are_scheduled() && client.leases(id).unwrap().is_kept());
    let taken = client.clone();
    // A newcomer takes it.
    let mut client = taken.clone();
    let came = joins(&mut client, queue, waits("next"));
    let Came::Takes(kept, ask) = came else { panic!("{came:?}") };
    assert_eq!((kept, client.take_kept(queue)), (id, None));
    let (begun, _) = client.resume(kept, &ask.next(at(6)), &moment(6)).unwrap();
    assert_eq!((begun.number, begun.token.map(FencingToken::get)), (2, Some(2)));
    assert!(gives_back(&mut client, id, End::Kept, 6).is_none(), "it is not kept");
    assert!(client.resume(kept, &ask.next(at(6)), &moment(6)).is_none());
    assert!(!client.has_transmits());
    // Its time is up.
    let mut client = taken.clone();
    client.handle_timeout(&moment(305));
    assert_eq!(runs(&mut client, 305), [Event::GiveBack(id, false)]);
    assert_eq!(gives_back(&mut client, id, End::Kept, 305), Some(false));
    assert_eq!(
        (client.take_kept(queue), gives_back(&mut client, id, End::Kept, 305)),
        (None, None)
    );
    let of = owner(&client, id);
    assert_eq!(client.takes_nodes("release", of), [0, 1, 2]);
    // Somebody else wants it.
    let mut client = taken.clone();
    assert_eq!((client.take_kept(queue), client.take_kept(queue)), (Some(id), None));
    // Everything that is kept is given back at once.
    let mut client = taken;
    assert_eq!((client.take_all_kept(), client.take_all_kept()), (vec![id], vec![]));
    // Nothing is kept of a client that is closed.
    let Held { mut client, id, .. } = held(300 * MS);
    client.close();
    assert!(matches!(client.hand_on(id, 0, &moment(5)), Some((Passed::ToNobody, ..))));
}

/// A node that has lost the key has it set again once all have answered an extension, where the grant lasts.
fn restores(client: &mut Mine, id: GrantId, over: impl FnOnce(&mut Mine)) -> Vec<usize> {
    let of = owner(client, id);
    client.extend(id, &moment(4));
    client.answer(("extend", of), &[(0, gone()), (1, GRANTED)], &moment(5));
    over(client);
    client.answer(("extend", of), &[(2, GRANTED)], &moment(5));
    client.takes_nodes("restore", of)
}

#[test]
fn k3_nothing_is_set_for_a_grant_that_is_over() {
    type Over = fn(&mut Mine, GrantId);
    let all: [Over; 8] = [
        |client, id| {
            gives_back(client, id, End::GivenBack(0), 5);
        },
        |client, id| {
            client.leave_to_expire(id, End::Over(0, LossReason::LeftToExpire));
        },
        |client, id| {
            client.leave_to_expire(id, End::Left(0));
        },
        |client, id| {
            client.end_unwatched(id, End::GivenBack(0));
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
        |client, id| {
            assert_eq!(client.forget(id), Some("grant"));
        },
    ];
    for over in all {
        let Held { mut client, id, .. } = held(Duration::ZERO);
        assert_eq!(restores(&mut client.clone(), id, |_| ()), [0]);
        assert!(restores(&mut client, id, |client| over(client, id)).is_empty());
        let footprint = client.footprint(id).cloned();
        assert!(!footprint.is_some_and(|mut it| it.handle_restore_sent(node(0))));
        client.settles(5);
        runs(&mut client, 5);
        assert_eq!(client.under_way(), 0);
        client.forget(id);
        assert!(client.footprint(id).is_none());
    }
}

/// The answer to a restore may come at the same time, and would take the orders of others.
#[test]
fn k3_whoever_ends_a_grant_has_all_orders() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    let of = owner(&client, id);
    assert_eq!(restores(&mut client, id, |_| ()), [0]);
    let mut other = client.clone();
    assert_eq!(gives_back(&mut client, id, End::GivenBack(0), 6), Some(true));
    assert_eq!(client.takes_nodes("release", of), [0, 1, 2]);
    client.answer(("restore", of), &[(0, GRANTED)], &moment(6));
    assert_eq!(client.takes_nodes("release", of), [0], "what it has set");
    // Where nobody carries that out, they are returned.
    let orders = other.end_unwatched(id, End::GivenBack(0));
    assert_eq!(orders.iter().map(|order| order.node.index()).collect::<Vec<_>>(), [0, 1, 2]);
    other.answer(("restore", of), &[(0, GRANTED)], &moment(6));
    assert_eq!(other.takes_nodes("release", of), [0], "what it has set");
    assert!(other.end_unwatched(id, End::GivenBack(0)).is_empty());
    // What is left for its lock-delay, or left to expire, is ordered nowhere.
    for end in [End::Left(0), End::Over(0, LossReason::LeftToExpire)] {
        let Held { mut client, id, .. } = held(Duration::ZERO);
        let mut other = client.clone();
        assert!(client.leave_to_expire(id, end).is_some());
        assert!(!client.has_transmits());
        assert!(other.end_unwatched(id, end).is_empty());
        assert_eq!(client.footprint(id).unwrap().clone().poll_release(), None);
    }
}

#[test]
fn k4_a_grant_goes_to_the_first_that_is_in_time_or_to_nobody() {
    let Held { mut client, queue, id } = held(Duration::ZERO);
    assert!(!client.may_pass(id), "nobody wants it");
    stands(&mut client, queue, ask("late", WaitPolicy::For(20 * MS)));
    stands(&mut client, queue, waits("first"));
    stands(&mut client, queue, waits("second"));
    assert!(client.may_pass(id));
    let Some((Passed::To(ask, begun, _), before, late)) = client.hand_on(id, 0, &moment(20)) else {
        panic!("somebody is in line")
    };
    let late: Vec<_> = late.into_iter().map(|ask| ask.name).collect();
    assert_eq!((ask.name, late), ("first", vec!["late"]));
    assert_eq!((before.map(FencingToken::get), begun.number), (Some(1), 1));
    assert_eq!(client.timers(), 1, "that of the grant");
    assert!(client.are_scheduled());
    assert!(client.hand_on(id, 0, &moment(20)).is_none(), "the lease before gives nothing back");
    assert!(gives_back(&mut client, id, End::GivenBack(0), 20).is_none(), "nor ends it");
    // It is over: the next asks.
    assert!(gives_back(&mut client, id, End::GivenBack(1), 20).is_some());
    client.handle_grant_over(id);
    client.handle_grant_over(id);
    assert_eq!(begin_now(&mut client, 20), ["second"]);
    // A grant that does not pass: its holder shares it.
    let Held { mut client, queue, id } = held(Duration::ZERO);
    stands(&mut client, queue, waits("first"));
    client.downgrade(id, 0).unwrap();
    assert!(client.hand_on(id, 1, &moment(20)).is_none());
}

#[test]
fn what_is_held_counts_until_it_ends_and_nothing_counts_behind_a_shutdown() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    assert_eq!((client.held_count(), client.held().count()), (1, 1));
    assert!(client.count(id), "once");
    assert_eq!(client.held_count(), 1);
    client.shut_down();
    assert!(!client.count(id));
    // What is won now is said not to count.
    let queue = client.open_queue(&one("other"));
    let round = asks(&mut client, queue, waits("other"), 1).begins(&mut client, 1);
    round.is_told(&mut client, &[0, 1].map(|node| (node, super::COUNTED)), 1);
    let events = runs(&mut client, 1);
    let [Event::Won { grant, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(!client.count(*grant));
    gives_back(&mut client, id, End::GivenBack(0), 1);
    assert_eq!((client.held_count(), client.held().count()), (0, 0));
    assert_eq!(client.data_mut(id).map(|data| *data = "other"), Some(()));
    assert_eq!(client.data(id), Some(&"other"));
}

/// As where a panic has ended the code that was about to have it.
#[test]
fn k5_a_grant_that_nobody_has_any_more_holds_no_queue() {
    let Held { mut client, queue, id } = held(Duration::ZERO);
    assert_eq!(client.forget(id), Some("grant"));
    // What is won is in nobody's hands at first, and then in nobody's at all.
    let (won, _) = asks(&mut client, queue, waits("first"), 1).wins(&mut client, 1);
    assert_eq!(client.holder(queue), Some(won));
    client.forget(won);
    assert_eq!(client.holder(queue), None);
    let (won, _) = asks(&mut client, queue, waits("first"), 1).wins(&mut client, 1);
    // A request that still asks says so itself, whatever was held before.
    gives_back(&mut client, won, End::GivenBack(0), 1);
    let asker = asks(&mut client, queue, waits("first"), 1);
    asker.begins(&mut client, 1);
    client.forget(won);
    stands(&mut client, queue, waits("second"));
    assert!(begin_now(&mut client, 2).is_empty());
    client.handle_gone_away(asker.id);
    assert_eq!(begin_now(&mut client, 2), ["second"]);
}

#[test]
fn k5_whoever_comes_while_a_grant_passes_finds_it_held_or_kept() {
    let Held { mut client, queue, id } = held(300 * MS);
    stands(&mut client, queue, waits("first"));
    let finds = |client: &mut Mine| match joins(client, queue, once("once")) {
        Came::Held(grant, _) => grant == id,
        came => panic!("{came:?}"),
    };
    assert!(finds(&mut client) && client.holder(queue) == Some(id));
    assert!(matches!(client.hand_on(id, 0, &moment(5)), Some((Passed::To(..), ..))));
    assert!(finds(&mut client));
    assert!(client.change(id, |leases| leases.handle_taken(1)).is_some());
    // The request that has it now asked for no more than its time.
    assert!(matches!(client.hand_on(id, 1, &moment(6)), Some((Passed::ToNobody, ..))));
    assert!(finds(&mut client), "until it has ended");
    gives_back(&mut client, id, End::GivenBack(1), 6).unwrap();
    assert!(matches!(joins(&mut client, queue, once("once")), Came::Begins(..)));
    // A caller that knows that it is over is not told of it again.
    let Held { mut client, queue, id } = held(Duration::ZERO);
    let came = client.join(queue, Some(id), once("once"), at(1));
    assert!(matches!(came, Came::Waits(..)), "{came:?}");
    client.close();
    let came = client.join(queue, None, once("once"), at(1));
    assert!(matches!(came, Came::Closed(_)), "{came:?}");
}

/// `forget` hands the grant out once, also where an extension is still under way.
#[test]
fn a_grant_that_is_forgotten_is_so_once() {
    let Held { mut client, id, .. } = held(Duration::ZERO);
    client.extend(id, &moment(4));
    assert_eq!(client.forget(id), Some("grant"));
    assert_eq!(client.forget(id), None);
}
