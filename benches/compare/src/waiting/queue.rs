//! A long line in one process: see `child/queue.rs`. Each turn has a process of its own, so that its memory is new.

use std::time::Duration;

use super::{
    orders::Order,
    rows::Row,
    stage::{PATIENCE, Stage},
    who::Who,
};

impl Stage {
    /// One turn.
    pub(super) fn queue(&self, who: Who, row: &mut Row) -> Result<(), String> {
        let mut workers = self.workers(who)?;
        let (resource, waiters) = (self.resource(who), self.case.layout(who).tasks);
        let limit = Duration::from_secs(if self.quick { 4 } else { 15 });
        let millis = u64::try_from(limit.as_millis()).unwrap_or_default();
        workers[0].order(&Order::Queue { waiters, resource, limit: millis })?;
        let report = workers[0].report(0, 1, limit + PATIENCE)?;
        for (name, value) in report.numbers {
            row.put(&name, Some(value));
        }
        match report.failures.first() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }
}
