//! The tokio runtime, on a thread of our own: the engine room.
//!
//! It sleeps, spawns and draws randomness, and must decide nothing about locks.
#![allow(clippy::disallowed_methods, reason = "the list points to this folder")]

use std::{
    fmt, io,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::{runtime::Handle, sync::mpsc};

use super::{
    Runtime, Task,
    clock::{first_process, system_now, system_steady, system_wall_us},
    process::{Process, lock_here},
};
use crate::{protocol::Timestamp, shield::shield};

/// The production runtime: one thread with a current-thread tokio runtime.
///
/// All sockets, rounds and timers of a [`Redlock`](crate::Redlock) live on that thread. The futures that
/// a user awaits only exchange messages with it, so they work on any executor, and a blocked or
/// overloaded executor does not delay a deadline. A clone is cheap and shares the thread, which ends
/// when the last clone is gone.
///
/// A process that was forked does not have its parent's thread: [`shared`](TokioRuntime::shared) and
/// [`dedicated`](TokioRuntime::dedicated) start one there. What it gives to a runtime of its parent's is dropped,
/// and sleeps end at once, so that nothing hangs: requests end with `RuntimeEnded`.
#[derive(Clone)]
pub struct TokioRuntime {
    thread: Arc<EngineThread>,
}

struct EngineThread {
    /// The process that the thread is in. One that was forked from it has a copy of this, and not the thread.
    process: Process,
    handle: Handle,
    /// Tasks from other threads. All that have arrived are begun before any of them goes on, so that what
    /// they send to one node leaves together. The thread ends when the last sender is gone.
    tasks: mpsc::UnboundedSender<Arrival>,
}

/// A task, with what keeps the thread alive until it has ended.
type Arrival = (Task, Arc<EngineThread>);

static SHARED: Mutex<Weak<EngineThread>> = Mutex::new(Weak::new());

impl TokioRuntime {
    /// The engine thread that all [`Redlock`](crate::Redlock)s of this process share unless they are
    /// given another one. It is started by the first of them and ends after the last. A process that was forked
    /// starts its own.
    ///
    /// # Errors
    ///
    /// The operating system's, where it gives no thread or no event queue.
    pub fn shared() -> io::Result<Self> {
        Self::shared_since(first_process())
    }

    fn shared_since(process: Process) -> io::Result<Self> {
        let Some(mut shared) = lock_here(&SHARED, process) else { return Self::dedicated() };
        if let Some(thread) = shared.upgrade().filter(|thread| thread.is_in_this_process()) {
            return Ok(Self { thread });
        }
        let started = Self::dedicated()?;
        *shared = Arc::downgrade(&started.thread);
        Ok(started)
    }

    /// A new engine thread, for a [`Redlock`](crate::Redlock) that should not share one.
    ///
    /// # Errors
    ///
    /// The operating system's, where it gives no thread or no event queue.
    pub fn dedicated() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(LOOKUPS)
            .build()?;
        let handle = runtime.handle().clone();
        let (tasks, mut arriving) = mpsc::unbounded_channel::<Arrival>();
        std::thread::Builder::new().name("quorlock".to_owned()).spawn(move || {
            runtime.block_on(async move {
                while let Some(arrival) = arriving.recv().await {
                    begin(arrival);
                }
            });
            runtime.shutdown_background();
        })?;
        let process = Process::current();
        Ok(Self { thread: Arc::new(EngineThread { process, handle, tasks }) })
    }

    /// Whether the caller runs on the engine thread.
    fn is_here(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.thread.handle.id())
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Timestamp {
        system_now()
    }

    fn steady(&self) -> Timestamp {
        system_steady()
    }

    fn wall_us(&self) -> u64 {
        system_wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        let this = self.clone();
        Box::pin(async move {
            // The timer's clock may stand still while ours goes on, and the other way round.
            loop {
                let left = at.saturating_since(this.now());
                if left.is_zero() {
                    return;
                }
                // The timer is this thread's, on whatever executor the caller awaits it.
                let sleep = {
                    let _entered = this.thread.handle.enter();
                    tokio::time::sleep(left.min(LONGEST_SLEEP))
                };
                if this.is_here() {
                    sleep.await;
                } else if this.thread.is_in_this_process() {
                    // The thread would not outlive a waker that panics among its timers.
                    shield(sleep).await;
                } else {
                    return;
                }
            }
        })
    }

    fn spawn(&self, task: Task) {
        let arrival = (task, Arc::clone(&self.thread));
        if self.is_here() {
            begin(arrival);
        } else if self.thread.is_in_this_process() {
            // The thread lives as long as this handle does, so there is always somebody to receive it.
            let _ = self.thread.tasks.send(arrival);
        }
    }

    /// A process that was forked does not have the thread.
    fn serves(&self) -> bool {
        self.thread.is_in_this_process()
    }

    /// Drawn from the operating system each time. A generator in this process would have a state, which a fork or a
    /// snapshot of the machine copies, and then two rounds have one owner.
    ///
    /// # Panics
    ///
    /// Where the operating system gives no random numbers. There is nothing to put in their place.
    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        match getrandom::fill(&mut bytes) {
            Ok(()) => bytes,
            Err(error) => panic!("the operating system gives no random numbers: {error}"),
        }
    }
}

impl EngineThread {
    fn is_in_this_process(&self) -> bool {
        self.process.is_here()
    }
}

/// Runs a task on the current runtime, which is the engine's.
fn begin((task, thread): Arrival) {
    drop(tokio::spawn(async move {
        task.await;
        drop(thread);
    }));
}

impl fmt::Debug for TokioRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioRuntime").finish_non_exhaustive()
    }
}

/// The threads of the resolver, the only ones beside the engine's own. A look-up of a name takes one for as long as
/// the system's resolver hangs. There is one look-up for each node at a time, and this is enough for two
/// [`Redlock`](crate::Redlock)s with as many nodes as there may be; further ones wait for these.
const LOOKUPS: usize = 64;

/// After this long the clock is read again, in case it went on while the timers stood still.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_starts_a_thread_though_its_parent_was_about_to() {
        let locked = SHARED.lock().unwrap();
        let started = TokioRuntime::shared_since(Process::other()).unwrap();
        drop(locked);
        assert!(started.thread.is_in_this_process());
    }

    #[test]
    fn the_shared_thread_is_one_and_ends_with_its_last_handle() {
        let first = TokioRuntime::dedicated().unwrap();
        let weak = Arc::downgrade(&first.thread);
        drop(first);
        assert!(weak.upgrade().is_none());
        let one = TokioRuntime::shared().unwrap();
        let two = TokioRuntime::shared().unwrap();
        assert!(Arc::ptr_eq(&one.thread, &two.thread));
    }
}
