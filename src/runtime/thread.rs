//! The engine thread: a tokio runtime on a thread of our own.
//!
//! It decides how many there are, and when one ends. In a forked child it must start a new one.

use std::{
    io,
    sync::{Arc, Mutex, Weak},
};

use super::{
    TokioRuntime,
    arrivals::Arrivals,
    clock::first_process,
    process::{Process, lock_here},
    tokio::{Engine, begin},
};

static SHARED: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

impl TokioRuntime {
    /// The engine thread that all [`Redlock`](crate::Redlock)s of this process share by default. The first of them
    /// starts it, and it ends after the last. A forked child starts its own.
    ///
    /// # Errors
    ///
    /// The operating system's error if it gives no thread or no event queue.
    pub fn shared() -> io::Result<Self> {
        Self::shared_since(first_process())
    }

    fn shared_since(process: Process) -> io::Result<Self> {
        let Some(mut shared) = lock_here(&SHARED, process) else { return Self::dedicated() };
        if let Some(engine) = shared.upgrade().filter(|engine| engine.serves()) {
            return Ok(Self { engine });
        }
        let started = Self::dedicated()?;
        *shared = Arc::downgrade(&started.engine);
        Ok(started)
    }

    /// A new engine thread, for a [`Redlock`](crate::Redlock) that should not share one.
    ///
    /// # Errors
    ///
    /// The operating system's error if it gives no thread or no event queue.
    pub fn dedicated() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(LOOKUPS)
            .build()?;
        let arrivals = Arrivals::new();
        // Made before the thread runs: tasks that are given meanwhile wait among the arrivals.
        let started = Self::new(runtime.handle().clone(), Arc::clone(&arrivals), false);
        let runtime = InBackground(Some(runtime));
        std::thread::Builder::new().name("quorlock".to_owned()).spawn(move || {
            if let Some(runtime) = &runtime.0 {
                // Returns once the last handle is gone.
                runtime.block_on(arrivals.attend(begin));
            }
        })?;
        Ok(started)
    }
}

/// A runtime that ends without waiting for a hanging name look-up. This also holds if no thread can be started: then
/// the caller drops it, perhaps inside another runtime, where waiting is a panic.
struct InBackground(Option<tokio::runtime::Runtime>);

impl Drop for InBackground {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The threads of the resolver, the only ones beside the engine's own. A look-up takes one for as long as the system's
/// resolver hangs. Each node has at most one look-up at a time, so this is enough for two [`Redlock`](crate::Redlock)s
/// with the most nodes allowed; further look-ups wait.
const LOOKUPS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;

    #[test]
    fn a_process_that_was_forked_starts_a_thread_though_its_parent_was_about_to() {
        let locked = SHARED.lock().unwrap();
        let started = TokioRuntime::shared_since(Process::other()).unwrap();
        drop(locked);
        let (ran, runs) = std::sync::mpsc::channel();
        started.spawn(Box::pin(async move { ran.send(()).unwrap() }));
        runs.recv_timeout(std::time::Duration::from_secs(60)).expect("a thread of its own");
    }

    #[test]
    fn the_shared_thread_is_one_and_ends_with_its_last_handle() {
        let first = TokioRuntime::dedicated().unwrap();
        let weak = Arc::downgrade(&first.engine);
        drop(first);
        assert!(weak.upgrade().is_none());
        let one = TokioRuntime::shared().unwrap();
        let two = TokioRuntime::shared().unwrap();
        assert!(Arc::ptr_eq(&one.engine, &two.engine));
    }
}
