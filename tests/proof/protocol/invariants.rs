//! P1 to P6 of `core/src/lib.rs`, each by name, and all of them at random.
//!
//! Goal: a reader finds the test of each invariant by its number. Method: the smallest case that would
//! break it, by hand; then rounds of up to nine nodes under random inputs beside the model (`model.rs`):
//! duplicates, nodes that do not exist, timeouts, abandonment, late replies, any minimum validity.

use proptest::prelude::*;
use quorlock_core::{Drift, RoundLoss, RoundSpec, Verdict};

use super::{
    model::{Answer, Input, Pair},
    *,
};

#[test]
fn p1_the_verdict_comes_at_the_earliest_reply_and_never_changes() {
    let mut round = sent(3);
    round.handle_reply(node(0), GRANTED, at(1));
    assert_eq!(round.verdict(), Verdict::Pending);
    round.handle_reply(node(1), GRANTED, at(1));
    assert_eq!(round.verdict(), Verdict::Won, "the third reply is not waited for");
    round.handle_reply(node(2), denied(), at(60_000));
    round.handle_timeout(at(60_000));
    round.handle_abandoned();
    assert_eq!((round.verdict(), round.loss()), (Verdict::Won, None));

    let mut round = sent(3);
    round.handle_reply(node(0), denied(), at(1));
    assert_eq!(round.verdict(), Verdict::Pending);
    round.handle_reply(node(1), NOT_SENT, at(1));
    assert_eq!(round.verdict(), Verdict::Lost, "a quorum is out of reach");
    round.handle_reply(node(2), GRANTED, at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));
}

#[test]
fn p2_a_win_needs_a_majority_of_distinct_configured_nodes() {
    let mut round = sent(5);
    for _ in 0..5 {
        round.handle_reply(node(0), GRANTED, at(1));
        round.handle_reply(node(5), GRANTED, at(1));
        round.handle_reply(node(1), GRANTED, at(1));
    }
    assert_eq!((round.verdict(), round.granted().len()), (Verdict::Pending, 2));
    round.handle_reply(node(2), GRANTED, at(1));
    assert_eq!(round.verdict(), Verdict::Won);

    // Nodes that failed still count: two of the two that are left are not two of three of five.
    let mut round = sent(5);
    for (index, reply) in [NOT_SENT, NOT_SENT, GRANTED, GRANTED].into_iter().enumerate() {
        round.handle_reply(node(index), reply, at(1));
    }
    assert_eq!(round.verdict(), Verdict::Pending);
}

#[test]
fn p3_a_win_has_validity_left_measured_from_before_the_first_send() {
    for (elapsed, verdict) in
        [(9_897, Verdict::Won), (9_898, Verdict::Lost), (u64::MAX, Verdict::Lost)]
    {
        let mut round = sent(3);
        // The first grant was early; what counts is the reply that wins.
        round.handle_reply(node(0), GRANTED, at(1));
        round.handle_reply(node(1), GRANTED, at(elapsed));
        assert_eq!(round.verdict(), verdict, "{elapsed}");
    }
}

#[test]
fn p4_a_lost_round_is_released_wherever_the_key_may_stand_and_nowhere_else() {
    let mut round = sent(5);
    let replies = [GRANTED, denied(), UNKNOWN, NOT_SENT];
    for (index, reply) in replies.into_iter().enumerate() {
        round.handle_reply(node(index), reply, at(1));
    }
    assert_eq!(round.verdict(), Verdict::Lost);
    assert_eq!(drain(&mut round), releases([0, 2, 4]));
}

#[test]
fn p5_a_late_reply_changes_no_verdict_and_what_may_stand_after_a_loss_is_released_again() {
    let mut round = sent(3);
    round.handle_reply(node(0), denied(), at(1));
    round.handle_reply(node(1), denied(), at(1));
    assert_eq!(drain(&mut round), releases([2]));
    round.handle_reply(node(2), UNKNOWN, at(2));
    assert_eq!(drain(&mut round), releases([2]));
    round.handle_reply(node(2), UNKNOWN, at(3));
    assert_eq!(drain(&mut round), [], "one more, and no more than one");
    assert_eq!(round.verdict(), Verdict::Lost);
}

#[test]
fn p6_every_node_is_sent_one_acquire_with_one_owner() {
    let mut round = acquire(5);
    assert_eq!(drain(&mut round), acquires(0..5));
    for index in 0..5 {
        round.handle_reply(node(index), UNKNOWN, at(1));
    }
    round.handle_timeout(at(100));
    round.handle_abandoned();
    let all = drain(&mut round);
    assert!(all.iter().all(|(_, command)| matches!(command, Command::Release { .. })), "{all:?}");
    assert!(
        all.iter().all(|(_, command)| *command == releases([0])[0].1),
        "another owner: {all:?}"
    );
}

fn inputs(nodes: usize) -> impl Strategy<Value = Vec<(Input, u64)>> {
    let answer = prop_oneof![
        4 => Just(Answer::Granted),
        2 => Just(Answer::Denied),
        1 => Just(Answer::Unknown),
        1 => Just(Answer::NotSent),
    ];
    let input = prop_oneof![
        20 => (0..nodes + 2, answer).prop_map(|(node, answer)| Input::Reply(node, answer)),
        1 => Just(Input::Timeout),
        1 => Just(Input::Abandon),
    ];
    // Mostly quick, now and then late enough to matter.
    let pause = prop_oneof![8 => 0..5u64, 1 => 0..12_000u64];
    proptest::collection::vec((input, pause), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p1_to_p6_hold_under_random_inputs(
        (nodes, inputs) in (1..=9usize).prop_flat_map(|nodes| (Just(nodes), inputs(nodes))),
        min_validity in 0..10_000u64,
        per_mille in 0..=500u32,
    ) {
        let mut spec = RoundSpec::new(resource(), owner(), TTL);
        spec.min_validity = Duration::from_millis(min_validity);
        spec.drift = Drift::new(per_mille, Duration::from_millis(2));
        let mut pair = Pair::begin(nodes, spec);
        let mut elapsed = 0;
        for (input, pause) in inputs {
            elapsed += pause;
            pair.step(input, at(elapsed));
        }
    }
}
