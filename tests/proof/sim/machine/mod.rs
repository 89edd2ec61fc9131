//! A client's machine: the process that runs there, with clocks of its own.
//!
//! Goal: a client sees the time that a real one would see, whatever is done to its clocks and to it. Method: a clock
//! that counts since boot, a wall clock beside it, and production's own rule (`src/runtime/wall.rs`, the file itself)
//! that makes the time of leases of both. The process stands still by SIGSTOP, with its machine in suspend, or with a
//! virtual machine whose clock since boot stands still too, and whose wall clock is put right when it goes on.
//!
//! Not modelled: a hint that a node tells reaches a process that stands still at once, and not when it goes on. A wall
//! clock that is set back between a halt and the look at the clock that would have shown it: the process looks at its
//! clock before it stops, and when it goes on.

mod clocks;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};
use quorlock_harness::{SimRuntime, Timer};

use self::clocks::Clocks;
pub(crate) use self::clocks::{BEGINNING, scaled};
use crate::setup::Flaw;

/// How a process stands still.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stop {
    /// SIGSTOP, a long collection of garbage, a page fault: all clocks go on.
    Paused,
    /// The machine sleeps: the clock since boot counts that, as `CLOCK_BOOTTIME` does.
    Suspended,
    /// The virtual machine stands still, and its clock since boot with it; the wall clock is put right afterwards.
    Halted,
    /// The same, and nobody puts the wall clock right: what A6 excludes.
    Unnoticed,
}

/// A stop: how, from when, and until when if it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    pub(crate) how: Stop,
    pub(crate) from: Timestamp,
    pub(crate) until: Option<Timestamp>,
}

/// A process on a machine of its own. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Machine {
    shared: Arc<Shared>,
}

struct Shared {
    sim: SimRuntime,
    clocks: Mutex<Clocks>,
    stops: Mutex<Vec<Stopped>>,
    /// When the wall clock was stepped, or went on, last.
    stepped: Mutex<Option<Timestamp>>,
    /// While a client is built: how many tasks it has spawned.
    building: Mutex<Option<usize>>,
    /// What the process is doing, for the nemesis to tell what it has struck.
    asking: AtomicUsize,
    holding: AtomicUsize,
    wall_is_far_off: AtomicBool,
    flaw: Flaw,
}

impl Machine {
    /// `per_mille` is the rate by which its clocks are fast; negative, slow. Its wall clock is off by so much.
    pub(crate) fn new(world: &SimRuntime, per_mille: i64, off: i128) -> Self {
        Self::with_flaw(world, per_mille, off, Flaw::None)
    }

    /// The same with something wrong, where that is of a kind that machines have.
    pub(crate) fn with_flaw(world: &SimRuntime, per_mille: i64, off: i128, flaw: Flaw) -> Self {
        let clocks = Clocks::new(world.now(), per_mille, off);
        Self {
            shared: Arc::new(Shared {
                sim: world.process(),
                clocks: Mutex::new(clocks),
                stops: Mutex::default(),
                stepped: Mutex::default(),
                building: Mutex::default(),
                asking: AtomicUsize::new(0),
                holding: AtomicUsize::new(0),
                wall_is_far_off: AtomicBool::new(off.abs() > FAR),
                flaw,
            }),
        }
    }

    /// Builds a client here. The first task that it spawns sees to the nodes. Those behind it are there for metrics and
    /// for the log, where these are compiled in: they look on, and must not show in the trace.
    pub(crate) fn build<T>(&self, build: impl FnOnce() -> T) -> T {
        *self.shared.building.lock().unwrap() = Some(0);
        let built = build();
        *self.shared.building.lock().unwrap() = None;
        built
    }

    pub(crate) fn per_mille(&self) -> i64 {
        self.clocks(|clocks, _| clocks.per_mille())
    }

    pub(crate) fn stop(&self, how: Stop) {
        self.now();
        self.shared.sim.freeze();
        let from = self.shared.sim.now();
        self.shared.stops.lock().unwrap().push(Stopped { how, from, until: None });
        if how != Stop::Paused {
            self.clocks(|clocks, now| clocks.fall_asleep(now, how != Stop::Suspended));
        }
    }

    pub(crate) fn go_on(&self) {
        let now = self.shared.sim.now();
        let how = {
            let mut stops = self.shared.stops.lock().unwrap();
            let stop = stops.last_mut().unwrap();
            stop.until = Some(now);
            stop.how
        };
        if how != Stop::Paused {
            self.clocks(|clocks, now| clocks.wake_up(now, how == Stop::Halted));
        }
        self.now();
        self.shared.sim.thaw();
    }

    /// The first stop that began since then.
    pub(crate) fn stopped_since(&self, since: Timestamp) -> Option<Stopped> {
        self.shared.stops.lock().unwrap().iter().find(|stop| stop.from >= since).copied()
    }

    /// Whether its clock has gone on without its timers since then.
    pub(crate) fn has_jumped_since(&self, since: Timestamp) -> bool {
        let (stops, stepped) =
            (self.shared.stops.lock().unwrap(), self.shared.stepped.lock().unwrap());
        let slept = |stop: &Stopped| {
            stop.how != Stop::Paused && stop.until.is_none_or(|until| until >= since)
        };
        stepped.is_some_and(|at| at >= since) || stops.iter().any(slept)
    }

    /// For how long it takes until the clock since boot has gone on by so much.
    pub(crate) fn lasts(&self, time: Duration) -> Duration {
        self.clocks(|clocks, _| clocks.real(time))
    }

    /// For how long it has stood still since then.
    pub(crate) fn stood_still(&self, since: Timestamp) -> Duration {
        let now = self.shared.sim.now();
        let stops = self.shared.stops.lock().unwrap();
        let since = stops.iter().filter(|stop| stop.from >= since);
        since.map(|stop| stop.until.unwrap_or(now).saturating_since(stop.from)).sum()
    }

    /// Steps the wall clock.
    pub(crate) fn step_wall(&self, nanos: i128) {
        *self.shared.stepped.lock().unwrap() = Some(self.shared.sim.now());
        let off = self.clocks(|clocks, now| clocks.step_wall(now, nanos));
        self.shared.wall_is_far_off.store(off.abs() > FAR, Ordering::Relaxed);
    }

    /// The wall clock is put right.
    pub(crate) fn put_wall_right(&self) {
        *self.shared.stepped.lock().unwrap() = Some(self.shared.sim.now());
        self.clocks(|clocks, now| clocks.put_wall_right(now));
        self.shared.wall_is_far_off.store(false, Ordering::Relaxed);
    }

    /// Whether the wall clock is a day off.
    pub(crate) fn wall_is_far_off(&self) -> bool {
        self.shared.wall_is_far_off.load(Ordering::Relaxed)
    }

    /// The wall clock shows one time until it goes on.
    pub(crate) fn stand_wall(&self, stands: bool) {
        self.clocks(|clocks, now| clocks.stand_wall(now, stands));
    }

    /// It ends, as by `kill -9`.
    pub(crate) fn end(&self) {
        self.shared.sim.end();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.sim.has_ended()
    }

    /// Counts a request as under way while the answer is kept.
    pub(crate) fn asks(&self) -> Busy {
        Busy::new(self, |shared| &shared.asking)
    }

    /// Counts a lease as held while the answer is kept.
    pub(crate) fn holds(&self) -> Busy {
        Busy::new(self, |shared| &shared.holding)
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.shared.asking.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.shared.holding.load(Ordering::Relaxed) > 0
    }

    fn clocks<T>(&self, look: impl FnOnce(&mut Clocks, Timestamp) -> T) -> T {
        let now = self.shared.sim.now();
        look(&mut self.shared.clocks.lock().unwrap(), now)
    }
}

/// A wall clock that is further off than this is far off.
const FAR: i128 = 86_000_000_000_000;

/// A process is busy with something while this is there.
pub(crate) struct Busy {
    machine: Machine,
    with: fn(&Shared) -> &AtomicUsize,
}

impl Busy {
    fn new(machine: &Machine, with: fn(&Shared) -> &AtomicUsize) -> Self {
        with(&machine.shared).fetch_add(1, Ordering::Relaxed);
        Self { machine: machine.clone(), with }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        (self.with)(&self.machine.shared).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Runtime for Machine {
    fn now(&self) -> Timestamp {
        self.clocks(Clocks::now)
    }

    fn steady(&self) -> Timestamp {
        self.clocks(|clocks, now| clocks.steady(now))
    }

    fn wall_us(&self) -> u64 {
        self.clocks(|clocks, now| clocks.wall_us(now))
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        Box::pin(Sleep { machine: self.clone(), at, timer: None })
    }

    fn spawn(&self, task: Task) {
        let sim = &self.shared.sim;
        let looks_on = self.shared.building.lock().unwrap().as_mut().is_some_and(|spawned| {
            *spawned += 1;
            *spawned > 1
        });
        if looks_on {
            sim.quiet().spawn(task);
        } else {
            sim.spawn(task);
        }
    }

    fn serves(&self) -> bool {
        !self.has_ended()
    }

    fn random(&self) -> [u8; 16] {
        let mut random = self.shared.sim.random();
        if self.shared.flaw == Flaw::RepeatsOwners {
            // One byte of it is drawn, and what is made of it is of few.
            random = [random[0] % 4; 16];
        }
        random
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// A sleep by the machine's clock, which is read again where a timer has rung. The timer itself counts no time in which
/// the machine sleeps, as that of tokio does not.
struct Sleep {
    machine: Machine,
    at: Timestamp,
    timer: Option<Ringing>,
}

/// A timer, and for how long the machine had slept when it was set.
struct Ringing {
    timer: Timer,
    at: Timestamp,
    slept: Duration,
}

impl Ringing {
    fn set(machine: &Machine, at: Timestamp, slept: Duration) -> Self {
        Self { timer: machine.shared.sim.timer(at), at, slept }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { machine, at, timer } = self.get_mut();
        loop {
            let slept = machine.clocks(|clocks, now| clocks.slept(now));
            let ringing = match timer {
                Some(ringing) => ringing,
                None => {
                    let left = at.saturating_since(machine.now());
                    if left.is_zero() {
                        return Poll::Ready(());
                    }
                    let real = machine.clocks(|clocks, _| clocks.real(left.min(LONGEST)));
                    let late =
                        if machine.shared.flaw == Flaw::RingsLate { LATE } else { Duration::ZERO };
                    let rings = machine.shared.sim.now().saturating_add(real + late);
                    timer.insert(Ringing::set(machine, rings, slept))
                }
            };
            if slept > ringing.slept {
                let later = ringing.at.saturating_add(slept - ringing.slept);
                *ringing = Ringing::set(machine, later, slept);
            }
            if Pin::new(&mut ringing.timer).poll(cx).is_pending() {
                return Poll::Pending;
            }
            *timer = None;
        }
    }
}

/// By so much timers ring late where that is the flaw.
const LATE: Duration = Duration::from_millis(300);

/// As in production: after this long the clock is read again.
const LONGEST: Duration = Duration::from_secs(60);
