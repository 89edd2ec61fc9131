//! Goal: a waker may look at what it is told of, or drop it, and whoever waits is woken by the waker it gave last.
//!
//! Method: `std::task::Wake` by hand, so that it runs inside the call that wakes it.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    task::Poll,
};

use quorlock::{Lease, LeaseSignal, Redlock, node::MemoryNode, protocol::LossReason};

use crate::{
    fixture::{Fixture, MS, SECOND, watched},
    hostile::{Hostile, Waiting, ended, poll, wait},
};

#[test]
fn whoever_waits_with_another_waker_than_before_is_woken_by_that() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let [first, second] = [(); 2].map(|()| Hostile::new(|| ()));
        let mut acquired: Waiting<_> = Box::pin(world.redlock.acquire("other").into_future());
        let mut lost = wait(lease.signal(), &first);
        assert!(poll(&mut acquired, &first).is_pending());
        assert!(poll(&mut acquired, &second).is_pending());
        assert!(poll(&mut lost, &second).is_pending());
        world.pass(10 * MS);
        assert_eq!((first.woken(), second.woken()), (0, 1), "the acquire");
        world.pass(2 * SECOND);
        assert_eq!((first.woken(), second.woken()), (0, 2), "the loss");
        drop(ended(acquired).unwrap());
        assert_eq!(ended(lost), LossReason::NotRenewed);
    });
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
        // The task of the renewals has not run since.
        world.machine.suspend(2 * SECOND);
        assert_eq!(lease.check().unwrap_err().reason, LossReason::NotRenewed);
        assert_eq!(waker.woken(), 1);
        assert_eq!(poll(&mut waiting, &waker), Poll::Ready(LossReason::NotRenewed));
    });
}

#[test]
fn a_waker_may_look_at_the_node_that_it_is_told_of() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let nodes = [(); 3].map(|()| MemoryNode::new());
        let builder = Redlock::builder().nodes(&nodes).runtime(Arc::new(world.machine.clone()));
        let node = nodes[0].clone();
        let waker = Hostile::new(move || drop(node.keys()));
        let mut connecting: Waiting<_> = Box::pin(builder.connect());
        assert!(poll(&mut connecting, &waker).is_pending());
        nodes[0].kill();
        assert_eq!(waker.woken(), 1);
        world.pass(10 * MS);
        assert!(ended(connecting).is_ok());
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
