//! Goal: work under a lease of whatever kind is not polled once the lease is over, also in a process that stood still, and
//! what it leaves behind is what a loss leaves.
//!
//! Method: virtual time, and a clock that goes on while no timer does.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{LossReason, RunError};

use crate::fixture::{Fixture, MS, SECOND};

type Running = Pin<Box<dyn Future<Output = Result<(), RunError>>>>;

/// Counts its polls, and has ended at the second one.
async fn work(polls: Arc<AtomicUsize>) {
    poll_fn(|_| match polls.fetch_add(1, Ordering::Relaxed) {
        0 => Poll::Pending,
        _ => Poll::Ready(()),
    })
    .await;
}

#[test]
fn work_of_a_process_that_stood_still_is_dropped_where_it_stands() {
    let (ttl, delay, most) = (2 * SECOND, 5 * SECOND, 10 * SECOND);
    for delay in [Duration::ZERO, delay] {
        let world = Fixture::with(ttl, |builder| builder.max_ttl(most).lock_delay(delay));
        let redlock = &world.redlock;
        let semaphore = redlock.semaphore("r", 1).unwrap();
        type Begin<'a> = Box<dyn Fn(Arc<AtomicUsize>) -> Running + 'a>;
        let kinds: [(&str, Option<&str>, Begin<'_>); 4] = [
            (
                "one",
                Some("r"),
                Box::new(|polls| {
                    let request = redlock.acquire("r");
                    Box::pin(request.run(async move |_| work(polls.clone()).await))
                }),
            ),
            (
                "set",
                Some("r"),
                Box::new(|polls| {
                    let request = redlock.acquire_all(["r", "s"]);
                    Box::pin(request.run(async move |_| work(polls.clone()).await))
                }),
            ),
            (
                "permit",
                Some("r/0"),
                Box::new(|polls| {
                    let request = semaphore.acquire();
                    Box::pin(request.run(async move |_| work(polls.clone()).await))
                }),
            ),
            // It has no lock-delay.
            (
                "reader",
                None,
                Box::new(|polls| {
                    let request = redlock.read("r");
                    Box::pin(request.run(async move |_| work(polls.clone()).await))
                }),
            ),
        ];
        for (kind, key, begin) in kinds {
            let polls = Arc::new(AtomicUsize::new(0));
            let mut running = begin(polls.clone());
            let mut cx = Context::from_waker(Waker::noop());
            while polls.load(Ordering::Relaxed) == 0 {
                assert!(running.as_mut().poll(&mut cx).is_pending());
                world.pass(MS);
            }
            world.machine.suspend(ttl);
            // For whatever reason, before any task of the engine runs.
            let Poll::Ready(ran) = running.as_mut().poll(&mut cx) else {
                panic!("{kind}: it waits")
            };
            let Err(RunError::Lost(lost)) = ran else { panic!("{kind}, {delay:?}: {ran:?}") };
            assert_ne!(lost.reason, LossReason::Released);
            assert_eq!(polls.load(Ordering::Relaxed), 1, "{kind}");
            drop(running);
            world.pass(MS);
            if let Some(key) = key {
                let stands = world.nodes.iter().filter(|node| node.has(key)).count();
                assert_eq!(stands, if delay.is_zero() { 0 } else { 3 }, "{kind}, {delay:?}");
            }
            world.pass(most);
        }
    }
}
