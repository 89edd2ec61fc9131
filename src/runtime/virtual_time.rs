//! The clock of a fleet under test: that of one tokio runtime, which a test can move on.
//!
//! It decides the time in a test, and when an advance is over. Sleepers must wake in order, and after an advance all
//! that was due must be done.
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

/// A single-threaded tokio runtime and its clock, shared by all clones.
///
/// The clock is tokio's own. A test that pauses it, as `#[tokio::test(start_paused = true)]` does, has one clock for
/// its code and for the engine: tokio moves it to the next timer of either when both are idle. A clock that is not
/// paused follows real time, and is paused only while it is moved.
#[derive(Clone)]
pub(crate) struct VirtualTime {
    shared: Arc<Shared>,
}

struct Shared {
    /// Runs the tasks.
    host: TokioRuntime,
    /// Its clock and the wall clock at the beginning; both advance equally from there.
    origin: Instant,
    wall: Duration,
    /// How many random numbers have been drawn.
    drawn: AtomicU64,
    moving: Lock<Moving>,
    /// Whether the runtime is the caller's, with other tasks than ours.
    is_callers: bool,
}

/// The advances under way.
#[derive(Default)]
struct Moving {
    movers: usize,
    /// The clock was paused here, not by the runtime's user.
    paused_here: bool,
}

impl VirtualTime {
    /// The clock of the caller's tokio runtime if [`TokioRuntime::current`] accepts it; otherwise that of a new thread.
    pub(crate) fn here_or_on_thread() -> std::io::Result<Self> {
        TokioRuntime::current().map(|host| Self::new(host, true)).or_else(|_| Self::on_thread())
    }

    /// The clock of a new thread, which ends when the last clone and its last task are gone.
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

    /// Whether the caller is in another runtime whose clock is paused. That clock would run ahead of this one whenever
    /// its runtime is idle, even while it waits for an answer from here.
    pub(crate) fn is_left_behind(&self) -> bool {
        Handle::try_current().is_ok_and(|here| {
            here.id() != self.shared.host.handle().id()
                && here.runtime_flavor() == RuntimeFlavor::CurrentThread
                && is_frozen()
        })
    }

    /// Moves the clock on, from timer to timer. When this ends, all that was due on this runtime is done. `false`: the
    /// runtime has ended. Dropping it leaves the clock where it is.
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

    /// Ends when `time` has passed and all that was due in it is done. The clock is paused.
    async fn pass(&self, time: Duration) {
        let begun = Instant::now();
        let mut pass = pin!(async {
            tokio::time::sleep(time).await;
            // Tasks that were due have only been woken. Tokio does not move a clock while any task can run, so one more
            // step finds them done.
            tokio::time::sleep(STEP).await;
        });
        if !self.shared.is_callers {
            // Only the engine runs there, and it comes to rest.
            return pass.await;
        }
        // Tokio does not move the clock while a `spawn_blocking` thread works, nor while a task never pauses.
        let mut nudge = Nudge::start();
        loop {
            if let Either::Left(_) = select(pass.as_mut(), pin!(nudge.stuck())).await {
                return;
            }
            let left = time.saturating_add(STEP).saturating_sub(begun.elapsed());
            // Tokio's timers end at whole milliseconds since the runtime began, so a part of one may be left.
            nudge.push(left.max(STEP)).await;
        }
    }
}

impl Runtime for VirtualTime {
    /// Counted since 1970, so that a node can use it as its wall clock too.
    fn now(&self) -> Timestamp {
        let shared = &self.shared;
        let now = {
            // Outside its runtime, tokio reads another clock.
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

    /// The same in each run, so that a failing test fails again. Owners in a test fleet need not be secret, and none
    /// repeats.
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
            // An ending runtime drops its tasks outside of itself.
            let _entered = host.handle().enter();
            if is_frozen() {
                tokio::time::resume();
            }
        }
    }
}

/// Whether the clock of the caller's runtime stands still. Tokio does not tell, so this watches it.
fn is_frozen() -> bool {
    let (real, shown) = (SystemInstant::now(), Instant::now());
    while real.elapsed() < GLANCE {
        std::hint::spin_loop();
    }
    Instant::now() == shown
}

/// The finalizer of SplitMix64, which maps no two numbers to the same one.
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
