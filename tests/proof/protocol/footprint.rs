//! Where an owner's key may stand: F1 to F5, each by name, and the world in which nothing may leak.
//!
//! Goal: each invariant is pinned by the smallest case that shows it, and all together by `footprint_world.rs`: every
//! order in which commands are executed, late, lost or answered. Method: orders compared whole by hand; the world is
//! explored breadth first for one node, and at random for three. Footprints with a planted flaw must be found out by
//! the same exploration, each with the shortest way to a key that nobody deletes.

use quorlock_core::{Cause, Footprint, ReleaseOrder, UnconfirmedRelease};

use super::{
    footprint_search::{explore, wander},
    footprint_steps::{Budget, Flaw},
    footprint_world::World,
    *,
};

const SECOND: Duration = Duration::from_secs(1);

/// Everything that is known after an acquire was sent to one node, and this was its answer.
fn answered(reply: Option<&Answered>) -> Footprint {
    let mut footprint = Footprint::new(1);
    footprint.handle_acquire_sent(node(0));
    if let Some(reply) = reply {
        footprint.handle_acquire(node(0), reply);
    }
    footprint
}

fn orders(footprint: &mut Footprint) -> Vec<(usize, bool)> {
    let orders = std::iter::from_fn(|| footprint.poll_release());
    orders.map(|order| (order.node.index(), order.may_land_late)).collect()
}

fn ended(footprint: &mut Footprint) -> Vec<(usize, bool)> {
    footprint.handle_lost();
    orders(footprint)
}

/// A failure of a command that may have been sent, or was not, for whatever cause.
fn failures(sent: bool) -> impl Iterator<Item = Answered> {
    let quarantined = Cause::Quarantined { remaining: Duration::from_secs(1) };
    let causes = [Cause::Broken, Cause::Slow, quarantined, Cause::Outdated];
    causes.into_iter().map(move |cause| Err(Failure::new(sent, cause)))
}

#[test]
fn f1_a_node_is_clear_only_where_nothing_was_sent_or_the_acquire_was_certainly_not_executed() {
    assert!(Footprint::new(1).is_clear(node(0)), "nothing was sent");
    assert!(!answered(None).is_clear(node(0)), "it is under way");
    assert!(!answered(Some(&GRANTED)).is_clear(node(0)));
    assert!(answered(Some(&denied())).is_clear(node(0)));
    for failure in failures(true) {
        assert!(!answered(Some(&failure)).is_clear(node(0)), "{failure:?}");
    }
    for failure in failures(false) {
        assert!(answered(Some(&failure)).is_clear(node(0)), "{failure:?}");
    }
    let mut withdrawn = answered(None);
    withdrawn.handle_acquire_withdrawn(node(0));
    assert!(withdrawn.is_clear(node(0)));

    let mut three = Footprint::new(3);
    for index in [0, 2] {
        three.handle_acquire_sent(node(index));
    }
    three.handle_acquire(node(0), &denied());
    assert_eq!(three.may_stand().collect::<Vec<_>>(), [node(2)]);
    assert!(three.is_clear(node(7)), "there is no such node");
}

#[test]
fn f1_the_first_answer_to_the_acquire_stands() {
    for (first, clear) in [(GRANTED, false), (UNKNOWN, false), (denied(), true), (NOT_SENT, true)] {
        for second in [GRANTED, UNKNOWN, denied(), NOT_SENT] {
            let mut footprint = answered(Some(&first));
            footprint.handle_acquire(node(0), &second);
            assert_eq!(footprint.is_clear(node(0)), clear, "{first:?}, {second:?}");
            footprint.handle_lost();
            while footprint.poll_release().is_some() {}
            footprint.handle_acquire(node(0), &second);
            assert_eq!(footprint.poll_release(), None, "{first:?}, {second:?}");
        }
    }
    let mut never_asked = Footprint::new(1);
    never_asked.handle_acquire(node(0), &GRANTED);
    assert!(never_asked.is_clear(node(0)), "an answer to nothing");
}

#[test]
fn f2_at_the_end_each_node_that_is_not_clear_is_released_on_once() {
    let replies = [None, Some(GRANTED), Some(denied()), Some(UNKNOWN), Some(NOT_SENT)];
    let mut footprint = Footprint::new(replies.len() + 1);
    for (index, reply) in replies.iter().enumerate() {
        footprint.handle_acquire_sent(node(index));
        if let Some(reply) = reply {
            footprint.handle_acquire(node(index), reply);
        }
    }
    assert_eq!(footprint.poll_release(), None, "nobody's held key is deleted");
    assert!(!footprint.has_ended());
    assert_eq!(ended(&mut footprint), [(0, false), (1, false), (3, true)]);
    assert!(footprint.has_ended());
    assert_eq!(ended(&mut footprint), [], "it ends once");
    footprint.handle_over();
    assert!(footprint.has_ended(), "what has ended is not merely over");
}

#[test]
fn f2_what_shows_after_the_end_that_the_key_may_have_been_set_is_released_again() {
    for (reply, again) in [
        (GRANTED, vec![(0, false)]),
        (UNKNOWN, vec![(0, true)]),
        (denied(), vec![]),
        (NOT_SENT, vec![]),
    ] {
        let mut acquire = answered(None);
        assert_eq!(ended(&mut acquire), [(0, false)]);
        acquire.handle_acquire(node(0), &reply);
        assert_eq!(orders(&mut acquire), again, "{reply:?}");

        let mut restore = answered(Some(&denied()));
        assert!(restore.handle_restore_sent(node(0)));
        assert_eq!(ended(&mut restore), [(0, true)]);
        restore.handle_restore(node(0), &reply);
        assert_eq!(orders(&mut restore), again, "restore: {reply:?}");
        restore.handle_restore(node(0), &GRANTED);
        assert_eq!(orders(&mut restore), [], "an answer to nothing");
    }
}

/// Of nodes that have granted, denied, given no answer and none yet.
fn lost_and_heard_out() -> Footprint {
    let mut footprint = Footprint::new(6);
    (0..6).for_each(|index| footprint.handle_acquire_sent(node(index)));
    for (index, reply) in [GRANTED, denied(), UNKNOWN].iter().enumerate() {
        footprint.handle_acquire(node(index), reply);
    }
    footprint.handle_lost();
    footprint.handle_heard_out();
    footprint
}

#[test]
fn f2_a_round_that_is_heard_out_is_released_where_it_has_set_the_key_and_not_where_it_is_denied() {
    let mut footprint = lost_and_heard_out();
    assert_eq!(orders(&mut footprint), [(0, false), (2, true)], "what is under way is not");
    assert!(footprint.has_ended());
    let still = footprint.may_stand().map(|node| node.index()).collect::<Vec<_>>();
    assert_eq!(still, [0, 2, 3, 4, 5], "and is not clear");
    for (index, reply, ordered) in
        [(3, denied(), vec![]), (4, GRANTED, vec![(4, false)]), (5, UNKNOWN, vec![(5, true)])]
    {
        footprint.handle_acquire(node(index), &reply);
        assert_eq!(orders(&mut footprint), ordered, "{reply:?}");
    }
    footprint.handle_heard_no_longer();
    assert_eq!(orders(&mut footprint), [], "everything was heard");
}

#[test]
fn f2_what_is_under_way_in_a_round_that_is_heard_no_longer_is_released_at_once_and_followed() {
    let mut footprint = lost_and_heard_out();
    orders(&mut footprint);
    footprint.handle_acquire(node(3), &denied());
    footprint.handle_heard_no_longer();
    assert_eq!(orders(&mut footprint), [(4, false), (5, false)], "right behind the acquires");
    footprint.handle_heard_no_longer();
    assert_eq!(orders(&mut footprint), [], "once");
    footprint.handle_acquire(node(4), &UNKNOWN);
    footprint.handle_acquire(node(5), &denied());
    assert_eq!(orders(&mut footprint), [(4, true)]);
    // Nothing else is heard out: neither a round that is open, nor a lease.
    let mut open = answered(None);
    open.handle_heard_out();
    assert_eq!(ended(&mut open), [(0, false)]);
    let mut lease = answered(None);
    lease.handle_given_back();
    lease.handle_heard_out();
    assert_eq!(orders(&mut lease), [(0, true)]);
}

#[test]
fn f2_an_order_that_was_not_taken_goes_when_the_node_turns_out_to_be_clear() {
    for (reply, left) in [
        (denied(), vec![(1, false)]),
        (NOT_SENT, vec![(1, false)]),
        (UNKNOWN, vec![(0, false), (1, false), (0, true)]),
    ] {
        let mut footprint = Footprint::new(2);
        (0..2).for_each(|index| footprint.handle_acquire_sent(node(index)));
        footprint.handle_lost();
        footprint.handle_acquire(node(0), &reply);
        assert_eq!(orders(&mut footprint), left, "{reply:?}");
    }
}

#[test]
fn f2_before_the_end_no_answer_releases_anything() {
    for reply in [GRANTED, UNKNOWN, denied(), NOT_SENT] {
        let mut footprint = answered(Some(&reply));
        assert!(footprint.handle_restore_sent(node(0)));
        footprint.handle_restore(node(0), &reply);
        assert_eq!(orders(&mut footprint), [], "{reply:?}");
    }
}

#[test]
fn f2_what_a_restore_sets_after_the_loss_is_released_at_once_and_the_rest_at_the_end() {
    for (reply, at_once) in [
        (GRANTED, vec![(1, false)]),
        (UNKNOWN, vec![(1, true)]),
        (denied(), vec![]),
        (NOT_SENT, vec![]),
    ] {
        let mut footprint = Footprint::new(2);
        footprint.handle_acquire_sent(node(0));
        assert!(footprint.handle_restore_sent(node(1)));
        footprint.handle_over();
        footprint.handle_acquire(node(0), &GRANTED);
        assert_eq!(orders(&mut footprint), [], "its holder has it still");
        footprint.handle_restore(node(1), &reply);
        assert_eq!(orders(&mut footprint), at_once, "{reply:?}");
        let unknown = reply == UNKNOWN;
        assert_eq!(ended(&mut footprint), [(0, false), (1, unknown)], "{reply:?}");
    }
}

#[test]
fn f3_a_restore_is_sent_while_the_grant_lasts_and_one_at_a_time_to_a_node() {
    let mut footprint = Footprint::new(2);
    assert!(footprint.handle_restore_sent(node(0)));
    assert!(!footprint.handle_restore_sent(node(0)), "one is under way");
    assert!(footprint.handle_restore_sent(node(1)), "another node");
    assert!(!footprint.handle_restore_sent(node(2)), "there is no such node");
    footprint.handle_restore(node(0), &denied());
    assert!(footprint.handle_restore_sent(node(0)), "the last one has ended");

    let mut over = Footprint::new(1);
    over.handle_over();
    assert!(!over.handle_restore_sent(node(0)));
    assert!(over.is_clear(node(0)), "none was sent");
    let mut ended = Footprint::new(1);
    ended.handle_lost();
    assert!(!ended.handle_restore_sent(node(0)));
    assert!(ended.is_clear(node(0)), "none was sent");
}

#[test]
fn f3_from_the_restore_on_the_node_is_not_clear_whatever_comes_of_it() {
    for reply in [GRANTED, UNKNOWN, denied(), NOT_SENT] {
        let mut footprint = answered(None);
        assert!(footprint.handle_restore_sent(node(0)));
        footprint.handle_restore(node(0), &reply);
        // The acquire is refused because of the restored key.
        footprint.handle_acquire(node(0), &denied());
        assert!(!footprint.is_clear(node(0)), "{reply:?}");
        assert_eq!(ended(&mut footprint), [(0, reply == UNKNOWN)], "{reply:?}");
    }
}

#[test]
fn f4_an_order_says_where_the_key_may_be_set_after_the_release() {
    assert_eq!(ended(&mut answered(None)), [(0, false)], "the release goes behind the acquire");
    assert_eq!(ended(&mut answered(Some(&UNKNOWN))), [(0, true)]);
    let restored = |reply: Option<&Answered>| {
        let mut footprint = answered(Some(&GRANTED));
        assert!(footprint.handle_restore_sent(node(0)));
        if let Some(reply) = reply {
            footprint.handle_restore(node(0), reply);
        }
        footprint
    };
    assert_eq!(ended(&mut restored(None)), [(0, true)], "a restore is under way");
    assert_eq!(ended(&mut restored(Some(&UNKNOWN))), [(0, true)]);
    assert_eq!(ended(&mut restored(Some(&GRANTED))), [(0, false)]);

    let mut twice = restored(Some(&UNKNOWN));
    assert!(twice.handle_restore_sent(node(0)));
    twice.handle_restore(node(0), &GRANTED);
    assert_eq!(ended(&mut twice), [(0, true)], "the first one may still come");
}

#[test]
fn f4_where_several_have_set_the_key_the_one_that_is_late_may_set_it_after_it_was_deleted() {
    let order = |acquire: &Answered, restores: &[Answered]| -> ReleaseOrder {
        let mut footprint = answered(Some(acquire));
        for reply in restores {
            assert!(footprint.handle_restore_sent(node(0)));
            footprint.handle_restore(node(0), reply);
        }
        footprint.handle_given_back();
        footprint.poll_release().unwrap()
    };
    assert!(!order(&UNKNOWN, &[]).several, "the one that is late is the one whose key is deleted");
    assert!(!order(&GRANTED, &[GRANTED]).several, "none is late");
    assert!(order(&GRANTED, &[UNKNOWN]).several);
    assert!(order(&UNKNOWN, &[GRANTED]).several);
    assert!(order(&denied(), &[UNKNOWN, GRANTED]).several);
}

/// A release of a key with a ttl of 100 s, which a node takes commands for 5 s, with a node timeout of a second.
fn unconfirmed(may_land_late: bool) -> UnconfirmedRelease {
    UnconfirmedRelease::new(start(), 100 * SECOND, 5 * SECOND, may_land_late)
}

fn second(seconds: u64) -> Timestamp {
    start().saturating_add(Duration::from_secs(seconds))
}

#[test]
fn f4_a_release_that_finds_nothing_is_sent_again_until_the_node_takes_the_command_no_more() {
    let first = unconfirmed(true);
    assert_eq!(first.from(), start(), "it is due at once");
    let again = |release: UnconfirmedRelease, sent, now| {
        release.handle_found_nothing(second(sent), second(now), SECOND)
    };
    let second_one = again(first, 0, 2).unwrap();
    assert_eq!(second_one.from(), second(3), "a node timeout later");
    let third = again(second_one, 3, 3).unwrap();
    assert_eq!(third.from(), second(5), "when nothing comes any more");
    assert_eq!(again(third, 5, 5), None, "that was the last word");
    let late = again(third, 4, 9).unwrap();
    assert_eq!(late.from(), second(5), "sent before: it may have come before the command");

    assert_eq!(again(first, 0, 4).unwrap().from(), second(5), "no later than that");
    assert_eq!(again(first, 4, 30).unwrap().from(), second(5));
    assert_eq!(again(first, 5, 5), None);
}

#[test]
fn f4_where_the_command_has_certainly_come_first_the_first_word_is_the_last() {
    assert_eq!(unconfirmed(false).handle_found_nothing(start(), start(), SECOND), None);
}

#[test]
fn f5_a_release_is_given_up_only_when_the_key_must_have_expired() {
    let ttl = |seconds: u32, taken_for: u32, may_land_late| {
        let (ttl, taken_for) = (seconds * SECOND, taken_for * SECOND);
        UnconfirmedRelease::new(start(), ttl, taken_for, may_land_late)
    };
    for may_land_late in [false, true] {
        for (release, expired) in [
            // What a stopped node executes afterwards is followed for a minute.
            (ttl(10, 5, may_land_late), 70),
            // An extension that is executed just before the key would expire lets it live for another ttl.
            (ttl(100, 5, may_land_late), 205),
            // A node that takes commands for longer than a minute.
            (ttl(1, 70, may_land_late), 72),
        ] {
            assert!(!release.is_over(start()));
            assert!(!release.is_over(at(1_000 * expired - 1)));
            assert!(release.is_over(second(expired)));
            let later = release.handle_found_nothing(start(), second(1), SECOND);
            assert_eq!(later.is_some(), may_land_late);
            assert!(later.is_none_or(|later| !later.is_over(at(1_000 * expired - 1))));
        }
    }
}

#[test]
fn nothing_leaks_from_one_node_whatever_is_late_lost_or_executed_behind_others() {
    for budget in Budget::ALL {
        let explored = explore(World::new(1, budget), Flaw::None);
        println!("{budget:?} states={} ends={}", explored.states, explored.ends);
        assert!(explored.leak.is_none(), "{}", explored.leak.unwrap());
        assert_eq!(explored.stuck, 0, "every way comes to an end");
        assert!(explored.ends > 0);
    }
}

#[test]
fn nothing_leaks_from_three_nodes_at_random() {
    let runs = std::env::var("QUORLOCK_SCHEDULES").ok().and_then(|runs| runs.parse().ok());
    for seed in 0..runs.unwrap_or(3_000) {
        let leak = wander(World::new(3, Budget::MUCH), Flaw::None, seed);
        assert!(leak.is_none(), "seed {seed}: {}", leak.unwrap());
    }
}

#[test]
fn a_footprint_with_a_planted_flaw_is_found_out() {
    for flaw in Flaw::ALL {
        let leak = Budget::ALL.iter().find_map(|budget| explore(World::new(1, *budget), flaw).leak);
        let leak = leak.unwrap_or_else(|| panic!("{flaw:?} was not found"));
        println!("{flaw:?}: {leak}");
    }
}

#[test]
fn f4_what_is_unanswered_when_a_lease_is_given_back_is_followed_and_its_grant_orders_no_second_release()
 {
    let mut footprint = answered(None);
    footprint.handle_given_back();
    assert_eq!(orders(&mut footprint), [(0, true)], "the connection may be another one by then");
    footprint.handle_acquire(node(0), &GRANTED);
    assert_eq!(orders(&mut footprint), []);
    // A round that is lost is not given back any more.
    let mut footprint = answered(None);
    assert_eq!(ended(&mut footprint), [(0, false)]);
    footprint.handle_given_back();
    assert_eq!(orders(&mut footprint), []);
}
