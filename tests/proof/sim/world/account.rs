//! What a client has held, and up to when it could have had an effect; what is written down of it and counted.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use quorlock::{
    LeaseLost, LossReason,
    protocol::{Drift, Timestamp},
    runtime::Runtime,
};

use super::client::Worker;
use crate::{
    invariants::{Hold, told},
    machine::Stop,
    reached::*,
    setup::Flaw,
};

/// A lease that is held, as far as its holder knows.
pub(super) struct Holding {
    pub(super) resources: Vec<&'static str>,
    pub(super) owner: String,
    pub(super) token: Option<u64>,
    pub(super) reads: bool,
    pub(super) asked: Timestamp,
    pub(super) from: Timestamp,
    /// The last moment at which `check` said that it holds, and when it is over by what that said.
    pub(super) believed: Timestamp,
    pub(super) ends: Timestamp,
    /// What it has seen of the lease, from the grant on.
    pub(super) seen: Vec<told::Seen>,
    pub(super) is_downgraded: bool,
    /// Nobody else has it before.
    pub(super) kept_until: Option<Timestamp>,
}

/// What is held until it is written down. Where its process is killed, the drop writes it down: others may not have had
/// it meanwhile, though nobody is left who could tell.
pub(super) struct Open<'a> {
    worker: &'a Worker,
    holding: Holding,
    is_written: bool,
}

impl<'a> Open<'a> {
    pub(super) const fn new(worker: &'a Worker, holding: Holding) -> Self {
        Self { worker, holding, is_written: false }
    }

    /// It is over.
    pub(super) fn end(mut self, lost: Option<LeaseLost>, left: Option<Duration>) {
        self.is_written = true;
        self.worker.write_down(&self.holding, lost, left);
    }
}

impl Deref for Open<'_> {
    type Target = Holding;

    fn deref(&self) -> &Holding {
        &self.holding
    }
}

impl DerefMut for Open<'_> {
    fn deref_mut(&mut self) -> &mut Holding {
        &mut self.holding
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_written && self.worker.machine.has_ended() {
            let until = self.worker.until(&self.holding).max(self.holding.from);
            self.worker.record(&self.holding, until, None);
            self.worker.notes.record().killed += 1;
        }
    }
}

impl Worker {
    /// When a lease is over by what its holder has just seen.
    pub(super) fn end_of(&self, seen: told::Seen) -> Timestamp {
        let left = self.machine.lasts(seen.left.unwrap_or_default());
        self.runtime().now().saturating_add(left)
    }

    /// The last moment at which the holder could have had an effect.
    fn until(&self, holding: &Holding) -> Timestamp {
        let now = self.runtime().now();
        if self.setup.flaw == Flaw::IgnoresStops {
            return now;
        }
        match self.machine.stopped_since(holding.believed) {
            // A stopped holder may have been late to hear of the loss before, behind a jump: as below.
            Some(stop) if self.machine.has_jumped_since(holding.from) => {
                stop.from.min(holding.ends)
            }
            Some(stop) => stop.from,
            // The task that tells of losses sleeps for half a second at the most, and a jump of the clock meanwhile
            // does not wake it: a check is what counts. Behind the jump it is told in time.
            None if self.machine.has_jumped_since(holding.from) => now.min(holding.ends),
            None => now,
        }
    }

    /// Writes down what was held. With `left`, the ttl of a lease that was lost by its time and left, others are kept out
    /// for a while.
    pub(super) fn write_down(
        &self,
        holding: &Holding,
        lost: Option<LeaseLost>,
        left: Option<Duration>,
    ) {
        let reached = &self.notes.reached;
        let until = self.until(holding).max(holding.from);
        let is_gone = lost.as_ref().is_some_and(|lost| lost.reason == LossReason::Gone);
        let kept_out = holding.kept_until.filter(|_| !is_gone).max(left.map(|ttl| {
            let drift = Drift::default().of(ttl + self.setup.lock_delay);
            until.saturating_add(self.setup.lock_delay - drift)
        }));
        if let Some(lost) = &lost {
            self.count_loss(holding, lost);
        } else {
            let mut forgot: Vec<usize> = Vec::new();
            let record = self.notes.record();
            let under = |(at, _): &&(Timestamp, usize)| (holding.from..until).contains(at);
            forgot.extend(record.forgotten.iter().filter(under).map(|(_, server)| server));
            drop(record);
            forgot.sort_unstable();
            forgot.dedup();
            reached.hit_if(forgot.len() > self.servers.len() / 2, S9);
        }
        // Where the clock has jumped under way, so little may be left that the lease is lost as soon as it is won: that is
        // a little before its time is over.
        let is_stopped = self.machine.stopped_since(holding.asked).is_some()
            || self.machine.has_jumped_since(holding.asked);
        let is_new = !is_stopped && !holding.is_downgraded;
        self.notes.judge(told::check(&holding.owner, &holding.seen, is_new));
        let mut record = self.notes.record();
        record.lost += usize::from(lost.is_some());
        let is_early = holding.kept_until.is_some_and(|kept_until| until < kept_until);
        record.promises.held += usize::from(lost.is_none() && is_early);
        record.promises.delayed += usize::from(left.is_some());
        record.promises.downgraded += usize::from(holding.is_downgraded && until > holding.from);
        drop(record);
        self.record(holding, until, kept_out);
    }

    fn record(&self, holding: &Holding, until: Timestamp, kept_out: Option<Timestamp>) {
        let client = self.client;
        self.notes.record().history.extend(holding.resources.iter().map(|&resource| Hold {
            client,
            resource: resource.to_owned(),
            owner: holding.owner.clone(),
            reads: holding.reads,
            token: holding.token,
            asked: holding.asked,
            from: holding.from,
            until,
            kept_out,
        }));
    }

    fn count_loss(&self, holding: &Holding, lost: &LeaseLost) {
        let reached = &self.notes.reached;
        let is_by_time = matches!(lost.reason, LossReason::NotRenewed | LossReason::RenewalFailed);
        reached.hit_if(lost.reason == LossReason::RenewalFailed, S8);
        reached.hit_if(lost.reason == LossReason::NoHeartbeat, S8);
        let stop = self.machine.stopped_since(holding.from);
        match stop.map(|stop| stop.how) {
            Some(Stop::Paused) if is_by_time => reached.hit(S1),
            Some(_) if is_by_time => reached.hit(S4),
            _ => {}
        }
        let is_slower =
            self.servers.iter().any(|server| server.per_mille() > self.machine.per_mille());
        reached.hit_if(is_by_time && is_slower, S6);
    }
}
