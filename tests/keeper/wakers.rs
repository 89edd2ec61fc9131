//! Goal: a waker may do anything at all: look at the lease, drop it, or panic.
//!
//! Method: `std::task::Wake` by hand, so that it runs inside the call that wakes it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use quorlock::{Lease, LeaseSignal, protocol::LossReason};

use crate::fixture::{Fixture, MS, SECOND, all_held, watched};

/// Does something when it is woken, and counts how often that was.
struct Hostile<F> {
    act: F,
    woken: AtomicUsize,
}

impl<F: Fn() + Send + Sync + 'static> Hostile<F> {
    fn new(act: F) -> Arc<Self> {
        Arc::new(Self { act, woken: AtomicUsize::new(0) })
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::Relaxed)
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Hostile<F> {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        (self.act)();
    }
}

type Waiting = Pin<Box<dyn Future<Output = LossReason> + Send>>;

/// Waits for the loss with a waker of its own.
fn wait<F: Fn() + Send + Sync + 'static>(signal: LeaseSignal, waker: &Arc<Hostile<F>>) -> Waiting {
    let mut waiting: Waiting = Box::pin(async move { signal.lost().await.reason });
    assert_eq!(poll(&mut waiting, waker), Poll::Pending);
    waiting
}

fn poll<F: Fn() + Send + Sync + 'static>(
    waiting: &mut Waiting,
    waker: &Arc<Hostile<F>>,
) -> Poll<LossReason> {
    let waker = Waker::from(Arc::clone(waker));
    waiting.as_mut().poll(&mut Context::from_waker(&waker))
}

/// A waker that looks whether the lease is lost.
fn curious(signal: LeaseSignal) -> Arc<Hostile<impl Fn() + Send + Sync + 'static>> {
    Hostile::new(move || assert!(signal.is_lost()))
}

#[test]
fn a_waker_may_look_at_the_lease_that_it_is_told_of() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let waker = curious(lease.signal());
        let mut waiting = wait(lease.signal(), &waker);
        world.pass(2 * SECOND);
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::NotRenewed));
        assert!(waker.woken() > 0);
    });
}

#[test]
fn a_waker_may_look_at_the_lease_when_its_holder_finds_the_loss() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let waker = curious(lease.signal());
        let mut waiting = wait(lease.signal(), &waker);
        // The keeper has not run since.
        world.machine.suspend(2 * SECOND);
        assert_eq!(lease.check().unwrap_err().reason, LossReason::NotRenewed);
        assert_eq!(waker.woken(), 1);
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::NotRenewed));
    });
}

#[test]
fn a_waker_may_drop_the_lease() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("dropped").without_renewal());
        let kept = world.acquire("kept");
        let signal = lease.signal();
        let slot: Mutex<Option<Lease>> = Mutex::new(Some(lease));
        let waker = Hostile::new(move || drop(slot.lock().unwrap().take()));
        let mut waiting = wait(signal, &waker);
        world.pass(5 * SECOND);
        assert!(poll(&mut waiting, &waker).is_ready());
        kept.check().unwrap();
    });
}

#[test]
fn a_waker_may_drop_the_lease_when_an_extension_finds_it_gone() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.acquire("dropped");
        let kept = world.acquire("kept");
        let signal = lease.signal();
        let slot: Mutex<Option<Lease>> = Mutex::new(Some(lease));
        let waker = Hostile::new(move || drop(slot.lock().unwrap().take()));
        let mut waiting = wait(signal, &waker);
        world.nodes.iter().for_each(|node| node.delete("dropped"));
        world.pass(5 * SECOND);
        assert!(poll(&mut waiting, &waker).is_ready());
        kept.check().unwrap();
    });
}

#[test]
fn a_waker_that_panics_costs_no_other_lease_its_renewal() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("panics").without_renewal());
        let kept = world.acquire("kept");
        let waker = Hostile::new(|| panic!("a waker of the user's"));
        let mut waiting = wait(lease.signal(), &waker);
        world.pass(10 * SECOND);
        assert!(waker.woken() > 0);
        kept.check().unwrap();
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::NotRenewed));
        let later = world.acquire("later");
        world.pass(10 * SECOND);
        later.check().unwrap();
    });
}

#[test]
fn a_waker_that_panics_takes_no_result_from_the_leases_extended_with_it() {
    watched(|| {
        let world = Fixture::new(SECOND);
        // They are due together, and travel together.
        let leases: Vec<Lease> = (0..4).map(|n| world.acquire(&format!("r{n}"))).collect();
        let waker = Hostile::new(|| panic!("a waker of the user's"));
        let waiting = wait(leases[0].signal(), &waker);
        world.nodes.iter().for_each(|node| node.delete("r0"));
        world.pass(10 * SECOND);
        assert!(waker.woken() > 0);
        assert_eq!(leases[0].check().unwrap_err().reason, LossReason::Gone);
        all_held(&leases[1..]);
        drop(waiting);
    });
}

#[test]
fn a_waker_that_panics_does_not_keep_a_dropped_lease_from_being_released() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.acquire("r");
        let waker = Hostile::new(|| panic!("a waker of the user's"));
        let mut waiting = wait(lease.signal(), &waker);
        drop(lease);
        world.pass(MS);
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::Released));
        drop(world.request(world.redlock.try_acquire("r")));
    });
}

#[test]
fn a_runtime_that_refuses_a_task_costs_the_others_nothing_for_long() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let kept = world.acquire("kept");
        let refused = world.request(world.redlock.acquire("refused").ttl(500 * MS));
        world.pass(100 * MS);
        world.machine.refuse_one_task();
        world.pass(100 * MS);
        // The keeper ended when its renewal was refused; the next lease starts it again.
        let next = world.acquire("next");
        world.pass(10 * SECOND);
        kept.check().unwrap();
        next.check().unwrap();
        assert_eq!(refused.check().unwrap_err().reason, LossReason::RenewalFailed);
    });
}
