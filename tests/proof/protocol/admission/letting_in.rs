//! M4 to M8: when a node is let in, above which counters, and who is looked at for that.

use super::*;

#[test]
fn m4_it_is_let_in_after_the_whole_quarantine_of_the_longest_ttl_that_is_known_by_then() {
    let mut hand = with_one_joining(3);
    hand.now += QUARANTINE - Duration::from_millis(1);
    assert_eq!(hand.begin(), look(0..3, PLAIN), "that of everyone");
    hand.says(0, joining(5));
    assert_eq!(hand.poll(), ProbeStep::Done(Duration::from_millis(1)));
    let mut hand = with_one_due(3);
    hand.says(0, joining(5));
    hand.says(1, ready(1));
    hand.says(2, Marker::new(true, TTL * 2, 100).in_epoch(1));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN), "the quarantine goes on");
    let remaining = Duration::from_secs(11);
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining }));
}

#[test]
fn m4_it_is_let_in_only_in_the_epoch_in_which_it_has_waited() {
    for told in [joining(6), ready(6), ready(5)] {
        let mut hand = with_one_due(3);
        hand.says(0, told);
        (1..3).for_each(|index| hand.says(index, ready(1)));
        assert!(matches!(hand.poll(), ProbeStep::Done(_)), "{told:?}");
        let waits = VoteBlock::Quarantined { remaining: Duration::ZERO };
        assert_eq!(
            hand.may_vote(0),
            Err(waits),
            "{told:?}: it is looked at for its own sake first"
        );
    }
    // It changes while the others are sealed.
    let mut hand = with_one_due(3);
    hand.says(0, joining(5));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), look([1, 2], PLAIN.seal()));
    assert!(hand.admission.handle_marker(node(0), joining(7), hand.now()));
    (1..3).for_each(|index| hand.says(index, ready(1).sealed(1)));
    assert!(matches!(hand.poll(), ProbeStep::Done(_)));
    // Also where nobody waits.
    for epoch in [4, 7] {
        let mut hand = Hand::with(3, AdmissionPolicy::DangerSkip);
        assert_eq!(hand.begin(), look(0..3, PLAIN));
        hand.says(0, joining(5));
        assert_eq!(hand.poll(), look(0..3, PLAIN));
        hand.says(0, joining(5));
        (1..3).for_each(|index| hand.says(index, ready(1)));
        assert_eq!(hand.poll(), look([1, 2], PLAIN.seal()));
        // A node that is joining in an older epoch than it was seen in is not even believed to be joining.
        let taken = hand.admission.handle_marker(node(0), joining(epoch), hand.now());
        assert_eq!(taken, epoch > 5);
        (1..3).for_each(|index| hand.says(index, ready(1).sealed(1)));
        assert!(matches!(hand.poll(), ProbeStep::Done(_)));
    }
}

#[test]
fn m5_its_counters_go_on_above_what_a_sealed_majority_has_said() {
    for (sealed, admits) in [(2, false), (3, true)] {
        let mut hand = with_one_due(5);
        hand.says(0, joining(5));
        (1..5).for_each(|index| hand.says(index, ready(1)));
        assert_eq!(
            hand.poll(),
            look(1..5, PLAIN.seal()),
            "what they have said so far does not count"
        );
        for (index, high) in (1..=sealed).zip([301, 302, 303]) {
            hand.says(index, high_of(high).sealed(1));
            assert_eq!(
                hand.admission.marks()[index],
                EpochMark::new(1, 1),
                "rounds know of it at once"
            );
        }
        let step = hand.poll();
        if admits {
            let floor = Floor::new(303, 0);
            assert_eq!(
                step,
                ProbeStep::Admit { node: node(0), epoch: 5, floor, serves: Serves::After }
            );
            hand.probe.handle_admitted();
            assert_eq!(hand.poll(), look([0], PLAIN));
            hand.says(0, ready(6));
            assert_eq!(hand.may_vote(0), Ok(()));
            assert_eq!(hand.poll(), ProbeStep::Done(LOOK));
            assert_eq!(hand.news(), [AdmissionNews::Admitted { node: node(0), floor }]);
        } else {
            assert_eq!(step, ProbeStep::Done(AGAIN));
            let block = AdmissionBlock::TooFewOthers;
            assert_eq!(hand.may_vote(0), Err(VoteBlock::HeldBack(block)));
            assert_eq!(hand.news(), [AdmissionNews::HeldBack { node: node(0), block }]);
            assert!(hand.admission.handle_marker(node(0), joining(6), hand.now()));
            hand.now += QUARANTINE;
            let remaining = Duration::ZERO;
            assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining }), "another wait");
        }
    }
}

/// A node that has kept its data knows, and is not told that it does not.
#[test]
fn m5_a_node_whose_clock_jumped_is_not_told_that_a_majority_has_forgotten() {
    let mut hand = Hand::new(5);
    assert_eq!(hand.begin(), look(0..5, PLAIN));
    (0..3).for_each(|index| hand.says(index, joining(5)));
    hand.now += QUARANTINE;
    hand.says(3, joining(5).kept(true));
    assert_eq!(hand.poll(), look(0..5, PLAIN));
    (0..3).for_each(|index| hand.says(index, joining(5)));
    hand.says(3, joining(5).kept(true));
    assert_eq!(hand.poll(), look(0..3, PLAIN.orphaned()));
}

/// What was sealed for one wait says nothing of the next one.
#[test]
fn m7_another_epoch_is_another_seal() {
    let mut hand = with_one_due(3);
    for epoch in [5, 6] {
        hand.says(0, joining(epoch));
        (1..3).for_each(|index| hand.says(index, ready(1)));
        assert_eq!(hand.poll(), look([1, 2], PLAIN.seal()), "{epoch}");
        (1..3).for_each(|index| hand.says(index, ready(1)));
        assert!(
            matches!(hand.poll(), ProbeStep::Admit { epoch: admitted, .. } if admitted == epoch)
        );
        // It has forgotten again.
        assert!(hand.admission.handle_marker(node(0), joining(6), hand.now()));
        hand.now += QUARANTINE;
        assert_eq!(hand.begin(), look(0..3, PLAIN));
        hand.says(0, joining(6));
        assert_eq!(hand.poll(), look(0..3, PLAIN));
    }
}

/// The last of them need not wait for a majority that never comes.
#[test]
fn m5_where_a_majority_has_forgotten_all_that_are_joining_are_told_before_the_first_is_let_in() {
    let mut hand = Hand::new(5);
    hand.views[4].connected = Some(false);
    assert_eq!(hand.begin(), look(0..4, PLAIN));
    (0..3).for_each(|index| hand.says(index, joining(5)));
    hand.says(3, ready(1));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    hand.now += QUARANTINE;
    assert_eq!(hand.begin(), look(0..4, PLAIN));
    (0..3).for_each(|index| hand.says(index, joining(5)));
    hand.says(3, ready(1));
    assert_eq!(hand.poll(), look(0..5, PLAIN));
    (0..3).for_each(|index| hand.says(index, joining(5)));
    hand.says(3, ready(1));
    let told = hand.poll();
    assert_eq!(told, look([0, 1, 2], PLAIN.orphaned()));
    (0..3).for_each(|index| hand.says(index, joining(5).orphaned(true)));
    assert_eq!(hand.poll(), look(1..5, PLAIN.seal()));
    (1..3).for_each(|index| hand.says(index, joining(5).orphaned(true)));
    hand.says(3, ready(1).sealed(1));
    let floor = Floor::new(100, WALL + 60_000_000);
    assert_eq!(
        hand.poll(),
        ProbeStep::Admit { node: node(0), epoch: 5, floor, serves: Serves::After }
    );
    // What is said where nobody knows holds for this once: if that fails, all are told and sealed again.
    let mut again = hand.clone();
    assert_eq!(again.begin(), look(0..3, PLAIN));
    (0..3).for_each(|index| again.says(index, joining(5).orphaned(true)));
    assert_eq!(again.poll(), look(0..5, PLAIN));
    (0..3).for_each(|index| again.says(index, joining(5).orphaned(true)));
    again.says(3, ready(1).sealed(1));
    assert_eq!(again.poll(), look([0, 1, 2], PLAIN.orphaned()));
    assert_eq!(again.poll(), look(1..5, PLAIN.seal()));
    hand.probe.handle_admitted();
    assert_eq!(hand.poll(), look([0], PLAIN));
    hand.says(0, ready(6));
    // The next: two are ready by now, and it knows that a majority had forgotten.
    assert_eq!(hand.poll(), look(0..5, PLAIN));
    [0, 3].into_iter().for_each(|index| hand.says(index, ready(6).sealed(1)));
    hand.says(1, joining(5).orphaned(true));
    assert_eq!(hand.poll(), look([1], PLAIN.orphaned()));
}

#[test]
fn m6_a_node_joins_again_in_the_epoch_in_which_its_jump_was_seen_and_nobody_else_does() {
    for (seen, epoch) in [(None, 1), (Some(0), 1), (Some(9), 9)] {
        let mut hand = Hand::ready(3);
        hand.admission.handle_clock_jumped(node(0), seen);
        assert_eq!(hand.judge(&[0, 1, 2]), look([0], PLAIN.force(Some(epoch))));
    }
    let mut hand = Hand::new(3);
    hand.jump(0);
    let unknown = hand.judge(&[0, 1, 2]);
    assert_eq!(
        joins_of(&unknown)[0],
        (0, PLAIN.force(Some(u64::MAX))),
        "it has voted for nobody here"
    );
    assert!(joins_of(&unknown)[1..].iter().all(|(_, join)| *join == PLAIN));
}

#[test]
fn m6_a_node_whose_data_went_back_joins_again_as_one_that_has_lost_it() {
    let mut hand = Hand::ready(3);
    hand.now += LOOK;
    assert_eq!(hand.begin(), look(0..3, PLAIN));
    hand.says(0, high_of(99));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::NotLookedAt));
    assert_eq!(hand.poll(), look([0], PLAIN.force(Some(1)).lost().after(1)));
    hand.says(0, joining(2));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining: QUARANTINE }));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    // It may be noticed in any look, and it is asked once.
    for everyone in [false, true] {
        let mut hand = Hand::ready(3);
        hand.now += if everyone { LOOK } else { Duration::ZERO };
        hand.jump(0);
        hand.jump(2);
        assert_eq!(hand.begin(), look(0..3, PLAIN));
        hand.says(1, high_of(99));
        assert_eq!(hand.poll(), look(0..3, PLAIN));
        let read = hand.poll();
        assert_eq!(hand.verdicts(), [Some(ClockFault::Ours), None, Some(ClockFault::Ours)]);
        for (index, _) in joins_of(&read) {
            hand.says(index, if index == 1 { high_of(99) } else { ready(1) });
        }
        assert_eq!(hand.poll(), look([1], PLAIN.force(Some(1)).lost().after(1)));
        assert_eq!(hand.poll(), ProbeStep::Done(AGAIN), "it has not answered");
    }
    // A node that is judged meanwhile is no other case: its jump says nothing of its data.
    let mut hand = Hand::ready(3);
    hand.now += LOOK;
    assert_eq!(hand.begin(), look(0..3, PLAIN));
    (0..3).for_each(|index| hand.says(index, ready(1)));
    hand.jump(0);
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
}

#[test]
fn m7_the_others_are_sealed_once_for_each_epoch_and_not_before_they_could_tell() {
    let mut hand = with_one_due(5);
    hand.says(0, joining(5));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN), "two of five others could not tell");
    assert_eq!(hand.begin(), look([0], PLAIN));
    hand.says(0, joining(5));
    assert_eq!(hand.poll(), look(0..5, PLAIN));
    hand.says(0, joining(5));
    (1..5).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), look(1..5, PLAIN.seal()));
    (1..5)
        .for_each(|index| hand.says(index, high_of(if index == 1 { 350 } else { 300 }).sealed(1)));
    let admit = |epoch, known| ProbeStep::Admit {
        node: node(0),
        epoch,
        floor: Floor::new(known, 0),
        serves: Serves::After,
    };
    assert_eq!(hand.poll(), admit(5, 350));
    // That is not answered, and the node goes on waiting: what was said holds, and what is said beyond it too.
    assert_eq!(hand.poll(), look([0], PLAIN));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    for (high, floor) in [(300, 350), (400, 400)] {
        assert_eq!(hand.begin(), look([0], PLAIN));
        hand.says(0, joining(5));
        assert_eq!(hand.poll(), look(0..5, PLAIN));
        hand.says(0, joining(5));
        (2..5).for_each(|index| hand.says(index, high_of(high).sealed(1)));
        assert_eq!(hand.poll(), admit(5, floor));
        assert_eq!(hand.poll(), look([0], PLAIN));
        assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    }
}

#[test]
fn m8_all_clocks_are_read_twice_since_the_last_jump_before_anybody_is_blamed() {
    let mut hand = Hand::ready(3);
    let mut clock = NodeClock::default();
    let mut swings = (1..).map(|second: u64| second % 2 * 1_000_000);
    let mut swing = |hand: &mut Hand| {
        let steady = clock.handle_reading(hand.now(), hand.now(), WALL + swings.next().unwrap());
        hand.views[0].clock = Some(clock);
        steady
    };
    assert!(swing(&mut hand));
    assert!(!swing(&mut hand));
    hand.jump(0);
    // It goes on jumping: two looks, four times, and it is left for the next probe.
    let mut step = hand.begin();
    for _ in 0..4 {
        for _ in 0..2 {
            assert_eq!(step, look(0..3, PLAIN));
            assert!(!swing(&mut hand));
            (1..3).for_each(|index| hand.says(index, ready(1)));
            step = hand.poll();
        }
        assert_eq!(hand.news(), [], "nobody is judged");
    }
    assert_eq!(step, look([0], PLAIN), "it is looked at as any that is not known, and not forced");
    // One more jump, seen in the second look: the third and fourth decide.
    assert_eq!(hand.begin(), look(0..3, PLAIN));
    (1..3).for_each(|index| hand.says(index, ready(1)));
    assert!(!swing(&mut hand));
    assert_eq!(hand.poll(), look(0..3, PLAIN));
    assert!(!swing(&mut hand));
    assert_eq!(hand.poll(), look(0..3, PLAIN));
    assert_eq!(hand.poll(), look([0], PLAIN), "the others do not answer any more");
    assert_eq!(hand.news(), []);
    assert_eq!(hand.poll(), look([0], PLAIN));
    assert_eq!(hand.verdicts()[0], Some(ClockFault::Undecided));
}

/// Those of a look in which a jump is seen are of no use to judge it by.
#[test]
fn m8_the_clocks_of_a_look_are_noted_unless_one_has_jumped_meanwhile() {
    for jumps in [false, true] {
        let mut hand = Hand::new(3);
        let mut clock = NodeClock::default();
        assert!(clock.handle_reading(hand.now(), hand.now(), WALL));
        hand.views[1].clock = Some(clock);
        assert_eq!(hand.begin(), look(0..3, PLAIN));
        (0..3).for_each(|index| hand.says(index, ready(1)));
        assert_eq!(hand.poll(), look(0..3, PLAIN), "one has just been met");
        if jumps {
            hand.jump(0);
        }
        assert!(matches!(hand.poll(), ProbeStep::Done(_)));
        assert_eq!(hand.admission.has_seen_clock(node(1)), !jumps);
    }
}

/// A steady clock that runs slow is behind when a sleep ends.
#[test]
fn a_pause_until_the_look_at_everyone_is_not_shorter_than_a_clock_may_be_behind() {
    let mut hand = Hand::ready(3);
    hand.now += LOOK - Duration::from_millis(10);
    assert_eq!(hand.begin(), ProbeStep::Done(Duration::from_millis(50)));
    hand.now += Duration::from_millis(10);
    assert_eq!(hand.begin(), look(0..3, PLAIN));
}
