//! User code that the engine runs: wakers, and the subscriber of the log.
//!
//! It keeps a panic there from the engine, which would lose the tasks, timers and waiters that come after it. It
//! knows nothing of leases, and must never hold a lock while it runs such code.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use futures::FutureExt;

/// Runs code of the user's. The panic hook has reported a panic there by the time that it ends here.
pub(crate) fn shielded(run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        discard(panic);
    }
}

/// Drops what a panic has carried. It may be a value of a type of the user's, whose drop panics again; what that panic
/// carries is left where it is, since this could go on for ever.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Carries out work of the engine's that must go on: when code of the user's panics in it, such as that of the runtime,
/// it begins again after a pause.
pub(crate) async fn persist<W, P>(mut begin: impl FnMut() -> W, pause: impl Fn() -> P)
where
    W: Future<Output = ()>,
    P: Future<Output = ()>,
{
    // Called inside the future, since making the work may panic too.
    while let Err(panic) = caught(async { begin().await }).await {
        discard(panic);
        if let Err(panic) = caught(async { pause().await }).await {
            discard(panic);
            // Where it cannot even pause it lets others go on.
            tokio::task::yield_now().await;
        }
    }
}

async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    AssertUnwindSafe(work).catch_unwind().await
}

/// Awaits something of the engine's for a user: its timers and channels see a waker that does not panic.
pub(crate) async fn shield<F: Future>(future: F) -> F::Output {
    let (mut future, mut shield) = (pin!(future), Shield::default());
    poll_fn(|cx| shield.poll(future.as_mut(), cx)).await
}

/// The waker of a user, as the engine sees it. It is kept from one poll to the next.
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
    /// Polls a future of the engine's in the place of a user.
    pub(crate) fn poll<F: Future>(
        &mut self,
        future: Pin<&mut F>,
        cx: &Context<'_>,
    ) -> Poll<F::Output> {
        // Kept for the same waker: with a new one each time, channels and timers would register anew at every poll.
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

/// The engine may be the last to have it, and dropping it is code of the user's too.
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

    /// What the future of the engine's sees when it is polled with this waker.
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

    /// It says so when it is dropped, and panics.
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
