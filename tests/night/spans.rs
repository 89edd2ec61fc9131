//! The caller's span: it is shown, and not kept.

use std::{
    future::IntoFuture,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Instant,
};

use quorlock::{Redlock, node::MemoryNode};
use quorlock_harness::eventually;
use tracing::{Level, Subscriber, span};
use tracing_subscriber::{Layer, layer::SubscriberExt as _, registry::LookupSpan};

use super::{Log, MS, SOON};

fn connected() -> Redlock {
    let nodes = [(); 3].map(|()| MemoryNode::new());
    Redlock::builder().nodes(&nodes).ttl(500 * MS).blocking_connect().unwrap()
}

/// The names of the spans that have been closed.
#[derive(Clone, Default)]
struct Closed(Arc<Mutex<Vec<&'static str>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Closed {
    fn on_close(&self, id: span::Id, context: tracing_subscriber::layer::Context<'_, S>) {
        self.0.lock().unwrap().push(context.span(&id).unwrap().name());
    }
}

#[test]
fn a_lease_keeps_no_span_open_and_its_events_go_on_without_it() {
    // Events that the engine tells by itself go to the log of the process.
    let (_, _turn) = Log::of_process();
    // A subscriber of this thread alone hears events of the engine's thread, since the span is its own.
    let (log, closed) = (Log::default(), Closed::default());
    let subscriber = log.subscriber(Level::DEBUG).with(closed.clone());
    let lease = tracing::subscriber::with_default(subscriber, || {
        let redlock = connected();
        let span = tracing::info_span!("short");
        let lease = span.in_scope(|| redlock.acquire("r").blocking().unwrap());
        assert_eq!(log.with(&["short", "acquired"]).len(), 1, "{:?}", log.lines());
        assert!(closed.0.lock().unwrap().is_empty());
        drop(span);
        assert_eq!(*closed.0.lock().unwrap(), ["short"], "with the lease in hand");
        // It lives, and is renewed.
        let began = Instant::now();
        eventually("some renewals", SOON, || began.elapsed() > 1200 * MS);
        lease.check().unwrap();
        lease
    });
    lease.blocking_release().unwrap();
}

/// The span is that of the first poll, which may be another one than that in which the request was made.
#[test]
fn the_span_is_that_in_which_it_was_first_polled() {
    let (_, _turn) = Log::of_process();
    let log = Log::default();
    tracing::subscriber::with_default(log.subscriber(Level::DEBUG), || {
        let redlock = connected();
        let mut request =
            pin!(tracing::info_span!("made").in_scope(|| redlock.acquire("r").into_future()));
        let span = tracing::info_span!("polled");
        let mut granted = None;
        eventually("it is granted", SOON, || {
            let polled =
                span.in_scope(|| request.as_mut().poll(&mut Context::from_waker(Waker::noop())));
            if let Poll::Ready(lease) = polled {
                granted = Some(lease.unwrap());
            }
            granted.is_some()
        });
        let told = log.with(&["acquired"]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("polled") && !told[0].contains("made"), "{told:?}");
        granted.unwrap().blocking_release().unwrap();
        eventually("the release is told there too", SOON, || {
            !log.with(&["polled", "released", "confirmed="]).is_empty()
        });
    });
}
