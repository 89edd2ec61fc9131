//! A lease dropped while its key is being set again on a node that has lost it.
//!
//! Whatever becomes of the restore, and of its answer, the key does not stand there longer than a release takes.

use std::{
    future::IntoFuture,
    pin::pin,
    task::{Context, Waker},
};

use quorlock::{Lease, node::NodeState};

use super::*;

/// What the node does from the moment at which it has lost the key.
const TURNS: [Behaviour; 6] = [
    Behaviour::Ok,
    Behaviour::Unknown,
    Behaviour::Overtaken,
    Behaviour::Slow,
    Behaviour::Never,
    Behaviour::Jumped,
];

/// More than it takes until the key is back.
const STEPS: usize = 60;

/// A lease that all nodes have, but for one that has just lost the key, and does as it likes from now on.
fn one_has_lost_it(seed: u64, behaviour: Behaviour) -> (Fixture, Lease) {
    let fixture = Fixture::new(seed, [Behaviour::Ok; 3]);
    let lease = fixture.runtime.block_on(fixture.redlock.acquire("r").into_future()).unwrap();
    fixture.runtime.pass(10 * MS);
    let node = &fixture.nodes[2];
    assert_eq!(node.our_keys(), [b"r"]);
    node.forget("r");
    node.turn(behaviour);
    (fixture, lease)
}

/// Drops the lease, with an extension of it, this many steps after the extension was asked for.
fn dropped_after(steps: usize, fixture: &Fixture, lease: Lease) {
    {
        let mut extension = pin!(lease.extend());
        let polled = extension.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        for _ in 0..steps {
            fixture.runtime.step();
        }
    }
    drop(lease);
}

#[test]
fn a_lease_dropped_at_every_step_of_a_restore_leaves_nothing() {
    let mut restored = 0;
    for (seed, behaviour) in (0..8).flat_map(|seed| TURNS.map(|behaviour| (seed, behaviour))) {
        for steps in 0..STEPS {
            let (fixture, lease) = one_has_lost_it(seed, behaviour);
            let before = fixture.nodes[2].sent();
            dropped_after(steps, &fixture, lease);
            // An extension and a restore.
            restored += usize::from(fixture.nodes[2].sent() >= before + 2);
            let what = format!("{behaviour:?}, dropped after {steps} steps, seed {seed}");
            fixture.assert_clean(&what);
            assert!(!fixture.nodes[2].set_after_release(), "{what}: set behind the release");
        }
    }
    assert!(restored > 100, "{restored} restores were under way");
}

#[test]
fn a_clock_that_jumped_is_noticed_also_where_only_a_restore_shows_it() {
    let (fixture, lease) = one_has_lost_it(1, Behaviour::Jumped);
    let lease = fixture.runtime.block_on(async move {
        lease.extend().await.unwrap();
        lease
    });
    fixture.runtime.pass(10 * MS);
    let state = fixture.redlock.nodes()[2].state.clone();
    assert!(matches!(state, NodeState::Quarantined { .. }), "{state:?}");
    drop(lease);
    fixture.assert_clean("a clock that jumped");
}
