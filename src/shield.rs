//! User code that the engine runs: wakers, and the subscriber of the log.
//!
//! It keeps a panic there from reaching the engine, which would lose the tasks, timers and waiters that come after it.
//! It knows nothing of leases, and must never hold a lock while it runs such code.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use futures::FutureExt;

/// Runs user code and catches its panic, which the panic hook has reported by then.
pub(crate) fn shielded(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        discard(panic);
    }
}

/// Drops a panic's payload. It may be a user's value whose drop panics again. That second payload is leaked, since this
/// could go on for ever.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Runs engine work that must go on: after a panic of user code in it, such as the runtime's, it begins again after a
/// pause.
pub(crate) async fn persist<W, P>(mut begin: impl FnMut() -> W, pause: impl Fn() -> P)
where
    W: Future<Output = ()>,
    P: Future<Output = ()>,
{
    // Called inside the future, since `begin` may panic too.
    while let Err(panic) = caught(async { begin().await }).await {
        discard(panic);
        if let Err(panic) = caught(async { pause().await }).await {
            discard(panic);
            // If even the pause panics, other tasks get a turn.
            tokio::task::yield_now().await;
        }
    }
}

async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    AssertUnwindSafe(work).catch_unwind().await
}

/// Awaits an engine future for a user: the engine's timers and channels see a waker that does not panic.
pub(crate) async fn shield<F: Future>(future: F) -> F::Output {
    let (mut future, mut shield) = (pin!(future), Shield::default());
    poll_fn(|cx| shield.poll(future.as_mut(), cx)).await
}

/// A user's waker as the engine sees it, kept from one poll to the next.
#[derive(Debug, Default)]
pub(crate) struct Shield {
    waker: Option<(Waker, Arc<Shielded>)>,
}

#[derive(Debug)]
struct Shielded {
    /// Empty only while it is dropped.
    waker: Option<Waker>,
}

impl Shield {
    /// Polls an engine future for a user.
    pub(crate) fn poll<F: Future>(
        &mut self,
        future: Pin<&mut F>,
        cx: &Context<'_>,
    ) -> Poll<F::Output> {
        // Reused for the same waker: otherwise channels and timers would register anew at every poll.
        let known = self.waker.take().filter(|(_, shielded)| shielded.is(cx.waker()));
        let (waker, _) = self.waker.insert(known.unwrap_or_else(|| {
            let shielded = Arc::new(Shielded { waker: Some(cx.waker().clone()) });
            (Waker::from(Arc::clone(&shielded)), shielded)
        }));
        future.poll(&mut Context::from_waker(waker))
    }
}

impl Shielded {
    fn is(&self, waker: &Waker) -> bool {
        self.waker.as_ref().is_some_and(|own| own.will_wake(waker))
    }
}

impl Wake for Shielded {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(waker) = &self.waker {
            shielded(|| waker.wake_by_ref());
        }
    }
}

/// The engine may drop the waker's last clone, which runs user code too.
impl Drop for Shielded {
    fn drop(&mut self) {
        let waker = self.waker.take();
        shielded(|| drop(waker));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The waker that an engine future sees when polled with this one.
    fn seen(shield: &mut Shield, waker: &Waker) -> Waker {
        let mut seen = None;
        let future = poll_fn(|cx| {
            seen = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        assert!(shield.poll(pin!(future), &Context::from_waker(waker)).is_pending());
        seen.expect("it is polled")
    }

    #[test]
    fn the_engine_sees_the_same_waker_for_as_long_as_the_user_has_the_same() {
        let users: [Arc<Woken>; 2] = Default::default();
        let wakers = users.clone().map(Waker::from);
        let mut shield = Shield::default();
        let first = seen(&mut shield, &wakers[0]);
        assert!(first.will_wake(&seen(&mut shield, &wakers[0])));
        let other = seen(&mut shield, &wakers[1]);
        assert!(!first.will_wake(&other));
        let woken = || users.each_ref().map(|user| user.0.load(Ordering::Relaxed));
        other.wake_by_ref();
        assert_eq!(woken(), [0, 1]);
        other.wake();
        assert_eq!(woken(), [0, 2]);
        first.wake();
        assert_eq!(woken(), [1, 2]);
    }

    /// Counts its drop, and panics in it.
    struct Panicking(Arc<AtomicUsize>);

    impl Drop for Panicking {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::panic::resume_unwind(Box::new(()));
        }
    }

    #[test]
    fn what_a_panic_carries_is_dropped_and_may_panic_again() {
        let dropped = Arc::new(AtomicUsize::new(0));
        shielded(|| std::panic::resume_unwind(Box::new(Panicking(Arc::clone(&dropped)))));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }
}
