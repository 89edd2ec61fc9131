//! A runtime that runs a test's closure each time it is asked anything, on the calling thread.
//!
//! It hangs where that thread holds a lock that the closure takes.

use std::{cell::Cell, fmt};

use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};

thread_local! {
    /// The closure may itself ask for the time.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs the closure, and leaves the rest to `inner`.
pub struct Asking<R> {
    inner: R,
    look: Box<dyn Fn() + Send + Sync>,
}

impl<R> Asking<R> {
    /// `look` runs at each call; calls from inside `look` do not run it again.
    pub fn new(inner: R, look: impl Fn() + Send + Sync + 'static) -> Self {
        Self { inner, look: Box::new(look) }
    }

    fn asked(&self) -> &R {
        if !LOOKS.replace(true) {
            (self.look)();
            LOOKS.set(false);
        }
        &self.inner
    }
}

impl<R: Runtime> Runtime for Asking<R> {
    fn now(&self) -> Timestamp {
        self.asked().now()
    }

    fn steady(&self) -> Timestamp {
        self.asked().steady()
    }

    fn wall_us(&self) -> u64 {
        self.asked().wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.asked().sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.asked().spawn(task);
    }

    fn serves(&self) -> bool {
        self.asked().serves()
    }

    fn runs_here(&self) -> bool {
        self.asked().runs_here()
    }

    fn random(&self) -> [u8; 16] {
        self.asked().random()
    }
}

impl<R: fmt::Debug> fmt::Debug for Asking<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asking").field(&self.inner).finish()
    }
}
