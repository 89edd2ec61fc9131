//! Release rounds: where a release is sent, and when it is confirmed, gone, or unknown.
//!
//! Goal: a release is counted over all configured nodes, never over those that were won, and a lost
//! release round sends nothing more (what must be repeated is the engine's business).

use quorlock_core::{Quorum, RoundLoss, Timestamp, Verdict};

use super::*;

fn release(nodes: usize, held: &[usize]) -> Tally {
    let held: Vec<_> = held.iter().copied().map(node).collect();
    Tally::release(Quorum::of(nodes), resource(), owner(), held)
}

#[test]
fn it_is_sent_to_the_nodes_named_in_their_order_and_once() {
    let mut round = release(5, &[3, 0, 3, 1, 9]);
    assert_eq!(drain(&mut round), releases([3, 0, 1]));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn a_quorum_of_deletions_confirms_it() {
    let mut round = release(5, &[0, 1, 2, 3, 4]);
    drain(&mut round);
    for index in [4, 2] {
        round.handle_reply(node(index), GRANTED, at(1));
        assert_eq!(round.verdict(), Verdict::Pending);
    }
    round.handle_reply(node(0), GRANTED, at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Won, None));
    assert_eq!(drain(&mut round), []);
}

#[test]
fn the_quorum_is_of_all_nodes_not_of_those_that_were_won() {
    let mut round = release(5, &[0, 1, 2]);
    drain(&mut round);
    round.handle_reply(node(0), GRANTED, at(1));
    round.handle_reply(node(1), GRANTED, at(1));
    assert_eq!(round.verdict(), Verdict::Pending);
    round.handle_reply(node(2), denied(), at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));
}

#[test]
fn too_few_nodes_named_are_lost_at_once_and_still_sent() {
    let mut round = release(5, &[1, 2]);
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));
    assert_eq!(drain(&mut round), releases([1, 2]));
    let mut none = release(3, &[]);
    assert_eq!(none.verdict(), Verdict::Lost);
    assert_eq!(drain(&mut none), []);
}

#[test]
fn gone_keys_are_told_from_nodes_that_failed() {
    let mut gone = release(3, &[0, 1, 2]);
    drain(&mut gone);
    gone.handle_reply(node(0), denied(), at(1));
    gone.handle_reply(node(1), denied(), at(1));
    assert_eq!((gone.verdict(), gone.loss()), (Verdict::Lost, Some(RoundLoss::Contended)));

    let mut failed = release(3, &[0, 1, 2]);
    drain(&mut failed);
    failed.handle_reply(node(0), GRANTED, at(1));
    failed.handle_reply(node(1), NOT_SENT, at(1));
    failed.handle_reply(node(2), UNKNOWN, at(1));
    assert_eq!((failed.verdict(), failed.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
    assert_eq!(failed.granted().len(), 1);
}

#[test]
fn one_failure_that_might_have_made_the_quorum_leaves_it_unknown() {
    let mut round = release(3, &[0, 1]);
    drain(&mut round);
    round.handle_reply(node(0), GRANTED, at(1));
    round.handle_reply(node(1), UNKNOWN, at(1));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
}

#[test]
fn a_lost_release_sends_nothing_more() {
    let mut round = release(3, &[0, 1, 2]);
    drain(&mut round);
    round.handle_timeout(at(100));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
    assert_eq!(drain(&mut round), []);
    round.handle_reply(node(0), GRANTED, at(101));
    assert_eq!((round.granted().len(), round.verdict()), (0, Verdict::Lost));
}

#[test]
fn time_does_not_matter_to_a_release() {
    let mut round = release(1, &[0]);
    drain(&mut round);
    assert_eq!(round.deadline(), Timestamp::ORIGIN);
    round.handle_reply(node(0), GRANTED, at(u64::MAX));
    assert_eq!(round.verdict(), Verdict::Won);
}

#[test]
fn a_release_that_is_decided_goes_on_in_what_it_has_to_send() {
    let mut round = release(3, &[0, 1, 2]);
    assert_eq!(round.poll_command(), releases([0]).pop());
    round.handle_timeout(at(100));
    assert_eq!(round.loss(), Some(RoundLoss::NoQuorum));
    // What was to be released still is: taking these back would leave keys behind.
    assert_eq!(drain(&mut round), releases([1, 2]));
}
