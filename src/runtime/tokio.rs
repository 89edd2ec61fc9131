//! A single-threaded tokio runtime that the engine and its callers use from any thread.
//!
//! It sleeps, spawns and draws randomness, and must decide nothing about locks. It must neither panic nor hang once
//! that runtime has ended.
#![allow(clippy::disallowed_methods, reason = "the list points to this folder")]

use std::{
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use rand::{TryRngCore, rngs::OsRng};
use tokio::runtime::Handle;

use super::{
    Runtime, Task,
    arrivals::Arrivals,
    clock::{system_now, system_steady, system_wall_us},
    process::Process,
};
use crate::{
    protocol::Timestamp,
    shield::{Shield, discard},
};

/// The production runtime: a current-thread tokio runtime, on a thread of its own
/// ([`shared`](TokioRuntime::shared), [`dedicated`](TokioRuntime::dedicated)) or the caller's
/// ([`current`](TokioRuntime::current)).
///
/// All sockets, rounds and timers of a [`Redlock`](crate::Redlock) live on that thread. The futures that a user awaits
/// only exchange messages with it, so they work on any executor. Unless the thread is the caller's, a blocked or
/// overloaded executor does not delay a deadline. A clone is cheap and shares the thread. A thread of its own ends when
/// the last clone is gone.
///
/// A forked child does not have its parent's thread: [`shared`](TokioRuntime::shared) and
/// [`dedicated`](TokioRuntime::dedicated) start one there. A runtime inherited from the parent drops the tasks it is
/// given, and its sleeps end at once. So nothing hangs: requests end with `RuntimeEnded`.
#[derive(Clone)]
pub struct TokioRuntime {
    pub(super) engine: Arc<Engine>,
}

/// The tokio runtime behind all clones.
pub(super) struct Engine {
    /// The process that the thread is in. A forked child has a copy of this, but not the thread.
    process: Process,
    handle: Handle,
    arrivals: Arc<Arrivals<Arrival>>,
    /// Whether the thread is the caller's, which also runs other tasks.
    is_callers: bool,
}

/// A task, and the engine that it keeps alive until it ends.
pub(super) type Arrival = (Task, Arc<Engine>);

impl TokioRuntime {
    /// The caller must have [`attend`](Arrivals::attend) run for these arrivals, on that runtime.
    pub(super) fn new(handle: Handle, arrivals: Arc<Arrivals<Arrival>>, is_callers: bool) -> Self {
        let process = Process::current();
        Self { engine: Arc::new(Engine { process, handle, arrivals, is_callers }) }
    }

    /// The tokio runtime.
    #[cfg(feature = "testing")]
    pub(super) fn handle(&self) -> &Handle {
        &self.engine.handle
    }

    /// Sleeps by the runtime's timer and reads no other clock.
    #[cfg(feature = "testing")]
    pub(super) async fn sleep(&self, time: Duration) {
        self.engine.sleep(time).await;
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
            // The timer's clock may stop while ours runs, and vice versa.
            loop {
                let left = at.saturating_since(this.now());
                if left.is_zero() || !this.serves() {
                    return;
                }
                this.engine.sleep(left.min(LONGEST_SLEEP)).await;
            }
        })
    }

    fn spawn(&self, task: Task) {
        let engine = &self.engine;
        let arrival = (task, Arc::clone(engine));
        // On the engine's own thread a task begins at once. In a forked child no thread would take it: it is dropped.
        if engine.is_here() && engine.may_begin_here() {
            begin(arrival);
        } else if engine.process.is_here() {
            engine.arrivals.push(arrival);
        }
    }

    /// False in a forked child, which lacks the thread, and once the caller's runtime has ended.
    fn serves(&self) -> bool {
        self.engine.serves()
    }

    fn runs_here(&self) -> bool {
        self.engine.is_here() && self.engine.serves()
    }

    /// Drawn from the operating system each time. A generator in this process would have state that a fork or a machine
    /// snapshot copies, and two rounds would then share one owner.
    ///
    /// # Panics
    ///
    /// If the operating system gives no random numbers: nothing can replace them.
    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        match OsRng.try_fill_bytes(&mut bytes) {
            Ok(()) => bytes,
            Err(error) => panic!("the operating system gives no random numbers: {error}"),
        }
    }
}

impl Engine {
    pub(super) fn serves(&self) -> bool {
        !self.arrivals.has_ended() && self.process.is_here()
    }

    /// Whether the caller is on the thread that runs the tasks. It takes both checks: the runtime's blocking threads
    /// share its context, and the remembered thread may be one that ran it earlier.
    fn is_here(&self) -> bool {
        self.arrivals.is_claimed_here()
            && Handle::try_current().is_ok_and(|here| here.id() == self.handle.id())
    }

    /// Whether a task spawned on the thread itself may begin ahead of tasks that arrived from other threads. On our
    /// thread only the engine spawns. On the caller's thread a task may follow from another thread's action: an acquire
    /// must not overtake the release of a lease that was dropped elsewhere before.
    fn may_begin_here(&self) -> bool {
        !self.is_callers || self.process.is_here() && self.arrivals.is_empty()
    }

    /// Sleeps by the runtime's timer, on any executor. It ends when the runtime ends.
    async fn sleep(&self, time: Duration) {
        let sleep = {
            // A timer must be made inside its runtime; the caller may be in another one, or in none.
            let _entered = self.handle.enter();
            tokio::time::sleep(time)
        };
        let (mut sleep, mut shield) = (pin!(sleep), Shield::default());
        poll_fn(|cx| {
            if !self.serves() {
                Poll::Ready(())
            } else if self.is_here() {
                sleep.as_mut().poll(cx)
            } else {
                // A panicking waker among the timers would end the thread, hence the shield. A timer itself panics if
                // the runtime ends at this very moment.
                let polled = || shield.poll(sleep.as_mut(), cx);
                catch_unwind(AssertUnwindSafe(polled)).unwrap_or_else(|panic| {
                    discard(panic);
                    Poll::Ready(())
                })
            }
        })
        .await;
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // In a forked child a thread that does not exist may hold the lock.
        if self.process.is_here() {
            self.arrivals.close();
        }
    }
}

/// Runs a task on the current runtime, which is the engine's.
pub(super) fn begin((task, engine): Arrival) {
    drop(tokio::spawn(async move {
        task.await;
        drop(engine);
    }));
}

impl fmt::Debug for TokioRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioRuntime").finish_non_exhaustive()
    }
}

/// The clock is read again after this long, in case it ran on while the timers stood still.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
