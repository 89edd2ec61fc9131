//! M1 to M3: what gives a node its standing, and what takes it away.

use super::*;

#[test]
fn m1_only_a_marker_that_was_asked_for_after_its_standing_was_taken_away_gives_it_back() {
    type Lapse = fn(&mut Hand);
    let lapses: [(Lapse, VoteBlock); 5] = [
        (|hand| assert!(hand.admission.handle_not_admitted(node(2))), VoteBlock::NotLookedAt),
        (|hand| hand.admission.handle_forgotten(node(2)), VoteBlock::NotLookedAt),
        (|hand| hand.admission.handle_replaced(node(2)), VoteBlock::NotLookedAt),
        (|hand| assert!(hand.admission.handle_unreadable(node(2))), VoteBlock::MarkerUnreadable),
        (
            |hand| assert!(!hand.admission.handle_marker(node(2), ready(0), hand.now())),
            VoteBlock::NotLookedAt,
        ),
    ];
    for (lapse, block) in lapses {
        let mut hand = Hand::ready(3);
        hand.now += LOOK;
        assert_eq!(hand.begin(), look(0..3, PLAIN));
        lapse(&mut hand);
        assert_eq!(hand.may_vote(2), Err(block));
        hand.says(2, ready(1));
        assert_eq!(hand.may_vote(2), Err(block), "that was asked for before");
        assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
        assert_eq!(hand.begin(), look([2], PLAIN));
        hand.says(2, ready(1));
        assert_eq!(hand.may_vote(2), Ok(()));
        assert_eq!(hand.poll(), ProbeStep::Done(LOOK));
        assert!((0..2).all(|index| hand.may_vote(index).is_ok()));
        hand.admission.handle_forgotten(node(2));
        assert_eq!(hand.may_vote(2), Err(VoteBlock::NotLookedAt), "what was before is over");
    }
}

#[test]
fn m1_a_node_that_is_away_or_another_has_no_standing_and_one_that_cannot_be_seen_keeps_it() {
    let mut hand = Hand::ready(3);
    hand.views[0].connected = None;
    hand.views[1].connected = Some(false);
    hand.views[2].identity = Some(Arc::from("b"));
    let as_b = |hand: &Hand| {
        let b = Some(Arc::from("b"));
        hand.admission.may_vote_as(node(2), b.as_ref(), hand.now())
    };
    assert_eq!(as_b(&hand), Err(VoteBlock::AnotherProcess));
    assert_eq!(hand.begin(), look([2], PLAIN), "another process");
    assert_eq!(hand.may_vote(0), Ok(()));
    assert_eq!(hand.may_vote(1), Err(VoteBlock::NotLookedAt));
    assert_eq!(hand.may_vote(2), Err(VoteBlock::NotLookedAt));
    hand.says(2, ready(0));
    assert_eq!(as_b(&hand), Ok(()), "what the one before said says nothing of it");
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN), "one could not be seen");
    hand.views[0].connected = Some(true);
    assert_eq!(hand.begin(), ProbeStep::Done(LOOK), "one that is away says itself when it is back");
    hand.views[1].connected = Some(true);
    assert_eq!(hand.begin(), look([1], PLAIN));
}

#[test]
fn m1_a_process_that_is_known_only_now_is_not_another_one() {
    let mut hand = Hand::new(3);
    (0..3).for_each(|index| hand.views[index].identity = None);
    assert_eq!(hand.begin(), look(0..3, PLAIN));
    (0..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), ProbeStep::Done(LOOK));
    hand.views[0].identity = Some(Arc::from("a"));
    assert_eq!(hand.begin(), ProbeStep::Done(LOOK));
    assert_eq!(hand.may_vote(0), Ok(()));
}

/// Of a node that is looked at for the sake of another one no more is taken than what it says of the fleet.
#[test]
fn m1_what_is_heard_in_passing_of_a_node_without_a_standing_gives_it_none() {
    let mut hand = with_one_due(3);
    assert!(hand.admission.handle_not_admitted(node(1)));
    hand.says(0, joining(5));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN), "what it was asked before does not count");
    assert_eq!(hand.begin(), look([0, 1], PLAIN));
    hand.says(0, joining(5));
    assert_eq!(hand.poll(), look(0..3, PLAIN));
    hand.says(0, joining(5));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.may_vote(1), Err(VoteBlock::NotLookedAt));
    assert_eq!(hand.poll(), look([1, 2], PLAIN.seal()));
}

/// A step may wait for a node that hangs; one that another client has sealed meanwhile is well.
#[test]
fn m1_a_node_that_refuses_meanwhile_is_looked_at_beside_the_step_and_only_for_its_own_sake() {
    let beside = |hand: &mut Hand| {
        let joins = hand.probe.poll_beside(&hand.admission, &hand.views);
        joins_of(&ProbeStep::Look(joins))
    };
    let says = |hand: &mut Hand, marker| {
        let now = hand.now();
        hand.probe.handle_beside(&mut hand.admission, node(1), marker, now);
    };
    let mut hand = with_one_due(3);
    assert_eq!(beside(&mut hand), [], "nobody has refused");
    assert!(hand.admission.handle_not_admitted(node(1)));
    assert_eq!(beside(&mut hand), [(1, PLAIN)]);
    assert_eq!(beside(&mut hand), [], "it has been asked");
    hand.says(1, ready(1));
    assert_eq!(hand.may_vote(1), Err(VoteBlock::NotLookedAt), "for the sake of another");
    // It is taken away once more, before that is answered.
    hand.admission.handle_forgotten(node(1));
    says(&mut hand, ready(1));
    assert_eq!(hand.may_vote(1), Err(VoteBlock::NotLookedAt), "that was asked for before");
    assert_eq!(beside(&mut hand), [(1, PLAIN)]);
    says(&mut hand, ready(1).sealed(1));
    assert_eq!(hand.may_vote(1), Ok(()));
    assert_eq!(hand.admission.marks()[1], ready(1).sealed(1).mark());
    // Others are left to the next probe.
    let left: [fn(&mut Hand); 5] = [
        |hand| hand.jump(1),
        |hand| hand.views[1].connected = Some(false),
        |hand| hand.views[1].connected = None,
        |hand| hand.views[1].identity = Some(Arc::from("b")),
        |hand| hand.admission.handle_replaced(node(1)),
    ];
    for left in left {
        let mut hand = with_one_due(3);
        assert!(hand.admission.handle_not_admitted(node(1)));
        left(&mut hand);
        assert_eq!(beside(&mut hand), []);
    }
    // A node that has forgotten waits, and a node whose data went back is no nearer to a vote.
    let mut forgot = hand.clone();
    assert!(forgot.admission.handle_not_admitted(node(1)));
    assert_eq!(beside(&mut forgot), [(1, PLAIN)]);
    says(&mut forgot, joining(9));
    assert_eq!(forgot.may_vote(1), Err(VoteBlock::Quarantined { remaining: QUARANTINE }));
    assert!(hand.admission.handle_not_admitted(node(1)));
    assert_eq!(beside(&mut hand), [(1, PLAIN)]);
    says(&mut hand, ready(1));
    assert_eq!(hand.may_vote(1), Err(VoteBlock::NotLookedAt), "it was sealed before");
}

/// A node that is well when a probe begins, and refuses meanwhile; its data may have gone back.
#[test]
fn m1_what_is_read_beside_the_step_ends_the_probe_unless_its_data_went_back() {
    for (sealed, pause) in [(1, LOOK), (0, AGAIN)] {
        let mut hand = Hand::ready(3);
        let now = hand.now();
        assert!(hand.admission.handle_marker(node(1), ready(1).sealed(1), now));
        assert!(hand.admission.handle_not_admitted(node(2)));
        assert_eq!(hand.begin(), look([2], PLAIN));
        hand.says(2, ready(1));
        assert!(hand.probe.poll_beside(&hand.admission, &hand.views).is_empty());
        assert!(hand.admission.handle_not_admitted(node(1)));
        let joins = hand.probe.poll_beside(&hand.admission, &hand.views);
        assert_eq!(ProbeStep::Look(joins), look([1], PLAIN));
        let marker = ready(1).sealed(sealed);
        hand.probe.handle_beside(&mut hand.admission, node(1), marker, now);
        assert_eq!(hand.may_vote(1).is_ok(), sealed == 1);
        assert_eq!(hand.poll(), ProbeStep::Done(pause));
    }
}

/// What refuses them now is the seal that was read meanwhile, or what was looked into since.
#[test]
fn m3_a_refusal_of_what_was_asked_before_the_node_was_looked_at_again_takes_nothing_away() {
    let mut hand = Hand::ready(3);
    let [first, second] = [0, 1].map(|_| hand.admission.vote_guard(node(1)));
    assert!(hand.admission.handle_refused(first));
    assert_eq!(hand.may_vote(1), Err(VoteBlock::NotLookedAt));
    assert_eq!(hand.begin(), look([1], PLAIN));
    hand.says(1, ready(1).sealed(1));
    assert!(!hand.admission.handle_refused(second));
    assert_eq!(hand.may_vote(1), Ok(()));
    let before = hand.admission.vote_guard(node(1));
    assert!(hand.admission.handle_marker(node(1), ready(1).sealed(2), hand.now()));
    assert!(!hand.admission.handle_refused(before), "this client has sealed it");
    assert!(hand.admission.counts(before), "its votes under the new seal count");
    let now = hand.admission.vote_guard(node(1));
    assert!(hand.admission.handle_refused(now));
    assert!(!hand.admission.counts(now));
}

/// A joining node goes on waiting while it is away, and says that it is not admitted without starting anew.
#[test]
fn m1_a_node_that_is_joining_goes_on_waiting_wherever_it_is_and_begins_anew_as_another_process() {
    let mut hand = with_one_joining(3);
    hand.now += Duration::from_secs(5);
    assert!(!hand.admission.handle_not_admitted(node(0)));
    hand.views[0].connected = Some(false);
    assert_eq!(hand.begin(), ProbeStep::Done(AGAIN));
    let remaining = Duration::from_secs(7);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining }));
    hand.views[0] = ConnectionView::new(Some(true), Some(Arc::from("b")), None);
    assert_eq!(hand.begin(), look([0], PLAIN));
    hand.says(0, joining(6));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining: QUARANTINE }));
}

#[test]
fn m2_no_answer_counts_while_the_clock_is_in_question_and_the_verdict_ends_that() {
    // Of three that do not tell their clocks, one has jumped: it is to blame.
    let mut hand = Hand::ready(3);
    hand.jump(0);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::ClockInQuestion));
    assert!(hand.admission.handle_marker(node(0), ready(1), hand.now()));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::ClockInQuestion));
    assert_eq!(hand.judge(&[0, 1, 2]), look([0], PLAIN.force(Some(1))));
    assert_eq!(hand.verdicts(), [Some(ClockFault::Node), None, None]);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::ClockInQuestion), "until it has answered that");
    hand.says(0, joining(2).kept(true));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining: QUARANTINE }));
    // Two have jumped: it was our own clock.
    let mut hand = Hand::ready(3);
    hand.jump(0);
    hand.jump(1);
    assert_eq!(hand.judge(&[0, 1, 2]), look([0, 1], PLAIN));
    assert_eq!(hand.verdicts(), [Some(ClockFault::Ours), Some(ClockFault::Ours), None]);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::NotLookedAt));
    hand.says(0, ready(1));
    assert_eq!(hand.may_vote(0), Ok(()));
    // Nobody else is there to tell, until no lease of before lasts.
    let mut hand = Hand::ready(5);
    hand.jump(0);
    for waits in [Duration::ZERO, QUARANTINE - Duration::from_millis(1)] {
        hand.now += waits;
        let _ = hand.judge(&[0]);
        assert_eq!(hand.verdicts()[0], Some(ClockFault::Undecided));
        hand.says(0, ready(1));
        assert_eq!(hand.may_vote(0), Err(VoteBlock::ClockInQuestion));
    }
    hand.now += Duration::from_millis(1);
    assert_eq!(joins_of(&hand.judge(&[0])), [(0, PLAIN)]);
    assert_eq!(hand.verdicts()[0], Some(ClockFault::Nobody));
    hand.says(0, ready(1));
    assert_eq!(hand.may_vote(0), Ok(()));
}

#[test]
fn m2_a_jump_that_was_seen_since_is_not_dealt_with_by_the_answer_to_the_one_before() {
    let mut hand = Hand::ready(3);
    hand.jump(0);
    assert_eq!(hand.judge(&[0, 1, 2]), look([0], PLAIN.force(Some(1))));
    hand.admission.handle_clock_jumped(node(0), Some(4));
    hand.says(0, joining(2).kept(true));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::ClockInQuestion));
    assert_eq!(hand.judge(&[0, 1, 2]), look([0], PLAIN.force(Some(4))), "in the epoch of that one");
}

/// Neither what it is asked whose clock it was, nor what it says of its counters.
#[test]
fn m2_nothing_is_believed_of_a_node_whose_clock_is_in_question() {
    let mut hand = with_one_joining(3);
    hand.now += QUARANTINE;
    hand.jump(1);
    assert_eq!(hand.begin(), look(0..3, PLAIN));
    assert_eq!(hand.poll(), look([1], PLAIN), "the others do not answer just now");
    let _ = hand.poll();
    assert_eq!(hand.verdicts()[1], Some(ClockFault::Undecided));
    hand.says(0, joining(5));
    hand.says(2, ready(1));
    assert_eq!(hand.poll(), look(0..3, PLAIN));
    hand.says(0, joining(5));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN), "only one of the others can tell");
    assert_eq!(hand.may_vote(0), Err(VoteBlock::HeldBack(AdmissionBlock::TooFewOthers)));
    // Longer leases are known of now: it waits for the end of those, whatever held it back.
    let longer = Marker::new(true, TTL * 2, 100).in_epoch(1);
    assert!(hand.admission.handle_marker(node(2), longer, hand.now()));
    let remaining = Duration::from_secs(11);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining }));
}

#[test]
fn m2_a_node_that_is_away_is_judged_when_it_is_back() {
    let mut hand = Hand::ready(5);
    hand.jump(0);
    hand.views[0].connected = Some(false);
    hand.views[1].connected = None;
    assert_eq!(hand.begin(), look(2..5, PLAIN));
    (2..5).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), look(2..5, PLAIN));
    (2..5).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    assert_eq!(hand.verdicts(), [None; 5]);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::ClockInQuestion));
    hand.views[0].connected = Some(true);
    hand.views[1].connected = Some(true);
    assert_eq!(hand.judge(&[0, 1, 2, 3, 4]), look([0], PLAIN.force(Some(1))));
}

#[test]
fn m3_what_was_asked_before_the_standing_was_taken_away_counts_no_more() {
    let mut hand = Hand::ready(3);
    let before: Vec<_> = (0..3).map(|index| hand.admission.vote_guard(node(index))).collect();
    assert!(before.iter().all(|vote_guard| hand.admission.counts(*vote_guard)));
    hand.jump(0);
    assert!(hand.admission.handle_not_admitted(node(1)));
    let counts = |hand: &Hand| before.iter().map(|b| hand.admission.counts(*b)).collect::<Vec<_>>();
    assert_eq!(counts(&hand), [false, false, true]);
    let looks = vec![(node(0), PLAIN.force(Some(1))), (node(1), PLAIN)];
    assert_eq!(hand.judge(&[0, 1, 2]), ProbeStep::Look(looks));
    hand.says(1, ready(1));
    assert_eq!(hand.may_vote(1), Ok(()));
    assert_eq!(counts(&hand), [false, false, true], "that it may vote again changes nothing");
    assert!(hand.admission.counts(hand.admission.vote_guard(node(1))));
    // Another client has made it join: that is how this one loses a standing by a marker.
    assert!(hand.admission.handle_marker(node(2), joining(3), hand.now()));
    assert_eq!(counts(&hand), [false; 3]);
}
