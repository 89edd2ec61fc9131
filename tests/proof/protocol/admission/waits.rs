//! M9: for how long a node has been joining, as a client counts and tells it.

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn remains(hand: &Hand) -> Duration {
    match hand.may_vote(0) {
        Err(VoteBlock::Quarantined { remaining }) => remaining,
        other => panic!("{other:?}"),
    }
}

/// What the next look tells node 0.
fn tells(hand: &mut Hand) -> Option<(u64, Duration)> {
    let now = hand.now();
    hand.probe = hand.admission.begin_probe(now);
    match hand.probe.poll(&mut hand.admission, &hand.views, now, WALL) {
        ProbeStep::Look(joins) => joins[0].1.waited,
        other => panic!("{other:?}"),
    }
}

#[test]
fn m9_a_client_goes_on_from_what_it_was_told_and_tells_what_has_passed_since() {
    let mut hand = Hand::new(3);
    assert_eq!(tells(&mut hand), None, "nothing is known of it");
    hand.now += 70 * MS;
    hand.says(0, joining(5).waited(4 * SECOND));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(
        remains(&hand),
        QUARANTINE - 4 * SECOND,
        "from the receipt on, not from the question"
    );
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    hand.now += 3 * SECOND;
    assert_eq!(remains(&hand), QUARANTINE - 7 * SECOND);
    assert_eq!(tells(&mut hand), Some((5, 7 * SECOND)));
    hand.now += 5 * SECOND;
    hand.says(0, joining(5).waited(7 * SECOND));
    assert!(matches!(hand.poll(), ProbeStep::Look(_)), "it is over, and all are asked");
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining: Duration::ZERO }));
}

#[test]
fn m9_of_two_times_the_longer_counts_and_they_are_never_added() {
    let mut hand = with_one_joining(3);
    for (passes, told, waited) in [(2, 1, 2), (1, 3, 3), (1, 6, 6), (2, 7, 8), (1, 10, 10)] {
        hand.now += passes * SECOND;
        assert!(hand.admission.handle_marker(
            node(0),
            joining(5).waited(told * SECOND),
            hand.now()
        ));
        assert_eq!(remains(&hand), QUARANTINE - waited * SECOND, "{told}");
    }
    // What only changes how long it has waited is no change of its standing.
    assert_eq!(hand.news(), []);
}

#[test]
fn m9_a_new_epoch_begins_with_what_is_told_of_it() {
    for (told, waited) in [(Duration::ZERO, 0), (2 * SECOND, 2)] {
        let mut hand = with_one_joining(3);
        hand.now += 9 * SECOND;
        assert!(hand.admission.handle_marker(node(0), joining(6).waited(told), hand.now()));
        assert_eq!(remains(&hand), QUARANTINE - waited * SECOND);
        assert_eq!(tells(&mut hand), Some((6, told)));
    }
}

#[test]
fn m9_a_standing_that_was_taken_away_takes_the_time_with_it() {
    let lapses: [fn(&mut Hand); 2] = [
        |hand| hand.admission.handle_forgotten(node(0)),
        |hand| hand.admission.handle_replaced(node(0)),
    ];
    for lapse in lapses {
        let mut hand = with_one_joining(3);
        hand.now += 9 * SECOND;
        lapse(&mut hand);
        assert_eq!(tells(&mut hand), None);
        hand.says(0, joining(5));
        assert_eq!(remains(&hand), QUARANTINE);
    }
}

/// The node has been ready since, and granted leases that it has forgotten: what it waited before counts for nothing,
/// however long it was, nor does its word that it has kept its data.
#[test]
fn m9_a_node_that_is_joining_in_an_older_epoch_than_was_seen_joins_again() {
    for seen in [ready(6), joining(6)] {
        for back in [joining(5), joining(5).waited(QUARANTINE), joining(5).kept(true)] {
            let mut hand = Hand::new(3);
            assert_eq!(hand.begin(), look(0..3, PLAIN));
            hand.says(0, seen);
            (1..3).for_each(|index| hand.says(index, ready(1)));
            assert!(matches!(hand.poll(), ProbeStep::Done(_)));
            hand.now += LOOK;
            assert_eq!(hand.begin(), look(0..3, PLAIN));
            hand.says(0, back);
            (1..3).for_each(|index| hand.says(index, ready(1)));
            assert_eq!(hand.may_vote(0), Err(VoteBlock::NotLookedAt));
            assert_eq!(hand.poll(), look([0], PLAIN.force(Some(5)).lost().after(6)));
            hand.says(0, joining(7));
            assert_eq!(remains(&hand), QUARANTINE);
            assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
            // As long as it says the same as before, it is asked the same again.
            let mut hand = hand.clone();
            assert_eq!(hand.begin(), look([0], PLAIN));
            hand.says(0, back);
            assert_eq!(hand.poll(), look([0], PLAIN.force(Some(5)).lost().after(7)));
            hand.says(0, back);
            assert_eq!(hand.may_vote(0), Err(VoteBlock::NotLookedAt));
            assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
        }
    }
}

/// Otherwise whatever the node says after that would be older, and it would join again and again.
#[test]
fn m9_an_epoch_that_others_have_written_into_a_marker_makes_no_other_look_older() {
    let mut hand = with_one_joining(3);
    assert!(hand.admission.handle_marker(node(0), joining(1 << 53), hand.now()));
    assert!(hand.admission.handle_marker(node(0), joining(7), hand.now()));
    assert_eq!(remains(&hand), QUARANTINE);
    assert!(!hand.admission.handle_marker(node(0), joining(6), hand.now()));
}
