//! Goal: a waker may look at the lease that it is told of, or drop it, and a waiter is woken by the waker it gave last.
//!
//! Method: `std::task::Wake` by hand, so that it runs inside the call that wakes it.

use std::{
    future::IntoFuture,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{
    AcquireFuture, Lease, LeaseSignal, Redlock, node::MemoryNode, protocol::LossReason,
    runtime::Runtime,
};

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

/// The last operation that a shutdown waits for may end under a lease that is dropped.
#[test]
fn a_waker_of_whoever_shuts_down_may_look_at_a_lease() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let plain = world.acquire("plain");
        let (machine, request) = (world.machine.clone(), world.redlock.acquire("works"));
        let works = async move {
            let ran = request.run_until_lost(async |_, _| machine.sim.sleep(MS * 500).await).await;
            drop(ran);
        };
        let mut works: Waiting<()> = Box::pin(works);
        assert!(poll(&mut works, &Hostile::new(|| {})).is_pending());
        world.pass(10 * MS);
        assert!(poll(&mut works, &Hostile::new(|| {})).is_pending());
        let waker = curious(plain.signal());
        let redlock = world.redlock.clone();
        let mut closing: Waiting<_> = Box::pin(async move { redlock.shutdown().await });
        assert!(poll(&mut closing, &waker).is_pending());
        world.pass(10 * MS);
        assert!(poll(&mut closing, &waker).is_pending());
        let before = waker.woken();
        drop(plain);
        assert!(waker.woken() > before, "it is the end of something");
        drop(works);
        world.pass(SECOND);
        assert!(poll(&mut closing, &waker).is_ready());
    });
}

/// In an outage a caller that asks once is refused at once, and asks again.
#[test]
fn a_loss_is_told_on_time_however_many_come_meanwhile_and_are_refused_at_once() {
    const MANY: usize = 30_000;
    watched(|| {
        let world = Fixture::new(10 * SECOND);
        let lease = world.request(world.redlock.acquire("kept").without_renewal());
        world.nodes.iter().for_each(|node| node.disconnect());
        let count = Arc::new(AtomicUsize::new(0));
        let (told, counted) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&count));
        let (signal, told_at) = (lease.signal(), Arc::clone(&told));
        world.machine.spawn(Box::pin(async move {
            signal.lost().await;
            told_at.store(counted.load(Ordering::Relaxed), Ordering::Relaxed);
        }));
        world.pass(MS);
        let (machine, redlock) = (world.machine.clone(), world.redlock.clone());
        let (own, counted) = (Arc::new(OnceLock::<Waker>::new()), Arc::clone(&count));
        let (waker, asked) = (Arc::clone(&own), Mutex::new(None::<AcquireFuture>));
        let comes = Hostile::new(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            if number < MANY {
                // Each takes a moment.
                machine.suspend(Duration::from_millis(1));
                let mut future = redlock.try_acquire(format!("r{number}")).into_future();
                let mut cx = Context::from_waker(waker.get().unwrap());
                let _ = std::pin::Pin::new(&mut future).poll(&mut cx);
                drop(asked.lock().unwrap().replace(future));
            }
        });
        own.set(Waker::from(Arc::clone(&comes))).unwrap();
        own.get().unwrap().wake_by_ref();
        world.pass(40 * SECOND);
        assert_eq!(count.load(Ordering::Relaxed), MANY + 1, "each is refused, and asks again");
        let told = told.load(Ordering::Relaxed);
        assert!((9_000..11_000).contains(&told), "told behind {told} of them");
    });
}

/// As after a suspend: both are due. Telling may take long, since it runs a user's code.
#[test]
fn an_extension_is_sent_before_anybody_is_told_of_another_loss() {
    watched(|| {
        let world = Fixture::with(60 * SECOND, |builder| builder.max_ttl(60 * SECOND));
        let over = world.request(world.redlock.acquire("over").ttl(25 * SECOND).without_renewal());
        let kept = world.acquire("kept");
        world.pass(15 * SECOND);
        let nodes = world.nodes.clone();
        let sent: Arc<OnceLock<usize>> = Arc::default();
        let sent_by_then = Arc::clone(&sent);
        let waker = Hostile::new(move || {
            let _ = sent_by_then.set(nodes.iter().map(|node| node.extensions()).sum());
        });
        let mut waiting = wait(over.signal(), &waker);
        assert_eq!(world.nodes.iter().map(|node| node.extensions()).sum::<usize>(), 0);
        world.machine.suspend(10 * SECOND);
        world.pass(20 * SECOND);
        assert_eq!(sent.get(), Some(&world.nodes.len()));
        assert!(poll(&mut waiting, &waker).is_ready());
        kept.check().unwrap();
    });
}

/// The time of their rounds runs by then, and the waker that is told first may take long.
#[test]
fn all_rounds_that_have_begun_are_sent_before_anybody_is_told() {
    const MANY: usize = 64;
    watched(|| {
        let world = Fixture::new(SECOND);
        let nodes = world.nodes.clone();
        let sent = move || nodes.iter().map(|node| node.sent()).sum::<usize>();
        let before = sent();
        let at_first: Arc<OnceLock<usize>> = Arc::default();
        let told = Arc::clone(&at_first);
        let waker = Hostile::new(move || {
            let _ = told.set(sent() - before);
        });
        let requests = (0..MANY).map(|n| {
            let acquire = world.redlock.acquire(format!("r{n}")).into_future();
            let mut waiting: Waiting<_> = Box::pin(acquire);
            assert!(poll(&mut waiting, &waker).is_pending());
            waiting
        });
        let requests: Vec<_> = requests.collect();
        world.pass(10 * MS);
        assert_eq!(at_first.get(), Some(&(MANY * world.nodes.len())));
        requests.into_iter().for_each(|waiting| drop(ended(waiting).unwrap()));
    });
}

/// However much else is to be sent by then: here places in the lines of each node are given up.
#[test]
fn an_extension_is_sent_before_a_loss_is_told_behind_whatever_was_decided_before() {
    const SETS: usize = 60;
    watched(|| {
        let world = Fixture::with(60 * SECOND, |builder| builder.max_ttl(60 * SECOND));
        world.keep_lines();
        let other = world.other_process(|builder| builder);
        let names = |set: usize| (0..32).map(move |name| format!("{set} {name}"));
        let theirs = |set| world.request(other.acquire_all(names(set)));
        let _theirs: Vec<Lease> = (0..SETS).map(theirs).collect();
        let over = world.request(world.redlock.acquire("over").ttl(25 * SECOND).without_renewal());
        let kept = world.acquire("kept");
        let waits = |set| {
            let acquire = world.redlock.acquire_all(names(set)).wait(60 * SECOND);
            let mut waiting: Waiting<_> = Box::pin(acquire.into_future());
            assert!(poll(&mut waiting, &Hostile::new(|| {})).is_pending());
            waiting
        };
        let waiting: Vec<_> = (0..SETS).map(waits).collect();
        world.pass(SECOND);
        let nodes = world.nodes.clone();
        let extensions = move || nodes.iter().map(|node| node.extensions()).sum::<usize>();
        let before = extensions();
        let sent: Arc<OnceLock<usize>> = Arc::default();
        let sent_by_then = Arc::clone(&sent);
        let waker = Hostile::new(move || {
            let _ = sent_by_then.set(extensions() - before);
        });
        let mut told = wait(over.signal(), &waker);
        drop(waiting);
        world.machine.suspend(25 * SECOND);
        world.pass(SECOND);
        assert!(sent.get().is_some_and(|sent| *sent >= world.nodes.len()), "{sent:?}");
        assert!(poll(&mut told, &waker).is_ready());
        kept.check().unwrap();
    });
}
