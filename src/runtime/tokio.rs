//! A tokio runtime with one thread, as the engine and its callers see it from any thread.
//!
//! It sleeps, spawns and draws randomness, and must decide nothing about locks. It must not panic, nor hang, where that
//! runtime has ended.
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
/// All sockets, rounds and timers of a [`Redlock`](crate::Redlock) live on that thread. The futures that
/// a user awaits only exchange messages with it, so they work on any executor, and where the thread is its own, a
/// blocked or overloaded executor does not delay a deadline. A clone is cheap and shares the thread, which ends
/// when the last clone is gone, unless it is the caller's.
///
/// A process that was forked does not have its parent's thread: [`shared`](TokioRuntime::shared) and
/// [`dedicated`](TokioRuntime::dedicated) start one there. What it gives to a runtime of its parent's is dropped,
/// and sleeps end at once, so that nothing hangs: requests end with `RuntimeEnded`.
#[derive(Clone)]
pub struct TokioRuntime {
    pub(super) engine: Arc<Engine>,
}

/// What runs the tasks.
pub(super) struct Engine {
    /// The process that the thread is in. One that was forked from it has a copy of this, and not the thread.
    process: Process,
    handle: Handle,
    arrivals: Arc<Arrivals<Arrival>>,
    /// Whether the thread is the caller's, so that not only the engine runs there.
    is_callers: bool,
}

/// A task, with what keeps the engine alive until it has ended.
pub(super) type Arrival = (Task, Arc<Engine>);

impl TokioRuntime {
    /// Somebody must [`attend`](Arrivals::attend) to the arrivals, on that runtime.
    pub(super) fn new(handle: Handle, arrivals: Arc<Arrivals<Arrival>>, is_callers: bool) -> Self {
        let process = Process::current();
        Self { engine: Arc::new(Engine { process, handle, arrivals, is_callers }) }
    }

    /// The tokio runtime.
    #[cfg(feature = "testing")]
    pub(super) fn handle(&self) -> &Handle {
        &self.engine.handle
    }

    /// Sleeps by its timer, without a look at any other clock.
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
            // The timer's clock may stand still while ours goes on, and the other way round.
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
        // On the thread itself a task begins without being handed over. A forked process has nobody to hand it to:
        // there it is dropped.
        if engine.is_here() && engine.may_begin_here() {
            begin(arrival);
        } else if engine.process.is_here() {
            engine.arrivals.push(arrival);
        }
    }

    /// A process that was forked does not have the thread, and a runtime of the caller's may have ended.
    fn serves(&self) -> bool {
        self.engine.serves()
    }

    fn runs_here(&self) -> bool {
        self.engine.is_here() && self.engine.serves()
    }

    /// Drawn from the operating system each time. A generator in this process would have a state, which a fork or a
    /// snapshot of the machine copies, and then two rounds have one owner.
    ///
    /// # Panics
    ///
    /// Where the operating system gives no random numbers. There is nothing to put in their place.
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

    /// Whether the caller is on the thread that runs the tasks. A thread of the runtime's that only blocks is in the
    /// same context, and one that ran it before may be the one that is remembered: both must be so.
    fn is_here(&self) -> bool {
        self.arrivals.is_claimed_here()
            && Handle::try_current().is_ok_and(|here| here.id() == self.handle.id())
    }

    /// Whether a task that is given on the thread itself may begin ahead of those that have arrived from others. On
    /// our thread only the engine gives any. On the caller's, one may follow from what another thread has done: an
    /// acquire there must not overtake the release of a lease that was dropped elsewhere before.
    fn may_begin_here(&self) -> bool {
        !self.is_callers || self.process.is_here() && self.arrivals.is_empty()
    }

    /// Sleeps by the runtime's timer, on whatever executor the caller awaits it. Where the runtime ends, so does this.
    async fn sleep(&self, time: Duration) {
        let sleep = {
            // A timer is made inside its runtime; whoever awaits this may be in another, or in none.
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
                // The thread would not outlive a waker that panics among its timers. And they panic themselves where
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
        // In a process that was forked somebody may have had the lock who is not there.
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

/// After this long the clock is read again, in case it went on while the timers stood still.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
