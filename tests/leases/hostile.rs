//! Wakers by hand, which run inside the call that wakes them, and futures that are polled by hand with these.
//!
//! A waker here may do anything at all; what comes of that is for the tests to say.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use quorlock::{LeaseSignal, protocol::LossReason};

/// Does something when it is woken, and counts how often that was.
pub(crate) struct Hostile<F> {
    act: F,
    woken: AtomicUsize,
}

impl<F: Fn() + Send + Sync + 'static> Hostile<F> {
    pub(crate) fn new(act: F) -> Arc<Self> {
        Arc::new(Self { act, woken: AtomicUsize::new(0) })
    }

    pub(crate) fn woken(&self) -> usize {
        self.woken.load(Ordering::Relaxed)
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Hostile<F> {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        (self.act)();
    }
}

pub(crate) type Waiting<T = LossReason> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Waits for the loss with a waker of its own.
pub(crate) fn wait<F: Fn() + Send + Sync + 'static>(
    signal: LeaseSignal,
    waker: &Arc<Hostile<F>>,
) -> Waiting {
    let mut waiting: Waiting = Box::pin(async move { signal.lost().await.reason });
    assert_eq!(poll(&mut waiting, waker), Poll::Pending);
    waiting
}

pub(crate) fn poll<T, F: Fn() + Send + Sync + 'static>(
    waiting: &mut Waiting<T>,
    waker: &Arc<Hostile<F>>,
) -> Poll<T> {
    let waker = Waker::from(Arc::clone(waker));
    waiting.as_mut().poll(&mut Context::from_waker(&waker))
}

pub(crate) fn panicking() -> Arc<Hostile<impl Fn() + Send + Sync + 'static>> {
    Hostile::new(|| panic!("a waker of the user's"))
}

/// Polls once with a waker that panics.
pub(crate) fn begin<T>(waiting: impl Future<Output = T> + Send + 'static) -> Waiting<T> {
    let mut waiting: Waiting<T> = Box::pin(waiting);
    assert!(poll(&mut waiting, &panicking()).is_pending());
    waiting
}

#[track_caller]
pub(crate) fn ended<T>(mut waiting: Waiting<T>) -> T {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it goes on"),
    }
}
