//! Goal: a waker may do anything at all: look at the lease, drop it, or panic.
//!
//! Method: `std::task::Wake` by hand, so that it runs inside the call that wakes it.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use quorlock::{Lease, LeaseSignal, Redlock, node::MemoryNode, protocol::LossReason};

use crate::fixture::{Fixture, MS, Manner, SECOND, all_held, watched};

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

type Waiting<T = LossReason> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Waits for the loss with a waker of its own.
fn wait<F: Fn() + Send + Sync + 'static>(signal: LeaseSignal, waker: &Arc<Hostile<F>>) -> Waiting {
    let mut waiting: Waiting = Box::pin(async move { signal.lost().await.reason });
    assert_eq!(poll(&mut waiting, waker), Poll::Pending);
    waiting
}

fn poll<T, F: Fn() + Send + Sync + 'static>(
    waiting: &mut Waiting<T>,
    waker: &Arc<Hostile<F>>,
) -> Poll<T> {
    let waker = Waker::from(Arc::clone(waker));
    waiting.as_mut().poll(&mut Context::from_waker(&waker))
}

fn panicking() -> Arc<Hostile<impl Fn() + Send + Sync + 'static>> {
    Hostile::new(|| panic!("a waker of the user's"))
}

/// Polls once with a waker that panics.
fn begin<T>(waiting: impl Future<Output = T> + Send + 'static) -> Waiting<T> {
    let mut waiting: Waiting<T> = Box::pin(waiting);
    assert!(poll(&mut waiting, &panicking()).is_pending());
    waiting
}

#[track_caller]
fn ended<T>(mut waiting: Waiting<T>) -> T {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it goes on"),
    }
}

#[test]
fn a_waker_that_panics_costs_no_other_waiter_of_the_same_lease_its_wake_up() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let (first, others) = (panicking(), [(); 3].map(|()| Hostile::new(|| ())));
        // On both sides of the others, in whatever order they are woken.
        let _first = wait(lease.signal(), &first);
        let waiting = others.each_ref().map(|waker| wait(lease.signal(), waker));
        let last = panicking();
        let _last = wait(lease.signal(), &last);
        world.pass(2 * SECOND);
        let woken = others.each_ref().map(|waker| waker.woken());
        assert_eq!((first.woken(), woken, last.woken()), (1, [1; 3], 1));
        for (waiting, waker) in waiting.into_iter().zip(&others) {
            let mut waiting = waiting;
            assert_eq!(poll(&mut waiting, waker), Poll::Ready(LossReason::NotRenewed));
        }
    });
}

#[test]
fn a_waker_that_panics_ends_no_task_of_the_engine_that_answers_it() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let acquired = begin(world.redlock.acquire("r").into_future());
        world.pass(10 * MS);
        let lease = Arc::new(ended(acquired).unwrap());
        let extended = begin({
            let lease = Arc::clone(&lease);
            async move { lease.extend().await }
        });
        world.pass(10 * MS);
        ended(extended).unwrap();
        // Two more, of which one is refused and one gives up.
        let busy = begin(world.redlock.try_acquire("r").into_future());
        let late = begin(world.redlock.acquire("r").wait(50 * MS).into_future());
        world.pass(100 * MS);
        assert!(ended(busy).unwrap_err().is_contended());
        assert!(ended(late).unwrap_err().is_contended());
        let released = begin(Arc::into_inner(lease).unwrap().release());
        world.pass(10 * MS);
        ended(released).unwrap();
        assert_eq!(world.machine.panics(), 0);
    });
}

#[test]
fn a_waker_that_panics_costs_no_other_close_its_end() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let _held = world.acquire("r");
        let waiting = world.redlock.acquire("r").wait(100 * MS).into_future();
        let _waiting = begin(waiting);
        world.pass(MS);
        let closes = [(); 3].map(|()| {
            let redlock = world.redlock.clone();
            begin(async move { redlock.close().await })
        });
        let kind = Hostile::new(|| ());
        let redlock = world.redlock.clone();
        let mut close: Waiting<_> = Box::pin(async move { redlock.close().await });
        assert!(poll(&mut close, &kind).is_pending());
        world.pass(SECOND);
        assert_eq!((kind.woken(), poll(&mut close, &kind)), (1, Poll::Ready(Ok(()))));
        closes.into_iter().for_each(|close| ended(close).unwrap());
        assert_eq!(world.machine.panics(), 0);
    });
}

#[test]
fn a_waker_that_panics_at_a_timer_costs_the_engine_nothing() {
    watched(|| {
        let world = Fixture::with(SECOND, |builder| builder.close_timeout(50 * MS));
        let held = world.acquire("r");
        world.nodes.iter().for_each(|node| node.hang());
        drop(held);
        world.pass(MS);
        let redlock = world.redlock.clone();
        let close = begin(async move { redlock.close().await });
        world.pass(100 * MS);
        assert!(ended(close).is_err());
        assert_eq!(world.machine.panics(), 0);
    });
}

#[test]
fn an_owner_whose_second_acquire_has_a_waker_that_panics_keeps_its_first() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let worker = world.redlock.reentrant();
        let acquire = |worker: &quorlock::Reentrant| {
            let worker = worker.clone();
            async move { worker.acquire("r").await }
        };
        let kind = Hostile::new(|| ());
        let mut first: Waiting<_> = Box::pin(acquire(&worker));
        assert!(poll(&mut first, &kind).is_pending());
        let second = begin(acquire(&worker));
        world.pass(10 * MS);
        let Poll::Ready(first) = poll(&mut first, &kind) else { panic!("it goes on") };
        let first = first.unwrap();
        ended(second).unwrap().check().unwrap();
        first.check().unwrap();
    });
}

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

#[test]
fn a_waker_that_panics_when_it_is_dropped_costs_the_engine_nothing() {
    /// Panics when the last clone of the waker is dropped.
    struct Fragile;

    impl Wake for Fragile {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("a waker of the user's");
        }
    }

    watched(|| {
        let world = Fixture::new(SECOND);
        let lease = world.request(world.redlock.acquire("r").without_renewal());
        let mut waiting: Vec<Waiting> = (0..3)
            .map(|_| {
                let signal = lease.signal();
                let waiting: Waiting = Box::pin(async move { signal.lost().await.reason });
                waiting
            })
            .collect();
        for waiting in &mut waiting {
            let waker = Waker::from(Arc::new(Fragile));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let mut acquired = Box::pin(world.redlock.acquire("other").into_future());
        {
            let waker = Waker::from(Arc::new(Fragile));
            assert!(acquired.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        // Given up: the engine is the last to have its waker.
        drop(acquired);
        world.pass(2 * SECOND);
        assert_eq!(world.machine.panics(), 0);
        for waiting in waiting {
            assert_eq!(ended(waiting), LossReason::NotRenewed);
        }
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
        assert!(world.machine.has_refused());
        let next = world.acquire("next");
        world.pass(10 * SECOND);
        // The refused renewal was tried again.
        all_held(&[kept, refused, next]);
    });
}

#[test]
fn a_runtime_that_refused_a_task_still_has_deadlines_in_the_line() {
    use std::{
        future::IntoFuture,
        pin::Pin,
        task::{Context, Poll, Waker},
    };
    watched(|| {
        let world = Fixture::with(SECOND, |builder| builder.node_timeout(500 * MS));
        let _kept = world.acquire("kept");
        world.nodes.iter().for_each(|node| node.hang());
        let start = |n: String, wait| {
            let mut future = world.redlock.acquire(n).wait(wait).into_future();
            assert!(
                Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
            );
            future
        };
        let _let_in: Vec<_> = (0..64).map(|n| start(format!("let in {n}"), 10 * SECOND)).collect();
        world.machine.refuse_one_task();
        let refused = start("refused".into(), 20 * MS);
        assert!(world.machine.has_refused(), "nothing was refused");
        drop(refused);
        let mut next = start("next".into(), 20 * MS);
        world.pass(200 * MS);
        let polled = Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(polled, Poll::Ready(Err(quorlock::AcquireError::Crowded { .. }))),
            "{polled:?}"
        );
    });
}

#[test]
fn a_runtime_that_refused_a_task_still_has_what_is_left_over_released() {
    watched(|| {
        let world = Fixture::with(60 * SECOND, |builder| builder.node_timeout(50 * MS));
        let leave_over = |name: &str, refuse: bool| {
            let lease = world.acquire(name);
            world.nodes[0].set(Manner::Forgetful);
            drop(lease);
            world.pass(MS);
            if refuse {
                world.machine.refuse_one_task();
            }
            world.pass(200 * MS);
            world.nodes[0].set(Manner::Sound);
            world.pass(SECOND);
        };
        leave_over("usual", false);
        assert!(!world.nodes[0].has("usual"), "without a refusal");
        leave_over("refused", true);
        assert!(world.machine.has_refused(), "nothing was refused");
        leave_over("next", false);
        world.pass(5 * SECOND);
        assert!(!world.nodes[0].has("next"), "never released");
    });
}

/// The payload of a panic, which panics when it is dropped, as the value of a user's type may.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the payload of a panic");
        }
    }
}

#[test]
fn a_waker_whose_panic_panics_again_ends_no_other_lease() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let kept: Vec<Lease> = (0..3).map(|n| world.acquire(&format!("kept{n}"))).collect();
        // It ends when no renewal of the others is under way.
        world.pass(170 * MS);
        let lost = world.request(world.redlock.acquire("lost").ttl(500 * MS).without_renewal());
        let waker = Hostile::new(|| std::panic::panic_any(Bomb));
        let waiting = wait(lost.signal(), &waker);
        world.pass(10 * SECOND);
        assert_eq!(waker.woken(), 1);
        all_held(&kept);
        drop(waiting);
    });
}

#[test]
fn a_runtime_that_refuses_one_task_costs_no_other_lease() {
    watched(|| {
        let world = Fixture::new(SECOND);
        let kept = world.acquire("kept");
        world.pass(170 * MS);
        let refused = world.acquire("refused");
        world.machine.refuse_one_task();
        // One renewal could not be started, and nothing else is acquired.
        world.pass(10 * SECOND);
        assert!(world.machine.has_refused(), "nothing was refused");
        all_held(&[kept, refused]);
    });
}

#[test]
fn a_runtime_that_panics_once_ends_nothing_that_goes_on_for_all() {
    watched(|| {
        for nth in 1.. {
            let world = Fixture::with(3 * SECOND, |builder| builder.node_timeout(50 * MS));
            let leases: Vec<Lease> = (0..3).map(|n| world.acquire(&format!("r{n}"))).collect();
            let left = world.acquire("left");
            world.nodes[0].set(Manner::Forgetful);
            drop(left);
            // From here on it is sent again and again.
            world.pass(1500 * MS);
            if !world.machine.pass_with_a_panic(nth, 2 * SECOND) {
                println!("it is asked {nth} times");
                assert!(nth > 30);
                return;
            }
            world.pass(3 * SECOND);
            all_held(&leases);
            world.nodes[0].set(Manner::Sound);
            world.pass(2 * SECOND);
            assert!(!world.nodes[0].has("left"), "{nth}: not released");
            drop(world.acquire("next"));
            world.pass(SECOND);
            drop(world.request(world.redlock.try_acquire("next")));
            all_held(&leases);
        }
    });
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
