//! Acquire rounds: each test gives a state and one input, and compares the whole list of commands.
//!
//! Goal: who is asked, when the round is over, and who is sent a release, are what the module says.

use std::time::Duration;

use quorlock_core::{Drift, Quorum, Round, RoundLoss, RoundSpec, Verdict};

use super::*;

#[test]
fn a_round_asks_every_node_once_in_order() {
    for nodes in 1..=7 {
        let mut round = acquire(nodes);
        assert_eq!(drain(&mut round), acquires(0..nodes));
        assert_eq!(drain(&mut round), []);
        assert_eq!((round.verdict(), round.loss()), (Verdict::Pending, None));
    }
}

#[test]
fn the_quorum_th_grant_wins_and_sends_nothing() {
    let mut round = sent(5);
    for index in [4, 0] {
        round.handle_reply(node(index), GRANTED, at(1));
        assert_eq!(round.verdict(), Verdict::Pending);
    }
    round.handle_reply(node(2), GRANTED, at(1));
    assert_eq!((round.verdict(), round.granted().len()), (Verdict::Won, 3));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn a_win_may_hold_everywhere_but_where_it_was_denied_or_never_sent() {
    let mut round = sent(5);
    round.handle_reply(node(0), denied(), at(1));
    round.handle_reply(node(1), NOT_SENT, at(1));
    for index in [2, 3, 4] {
        round.handle_reply(node(index), GRANTED, at(1));
    }
    assert_eq!(round.may_stand().collect::<Vec<_>>(), [node(2), node(3), node(4)]);

    let mut round = sent(5);
    round.handle_reply(node(0), UNKNOWN, at(1));
    for index in [2, 3, 4] {
        round.handle_reply(node(index), GRANTED, at(1));
    }
    assert_eq!(round.verdict(), Verdict::Won);
    assert_eq!(round.may_stand().collect::<Vec<_>>(), [0, 1, 2, 3, 4].map(node));
}

#[test]
fn a_denied_majority_loses_and_releases_where_the_key_may_stand() {
    let mut round = sent(5);
    round.handle_reply(node(0), GRANTED, at(1));
    round.handle_reply(node(1), denied(), at(1));
    round.handle_reply(node(2), denied(), at(1));
    assert_eq!(drain(&mut round), []);
    round.handle_reply(node(3), denied(), at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));
    assert_eq!(drain(&mut round), releases([0, 4]));
}

#[test]
fn a_node_that_was_certainly_not_reached_is_not_released() {
    let mut round = sent(3);
    round.handle_reply(node(0), NOT_SENT, at(1));
    round.handle_reply(node(1), UNKNOWN, at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
    assert_eq!(drain(&mut round), releases([1, 2]));
}

#[test]
fn too_many_failures_are_broken_and_a_mixture_is_contention() {
    let mut broken = sent(3);
    broken.handle_reply(node(0), UNKNOWN, at(1));
    broken.handle_reply(node(1), NOT_SENT, at(1));
    assert_eq!(broken.loss(), Some(RoundLoss::NoQuorum));
    let mut busy = sent(3);
    busy.handle_reply(node(0), UNKNOWN, at(1));
    busy.handle_reply(node(1), denied(), at(1));
    assert_eq!(busy.loss(), Some(RoundLoss::Contended));
}

#[test]
fn a_win_one_nanosecond_before_the_deadline_counts_and_at_the_deadline_does_not() {
    let deadline = acquire(1).deadline();
    assert_eq!(deadline, at(10_000 - 102));
    let before = Timestamp::from_origin(deadline.since_origin() - Duration::from_nanos(1));
    let mut round = sent(1);
    round.handle_reply(node(0), GRANTED, before);
    assert_eq!(round.verdict(), Verdict::Won);
    let mut round = sent(1);
    round.handle_reply(node(0), GRANTED, deadline);
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::TooLate)));
    assert_eq!(drain(&mut round), releases([0]));
}

#[test]
fn a_win_with_less_than_the_minimum_validity_is_lost_and_released_everywhere() {
    let mut spec = RoundSpec::new(resource(), owner(), TTL);
    spec.min_validity = Duration::from_millis(9_000);
    spec.drift = Drift::new(100, Duration::ZERO);
    let mut exact = Round::acquire(Quorum::of(3), spec.clone(), start());
    drain(&mut exact);
    exact.handle_reply(node(0), GRANTED, at(0));
    exact.handle_reply(node(1), GRANTED, at(0));
    assert_eq!(exact.verdict(), Verdict::Won);

    let mut short = Round::acquire(Quorum::of(3), spec, start());
    drain(&mut short);
    short.handle_reply(node(0), GRANTED, at(0));
    short.handle_reply(node(1), GRANTED, at(1));
    assert_eq!(short.loss(), Some(RoundLoss::TooLate));
    assert_eq!(drain(&mut short), releases([0, 1, 2]));
}

#[test]
fn a_timeout_fails_whoever_has_not_replied() {
    let mut round = sent(3);
    round.handle_reply(node(1), GRANTED, at(1));
    round.handle_timeout(at(100));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
    assert_eq!(drain(&mut round), releases([0, 1, 2]));

    // Here the second failure settles it. Node 2 still waits then, and fails right after: two releases.
    let mut round = sent(3);
    round.handle_timeout(at(100));
    assert_eq!(drain(&mut round), releases([0, 1, 2, 2]));
    round.handle_timeout(at(200));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn an_abandoned_round_is_released_and_a_settled_one_cannot_be_abandoned() {
    let mut round = sent(3);
    round.handle_reply(node(0), denied(), at(1));
    round.handle_abandoned();
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Abandoned)));
    assert_eq!(drain(&mut round), releases([1, 2]));
    round.handle_abandoned();
    assert_eq!(drain(&mut round), []);

    let mut won = sent(1);
    won.handle_reply(node(0), GRANTED, at(1));
    won.handle_abandoned();
    assert_eq!((won.verdict(), won.loss()), (Verdict::Won, None));
    assert_eq!(drain(&mut won), []);
}

#[test]
fn commands_that_were_never_handed_out_are_taken_back() {
    let mut round = acquire(3);
    assert_eq!(round.poll_command(), acquires([0]).pop());
    round.handle_abandoned();
    assert_eq!(drain(&mut round), releases([0]));
    assert_eq!(round.may_stand().collect::<Vec<_>>(), [node(0)]);
    // Nobody was asked but node 0, so nothing that the others say counts.
    round.handle_reply(node(1), UNKNOWN, at(1));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn a_late_grant_and_a_late_unknown_are_released_once_more() {
    let lost = || {
        let mut round = sent(5);
        for index in 0..3 {
            round.handle_reply(node(index), denied(), at(1));
        }
        assert_eq!(drain(&mut round), releases([3, 4]));
        round
    };
    for (reply, expected) in
        [(GRANTED, releases([4])), (denied(), vec![]), (NOT_SENT, vec![]), (UNKNOWN, releases([4]))]
    {
        let mut round = lost();
        round.handle_reply(node(4), reply.clone(), at(2));
        assert_eq!(drain(&mut round), expected, "{reply:?}");
        assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));
    }
}

#[test]
fn what_comes_after_a_win_sends_nothing_and_keeps_account() {
    let mut round = sent(5);
    for index in 0..3 {
        round.handle_reply(node(index), GRANTED, at(1));
    }
    round.handle_reply(node(3), denied(), at(2));
    round.handle_timeout(at(100));
    assert_eq!((round.verdict(), round.granted().len()), (Verdict::Won, 3));
    assert_eq!(drain(&mut round), []);
    assert_eq!(round.may_stand().collect::<Vec<_>>(), [0, 1, 2, 4].map(node));
}

#[test]
fn a_second_reply_and_a_node_that_does_not_exist_change_nothing() {
    let mut round = sent(3);
    round.handle_reply(node(0), GRANTED, at(1));
    let before = round.clone();
    round.handle_reply(node(0), GRANTED, at(1));
    round.handle_reply(node(0), denied(), at(1));
    round.handle_reply(node(3), GRANTED, at(1));
    round.handle_reply(node(usize::MAX), GRANTED, at(1));
    assert_eq!(round, before);
}

#[test]
fn a_reply_from_before_the_start_does_not_lengthen_the_validity() {
    let mut round = sent(1);
    round.handle_reply(node(0), GRANTED, Timestamp::ORIGIN);
    assert_eq!(round.verdict(), Verdict::Won);
    assert_eq!(round.deadline(), at(9_898));
}
