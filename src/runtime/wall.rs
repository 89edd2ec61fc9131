//! Whether the wall clock has jumped ahead of the clock beside it between two readings.
//!
//! It decides by how much timestamps run ahead of the clock that they are read from. It is given its readings, reads
//! no clock, and must never take time back.

use std::time::Duration;

/// A wall clock that gets ahead of the monotonic clock by more than this has jumped, or the machine was
/// stopped in a way that no monotonic clock counts. Below it lies the noise of reading two clocks.
const JUMP: Duration = Duration::from_millis(100);

/// What the wall clock has shown.
pub(super) struct Wall {
    /// The last reading of the other clock.
    pub(super) boot: Duration,
    /// By how many nanoseconds the wall clock is known to lead it. A larger lead is not proved yet.
    beyond: i128,
    /// The sum of its jumps forward.
    pub(super) ahead: Duration,
}

impl Wall {
    pub(super) fn new(before: Duration, wall: Duration, after: Duration) -> Self {
        Self { boot: after, beyond: beyond(wall, before), ahead: Duration::ZERO }
    }

    /// Takes a reading of the wall clock, and those of the other clock before and after it. The thread may have been
    /// stopped between them for any time, so they prove only that the wall clock leads by `least` to `most`. Only what
    /// `least` proves is a jump; any rest shows at the next reading.
    pub(super) fn advance(&mut self, before: Duration, wall: Duration, after: Duration) {
        let (least, most) = (beyond(wall, after), beyond(wall, before));
        let jumped = least.saturating_sub(self.beyond).clamp(0, i128::from(u64::MAX));
        let jumped = Duration::from_nanos(u64::try_from(jumped).unwrap_or(u64::MAX));
        if jumped > JUMP {
            self.ahead = self.ahead.saturating_add(jumped);
        }
        // Moved no further than this reading proves: a clock that is set back is followed, and an unproved lead is left
        // to the next reading.
        self.beyond = self.beyond.min(most).max(least);
        self.boot = self.boot.max(after);
    }
}

/// By how many nanoseconds the wall clock leads the other.
fn beyond(wall: Duration, boot: Duration) -> i128 {
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    // Signed: a wall clock may lag behind the time since boot.
    nanos(wall).saturating_sub(nanos(boot))
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
}
