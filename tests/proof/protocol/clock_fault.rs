//! Goal: a node is blamed for a jump of its clock if and only if it was that clock.
//!
//! Method: true time, an own clock that lags behind it in any way, and nodes whose clocks run steadily but for one
//! that is stepped. They are read at random, and all together every ten seconds, as the engine does; after a
//! reading that shows a jump all are looked at twice, and it is judged.

mod far;

use std::time::Duration;

use proptest::prelude::*;
use quorlock_core::{ClockFault, NodeClock, NodeId};

use super::clock_world::{MS, QUARANTINE, SECOND, Stretch, World};

/// The clocks of two, three or five nodes, up to 200 parts per million fast or slow.
fn rates() -> impl Strategy<Value = Vec<i128>> {
    prop_oneof![Just(2), Just(3), Just(5)]
        .prop_flat_map(|nodes| proptest::collection::vec(-200..=200i128, nodes))
}

fn stretches(per_mille: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Stretch>> {
    let stretch = (10 * MS..15 * SECOND, per_mille, 0..5usize, 2 * MS..3 * SECOND);
    proptest::collection::vec(stretch, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// It stops, crawls and goes on as it likes.
    #[test]
    fn nobody_is_blamed_for_an_own_clock_that_lags(
        rates in rates(),
        stretches in stretches(prop_oneof![Just(0u64), Just(1000), 300..1000u64]),
    ) {
        let mut world = World::new(&rates);
        world.go_through(stretches);
        prop_assert_eq!(world.blamed(), Vec::<usize>::new(), "{:?}", &world.verdicts);
    }

    #[test]
    fn a_node_whose_clock_is_stepped_is_blamed_and_nobody_else(
        rates in rates(),
        stretches in stretches(Just(1000)),
        stepped in 0..5usize,
        by in prop_oneof![60..400i128, 400..100_000i128],
        back in any::<bool>(),
    ) {
        let mut world = World::new(&rates);
        world.go_through(stretches);
        prop_assert_eq!(&world.verdicts, &vec![]);
        let stepped = stepped % rates.len();
        let by = by * i128::from(MS);
        world.step(stepped, if back { -by } else { by });
        world.look();
        let seen = world.nodes[stepped].suspected;
        world.judge();
        // Older readings hide a little: a tenth of twenty seconds, at the most.
        prop_assert!(seen || by < 2_200_000);
        prop_assert_eq!(world.blamed(), if seen { vec![stepped] } else { vec![] });
    }
}

#[test]
fn a_node_whose_clock_runs_fast_or_slow_or_stops_is_to_blame() {
    for per_million in [200_000, 130_000, -130_000, -200_000, -1_000_000] {
        let mut world = World::new(&[per_million, 100, -100]);
        world.pass(15 * SECOND, 0, 50 * MS);
        assert!(!world.blamed().is_empty(), "{per_million}");
        assert!(
            world.verdicts.iter().all(|verdict| *verdict == (0, ClockFault::Node)),
            "{per_million}"
        );
    }
}

#[test]
fn a_clock_that_has_jumped_there_and_back_is_to_blame() {
    for by in [-3_000_000, 3_000_000] {
        let mut world = World::new(&[0, 0, 0]);
        world.pass(3 * SECOND, 1, SECOND);
        world.step(0, by);
        world.read(0);
        assert!(world.nodes[0].suspected);
        world.step(0, -by);
        world.judge();
        assert_eq!(world.verdicts, [(0, ClockFault::Node)]);
    }
}

#[test]
fn nodes_that_are_stepped_by_different_amounts_are_to_blame_and_by_the_same_it_was_our_clock() {
    for (steps, clock_fault) in [
        ([2, 6, 12], ClockFault::Node),
        ([2, 6, 0], ClockFault::Node),
        ([-2, 6, 0], ClockFault::Node),
        ([4, 4, 0], ClockFault::Ours),
    ] {
        let mut world = World::new(&[0, 0, 0]);
        world.pass(5 * SECOND, 1, SECOND);
        steps.iter().enumerate().for_each(|(node, by)| world.step(node, by * 1_000_000));
        world.look();
        world.judge();
        let stepped = steps.iter().filter(|by| **by != 0).count();
        assert_eq!(world.verdicts.len(), stepped, "{steps:?}");
        assert!(
            world.verdicts.iter().all(|(_, verdict)| *verdict == clock_fault),
            "{:?}",
            world.verdicts
        );
    }
}

/// Both at once, and it is told which is which.
#[test]
fn a_step_of_a_node_is_seen_beside_a_stall_of_our_clock() {
    let mut world = World::new(&[0; 5]);
    world.pass(SECOND, 1, SECOND / 10);
    world.step(3, 2_000_000);
    world.stall(SECOND);
    world.look();
    world.judge();
    assert_eq!(world.blamed(), [3]);
    let ours =
        world.verdicts.iter().filter(|(_, clock_fault)| *clock_fault == ClockFault::Ours).count();
    assert_eq!(ours, 4);
}

#[test]
fn whose_clock_it_was_is_known_once_the_others_can_be_asked() {
    for stall in [true, false] {
        let mut world = World::new(&[0; 5]);
        world.pass(3 * SECOND, 1, SECOND);
        (2..5).for_each(|node| world.nodes[node].up = false);
        if stall {
            world.stall(SECOND);
        } else {
            (0..2).for_each(|node| world.step(node, 1_000_000));
        }
        world.pass(20 * SECOND, 0, SECOND);
        assert!(!world.verdicts.is_empty());
        assert!(
            world.verdicts.iter().all(|(_, clock_fault)| *clock_fault == ClockFault::Undecided)
        );
        (2..5).for_each(|node| world.nodes[node].up = true);
        world.pass(SECOND, 0, SECOND);
        let clock_fault = if stall { ClockFault::Ours } else { ClockFault::Node };
        assert_eq!(world.verdicts.last().unwrap().1, clock_fault);
        assert!(world.nodes.iter().all(|node| !node.suspected));
    }
}

/// It has nobody to be compared with, and may not be trusted.
#[test]
fn a_single_node_is_always_to_blame() {
    let mut world = World::new(&[0]);
    world.step(0, 1_000_000);
    world.look();
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Node)]);
}

/// A case that the property above has found: by a clock that stands still, what comes after is not later.
#[test]
fn nobody_is_blamed_for_an_own_clock_by_which_nothing_is_before_anything() {
    let mut world = World::new(&[0; 3]);
    world.go_through(vec![
        (7_345_434, 1000, 0, 542_054),
        (5_755_640, 0, 0, 404_584),
        (4_865_506, 493, 0, 428_979),
        (340_600, 0, 0, 19_041),
        (10_000, 389, 1, 2_000),
    ]);
    assert_eq!(world.blamed(), []);
    assert!(!world.verdicts.is_empty());
    assert!(world.timeless > 0, "its clock has stood still while it read");
}

/// Such as where a vote that was on its way at the jump fails after it has been dealt with.
#[test]
fn a_jump_is_judged_once() {
    let mut world = World::new(&[0; 3]);
    world.step(1, 1_000_000);
    world.look();
    world.judge();
    assert!(world.admission.has_seen_clock(NodeId::new(1)));
    world.pass(12 * SECOND, 0, SECOND);
    world.suspect(1);
    world.judge();
    assert_eq!(world.verdicts, [(1, ClockFault::Node); 2]);
}

/// What is compared must have begun no later than the shift in question.
#[test]
fn a_look_at_the_clocks_just_before_hides_no_clock_that_runs_fast() {
    let mut world = World::new(&[130_000, 0, 0]);
    world.now += 1_600 * MS;
    world.look();
    assert!(!world.nodes[0].suspected);
    world.now += 100 * MS;
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Node)]);
}

#[test]
fn a_stall_in_the_middle_of_a_look_blames_nobody() {
    // Of the look that is compared with.
    let mut world = World::new(&[0; 3]);
    world.now += 12 * SECOND;
    world.stall_after = Some((0, 300 * MS));
    world.look();
    world.now += SECOND;
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Ours)]);
    // Of one of those by which it is judged.
    let mut world = World::new(&[0; 3]);
    world.now += 9 * SECOND;
    world.look();
    world.now += 2 * SECOND;
    world.read(0);
    world.stall(400 * MS);
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.stall_after = Some((0, 200 * MS));
    world.judge();
    assert_eq!(world.verdicts.first(), Some(&(0, ClockFault::Ours)));
    assert_eq!(world.blamed(), []);
}

/// All that is known of the others is less certain than the jump is large: it may as well have been our own clock.
#[test]
fn readings_that_say_too_little_forgive_nobody_and_blame_nobody() {
    let mut world = World::whose_first_replies_wait(&[0; 3], 8 * SECOND);
    world.now += 11 * SECOND;
    world.read(0);
    world.step(0, 3_000_000);
    world.read(0);
    assert!(world.nodes[0].suspected);
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Undecided)]);
    assert!(world.nodes[0].suspected);
}

/// Their commands take longer than our clock has stood still.
#[test]
fn nodes_that_were_too_far_away_before_the_jump_are_not_made_to_tell_whose_it_was() {
    for stall in [true, false] {
        let mut world = World::new(&[0; 3]);
        world.held = 400 * MS;
        for _ in 0..3 {
            world.now += 11 * SECOND;
            world.look();
        }
        world.held = 0;
        world.now += 11 * SECOND;
        world.read(0);
        if stall {
            world.stall(300 * MS);
        } else {
            world.step(0, 300_000);
        }
        world.read(0);
        assert!(world.nodes[0].suspected);
        world.judge();
        // That they have not moved is certain in spite of it; that they have is not.
        let clock_fault = if stall { ClockFault::Undecided } else { ClockFault::Node };
        assert_eq!(world.verdicts, [(0, clock_fault)]);
    }
}

#[test]
fn nodes_that_were_met_after_the_jump_cannot_tell_whose_it_was() {
    for stall in [true, false] {
        let mut world = World::new(&[0; 3]);
        world.admission = World::admission(3);
        (1..3).for_each(|node| world.nodes[node].clock = NodeClock::default());
        world.read(0);
        if stall {
            world.stall(SECOND);
        } else {
            world.step(0, 1_000_000);
        }
        world.read(0);
        assert!(world.nodes[0].suspected);
        world.judge();
        assert_eq!(world.verdicts, [(0, ClockFault::Undecided)]);
    }
}

/// A node whose clock jumps again has perhaps ended the leases of since then, too.
#[test]
fn who_cannot_be_judged_is_trusted_again_when_no_lease_of_before_the_last_jump_lasts() {
    let mut world = World::new(&[0; 3]);
    let judged_after = |world: &mut World, passed: Duration| {
        world.now += u64::try_from(passed.as_micros()).unwrap();
        world.judge();
        world.verdicts.last().copied()
    };
    (1..3).for_each(|node| world.nodes[node].up = false);
    world.step(0, 3_000_000);
    world.read(0);
    assert_eq!(judged_after(&mut world, Duration::ZERO), Some((0, ClockFault::Undecided)));
    assert_eq!(judged_after(&mut world, QUARANTINE * 9 / 10), Some((0, ClockFault::Undecided)));
    world.step(0, 3_000_000 + 3_000_000);
    assert_eq!(judged_after(&mut world, QUARANTINE / 5), Some((0, ClockFault::Undecided)));
    // It is away meanwhile, and comes back.
    world.nodes[0].up = false;
    world.judge();
    world.nodes[0].up = true;
    assert_eq!(judged_after(&mut world, QUARANTINE * 9 / 10), Some((0, ClockFault::Undecided)));
    assert!(world.nodes[0].suspected);
    assert_eq!(judged_after(&mut world, QUARANTINE / 5), Some((0, ClockFault::Nobody)));
    assert!(!world.nodes[0].suspected);
    // What comes after is a matter of its own.
    (1..3).for_each(|node| world.nodes[node].up = true);
    world.look();
    world.now += SECOND;
    world.step(0, 1_000_000);
    world.read(0);
    assert!(world.nodes[0].suspected);
    assert_eq!(judged_after(&mut world, Duration::ZERO), Some((0, ClockFault::Node)));
}

/// Those of before say enough, and so will the next ones.
#[test]
fn a_reply_that_comes_late_blames_nobody() {
    for stall in [true, false] {
        let mut world = World::new(&[0; 3]);
        world.now += 11 * SECOND;
        world.read(0);
        if stall {
            world.stall(300 * MS);
        } else {
            world.step(0, -300_000);
        }
        world.read(0);
        world.waits = 500 * MS;
        world.judge();
        assert_eq!(world.verdicts, [(0, ClockFault::Undecided)]);
        world.waits = 0;
        world.judge();
        let clock_fault = if stall { ClockFault::Ours } else { ClockFault::Node };
        assert_eq!(world.verdicts, [(0, ClockFault::Undecided), (0, clock_fault)]);
    }
}

#[test]
fn a_look_whose_replies_came_soon_is_preferred() {
    let mut world = World::new(&[0; 3]);
    world.now += 11 * SECOND;
    world.held = 3 * SECOND;
    world.look();
    world.held = 0;
    world.now += SECOND;
    world.read(0);
    world.stall(300 * MS);
    world.read(0);
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Ours)]);
}
