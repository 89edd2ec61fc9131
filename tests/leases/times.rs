//! Goal: renewals, losses and the end of a redlock come when they should, and a limit is a limit.
//!
//! Method: virtual time, so that an hour is a moment, and what happens at one moment takes no time.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use quorlock::{ExtendError, Lease, protocol::LossReason, runtime::Runtime};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND, all_held, watched},
    hostile::Waiting,
};

/// Runs a future beside the test, and says later what came of it.
fn beside<T: Send + 'static>(
    world: &Fixture,
    future: impl Future<Output = T> + Send + 'static,
) -> Arc<Mutex<Option<T>>> {
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    world.machine.spawn(Box::pin(async move {
        let value = future.await;
        *slot.lock().unwrap() = Some(value);
    }));
    result
}

#[test]
fn a_lease_whose_ttl_is_mostly_drift_is_renewed_before_it_is_lost() {
    let world = Fixture::with(1_400 * MS, |builder| builder.drift(10, SECOND));
    let lease = world.acquire("r");
    world.pass(10 * SECOND);
    lease.check().unwrap();
}

#[test]
fn a_loss_is_told_soon_after_a_suspend() {
    let world = Fixture::new(3_600 * SECOND);
    let lease = world.request(world.redlock.acquire("r").without_renewal());
    let signal = lease.signal();
    let told = beside(&world, async move { signal.lost().await.reason });
    world.pass(SECOND);
    world.machine.suspend(3_600 * SECOND);
    world.pass(501 * MS);
    assert_eq!(*told.lock().unwrap(), Some(LossReason::NotRenewed));
}

/// Long enough before that work can be brought to an end; and it is taken back where the nodes renew it after all.
#[test]
fn an_end_is_told_while_the_lease_still_holds() {
    let world = Fixture::new(12 * SECOND);
    let lease = Arc::new(world.acquire("r"));
    let told = || {
        let lease = Arc::clone(&lease);
        beside(&world, async move { lease.ending().await })
    };
    let passes_until_told = |told: &Mutex<Option<LossReason>>| {
        while told.lock().unwrap().is_none() {
            world.pass(10 * MS);
        }
    };
    world.set_all(Manner::Refusing);
    let first = told();
    passes_until_told(&first);
    assert!(lease.check().unwrap() > SECOND, "there is time to stop");
    world.set_all(Manner::Sound);
    world.pass(SECOND);
    let second = told();
    world.pass(30 * SECOND);
    assert_eq!(*second.lock().unwrap(), None, "it is renewed");
    lease.check().unwrap();
    world.set_all(Manner::Refusing);
    passes_until_told(&second);
    assert!(lease.check().is_ok());
    world.pass(12 * SECOND);
    assert_eq!(lease.check().unwrap_err().reason, LossReason::RenewalFailed);
    assert_eq!(*second.lock().unwrap(), Some(LossReason::RenewalFailed));
}

#[test]
fn a_redlock_is_closed_while_renewals_are_under_way() {
    let world = Fixture::new(3 * SECOND);
    world.nodes[0].set(Manner::Slow(80 * MS));
    // At every moment some of them are being renewed.
    let leases: Vec<Lease> = (0..100)
        .map(|n| {
            world.pass(10 * MS);
            world.acquire(&format!("r{n}"))
        })
        .collect();
    world.pass(2 * SECOND);
    let redlock = world.redlock.clone();
    let closed = world.machine.sim.block_on(async move { redlock.close().await });
    assert_eq!(closed.map(|closed| closed.held), Ok(leases.len()));
    world.pass(10 * SECOND);
    all_held(&leases);
}

#[test]
fn closing_does_not_wait_for_the_pause_of_an_acquire() {
    watched(|| {
        let world = Fixture::with(60 * SECOND, |builder| {
            builder.retry(20 * SECOND, 20 * SECOND).close_timeout(2 * SECOND)
        });
        let _held = world.acquire("r");
        let mut waiting: Waiting<_> =
            Box::pin(world.redlock.acquire("r").wait(60 * SECOND).into_future());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        world.pass(SECOND);
        let redlock = world.redlock.clone();
        let closed = world.machine.sim.block_on(async move { redlock.close().await });
        let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            closed.is_ok() && matches!(polled, Poll::Ready(Err(quorlock::AcquireError::Closed))),
            "{closed:?} {polled:?}"
        );
    });
}

#[test]
fn an_extension_right_after_the_acquire_is_confirmed() {
    let world = Fixture::new(SECOND);
    let lease = world.acquire("r");
    let extended = world.machine.sim.block_on(async move { lease.extend().await });
    assert_eq!(extended, Ok(988 * MS));
}

#[test]
fn an_extension_in_doubt_is_not_taken_for_the_renewal_that_succeeded_meanwhile() {
    let world = Fixture::new(SECOND);
    let lease = Arc::new(world.acquire("r"));
    world.pass(280 * MS);
    world.set_all(Manner::Deaf);
    let extended = beside(&world, {
        let lease = Arc::clone(&lease);
        async move { lease.extend().await }
    });
    world.pass(20 * MS);
    world.set_all(Manner::Sound);
    world.pass(50 * MS);
    assert!(lease.validity() > 900 * MS, "it has been renewed");
    world.pass(60 * MS);
    let extended = extended.lock().unwrap().take().expect("it has ended");
    assert!(matches!(extended, Err(ExtendError::InDoubt { .. })), "{extended:?}");
}

#[test]
fn a_short_lease_in_doubt_is_retried_with_pauses() {
    watched(|| {
        let world = Fixture::new(20 * MS);
        let lease = world.acquire("r");
        world.set_all(Manner::Refusing);
        world.pass(100 * MS);
        assert_eq!(lease.check().unwrap_err().reason, LossReason::RenewalFailed);
        let tries = world.nodes[0].extensions();
        assert!((2..=5).contains(&tries), "{tries}");
    });
}

#[test]
fn answers_that_a_transport_leaves_out_are_unknown() {
    let world = Fixture::new(SECOND);
    let leases = [world.acquire("a"), world.acquire("b")];
    world.set_all(Manner::Terse);
    world.pass(350 * MS);
    assert_eq!(world.nodes[0].batches(), [2], "they were renewed together");
    world.set_all(Manner::Sound);
    world.pass(10 * SECOND);
    all_held(&leases);
}

#[test]
fn a_command_that_failed_costs_no_other_of_its_message_anything() {
    let world = Fixture::new(SECOND);
    let leases = [world.acquire("a"), world.acquire("b")];
    world.set_all(Manner::Partial);
    world.pass(350 * MS);
    assert_eq!(world.nodes[0].batches(), [2], "they were renewed together");
    let mut validities = leases.each_ref().map(Lease::validity);
    validities.sort();
    assert!(validities[0] < 650 * MS, "its extension failed: {validities:?}");
    assert!(validities[1] > 900 * MS, "its extension was granted: {validities:?}");
}

#[test]
fn a_clock_that_jumped_costs_the_whole_message_its_votes() {
    let world = Fixture::new(SECOND);
    let leases = [world.acquire("a"), world.acquire("b")];
    world.set_all(Manner::Jumping);
    world.pass(350 * MS);
    assert_eq!(world.nodes[0].batches(), [2], "they were renewed together");
    for lease in &leases {
        assert!(lease.validity() < 650 * MS, "it counts what may be from before the jump");
    }
}

#[test]
fn max_hold_limits_what_the_holder_extends_too() {
    let world = Fixture::new(SECOND);
    let lease = Arc::new(world.request(world.redlock.acquire("r").max_hold(2 * SECOND)));
    let extend = || {
        let lease = Arc::clone(&lease);
        world.machine.sim.block_on(async move { lease.extend().await })
    };
    world.pass(1_999 * MS);
    assert_eq!(extend(), Ok(988 * MS));
    world.pass(MS);
    let sent = world.nodes[0].extensions();
    let Err(ExtendError::MaxHold { target, validity }) = extend() else { panic!("no limit") };
    assert_eq!((target.map(|of| of.to_string()).as_deref(), validity), (Some("r"), 987 * MS));
    assert_eq!(world.nodes[0].extensions(), sent, "nothing was sent");
    world.pass(SECOND);
    assert_eq!(lease.check().unwrap_err().reason, LossReason::MaxHold);
}

#[test]
fn a_request_asks_for_the_renewal_that_the_builder_turned_off() {
    let world = Fixture::with(SECOND, quorlock::Builder::without_renewal);
    let renewed = world.request(world.redlock.acquire("renewed").with_renewal());
    let not_renewed = world.acquire("not renewed");
    world.pass(10 * SECOND);
    renewed.check().unwrap();
    assert_eq!(not_renewed.check().unwrap_err().reason, LossReason::NotRenewed);
}

#[test]
fn renewals_that_are_due_one_after_another_travel_together() {
    let world = Fixture::new(30 * SECOND);
    let leases: Vec<Lease> = (0..1_000)
        .map(|n| {
            world.pass(9 * MS);
            world.acquire(&format!("r{n}"))
        })
        .collect();
    world.pass(60 * SECOND);
    all_held(&leases);
    let batches = world.nodes[0].batches();
    let renewals: usize = batches.iter().sum();
    println!("{renewals} renewals in {} messages", batches.len());
    assert!((6_000..7_500).contains(&renewals), "about one every 10 s for each lease: {renewals}");
    assert!(batches.len() < renewals / 50, "{renewals} renewals in {} messages", batches.len());
    assert!(batches.iter().all(|size| *size <= 128), "the rest waits for its time");
}

/// Polled for whatever reason, before any timer runs: what waits beside it must not go on first.
#[test]
fn a_loss_is_told_at_the_next_poll_in_a_process_that_stood_still() {
    use std::pin::pin;

    let ttl = 10 * SECOND;
    let world = Fixture::new(ttl);
    let (lease, reader) = (world.acquire("r"), world.redlock.read("s").into_future());
    let reader = world.machine.sim.block_on(reader).unwrap();
    let (signal, of_reader) = (lease.signal(), reader.signal());
    let mut cx = Context::from_waker(Waker::noop());
    let mut lost = [pin!(lease.lost()), pin!(lease.lost())];
    let mut told = [pin!(signal.lost()), pin!(of_reader.lost())];
    let mut ending = pin!(lease.ending());
    for _ in 0..3 {
        assert!(lost.iter_mut().all(|lost| lost.as_mut().poll(&mut cx).is_pending()));
        assert!(told.iter_mut().all(|told| told.as_mut().poll(&mut cx).is_pending()));
        assert!(ending.as_mut().poll(&mut cx).is_pending());
        world.pass(MS);
    }
    world.machine.suspend(ttl);
    assert!(lost.iter_mut().all(|lost| lost.as_mut().poll(&mut cx).is_ready()));
    assert!(told.iter_mut().all(|told| told.as_mut().poll(&mut cx).is_ready()));
    let Poll::Ready(reason) = ending.as_mut().poll(&mut cx) else { panic!("it waits") };
    assert!(reason.is_loss());
}

/// What is due behind the jump is seen to in the same moment in which a round begins, while the driver's task is in a sleep
/// that began before.
#[test]
fn a_round_that_begins_behind_a_jump_of_the_clock_ends_by_its_limit() {
    let settings = |builder: quorlock::Builder| builder.node_timeout(50 * MS).max_ttl(600 * SECOND);
    let world = Fixture::with(60 * SECOND, settings);
    let lease = world.request(world.redlock.acquire("r").without_renewal());
    let long = world.request(world.redlock.acquire("long").without_renewal().ttl(600 * SECOND));
    // In the middle of one.
    world.pass(1_200 * MS);
    world.nodes.iter().for_each(|node| node.hang());
    world.machine.suspend(61 * SECOND);
    let mut other = Box::pin(world.redlock.try_acquire("other").into_future());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(other.as_mut().poll(&mut cx).is_pending());
    world.pass(60 * MS);
    assert!(other.as_mut().poll(&mut cx).is_ready());
    assert!(lease.check().is_err() && long.check().is_ok());
}
