//! Networks that are slow, and jumps that come late or far.

use super::*;

/// It takes long, but always so: what is certain is enough.
#[test]
fn a_network_that_is_slow_hides_neither() {
    for stall in [true, false] {
        let mut world = World::whose_first_replies_wait(&[0; 3], 400 * MS);
        world.waits = 400 * MS;
        world.now += 11 * SECOND;
        world.look();
        world.now += 11 * SECOND;
        world.read(0);
        if stall {
            world.stall(SECOND);
        } else {
            world.step(0, 1_000_000);
        }
        world.read(0);
        world.judge();
        assert_eq!(world.verdicts, [(0, if stall { ClockFault::Ours } else { ClockFault::Node })]);
    }
}

#[test]
fn a_jump_that_was_our_clocks_hides_none_of_a_node_after_it() {
    let mut world = World::new(&[0; 3]);
    world.now += 11 * SECOND;
    world.read(0);
    world.stall(300 * MS);
    world.read(0);
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Ours)]);
    world.step(0, 60_000);
    world.read(0);
    world.judge();
    assert_eq!(world.verdicts, [(0, ClockFault::Ours), (0, ClockFault::Node)]);
}

/// It jumps just when the way to the others becomes long for good.
#[test]
fn whose_clock_it_was_is_known_at_last_where_the_others_stay_far() {
    let mut world = World::new(&[0; 3]);
    world.now += 11 * SECOND;
    world.read(0);
    world.stall(300 * MS);
    world.read(0);
    world.waits = 200 * MS;
    for _ in 0..1000 {
        world.judge();
        world.now += SECOND / 2;
    }
    assert_ne!(
        world.verdicts.last(),
        Some(&(0, ClockFault::Undecided)),
        "after {}",
        world.verdicts.len()
    );
}
