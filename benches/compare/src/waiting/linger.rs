//! One process that uses one resource over and over, and another that asks for it.

use std::time::{Duration, Instant};

use super::{
    figures::Spread,
    orders::Order,
    own::micros,
    rows::Row,
    stage::{PATIENCE, Stage, window},
    who::Who,
};

impl Stage {
    /// One turn: pairs by one process alone; then two that ask by turns, each time after the other has released; then
    /// one that asks now and then while the other goes on and on.
    pub(super) fn linger(&self, who: Who, row: &mut Row) -> Result<(), String> {
        let mut workers = self.workers(who)?;
        let long = Duration::from_millis(if self.quick { 1200 } else { 3000 });
        let (from, until) = window(Duration::from_millis(200), long);
        let resource = self.resource(who);
        workers[0].order(&Order::Pairs { resource, from, until })?;
        let (before, after) = self.calls(from, until);
        let report = workers[0].report(0, 1, PATIENCE)?;
        if let Some(failure) = report.failures.first() {
            return Err(failure.clone());
        }
        for (name, value) in report.numbers {
            row.put(&name, Some(value));
        }
        let pairs = row.numbers.get("pairs").copied().filter(|pairs| *pairs > 0.0);
        if who == Who::Local {
            return Ok(());
        }
        let sent = self.per_node(after.sent(&before, who).iter().sum());
        row.put("commands", pairs.map(|pairs| sent / pairs));
        // The fan-out has one process, and cannot wait for another.
        let last = workers.len() - 1;
        let mut idle = self.idle(who, &mut workers, last, long)?;
        row.put("other_p50", idle.at(50.0));
        row.put("other_p99", idle.at(99.0));
        if who != Who::Floor {
            let mut busy = self.busy(who, &mut workers, long)?;
            row.put("busy_p50", busy.at(50.0));
            row.put("busy_p99", busy.at(99.0));
        }
        Ok(())
    }

    /// They ask by turns.
    fn idle(
        &self,
        who: Who,
        workers: &mut [super::process::Worker],
        last: usize,
        long: Duration,
    ) -> Result<Spread, String> {
        let (resource, mut spread) = (self.resource(who), Spread::default());
        let end = Instant::now() + long;
        let mut round = 0;
        while Instant::now() < end {
            let asks = if round % 2 == 0 { 0 } else { last };
            workers[asks].take(0, &resource)?;
            let (asked, got) = workers[asks].got(0, PATIENCE)?;
            if round > 1 {
                spread.push(micros(got - asked));
            }
            workers[asks].give(0, PATIENCE)?;
            std::thread::sleep(Duration::from_micros(3000 + (round * 7919) % 5000));
            round += 1;
        }
        Ok(spread)
    }

    /// The first goes on and on.
    fn busy(
        &self,
        who: Who,
        workers: &mut [super::process::Worker],
        long: Duration,
    ) -> Result<Spread, String> {
        let (resource, mut spread) = (self.resource(who), Spread::default());
        let (from, until) = window(Duration::ZERO, long);
        workers[0].order(&Order::Pairs { resource: resource.clone(), from, until })?;
        let end = Instant::now() + long.saturating_sub(Duration::from_millis(100));
        while Instant::now() < end {
            workers[1].take(0, &resource)?;
            let (asked, got) = workers[1].got(0, PATIENCE)?;
            spread.push(micros(got - asked));
            workers[1].give(0, PATIENCE)?;
            std::thread::sleep(Duration::from_millis(10));
        }
        workers[0].report(0, 1, PATIENCE)?;
        Ok(spread)
    }
}
