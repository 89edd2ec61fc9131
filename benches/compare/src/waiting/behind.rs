//! Waiters behind a lease that stays: what their waiting costs the servers.
//!
//! One process holds, and renews where its library does; another waits. The holder alone is counted too, over the same
//! time of its lease, so that its renewals are not the waiters'.

use std::time::Duration;

use super::{
    rows::Row,
    stage::{PATIENCE, Stage, window},
    who::Who,
};

/// How many waiters there are in the second process, and the names of the mean and of the worst node.
const LAYOUTS: [(usize, [&str; 2]); 2] =
    [(1, ["commands_1", "commands_1_worst"]), (10, ["commands_10", "commands_10_worst"])];

impl Stage {
    /// One turn.
    pub(super) fn behind(&self, who: Who, row: &mut Row) -> Result<(), String> {
        // The leases of some are not renewed, and end after ten seconds.
        let renewed = matches!(who, Who::Quorlock | Who::Classic);
        let alone =
            if renewed { self.with_waiters(who, 0)? } else { vec![0.0; self.cluster.len()] };
        row.put("commands_holder", Some(self.per_node(alone.iter().sum())));
        for (waiters, [mean, worst]) in LAYOUTS {
            let both = self.with_waiters(who, waiters)?;
            let rates: Vec<_> = both.iter().zip(&alone).map(|(both, alone)| both - alone).collect();
            row.put(mean, Some(self.per_node(rates.iter().sum())));
            row.put(worst, rates.into_iter().reduce(f64::max));
        }
        Ok(())
    }

    /// Commands per second, node by node.
    fn with_waiters(&self, who: Who, waiters: usize) -> Result<Vec<f64>, String> {
        let long = Duration::from_millis(if self.quick { 5000 } else { 8000 });
        let mut workers = self.workers(who)?;
        let resource = self.resource(who);
        workers[0].take(0, &resource)?;
        workers[0].got(0, PATIENCE)?;
        for slot in 0..waiters {
            workers[1].take(slot, &resource)?;
        }
        let (from, until) = window(Duration::from_millis(500), long);
        let (before, after) = self.calls(from, until);
        workers[0].give(0, PATIENCE)?;
        // In any order: each that gets it hands it on.
        for _ in 0..waiters {
            let slot = workers[1].any_got(PATIENCE)?;
            workers[1].give(slot, PATIENCE)?;
        }
        Ok(after.sent(&before, who).iter().map(|sent| sent / long.as_secs_f64()).collect())
    }
}
