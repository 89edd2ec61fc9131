//! The tokio runtime, on a thread of our own: the engine room.
//!
//! This is the only file of the crate that reads a clock, sleeps, spawns or draws randomness. It must
//! decide nothing about locks.
#![allow(clippy::disallowed_methods, reason = "this file is what the list points to")]

use std::{
    fmt, io,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{runtime::Handle, sync::mpsc};

use super::{Runtime, Task};
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
    process: u32,
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
        Self::shared_since(CLOCK.process)
    }

    fn shared_since(process: u32) -> io::Result<Self> {
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
        let process = std::process::id();
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
        Timestamp::from_origin(boot_time().saturating_sub(CLOCK.origin))
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
        self.process == std::process::id()
    }
}

/// Locks what was made in `process`. `None` says that this process was forked from it, and that somebody has the lock:
/// it may be a thread that there is in the parent alone, and then it stays locked for ever.
fn lock_here<T>(mutex: &Mutex<T>, process: u32) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) if process != std::process::id() => None,
        Err(TryLockError::WouldBlock) => Some(mutex.lock().unwrap_or_else(PoisonError::into_inner)),
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

/// A wall clock that gets ahead of the monotonic clock by more than this has jumped, or the machine was
/// stopped in a way that no monotonic clock counts. Below it lies the noise of reading two clocks.
const JUMP: Duration = Duration::from_millis(100);

/// One clock for the whole process, so that timestamps of two engine threads can be compared.
static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::new);

/// The time of the system's clock, since its first use in this process.
pub(crate) fn system_now() -> Timestamp {
    CLOCK.now()
}

/// A clock that counts suspended time: `CLOCK_BOOTTIME` where there is one, and the wall clock where that
/// ran ahead of it. It can only err by running ahead, which ends leases early and never late.
struct Clock {
    /// The process that it was made in.
    process: u32,
    origin: Duration,
    wall: Mutex<Wall>,
    /// The sum of the jumps seen so far, in nanoseconds, for those who cannot have the lock.
    ahead: AtomicU64,
}

/// What the wall clock has shown.
struct Wall {
    /// The last reading of the other clock.
    boot: Duration,
    /// By how much the wall clock is known to be beyond it, in nanoseconds. What lies above has not been seen yet.
    beyond: i128,
    /// The sum of its jumps forward.
    ahead: Duration,
}

impl Clock {
    fn new() -> Self {
        let origin = boot_time();
        let wall = Wall::new(origin, wall_time(), boot_time());
        Self {
            process: std::process::id(),
            origin,
            wall: Mutex::new(wall),
            ahead: AtomicU64::new(0),
        }
    }

    fn now(&self) -> Timestamp {
        let Some(mut last) = lock_here(&self.wall, self.process) else {
            let ahead = Duration::from_nanos(self.ahead.load(Ordering::Acquire));
            return self.time(boot_time(), ahead);
        };
        let (before, wall, after) = (boot_time(), wall_time(), boot_time());
        last.advance(before, wall, after);
        let ahead = u64::try_from(last.ahead.as_nanos()).unwrap_or(u64::MAX);
        self.ahead.store(ahead, Ordering::Release);
        self.time(last.boot, last.ahead)
    }

    fn time(&self, boot: Duration, ahead: Duration) -> Timestamp {
        Timestamp::from_origin(boot.saturating_sub(self.origin).saturating_add(ahead))
    }
}

impl Wall {
    fn new(before: Duration, wall: Duration, after: Duration) -> Self {
        Self { boot: after, beyond: beyond(wall, before), ahead: Duration::ZERO }
    }

    /// Takes a reading of the wall clock and those of the other clock before and after it. Between them this thread
    /// may have been stopped for any time, so they say no more than that the wall clock is beyond the other by
    /// `least` to `most`. Only what even `least` shows is a jump; the rest, if there is any, shows at the next
    /// reading.
    fn advance(&mut self, before: Duration, wall: Duration, after: Duration) {
        let (least, most) = (beyond(wall, after), beyond(wall, before));
        let jumped = least.saturating_sub(self.beyond).clamp(0, i128::from(u64::MAX));
        let jumped = Duration::from_nanos(u64::try_from(jumped).unwrap_or(u64::MAX));
        if jumped > JUMP {
            self.ahead = self.ahead.saturating_add(jumped);
        }
        self.beyond = self.beyond.min(most).max(least);
        self.boot = self.boot.max(after);
    }
}

/// By how many nanoseconds the wall clock is beyond the other.
fn beyond(wall: Duration, boot: Duration) -> i128 {
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    nanos(wall).saturating_sub(nanos(boot))
}

/// The system's wall clock, in microseconds since 1970.
pub(crate) fn system_wall_us() -> u64 {
    u64::try_from(wall_time().as_micros()).unwrap_or(u64::MAX)
}

fn wall_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(unix)]
fn boot_time() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    // On Apple systems this clock goes on while the machine sleeps; elsewhere it is the best there is.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// Windows counts suspended time in the standard library's clock.
#[cfg(not(unix))]
fn boot_time() -> Duration {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let now = std::time::Instant::now();
    now.saturating_duration_since(*ORIGIN.get_or_init(|| now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn wall() -> Wall {
        Wall::new(secs(100), secs(1000), secs(100))
    }

    #[test]
    fn a_wall_clock_that_jumps_forward_moves_the_time_on() {
        let mut wall = wall();
        wall.advance(secs(101), secs(1061), secs(101));
        assert_eq!(wall.ahead, secs(60));
    }

    #[test]
    fn a_wall_clock_set_back_never_takes_time_back() {
        let mut wall = wall();
        wall.advance(secs(101), secs(1), secs(101));
        assert_eq!((wall.boot, wall.ahead), (secs(101), Duration::ZERO));
        wall.advance(secs(102), secs(2), secs(102));
        assert_eq!((wall.boot, wall.ahead), (secs(102), Duration::ZERO));
        wall.advance(secs(103), secs(63), secs(103));
        assert_eq!((wall.boot, wall.ahead), (secs(103), secs(60)));
        wall.advance(secs(99), secs(64), secs(99));
        assert_eq!(wall.boot, secs(103));
    }

    #[test]
    fn a_wall_clock_of_before_1970_is_like_any_other() {
        let mut wall = Wall::new(secs(100), Duration::ZERO, secs(100));
        wall.advance(secs(101), secs(1_800_000_000), secs(101));
        assert_eq!(wall.ahead, secs(1_800_000_000 - 1));
        wall.advance(secs(102), Duration::ZERO, secs(102));
        wall.advance(secs(103), Duration::MAX, secs(103));
        assert!(wall.ahead > secs(1_800_000_000));
    }

    #[test]
    fn the_noise_of_reading_two_clocks_does_not_add_up() {
        let mut wall = wall();
        for step in 1..1000u64 {
            let boot = secs(100) + millis(step);
            wall.advance(boot, secs(1000) + millis(step) + Duration::from_micros(50), boot);
        }
        assert_eq!(wall.ahead, Duration::ZERO);
    }

    #[test]
    fn a_wall_clock_that_is_slewed_adds_nothing() {
        let mut wall = wall();
        // A tenth too fast, for longer than a jump takes to show.
        for step in 1..100u64 {
            let boot = secs(100 + step);
            wall.advance(boot, secs(1000 + step) + millis(100 * step), boot);
        }
        assert_eq!(wall.ahead, Duration::ZERO);
    }

    #[test]
    fn a_pause_between_the_readings_is_no_jump() {
        let mut wall = wall();
        for start in (0..100).step_by(20) {
            // The wall clock is read before the pause, in it, or behind it.
            let read = start + start / 8;
            wall.advance(secs(100 + start), secs(1000 + read), secs(110 + start));
            assert_eq!(wall.ahead, Duration::ZERO, "from {start}");
        }
        assert_eq!(wall.boot, secs(190), "it goes on by the later reading");
        // So it is at the very first reading.
        for read in [0, 5, 10] {
            let mut wall = Wall::new(secs(100), secs(1000 + read), secs(110));
            wall.advance(secs(120), secs(1020), secs(120));
            assert_eq!(wall.ahead, Duration::ZERO, "read {read}");
        }
    }

    #[test]
    fn a_jump_under_a_pause_is_seen_in_full_by_the_next_reading() {
        // The jump is longer than the pause, or shorter.
        for after in [110, 150] {
            let mut wall = wall();
            wall.advance(secs(101), secs(1031), secs(after));
            wall.advance(secs(200), secs(1130), secs(200));
            assert_eq!(wall.ahead, secs(30), "up to {after}");
            wall.advance(secs(300), secs(1230), secs(300));
            assert_eq!(wall.ahead, secs(30), "up to {after}");
        }
    }

    #[test]
    fn a_process_that_was_forked_tells_the_time_though_its_parent_was_about_to() {
        let mut clock = Clock::new();
        clock.process = clock.process.wrapping_add(1);
        clock.wall.lock().unwrap().ahead = secs(60);
        let earlier = clock.now();
        assert!(earlier >= Timestamp::from_origin(secs(60)));
        // As a thread did that the child does not have.
        let locked = clock.wall.lock().unwrap();
        assert!(clock.now() >= earlier);
        drop(locked);
    }

    #[test]
    fn a_process_that_was_forked_starts_a_thread_though_its_parent_was_about_to() {
        let locked = SHARED.lock().unwrap();
        let started = TokioRuntime::shared_since(std::process::id().wrapping_add(1)).unwrap();
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
