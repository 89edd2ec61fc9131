//! Waiters behind a lease that stays: what their waiting costs the servers.
//!
//! One process holds, and renews where its library does; another waits. First the holder alone is counted, and then both.

use std::time::Duration;

use super::{
    rows::Row,
    stage::{PATIENCE, Stage, window},
    who::Who,
};

/// How many waiters there are in the second process.
const LAYOUTS: [(usize, &str); 2] = [(1, "commands_1"), (10, "commands_10")];

impl Stage {
    /// One turn.
    pub(super) fn behind(&self, who: Who, row: &mut Row) -> Result<(), String> {
        let (long, warming) = (if self.quick { 2500 } else { 6000 }, Duration::from_millis(500));
        let long = Duration::from_millis(long);
        let rate = |(from, until): (u64, u64)| {
            let (before, after) = self.calls(from, until);
            self.per_node(after.sent(&before, who)) / long.as_secs_f64()
        };
        for (waiters, name) in LAYOUTS {
            let mut workers = self.workers(who)?;
            let resource = self.resource(who);
            workers[0].take(0, &resource)?;
            workers[0].got(0, PATIENCE)?;
            let alone = rate(window(warming, long));
            for slot in 0..waiters {
                workers[1].take(slot, &resource)?;
            }
            let both = rate(window(warming, long));
            row.put(name, Some(both - alone));
            row.put("commands_holder", Some(alone));
            workers[0].give(0, PATIENCE)?;
            // In any order: whoever has it gives it on.
            for _ in 0..waiters {
                let slot = workers[1].any_got(PATIENCE)?;
                workers[1].give(slot, PATIENCE)?;
            }
        }
        Ok(())
    }
}
