//! The clock of a fleet under test: that of one tokio runtime, which can be moved on.
//!
//! It decides what time it is in a test, and when a span of it is over. All that sleeps on it must wake in order, and
//! whoever has moved it must find that everything which was due has been done.
#![allow(clippy::disallowed_methods, reason = "the list points to this folder")]

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant as SystemInstant},
};

use futures::future::{Either, select};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
    time::Instant,
};

use super::{Runtime, Task, TokioRuntime, clock::system_wall_us, nudge::Nudge};
use crate::{lock::Lock, protocol::Timestamp};

/// A tokio runtime with one thread, and its clock. A clone is the same one.
///
/// The clock is tokio's own, so that whoever pauses it, as `#[tokio::test(start_paused = true)]` does, has one clock for
/// the code under test and for the engine: tokio moves it to the next timer of either when neither has anything to do.
/// A runtime that is not paused has a clock that follows real time, and is paused only while it is moved.
#[derive(Clone)]
pub(crate) struct VirtualTime {
    shared: Arc<Shared>,
}

struct Shared {
    /// What runs the tasks.
    host: TokioRuntime,
    /// Its clock and the wall clock at the beginning. From there on one is as far as the other.
    origin: Instant,
    wall: Duration,
    /// How many random numbers have been drawn.
    drawn: AtomicU64,
    moving: Lock<Moving>,
    /// Whether the runtime is the caller's, with other tasks than ours.
    is_callers: bool,
}

/// Who moves the clock.
#[derive(Default)]
struct Moving {
    movers: usize,
    /// We have paused the runtime's clock, and not its user.
    paused_here: bool,
}

impl VirtualTime {
    /// The clock of the tokio runtime that the caller is in, if that has one thread. Otherwise, or outside of any, the
    /// one of a thread that is started.
    pub(crate) fn here_or_on_thread() -> std::io::Result<Self> {
        TokioRuntime::current().map(|host| Self::new(host, true)).or_else(|_| Self::on_thread())
    }

    /// The clock of a thread that is started. It ends when the last clone and the last task of it are gone.
    pub(crate) fn on_thread() -> std::io::Result<Self> {
        TokioRuntime::dedicated().map(|host| Self::new(host, false))
    }

    fn new(host: TokioRuntime, is_callers: bool) -> Self {
        let origin = {
            let _entered = host.handle().enter();
            Instant::now()
        };
        let wall = Duration::from_micros(system_wall_us());
        let (drawn, moving) = (AtomicU64::new(0), Lock::default());
        Self { shared: Arc::new(Shared { host, origin, wall, drawn, moving, is_callers }) }
    }

    /// Whether the caller is in a runtime whose clock is paused and is not this one: it would run ahead of this one
    /// whenever it has nothing to do, also while it waits for an answer from here.
    pub(crate) fn is_left_behind(&self) -> bool {
        Handle::try_current().is_ok_and(|here| {
            here.id() != self.shared.host.handle().id()
                && here.runtime_flavor() == RuntimeFlavor::CurrentThread
                && is_frozen()
        })
    }

    /// Moves the clock on, from timer to timer. When this ends, everything that was due has been done, as far as it
    /// happens on this runtime. False says that the runtime has ended. Dropping it leaves the clock where it is.
    pub(crate) async fn advance(&self, time: Duration) -> bool {
        let (mut done, passed) = oneshot::channel();
        let this = self.clone();
        self.spawn(Box::pin(async move {
            let mover = Mover::begin(&this);
            let pass = this.pass(time);
            let passed = matches!(select(pin!(pass), pin!(done.closed())).await, Either::Left(_));
            drop(mover);
            if passed {
                let _ = done.send(());
            }
        }));
        passed.await.is_ok()
    }

    /// Ends when so much time has passed, and what was due in it has been done. The clock is paused.
    async fn pass(&self, time: Duration) {
        let begun = Instant::now();
        let mut pass = pin!(async {
            tokio::time::sleep(time).await;
            // What was due then has only been woken. Tokio moves a clock no further while anything can run, so that
            // one step more finds all of it done.
            tokio::time::sleep(STEP).await;
        });
        if !self.shared.is_callers {
            // Nothing but the engine is there, which comes to rest.
            return pass.await;
        }
        // With a thread of `spawn_blocking` at work tokio does not move the clock, nor with a task that never pauses.
        let mut nudge = Nudge::start();
        loop {
            if let Either::Left(_) = select(pass.as_mut(), pin!(nudge.stuck())).await {
                return;
            }
            let left = time.saturating_add(STEP).saturating_sub(begun.elapsed());
            // Tokio's timers end at whole milliseconds since the runtime began, so that some of one may be left.
            nudge.push(left.max(STEP)).await;
        }
    }
}

impl Runtime for VirtualTime {
    /// As microseconds since 1970 go, so that a node can take it for its wall clock too.
    fn now(&self) -> Timestamp {
        let shared = &self.shared;
        let now = {
            // Outside of its runtime tokio tells another clock.
            let _entered = shared.host.handle().enter();
            Instant::now()
        };
        Timestamp::from_origin(shared.wall.saturating_add(now.duration_since(shared.origin)))
    }

    fn wall_us(&self) -> u64 {
        u64::try_from(self.now().since_origin().as_micros()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        let this = self.clone();
        Box::pin(async move {
            loop {
                let left = at.saturating_since(this.now());
                if left.is_zero() || !this.serves() {
                    return;
                }
                this.shared.host.sleep(left).await;
            }
        })
    }

    fn spawn(&self, task: Task) {
        self.shared.host.spawn(task);
    }

    fn serves(&self) -> bool {
        self.shared.host.serves()
    }

    fn runs_here(&self) -> bool {
        self.shared.host.runs_here()
    }

    /// The same in each run, so that a test which fails fails again. Nobody has to guess the owners of a fleet in this
    /// process, and none comes twice.
    fn random(&self) -> [u8; 16] {
        let drawn = self.shared.drawn.fetch_add(1, Ordering::Relaxed);
        let (high, low) = (scramble(2 * drawn), scramble(2 * drawn + 1));
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}

impl fmt::Debug for VirtualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualTime").finish_non_exhaustive()
    }
}

/// Keeps the clock of the runtime paused, so that tokio moves it. It lives in a task of that runtime.
struct Mover(VirtualTime);

impl Mover {
    fn begin(time: &VirtualTime) -> Self {
        let mut moving = time.shared.moving.lock();
        moving.movers += 1;
        if !moving.paused_here && !is_frozen() {
            tokio::time::pause();
            moving.paused_here = true;
        }
        drop(moving);
        Self(time.clone())
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        let Shared { host, moving, .. } = &*self.0.shared;
        let mut moving = moving.lock();
        moving.movers -= 1;
        if moving.movers == 0 && std::mem::take(&mut moving.paused_here) {
            // A runtime that ends drops its tasks outside of itself.
            let _entered = host.handle().enter();
            if is_frozen() {
                tokio::time::resume();
            }
        }
    }
}

/// Whether the clock of the runtime that the caller is in stands still. Tokio does not tell, so it is looked at.
fn is_frozen() -> bool {
    let (real, shown) = (SystemInstant::now(), Instant::now());
    while real.elapsed() < GLANCE {
        std::hint::spin_loop();
    }
    Instant::now() == shown
}

/// The finalizer of SplitMix64, which takes no two numbers to the same.
const fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The smallest step of tokio's timers.
const STEP: Duration = Duration::from_millis(1);

/// Long enough for any system's clock to have gone on.
const GLANCE: Duration = Duration::from_micros(20);
