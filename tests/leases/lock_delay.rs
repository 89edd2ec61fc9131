//! Goal: with a lock-delay nobody else acquires for so long behind a loss, and at once behind a release; and the holder
//! believes no longer than without it.
//!
//! Method: virtual time, and nodes that stop answering extensions, or that forget keys.

use std::{
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use quorlock::{
    Acquire, AcquireError, Builder, CloseError, Lease, LeaseSignal, LossReason, Shutdown,
    protocol::{Drift, Timestamp},
    runtime::Runtime,
};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{got, hot, poll, waiter},
};

const TTL: Duration = Duration::from_secs(2);
const DELAY: Duration = Duration::from_secs(5);
const MOST: Duration = Duration::from_secs(10);

fn world() -> Fixture {
    Fixture::with(TTL, |builder| builder.max_ttl(MOST).lock_delay(DELAY))
}

/// On how many nodes the key stands.
fn keys(world: &Fixture) -> usize {
    world.nodes.iter().filter(|node| node.has("r")).count()
}

/// When a quorum could be acquired from now, to the millisecond.
fn free_after(world: &Fixture) -> Duration {
    let since = world.machine.sim.now();
    while keys(world) > 1 {
        world.pass(MS);
        assert!(world.machine.sim.now().saturating_since(since) < 30 * SECOND);
    }
    world.machine.sim.now().saturating_since(since)
}

/// A lease that is lost by now, and when that was.
fn lost(world: &Fixture, request: Acquire) -> (Lease, Timestamp) {
    let lease = world.request(request);
    world.set_all(Manner::Refusing);
    let reason = world.machine.sim.block_on({
        let signal = lease.signal();
        async move { signal.lost().await.reason }
    });
    assert!(reason.is_loss(), "{reason}");
    (lease, world.machine.sim.now())
}

fn shut_down(world: &Fixture) -> Result<Shutdown, CloseError> {
    let redlock = world.redlock.clone();
    world.machine.sim.block_on(async move { redlock.shutdown().await })
}

/// What is promised behind a loss.
fn promised() -> Duration {
    DELAY - Drift::default().of(TTL + DELAY)
}

#[track_caller]
fn keeps_others_out(world: &Fixture) {
    let free = free_after(world);
    // No longer than from the last extension, and what a keep allows for drift.
    assert!(free >= promised() && free <= TTL + DELAY + 60 * MS, "{free:?}");
}

#[track_caller]
fn is_free(world: &Fixture) {
    world.pass(MS);
    assert_eq!(keys(world), 0);
}

#[test]
fn nodes_keep_the_key_for_longer_than_its_holder_believes() {
    let world = world();
    let lease = world.request(world.redlock.acquire("r").without_renewal());
    assert_eq!((lease.ttl(), lease.lock_delay()), (TTL, DELAY));
    assert!(lease.validity() <= TTL - Drift::default().of(TTL));
    world.pass(SECOND);
    let extended = async move {
        let left = lease.extend().await.unwrap();
        (lease, left)
    };
    let (lease, left) = world.machine.sim.block_on(extended);
    assert!(left < TTL);
    let since = world.machine.sim.now();
    world.pass(TTL);
    assert!(lease.check().is_err());
    let stands = free_after(&world);
    let stood = world.machine.sim.now().saturating_since(since);
    assert!(stood > TTL + DELAY - 10 * MS && stood < TTL + DELAY + 10 * MS, "{stands:?}");
}

#[test]
fn behind_a_loss_that_is_dropped_nobody_gets_it_for_the_delay() {
    for drop_after in [Duration::ZERO, SECOND] {
        let world = world();
        let (lease, at) = lost(&world, world.redlock.acquire("r"));
        world.set_all(Manner::Sound);
        world.pass(drop_after);
        let sent = world.sent();
        drop(lease);
        world.pass(MS);
        assert_eq!((world.sent() - sent, keys(&world)), (0, 3), "nothing is released");
        free_after(&world);
        let kept_out = world.machine.sim.now().saturating_since(at);
        assert!(kept_out >= promised() && kept_out < TTL + DELAY, "{kept_out:?}");
        drop(world.acquire("r"));
    }
}

#[test]
fn another_process_that_waits_gets_it_when_the_delay_is_over() {
    let world = world();
    let other = world.other_process(|builder| builder.max_ttl(MOST));
    let (lease, at) = lost(&world, world.redlock.acquire("r"));
    drop(lease);
    let next = world.machine.sim.block_on(other.acquire("r").into_future()).unwrap();
    let waited = world.machine.sim.now().saturating_since(at);
    assert!(waited >= promised() && waited < TTL + DELAY + 200 * MS, "{waited:?}");
    drop(next);
}

#[test]
fn a_release_frees_it_at_once_also_behind_a_loss() {
    let world = world();
    let lease = world.acquire("r");
    world.machine.sim.block_on(lease.release()).unwrap();
    is_free(&world);
    let (lease, _) = lost(&world, world.redlock.acquire("r"));
    world.machine.sim.block_on(lease.release()).unwrap();
    is_free(&world);
}

#[test]
fn one_that_is_dropped_while_it_holds_is_free_at_once() {
    let world = world();
    drop(world.acquire("r"));
    is_free(&world);
}

#[test]
fn a_process_that_stood_still_and_drops_first_of_all_keeps_others_out() {
    let world = world();
    let lease = world.acquire("r");
    world.machine.suspend(TTL);
    drop(lease);
    world.pass(MS);
    assert_eq!(keys(&world), 3);
}

#[test]
fn the_drop_of_a_thread_that_panics_keeps_others_out_for_the_delay() {
    let world = world();
    let lease = world.acquire("r");
    let mut next = waiter(&world, 3 * MOST);
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _lease = lease;
        panic!("the work");
    }));
    assert!(panicked.is_err());
    let at = world.machine.sim.now();
    assert!(poll(&mut next).is_pending(), "it is handed to nobody here either");
    drop(next);
    world.pass(MS);
    assert_eq!(keys(&world), 3);
    free_after(&world);
    let kept_out = world.machine.sim.now().saturating_since(at);
    let most = DELAY + Drift::default().of(DELAY) + 10 * MS;
    assert!(kept_out >= DELAY && kept_out <= most, "{kept_out:?}");
}

#[test]
fn without_a_delay_a_loss_and_a_panic_release_as_ever() {
    let world = Fixture::new(TTL);
    let (lease, _) = lost(&world, world.redlock.acquire("r"));
    assert_eq!(keys(&world), 3);
    drop(lease);
    is_free(&world);
    world.set_all(Manner::Sound);
    let lease = world.acquire("r");
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _lease = lease;
        panic!("the work");
    }));
    assert!(panicked.is_err());
    is_free(&world);
}

#[test]
fn one_that_is_lost_stays_lost_though_its_keys_stand() {
    let world = world();
    let (lease, _) = lost(&world, world.redlock.acquire("r"));
    world.set_all(Manner::Sound);
    let extensions: usize = world.nodes.iter().map(|node| node.extensions()).sum();
    world.pass(SECOND);
    assert!(lease.check().is_err() && keys(&world) == 3);
    assert!(world.machine.sim.block_on(async move { lease.extend().await }).is_err());
    let after: usize = world.nodes.iter().map(|node| node.extensions()).sum();
    assert_eq!(after, extensions, "no renewal revives it");
}

#[test]
fn keys_that_are_gone_from_a_quorum_have_no_delay() {
    let world = world();
    let lease = world.acquire("r");
    world.nodes[0].delete("r");
    world.nodes[1].delete("r");
    world.pass(TTL);
    assert_eq!(lease.check().unwrap_err().reason, LossReason::Gone);
    drop(lease);
    drop(world.acquire("r"));
}

#[test]
fn a_lost_round_is_released_at_once() {
    let world = world();
    world.nodes[0].hold("r");
    world.nodes[1].hold("r");
    let request = world.redlock.try_acquire("r").into_future();
    let error = world.machine.sim.block_on(request).unwrap_err();
    assert!(error.is_contended(), "{error}");
    world.pass(MS);
    assert!(!world.nodes[2].has("r"));
}

/// Its caller looked at the answer too late: no work was done under it.
#[test]
fn what_nobody_has_taken_is_released_though_it_is_lost() {
    let world = world();
    let mut request = world.redlock.acquire("r").without_renewal().into_future();
    assert!(poll(&mut request).is_pending());
    world.pass(TTL);
    assert_eq!(keys(&world), 3);
    drop(request);
    is_free(&world);
}

#[test]
fn a_key_that_is_restored_stands_for_the_delay_too() {
    let world = world();
    let lease = world.acquire("r");
    world.nodes[0].delete("r");
    while !world.nodes[0].has("r") {
        world.pass(MS);
    }
    world.set_all(Manner::Refusing);
    let since = world.machine.sim.now();
    world.pass(TTL);
    assert!(lease.check().is_err());
    drop(lease);
    while world.nodes[0].has("r") {
        world.pass(10 * MS);
    }
    let stood = world.machine.sim.now().saturating_since(since);
    assert!(stood > DELAY + TTL - 20 * MS && stood < DELAY + TTL + 20 * MS, "{stood:?}");
}

/// By then the key may be one of the quorum that the holder counted with.
#[test]
fn a_key_that_is_restored_behind_the_loss_stands_for_the_delay() {
    for is_dropped in [false, true] {
        let settings =
            |builder: Builder| builder.max_ttl(MOST).lock_delay(DELAY).node_timeout(3 * SECOND);
        let world = Fixture::with(TTL, settings);
        let lease = world.acquire("r");
        world.nodes[0].delete("r");
        world.nodes[0].set(Manner::SlowToRestore(2_200 * MS));
        world.pass(SECOND);
        world.nodes[1].set(Manner::Refusing);
        world.nodes[2].set(Manner::Refusing);
        world.pass(1_700 * MS);
        assert!(lease.check().is_err() && !world.nodes[0].has("r"));
        let lease = if is_dropped { None } else { Some(lease) };
        (0..500).for_each(|_| {
            if !world.nodes[0].has("r") {
                world.pass(MS);
            }
        });
        world.pass(DELAY);
        assert!(world.nodes[0].has("r"), "{is_dropped}");
        world.pass(100 * MS);
        assert!(!world.nodes[0].has("r"), "{is_dropped}");
        drop(lease);
    }
}

#[test]
fn it_is_handed_on_to_one_that_asks_for_the_same_and_to_no_other() {
    for (delay, is_handed_on) in [(DELAY, true), (DELAY + MS, false), (Duration::ZERO, false)] {
        let world = world();
        let lease = hot(&world);
        let owner = lease.owner();
        let mut next = world.redlock.acquire("r").lock_delay(delay).into_future();
        assert!(poll(&mut next).is_pending());
        drop(lease);
        assert_eq!(poll(&mut next).is_ready(), is_handed_on, "{delay:?}");
        if !is_handed_on {
            world.pass(20 * MS);
            let lease = got(&mut next).unwrap();
            assert_ne!(lease.owner(), owner);
            assert_eq!(lease.lock_delay(), delay);
        }
    }
}

/// The work of the last holder of a grant that was handed on may have something on its way.
#[test]
fn one_that_was_handed_on_and_lost_keeps_others_out() {
    let world = world();
    let lease = hot(&world);
    let mut next = waiter(&world, 3 * MOST);
    drop(lease);
    let next = got(&mut next).unwrap();
    world.set_all(Manner::Refusing);
    world.pass(TTL);
    assert!(next.check().is_err());
    drop(next);
    keeps_others_out(&world);
}

#[test]
fn what_lingers_is_nobodys_and_goes_back_at_once() {
    let world =
        Fixture::with(TTL, |builder| builder.max_ttl(MOST).lock_delay(DELAY).linger(SECOND));
    drop(world.acquire("r"));
    assert_eq!(keys(&world), 3);
    drop(got(&mut world.redlock.acquire("r").into_future()).unwrap());
    world.pass(2 * SECOND);
    assert_eq!(keys(&world), 0);
}

#[test]
fn work_that_is_dropped_or_told_of_the_loss_keeps_others_out() {
    let world = world();
    let machine = world.machine.clone();
    world.set_all(Manner::Refusing);
    let work = async move |_: &Lease| machine.sim.sleep(60 * SECOND).await;
    world.machine.sim.block_on(world.redlock.acquire("r").run(work)).unwrap_err();
    keeps_others_out(&world);
    let ran = world.machine.sim.block_on({
        let request = world.redlock.acquire("r");
        async move { request.run_until_lost(async |_, signal| signal.lost().await).await.unwrap() }
    });
    assert!(ran.lost.is_some());
    keeps_others_out(&world);
    world.set_all(Manner::Sound);
    world.machine.sim.block_on(world.redlock.acquire("r").run(async |_| ())).unwrap();
    is_free(&world);
}

#[test]
fn the_last_of_several_who_share_a_lease_leaves_it_where_it_is_lost() {
    let world = world();
    let handle = world.redlock.reentrant();
    let lease = world.machine.sim.block_on(handle.acquire("r").into_future()).unwrap();
    let second = world.machine.sim.block_on(handle.acquire("r").into_future()).unwrap();
    world.set_all(Manner::Refusing);
    world.pass(TTL);
    drop((lease, second));
    keeps_others_out(&world);
    world.set_all(Manner::Sound);
    let lease = world.machine.sim.block_on(handle.acquire("r").into_future()).unwrap();
    drop(lease);
    is_free(&world);
}

#[test]
fn a_shutdown_releases_what_it_ends() {
    let world = world();
    let lease = world.acquire("r");
    let done = world.machine.sim.block_on({
        let redlock = world.redlock.clone();
        async move { redlock.shutdown().await.unwrap() }
    });
    assert_eq!(done.released, 1);
    is_free(&world);
    drop(lease);
}

#[test]
fn one_that_is_longer_with_the_ttl_than_max_ttl_is_refused_and_nothing_is_sent() {
    let world = world();
    let sent = world.sent();
    let request = world.redlock.acquire("r").lock_delay(MOST - TTL + MS);
    let error = world.machine.sim.block_on(request.into_future()).unwrap_err();
    let AcquireError::LockDelayTooLong { lock_delay, ttl, max_ttl, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((lock_delay, ttl, max_ttl), (MOST - TTL + MS, TTL, MOST));
    assert_eq!(world.sent(), sent);
    drop(world.request(world.redlock.acquire("r").lock_delay(MOST - TTL)));
    let refused = catch_unwind(|| {
        Fixture::with(TTL, |builder| builder.lock_delay(MS));
    });
    assert!(refused.is_err(), "max_ttl is the ttl");
}

/// The error names the longest hold that is accepted, and that hold is granted.
#[test]
fn a_hold_that_is_too_long_with_the_delay_is_refused_with_the_longest_that_is_not() {
    let world = Fixture::with(TTL, |builder| builder.max_ttl(MOST));
    let ask = |hold: Duration, delay: Duration| {
        let request = world.redlock.try_acquire("r").hold_at_least(hold).lock_delay(delay);
        world.machine.sim.block_on(request.into_future())
    };
    let (nano, delay) = (Duration::from_nanos(1), DELAY + Duration::from_nanos(7));
    let error = ask(MOST - TTL, delay).unwrap_err();
    let AcquireError::HoldTooLong { hold, max, max_ttl, lock_delay, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((hold, max_ttl, lock_delay), (MOST - TTL, MOST, delay));
    assert!(error.to_string().contains(&format!("beside a lock_delay of {delay:?}")), "{error}");
    let refused = ask(max + nano, delay);
    assert!(matches!(refused, Err(AcquireError::HoldTooLong { .. })), "{refused:?}");
    let lease = ask(max, delay).unwrap();
    assert!(lease.validity() >= max && lease.ttl() + delay <= max_ttl);
    drop(lease);
    let text = ask(SECOND, MOST).unwrap_err().to_string();
    assert!(text.contains("ask for a shorter lock_delay"), "{text}");
}

#[test]
fn it_holds_in_classic_mode_too() {
    let world = Fixture::with(TTL, |builder| builder.classic().lock_delay(DELAY));
    let (lease, at) = lost(&world, world.redlock.acquire("r"));
    drop(lease);
    free_after(&world);
    let kept_out = world.machine.sim.now().saturating_since(at);
    assert!(kept_out >= promised() && kept_out < TTL + DELAY, "{kept_out:?}");
    drop(world.acquire("r"));
    is_free(&world);
}

/// Its holder has not let go of it: it is stuck, and what it has sent may be on its way.
#[test]
fn a_shutdown_leaves_what_was_lost_before() {
    // Told of its loss, or not yet, as in a process that stood still.
    for stood_still in [false, true] {
        let world = world();
        let lease = if stood_still {
            let lease = world.acquire("r");
            world.machine.suspend(TTL);
            lease
        } else {
            let (lease, _) = lost(&world, world.redlock.acquire("r"));
            world.set_all(Manner::Sound);
            lease
        };
        let done = shut_down(&world).unwrap();
        assert_eq!((done.released, done.gone), (0, 1), "{stood_still}");
        world.pass(MS);
        assert_eq!(keys(&world), 3, "{stood_still}");
        drop(lease);
        world.pass(MS);
        assert_eq!(keys(&world), 3, "{stood_still}");
    }
}

#[test]
fn a_shutdown_has_ended_when_lost_work_has_and_leaves_its_keys() {
    let world = world();
    let machine = world.machine.clone();
    world.set_all(Manner::Refusing);
    let work = async move |_: &Lease, signal: LeaseSignal| {
        signal.lost().await;
        machine.sim.sleep(SECOND).await;
    };
    let mut ran = Box::pin(world.redlock.acquire("r").run_until_lost(work));
    assert!(poll(&mut ran).is_pending());
    world.pass(MS);
    assert!(poll(&mut ran).is_pending());
    world.pass(TTL);
    assert!(poll(&mut ran).is_pending());
    let redlock = world.redlock.clone();
    let ended = world.machine.sim.block_on(async move {
        let (done, ran) = futures::join!(redlock.shutdown(), ran);
        assert!(ran.unwrap().lost.is_some());
        done
    });
    let done = ended.unwrap();
    assert_eq!((done.released, done.gone), (0, 1));
    assert_eq!(keys(&world), 3);
}

/// The work was told in time, and went on.
#[test]
fn work_that_outlives_its_lease_behind_a_shutdown_keeps_others_out() {
    let settings = |builder: Builder| builder.max_ttl(MOST).lock_delay(DELAY).close_timeout(MOST);
    let world = Fixture::with(TTL, settings);
    let machine = world.machine.clone();
    let work = async move |_: &Lease, signal: LeaseSignal| {
        signal.lost().await;
        machine.sim.sleep(TTL).await;
    };
    let mut ran = Box::pin(world.redlock.acquire("r").run_until_lost(work));
    assert!(poll(&mut ran).is_pending());
    world.pass(100 * MS);
    assert!(poll(&mut ran).is_pending());
    let redlock = world.redlock.clone();
    let done = world.machine.sim.block_on(async move {
        let (done, _) = futures::join!(redlock.shutdown(), ran);
        done.unwrap()
    });
    assert_eq!((done.released, done.gone), (0, 1));
    world.pass(MS);
    assert_eq!(keys(&world), 3);
}

/// No work was done under it, so that nothing is on its way.
#[test]
fn what_nobody_has_taken_is_released_though_its_thread_panics() {
    let world = world();
    let mut request = world.redlock.acquire("r").into_future();
    assert!(poll(&mut request).is_pending());
    world.pass(100 * MS);
    assert_eq!(keys(&world), 3);
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _request = request;
        panic!("something else");
    }));
    assert!(panicked.is_err());
    is_free(&world);
}

/// It would have a shorter delay than it asks for, without an error.
#[test]
fn a_lease_is_shared_with_one_that_asks_for_no_longer_delay() {
    let world = world();
    let handle = world.redlock.reentrant();
    let first = handle.acquire("r").lock_delay(SECOND).into_future();
    let first = world.machine.sim.block_on(first).unwrap();
    for delay in [Duration::ZERO, SECOND] {
        let second = handle.try_acquire("r").lock_delay(delay).into_future();
        drop(world.machine.sim.block_on(second).unwrap());
    }
    let more = handle.try_acquire("r").lock_delay(SECOND + MS).into_future();
    let error = world.machine.sim.block_on(more).unwrap_err();
    assert!(error.is_contended(), "{error}");
    drop(first);
    is_free(&world);
}
