//! A client whose clock jumps, by hand: what the seeds have found about it.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use quorlock::{
    LossReason, Redlock,
    node::{MemoryNode, NodeSpec},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use crate::{
    MS, SECOND,
    machine::{Machine, Stop},
};

/// A lease acquired after a jump of the clock is told of its loss in time, also where another one is held since before
/// that: the task that sees to the leases sleeps by a timer that knows nothing of the jump.
fn told_in_time(slept: Duration, jump: impl Fn(&SimRuntime, &Machine)) {
    let world = SimRuntime::new(1);
    let machine = Machine::new(&world, 0, 0);
    let node = || {
        let clock = world.clone();
        NodeSpec::new(Arc::new(MemoryNode::with_clock(move || clock.now())))
    };
    let builder = Redlock::builder().nodes([node(), node(), node()]).runtime(machine.clone());
    let redlock = machine.build(|| builder.build().unwrap());
    let request = redlock.acquire("a").ttl(10 * SECOND).into_future();
    let _held = world.block_on(request).unwrap();
    world.pass(slept);
    jump(&world, &machine);
    let request = redlock.acquire("b").ttl(100 * MS).without_renewal().into_future();
    let lease = world.block_on(request).unwrap();
    let granted = world.now();
    let lost = world.block_on(async move { lease.lost().await.reason });
    assert_eq!(lost, LossReason::NotRenewed);
    let told = world.now().saturating_since(granted);
    assert!(told < 100 * MS, "told after {told:?}, having slept for {slept:?}");
    world.shut_down();
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap()
}

#[test]
fn a_loss_behind_a_suspend_is_told_in_time() {
    told_in_time(10 * MS, |world, machine| {
        machine.stop(Stop::Suspended);
        world.pass(5 * SECOND);
        machine.go_on();
    });
}

#[test]
fn a_loss_behind_a_step_of_the_wall_clock_is_told_in_time() {
    told_in_time(10 * MS, |_, machine| machine.step_wall(nanos(5 * SECOND)));
}

/// Then the clock does not show yet that the sleep should be over.
#[test]
fn a_loss_behind_a_jump_that_is_shorter_than_the_sleep_is_told_in_time() {
    for slept in (0..600).step_by(50) {
        for jump in (110..600).step_by(70) {
            let (slept, jump) = (slept * MS, jump * MS);
            told_in_time(slept, |_, machine| machine.step_wall(nanos(jump)));
            told_in_time(slept, |world, machine| {
                machine.stop(Stop::Suspended);
                world.pass(jump);
                machine.go_on();
            });
        }
    }
}
