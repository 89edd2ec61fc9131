//! What a round for any slot asks for, and what it says of its end: S2 to S4 at the places where an answer decides.
//!
//! Goal: the caller that undoes what was picked is told the right slots, and why nothing was won. Method: the answers
//! of three nodes, one after the other.

use super::*;

/// Nodes take these slots, in their order.
fn round_of(picks: [u8; 2]) -> Round {
    let mut round = begin(1, 2, 0);
    drain(&mut round);
    for (index, slot) in picks.into_iter().enumerate() {
        round.handle_reply(node(index), picked(slot, 1), at(1));
    }
    round
}

#[test]
fn s3_each_slot_has_one_token_whatever_the_spec_says() {
    let mut spec = RoundSpec::new(slots(2), owner(), TTL);
    spec.count = 3;
    let mut round = Round::acquire(Quorum::of(NODES), spec, start());
    assert_eq!(round.spec().target, Target::AnyOf(slots(2)));
    assert_eq!((round.spec().count, round.spec().hint), (1, Some(0)));
    drain(&mut round);
    (0..2).for_each(|index| round.handle_reply(node(index), picked(1, 7), at(1)));
    assert_eq!(won_tokens(&round), [7, 7]);
}

/// An unknown answer can be about no other slot.
#[test]
fn s2_of_a_semaphore_of_one_nothing_is_released_beside_the_slot_that_was_won() {
    let mut round = begin(1, 1, 0);
    drain(&mut round);
    (0..2).for_each(|index| round.handle_reply(node(index), picked(0, 1), at(1)));
    round.handle_reply(node(2), UNKNOWN, at(1));
    assert_eq!((round.verdict(), drain(&mut round)), (Verdict::Won, vec![]));
    assert_eq!([0, 2].map(|index| round.undone_at(node(index))), [None, None]);
    assert!(round.take_others().is_none());
}

#[test]
fn the_slot_that_is_looked_at_first_is_one_of_them() {
    for (count, first, asked) in [(1, 7, 0), (2, 7, 1), (2, 1, 1), (256, 255, 255)] {
        for (_, command) in drain(&mut begin(1, count, first)) {
            let Command::Acquire { first, .. } = command else { panic!("{command:?}") };
            assert_eq!(first, asked, "{count}");
        }
    }
}

/// By the caller that has taken the footprints.
#[test]
fn s2_what_comes_late_is_told_to_the_footprint_that_it_is_about() {
    for (slot, is_won) in [(0, true), (1, false)] {
        let mut round = round_of([0, 0]);
        let [mut won, mut others] =
            [round.take_footprint(), round.take_others()].map(Option::unwrap);
        let late = picked(slot, 1);
        round.tell(&mut won, node(2), &late);
        round.tell_others(&mut others, node(2), &late);
        round.handle_reply(node(2), late, at(2));
        let released: Vec<_> = std::iter::from_fn(|| others.poll_release()).collect();
        assert_eq!((released.len(), won.is_clear(node(2))), (usize::from(!is_won), !is_won));
        assert_eq!(round.undone_at(node(2)).is_none(), is_won);
    }
}

#[test]
fn s2_one_that_is_abandoned_is_lost_and_undone_everywhere() {
    let mut round = begin(1, 2, 0);
    drain(&mut round);
    round.handle_reply(node(0), picked(1, 1), at(1));
    round.handle_abandoned();
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::Abandoned)));
    let released: Vec<Vec<u8>> = drain(&mut round)
        .into_iter()
        .map(|(_, command)| numbers(command.target().unwrap()))
        .collect();
    assert_eq!(released, [vec![1], vec![0, 1], vec![0, 1]]);
    // A round that is won stays so.
    let mut round = round_of([0, 0]);
    round.handle_abandoned();
    assert_eq!((round.verdict(), round.loss()), (Verdict::Won, None));
}

#[test]
fn s2_whoever_has_not_answered_in_time_has_failed() {
    let mut round = begin(1, 2, 0);
    drain(&mut round);
    round.handle_reply(node(0), picked(0, 1), at(1));
    assert_eq!(round.verdict(), Verdict::Pending);
    round.handle_timeout(at(100));
    assert_eq!((round.verdict(), round.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
}

#[test]
fn what_has_to_be_undone_is_handed_over_once_and_released_by_whoever_takes_it() {
    let mut round = round_of([0, 0]);
    assert!(round.take_footprint().is_some() && round.take_footprint().is_none());
    assert!(round.take_others().is_some() && round.take_others().is_none());
    round.handle_reply(node(2), picked(1, 1), at(1));
    assert_eq!(drain(&mut round), []);
    let mut lost = begin(1, 2, 0);
    drain(&mut lost);
    lost.handle_reply(node(0), picked(0, 1), at(1));
    (1..NODES).for_each(|index| lost.handle_reply(node(index), denied(), at(1)));
    assert!(lost.take_others().is_none(), "there is no slot that it has won");
    assert!(lost.take_footprint().is_some());
    assert_eq!(drain(&mut lost), []);
}

#[test]
fn s2_and_s4_what_is_undone_and_filled_in_is_said_by_what_the_node_has_picked() {
    let mut round = round_of([1, 1]);
    let at_node = |round: &Round, index| numbers(&round.undone_at(node(index)).unwrap());
    assert_eq!(at_node(&round, 2), [0], "it may have picked the other one");
    assert_eq!([0, 1, 2].map(|index| round.is_filled_in(node(index))), [false; 3]);
    round.handle_reply(node(2), picked(0, 1), at(1));
    assert_eq!(at_node(&round, 2), [0]);
    assert_eq!([0, 1, 2].map(|index| round.is_filled_in(node(index))), [false, false, true]);

    let mut open = begin(1, 2, 0);
    drain(&mut open);
    assert_eq!(at_node(&open, 0), [0, 1]);
    open.handle_reply(node(0), picked(1, 1), at(1));
    assert_eq!((at_node(&open, 0), at_node(&open, 1)), (vec![1], vec![0, 1]));
    assert!(!open.is_filled_in(node(0)), "nothing is won yet");
}

/// It may be said behind the verdict, by the caller that would have sent it.
#[test]
fn that_a_node_could_not_be_asked_counts_also_where_it_was_not_to_be_asked_any_more() {
    let lost = || {
        let mut round = begin(1, 2, 0);
        round.poll_command().unwrap();
        round.handle_reply(node(0), denied(), at(1));
        round.handle_reply(node(1), NOT_SENT, at(1));
        assert_eq!((round.verdict(), drain(&mut round)), (Verdict::Lost, vec![]));
        round
    };
    let free_after = Round::free_after;
    let mut round = lost();
    assert_eq!(free_after(&round), Some(TTL));
    round.handle_reply(node(2), NOT_SENT, at(2));
    assert_eq!(
        free_after(&round),
        None,
        "two nodes are in the way that no end of a key helps with"
    );
    // Nothing else is heard of a node that was not asked.
    let mut round = lost();
    round.handle_reply(node(2), picked(0, 1), at(2));
    assert_eq!((free_after(&round), drain(&mut round)), (Some(TTL), vec![]));
    let mut round = lost();
    let longer = Denial::new(Some(b"other".as_slice().into()), Some(2 * TTL));
    round.handle_reply(node(2), Ok(Reply::Denied(longer)), at(2));
    assert_eq!(free_after(&round), Some(TTL));
}
