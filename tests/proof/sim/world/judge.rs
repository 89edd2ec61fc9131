//! The healing phase: everybody is well again, and so everything must go on, and nothing may be left.

use std::{future::IntoFuture, time::Duration};

use quorlock::{AcquireError, CloseError, Redlock, runtime::Runtime};

use super::World;
use crate::{
    SECOND,
    invariants::{self, Violation, tidy},
    machine::BEGINNING,
    node::SimServer,
    setup::Setup,
};

/// Less the seconds for which somebody asks.
const DAY: Duration = Duration::from_secs(86_400 - 60);

impl World {
    pub(super) fn judge(&self, setup: Setup, redlocks: &[Redlock]) -> Result<(), Violation> {
        {
            let mut record = self.notes.record();
            record.violation.take().map_or(Ok(()), Err)?;
            invariants::check(&record.history, &record.writes, setup.excludes)?;
        }
        let runtime = &self.notes.runtime;
        // What was lost and dropped stands until then.
        if !setup.lock_delay.is_zero() {
            runtime.pass(setup.longest_ttl + setup.lock_delay);
        }
        let live = self.all_can_be_had(setup, &redlocks[0]);
        let is_asked = live.is_ok() || !(setup.counts_ahead && self.counts_days_ahead());
        if is_asked {
            live?;
        } else {
            self.notes.record().excused = true;
        }
        for (client, redlock) in redlocks.iter().enumerate() {
            let redlock = redlock.clone();
            let closed = runtime.block_on(async move { redlock.close().await });
            if let Err(CloseError::Unfinished { unfinished }) = closed {
                return Err(Violation::NotClosed { client, unfinished });
            }
        }
        if !is_asked {
            // Nobody has cut there what clocks that went back have prolonged.
            return Ok(());
        }
        if !setup.tidy {
            // What a clock that went back has prolonged was cut to the longest ttl by what asked for it above.
            runtime.pass((setup.longest_ttl + setup.lock_delay) * 2);
        }
        tidy::check(self.servers.iter().map(SimServer::keys))
    }

    /// Whether a node counts more than a day ahead of clocks that are right: nobody believes it then, and it is the
    /// operator's to see to (`docs/deploying.md`). It takes a clock of a node and one of a client that are both ahead.
    fn counts_days_ahead(&self) -> bool {
        let right = BEGINNING.saturating_add(self.notes.runtime.now().since_origin());
        let most = right.saturating_add(DAY).as_micros();
        self.servers.iter().any(|server| u128::from(server.high_water()) > most)
    }

    /// I9.
    fn all_can_be_had(&self, setup: Setup, redlock: &Redlock) -> Result<(), Violation> {
        let runtime = &self.notes.runtime;
        let wait = self.patience(setup);
        let not_live = |resource: &str, error: AcquireError| {
            let (resource, error) = (resource.to_owned(), error.to_string());
            Violation::NotLive { resource, error }
        };
        for resource in ["a", "b", "c"].into_iter().take(if setup.sets { 3 } else { 2 }) {
            let request = redlock.acquire(resource).wait(wait);
            let answer = runtime.block_on(request.into_future());
            drop(answer.map_err(|error| not_live(resource, error))?);
        }
        let mut held = Vec::new();
        if let Some(permits) = setup.permits {
            let semaphore = redlock.semaphore("s", permits).unwrap();
            for _ in 0..permits {
                let request = semaphore.acquire().wait(wait);
                let answer = runtime.block_on(request.into_future());
                held.push(answer.map_err(|error| not_live("s", error))?);
            }
        }
        drop(held);
        Ok(())
    }

    /// What was left behind is being released: nobody has to wait for a ttl where everybody cleans up, and for a
    /// quarantine only where a majority has lost its votes.
    fn patience(&self, setup: Setup) -> Duration {
        let quarantine = (setup.longest_ttl + setup.lock_delay).mul_f64(1.2);
        let mut wait = 2 * SECOND;
        if setup.reckless > 0.0 {
            wait += 4 * SECOND;
        }
        if !setup.tidy || setup.faults.stop_clients() {
            wait += 3 * quarantine + 10 * SECOND;
        }
        wait
    }
}
