//! What a round for any slot asks for, and what it says of its end: S2 to S4 at the places where an answer decides.
//!
//! Goal: whoever undoes what was picked is told the right slots, and why nothing was won. Method: the answers of three nodes,
//! one after the other.

use super::*;

/// Nodes pick these slots, in their order.
fn pick_of(picks: [u8; 2]) -> Pick {
    let mut pick = begin(1, 2, 0);
    drain(&mut pick);
    for (index, slot) in picks.into_iter().enumerate() {
        pick.handle_reply(node(index), picked(slot, 1), at(1));
    }
    pick
}

#[test]
fn s3_each_slot_has_one_token_whatever_the_spec_says() {
    let mut spec = RoundSpec::new(resource(), owner(), TTL);
    spec.count = 3;
    let mut pick = Pick::begin(Quorum::of(NODES), spec, slots(2), 0, start());
    assert_eq!(pick.spec().target, Target::AnyOf(slots(2)));
    assert_eq!((pick.spec().count, pick.spec().hint), (1, Some(0)));
    drain(&mut pick);
    (0..2).for_each(|index| pick.handle_reply(node(index), picked(1, 7), at(1)));
    assert_eq!(won_tokens(pick.decided().unwrap()), [7, 7]);
}

#[test]
fn s2_one_that_is_abandoned_is_lost_and_undone_everywhere() {
    let mut pick = begin(1, 2, 0);
    drain(&mut pick);
    pick.handle_reply(node(0), picked(1, 1), at(1));
    pick.handle_abandoned();
    assert_eq!((pick.verdict(), pick.loss()), (Verdict::Lost, Some(RoundLoss::Abandoned)));
    let released: Vec<Vec<u8>> = drain(&mut pick)
        .into_iter()
        .map(|(_, command)| numbers(command.target().unwrap()))
        .collect();
    assert_eq!(released, [vec![1], vec![0, 1], vec![0, 1]]);
    // One that is won stays so.
    let mut pick = pick_of([0, 0]);
    pick.handle_abandoned();
    assert_eq!((pick.verdict(), pick.loss()), (Verdict::Won, None));
}

#[test]
fn s2_whoever_has_not_answered_in_time_has_failed() {
    let mut pick = begin(1, 2, 0);
    drain(&mut pick);
    pick.handle_reply(node(0), picked(0, 1), at(1));
    assert_eq!(pick.verdict(), Verdict::Pending);
    pick.handle_timeout(at(100));
    assert_eq!((pick.verdict(), pick.loss()), (Verdict::Lost, Some(RoundLoss::NoQuorum)));
}

#[test]
fn what_has_to_be_undone_is_handed_over_once_and_released_by_whoever_takes_it() {
    let mut pick = pick_of([0, 0]);
    assert!(pick.take_footprint().is_some() && pick.take_footprint().is_none());
    assert!(pick.take_others().is_some() && pick.take_others().is_none());
    pick.handle_reply(node(2), picked(1, 1), at(1));
    assert_eq!(drain(&mut pick), []);
    let mut lost = begin(1, 2, 0);
    drain(&mut lost);
    lost.handle_reply(node(0), picked(0, 1), at(1));
    (1..NODES).for_each(|index| lost.handle_reply(node(index), denied(), at(1)));
    assert!(lost.take_footprint().is_none(), "there is no slot that it has won");
    assert!(lost.take_others().is_some());
    assert_eq!(drain(&mut lost), []);
}

#[test]
fn s2_and_s4_what_is_undone_and_filled_in_is_said_by_what_the_node_has_picked() {
    let mut pick = pick_of([1, 1]);
    let at_node = |pick: &Pick, index| numbers(&pick.undone_at(node(index)));
    assert_eq!(at_node(&pick, 2), [0], "it may have picked the other one");
    assert_eq!([0, 1, 2].map(|index| pick.is_filled_in(node(index))), [false; 3]);
    pick.handle_reply(node(2), picked(0, 1), at(1));
    assert_eq!(at_node(&pick, 2), [0]);
    assert_eq!([0, 1, 2].map(|index| pick.is_filled_in(node(index))), [false, false, true]);

    let mut open = begin(1, 2, 0);
    drain(&mut open);
    assert_eq!(at_node(&open, 0), [0, 1]);
    open.handle_reply(node(0), picked(1, 1), at(1));
    assert_eq!((at_node(&open, 0), at_node(&open, 1)), (vec![1], vec![0, 1]));
    assert!(!open.is_filled_in(node(0)), "nothing is won yet");
}

/// It may be said behind the verdict, by whoever would have sent it.
#[test]
fn that_a_node_could_not_be_asked_counts_also_where_it_was_not_to_be_asked_any_more() {
    let lost = || {
        let mut pick = begin(1, 2, 0);
        pick.poll_command().unwrap();
        pick.handle_reply(node(0), denied(), at(1));
        pick.handle_reply(node(1), NOT_SENT, at(1));
        assert_eq!((pick.verdict(), drain(&mut pick)), (Verdict::Lost, vec![]));
        pick
    };
    let free_after = |pick: &Pick| pick.decided().unwrap().free_after();
    let mut pick = lost();
    assert_eq!(free_after(&pick), Some(TTL));
    pick.handle_reply(node(2), NOT_SENT, at(2));
    assert_eq!(free_after(&pick), None, "two nodes are in the way that no end of a key helps with");
    // Nothing else is heard of a node that was not asked.
    let mut pick = lost();
    pick.handle_reply(node(2), picked(0, 1), at(2));
    assert_eq!((free_after(&pick), drain(&mut pick)), (Some(TTL), vec![]));
    let mut pick = lost();
    let longer = Denial::new(Some(b"other".as_slice().into()), Some(2 * TTL));
    pick.handle_reply(node(2), Ok(Reply::Denied(longer)), at(2));
    assert_eq!(free_after(&pick), Some(TTL));
}
