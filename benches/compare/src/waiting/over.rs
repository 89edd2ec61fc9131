//! Hand-over: one holds, the other waits; the holder releases, and the other holds. From the call of `release` to the
//! lease of the other.

use std::time::{Duration, Instant};

use super::{
    figures::Spread,
    own::micros,
    rows::Row,
    stage::{PATIENCE, Stage},
    who::Who,
};

/// Not counted: the first ones find connections and caches cold.
const UNMEASURED: usize = 3;

impl Stage {
    /// One turn. Its samples go to the spread.
    pub(super) fn over(&self, who: Who, row: &mut Row, spread: &mut Spread) -> Result<(), String> {
        let mut workers = self.workers(who)?;
        let resource = self.resource(who);
        let (long, most) = if self.quick { (4000, 200) } else { (10_000, 500) };
        let until = Instant::now() + Duration::from_millis(long);
        // Slot 0 is in the first process, slot 1 in the last.
        let process = |slot: usize| slot * (self.case.layout(who).processes - 1);
        if who == Who::Floor {
            return self.alone(row, until);
        }
        let mut holder = 0;
        workers[process(holder)].take(holder, &resource)?;
        workers[process(holder)].got(holder, PATIENCE)?;
        for round in 0..most + UNMEASURED {
            let other = 1 - holder;
            workers[process(other)].take(other, &resource)?;
            // From 10 to 50 ms, so that no contender's pauses go in step with the releases.
            std::thread::sleep(Duration::from_micros(10_000 + (round as u64 * 7919) % 40_000));
            let (called, _) = workers[process(holder)].give(holder, PATIENCE)?;
            let (_, got) = workers[process(other)].got(other, PATIENCE)?;
            if round >= UNMEASURED {
                spread.push(micros(got.saturating_sub(called)));
            }
            holder = other;
            // The slow ones get as many as fit, and ten at least.
            if Instant::now() >= until && round >= UNMEASURED + 10 {
                break;
            }
        }
        workers[process(holder)].give(holder, PATIENCE)?;
        Ok(())
    }

    /// What an acquire costs without contention.
    fn alone(&self, row: &mut Row, until: Instant) -> Result<(), String> {
        let mut workers = self.workers(row.who)?;
        let mut spread = Spread::default();
        while Instant::now() < until {
            let resource = self.resource(row.who);
            workers[0].take(0, &resource)?;
            let (asked, got) = workers[0].got(0, PATIENCE)?;
            spread.push(micros(got - asked));
            workers[0].give(0, PATIENCE)?;
            std::thread::sleep(Duration::from_millis(3));
        }
        row.put("acquire_p50", spread.at(50.0));
        row.put("acquire_p99", spread.at(99.0));
        Ok(())
    }
}
