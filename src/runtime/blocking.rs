//! The blocking form: one thread that waits for one answer.
//!
//! It decides nothing. It must work on any thread, inside any executor. So it enters no executor: that of `futures`
//! panics inside another.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

/// Blocks this thread until the engine answers. In a tokio task, channels would stop answering once the task has used
/// up its budget, and no poll refills it while the task blocks: hence `unconstrained`.
pub(crate) fn block_on<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(tokio::task::unconstrained(answer));
    let sleeper = Arc::new(Sleeper { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&sleeper));
    loop {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        // Other code may unpark this thread, or use up our unparking: only the flag tells whether we were woken.
        while !sleeper.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// A thread that waits, and whether it has been woken.
struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
