//! The clocks of one machine: since boot, on the wall, and the time that leases are counted in.

#[path = "../../../../src/runtime/wall.rs"]
mod wall;

use std::time::Duration;

use quorlock_core::Timestamp;

use self::wall::Wall;

/// What a wall clock shows that is right, when a run begins: late enough that no real one is ahead of it, since a node
/// in memory believes the later of both.
pub(crate) const BEGINNING: Duration = Duration::from_secs(4_200_000_000);

pub(super) struct Clocks {
    /// When the rest was true, by the world's clock.
    since: Timestamp,
    boot: Duration,
    /// By how much the wall clock is beyond the clock since boot, in nanoseconds.
    beyond: i128,
    /// By how much it would be if it were right.
    rightly_beyond: i128,
    per_mille: i64,
    halted: bool,
    /// What the wall clock shows while it stands.
    stands: Option<Duration>,
    /// Since when the machine sleeps or stands still, and for how long it had before: timers count none of that.
    asleep_since: Option<Timestamp>,
    slept: Duration,
    wall: Wall,
    /// What was read last, and when: it is read many times at one moment.
    read: Option<(Timestamp, Timestamp)>,
}

impl Clocks {
    pub(super) fn new(now: Timestamp, per_mille: i64, off: i128) -> Self {
        // A process counts from its own beginning.
        let boot = Duration::ZERO;
        let rightly_beyond = nanos(BEGINNING.saturating_add(now.since_origin())) - nanos(boot);
        let beyond = rightly_beyond + off;
        let wall = Wall::new(boot, to_duration(beyond), boot);
        let (halted, stands) = (false, None);
        Self {
            since: now,
            boot,
            beyond,
            rightly_beyond,
            per_mille,
            halted,
            stands,
            asleep_since: None,
            slept: Duration::ZERO,
            wall,
            read: None,
        }
    }

    pub(super) fn per_mille(&self) -> i64 {
        self.per_mille
    }

    fn boot(&self, now: Timestamp) -> Duration {
        if self.halted {
            return self.boot;
        }
        self.boot + scaled(now.saturating_since(self.since), self.per_mille)
    }

    fn wall(&self, now: Timestamp) -> Duration {
        self.stands.unwrap_or_else(|| to_duration(nanos(self.boot(now)) + self.beyond))
    }

    /// The time that leases are counted in.
    pub(super) fn now(&mut self, now: Timestamp) -> Timestamp {
        if let Some((_, shown)) = self.read.filter(|(at, _)| *at == now) {
            return shown;
        }
        let (boot, wall) = (self.boot(now), self.wall(now));
        self.wall.advance(boot, wall, boot);
        let shown = Timestamp::from_origin(self.wall.boot.saturating_add(self.wall.ahead));
        self.read = Some((now, shown));
        shown
    }

    pub(super) fn steady(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_origin(self.boot(now))
    }

    pub(super) fn wall_us(&self, now: Timestamp) -> u64 {
        u64::try_from(self.wall(now).as_micros()).unwrap_or(u64::MAX)
    }

    /// How long the world takes for so much of the clock since boot, or a little longer.
    pub(super) fn real(&self, time: Duration) -> Duration {
        let rate = u128::try_from(1000 + self.per_mille).unwrap();
        let nanos = (time.as_nanos() * 1000).div_ceil(rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// For how long the machine has slept by now.
    pub(super) fn slept(&self, now: Timestamp) -> Duration {
        let sleeps = self.asleep_since.map(|since| now.saturating_since(since));
        self.slept + sleeps.unwrap_or_default()
    }

    /// It sleeps; or it stands still, and the clock since boot with it.
    pub(super) fn fall_asleep(&mut self, now: Timestamp, halts: bool) {
        self.read = None;
        self.asleep_since = Some(now);
        if halts {
            self.boot = self.boot(now);
            (self.since, self.halted) = (now, true);
        }
    }

    pub(super) fn wake_up(&mut self, now: Timestamp, is_put_right: bool) {
        self.read = None;
        let slept = self.asleep_since.take().map_or(Duration::ZERO, |at| now.saturating_since(at));
        self.slept += slept;
        if std::mem::take(&mut self.halted) {
            self.since = now;
            self.rightly_beyond += nanos(slept);
            if is_put_right {
                self.beyond += nanos(slept);
            }
        }
    }

    /// Steps the wall clock. Returns by how much it is off then.
    pub(super) fn step_wall(&mut self, _now: Timestamp, step: i128) -> i128 {
        self.read = None;
        self.beyond += step;
        self.beyond - self.rightly_beyond
    }

    /// The wall clock shows what a right one does, as when a time daemon has seen to it.
    pub(super) fn put_wall_right(&mut self, now: Timestamp) {
        self.stand_wall(now, false);
        self.beyond = self.rightly_beyond;
    }

    pub(super) fn stand_wall(&mut self, now: Timestamp, stands: bool) {
        self.read = None;
        if stands {
            self.stands = Some(self.wall(now));
        } else if let Some(shown) = self.stands.take() {
            // It goes on from where it stood.
            self.beyond = nanos(shown) - nanos(self.boot(now));
        }
    }
}

/// So much time by a clock of that rate.
pub(crate) fn scaled(time: Duration, per_mille: i64) -> Duration {
    if per_mille == 0 {
        return time;
    }
    // In whole numbers of 64 bits, which reach for half a year: it is read often.
    let rate = u64::try_from(1000 + per_mille).unwrap();
    Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap() * rate / 1000)
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap()
}

fn to_duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}
