//! What a leader says of itself: which nodes are told what, and when it is confirmed.
//!
//! Goal: nothing is confirmed that a quorum has not taken, and no node is left without what is said. Method: the moments at
//! which the decision turns, and random orders of answers beside what each node really has.

use std::time::Duration;

use quorlock_core::{LossReason, NodeId, Proclaiming, Quorum};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{at, node};

fn lacking(says: &Proclaiming) -> Vec<usize> {
    says.lacking().map(NodeId::index).collect()
}

#[test]
fn a_node_is_asked_once_until_it_has_answered_or_its_time_is_up() {
    let mut says = Proclaiming::new(Quorum::of(3));
    assert_eq!((says.number(), lacking(&says)), (1, vec![0, 1, 2]));
    says.handle_asked(node(0), 1, true);
    says.handle_asked(node(1), 1, true);
    // It cannot be asked, and is not asked again at once.
    says.handle_asked(node(2), 1, false);
    assert_eq!(lacking(&says), [0; 0]);
    assert!(says.handle_answer(node(0), true) && !says.handle_answer(node(1), false));
    assert_eq!(lacking(&says), [0; 0], "it has not taken it, and is asked later");
    assert_eq!(says.say(), 2);
    assert_eq!(lacking(&says), [0, 1, 2], "none of them owes an answer");
    says.handle_asked(node(0), 2, true);
    assert_eq!(says.say(), 3);
    assert_eq!(lacking(&says), [1, 2], "it hangs");
    says.handle_time_up();
    assert_eq!(lacking(&says), [0, 1, 2]);
}

#[test]
fn what_a_quorum_has_taken_is_confirmed_and_what_was_said_before_it() {
    let mut says = Proclaiming::new(Quorum::of(3));
    says.say();
    for (taken, confirmed) in [(0, 0), (1, 2)] {
        says.handle_asked(node(taken), 2, true);
        assert!(says.handle_answer(node(taken), true));
        assert_eq!(says.is_confirmed(2), confirmed == 2);
    }
    assert!(says.is_confirmed(1) && !says.is_confirmed(3));
    assert_eq!(says.told(), 2);
    assert!(!says.handle_answer(node(9), true), "there is no such node");
}

/// The text was read before something newer was said.
#[test]
fn a_node_that_was_told_something_older_does_not_have_what_is_said_now() {
    let mut says = Proclaiming::new(Quorum::of(1));
    assert_eq!(says.say(), 2);
    says.handle_asked(node(0), 1, true);
    assert!(!says.handle_answer(node(0), true));
    assert!(!says.is_confirmed(1) && says.told() == 0);
    assert_eq!(lacking(&says), [0]);
}

#[test]
fn what_all_have_is_told_again_before_they_drop_it_and_what_one_lacks_soon() {
    let (retention, ttl) = (Duration::from_secs(3_600), Duration::from_secs(30));
    let mut says = Proclaiming::new(Quorum::of(3));
    assert_eq!(says.pause(retention, ttl), ttl / 3);
    for index in 0..3 {
        says.handle_asked(node(index), 1, true);
        says.handle_answer(node(index), true);
        says.handle_pause_over();
        assert_eq!(
            says.told(),
            if index < 2 { index + 1 } else { 0 },
            "only what all have is told anew"
        );
    }
    says.handle_time_up();
    assert_eq!(lacking(&says), [0, 1, 2]);
    for index in 0..3 {
        says.handle_asked(node(index), 1, true);
        says.handle_answer(node(index), true);
    }
    assert_eq!(says.pause(retention, ttl), retention / 4);
}

#[test]
fn others_may_lead_from_the_end_on_and_sooner_where_the_keys_are_gone() {
    let deadline = at(1_000);
    let mut says = Proclaiming::new(Quorum::of(3));
    assert_eq!(says.over_at(LossReason::RenewalFailed, false, deadline, at(10)), deadline);
    assert_eq!(says.over_at(LossReason::Gone, false, deadline, at(20)), at(20));
    assert_eq!(
        says.over_at(LossReason::ShutDown, true, deadline, at(30)),
        at(20),
        "when it was seen"
    );
    let mut late = Proclaiming::new(Quorum::of(3));
    assert_eq!(late.over_at(LossReason::Gone, false, deadline, at(2_000)), deadline);
    assert!(says.is_at_work());
    says.handle_ended();
    assert!(!says.is_at_work());
}

#[test]
fn nothing_is_confirmed_that_a_quorum_has_not_taken() {
    let (mut confirmed, mut older) = (0, 0);
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let quorum = Quorum::of(random.random_range(1..6));
        let mut says = Proclaiming::new(quorum);
        // What each node really has, and what it is told.
        let mut has = vec![0; quorum.nodes()];
        let mut under_way: Vec<Option<u64>> = vec![None; quorum.nodes()];
        for _ in 0..80 {
            match random.random_range(0..10) {
                0 => {
                    says.say();
                }
                1..5 => {
                    let number =
                        says.number() - u64::from(says.number() > 1 && random.random_bool(0.1));
                    let asked: Vec<NodeId> = says.lacking().collect();
                    for node in asked {
                        let is_asked = random.random_bool(0.8);
                        assert!(
                            under_way[node.index()].is_none(),
                            "seed {seed}: it owes an answer"
                        );
                        says.handle_asked(node, number, is_asked);
                        under_way[node.index()] = is_asked.then_some(number);
                    }
                }
                5..9 => {
                    let index = random.random_range(0..has.len());
                    if let Some(number) = under_way[index].take() {
                        let is_taken = random.random_bool(0.8);
                        if is_taken {
                            has[index] = number;
                        }
                        older += u32::from(number < says.number());
                        says.handle_answer(node(index), is_taken);
                    }
                }
                _ => {
                    says.handle_time_up();
                    under_way.fill(None);
                }
            }
            let number = says.number();
            let told = has.iter().filter(|has| **has == number).count();
            assert_eq!(says.told(), told, "seed {seed}");
            if told >= quorum.needed() {
                assert!(says.is_confirmed(number), "seed {seed}");
                confirmed += 1;
            }
            assert!(!says.is_confirmed(number + 1), "seed {seed}");
            assert!(!says.is_confirmed(number) || told >= quorum.needed(), "seed {seed}");
        }
    }
    assert!(confirmed > 10_000 && older > 1_000, "{confirmed} {older}");
}
