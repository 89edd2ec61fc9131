//! Goal: what a blocking subscriber of the log can do to leases, and what it cannot.
//!
//! Method: a subscriber for the whole process, which is why this binary has one test, and which blocks the engine
//! thread in the middle of an event for as long as the test says.
#![cfg(all(feature = "tokio", feature = "tracing"))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

use std::{
    future::IntoFuture,
    pin::pin,
    sync::{
        Mutex,
        mpsc::{self, Receiver, Sender},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::{executor::block_on, future::FutureExt as _};
use quorlock::{Redlock, node::MemoryNode, protocol::LossReason};
use quorlock_harness::eventually;
use tracing::{
    Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

const SOON: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_millis(500);

/// Blocks in the first event about a resource, until it may go on.
struct Blocking {
    gate: Mutex<Option<(Sender<String>, Receiver<()>)>>,
}

impl Subscriber for Blocking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock"
    }

    fn event(&self, event: &Event<'_>) {
        let about = event.metadata().fields().field("resource").is_some();
        let gate = self.gate.lock().unwrap().take_if(|_| about);
        if let Some((blocked, opened)) = gate {
            blocked.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
            let _ = opened.recv();
        }
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn a_subscriber_that_blocks_costs_leases_and_no_lease_is_held_beyond_its_end() {
    let nodes = [(); 3].map(|()| MemoryNode::new());
    let redlock = Redlock::builder().nodes(&nodes).ttl(TTL).blocking_connect().unwrap();
    let lease = redlock.acquire("r").blocking().unwrap();
    // It is renewed while the subscriber does not block.
    let acquired = std::time::Instant::now();
    eventually("it has been renewed", SOON, || acquired.elapsed() > 2 * TTL);
    lease.check().unwrap();
    let (blocked, is_blocked) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let gate = Mutex::new(Some((blocked, opened)));
    tracing::subscriber::set_global_default(Blocking { gate }).unwrap();
    let mut other = pin!(redlock.acquire("other").into_future());
    assert!(matches!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    assert_eq!(is_blocked.recv_timeout(SOON).unwrap(), "quorlock", "the engine thread");
    // The engine neither renews it nor tells of its end. A look at the clock tells the truth.
    let mut lost = pin!(lease.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    eventually("the lease is over", SOON, || lease.check().is_err());
    assert_eq!(lease.check().unwrap_err().reason, LossReason::RenewalFailed);
    assert!(lease.validity().is_zero() && !lease.is_valid());
    open.send(()).unwrap();
    assert_eq!(block_on(lost).reason, LossReason::RenewalFailed);
    // The engine goes on where it stood.
    drop(block_on(other));
    redlock.acquire("r").blocking().unwrap().blocking_release().unwrap();
}
