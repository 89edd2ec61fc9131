//! How a grant ends other than by a loss: given back by its last holder, left to expire, or ended by a shutdown.
//!
//! Each grant ends once, and is then in no list any more. It must never release a grant under which work still goes on:
//! that work gives it back itself.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{Grant, ReleaseAnswer};
use crate::{
    engine::{Engine, client::Kept, release::Releasing},
    error::ReleaseError,
    protocol::{End, EndedLease, Leases, LossReason, Moment, Timestamp},
    shield::shielded,
    telemetry::{self, metrics},
};

/// An end under way. If the user's clock panics in it, the keys are left to expire: otherwise nothing would ever give
/// it back, nor let the waiters here in.
struct Ending<'a> {
    engine: &'a Arc<Engine>,
    grant: &'a Grant,
    number: Option<u64>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self { engine, grant, number } = self;
        if let Some(number) = number.take() {
            // A panic may be dropping this, and a second one would end the process.
            shielded(|| {
                let end = End::Over(number, LossReason::LeftToExpire);
                let now = engine.now_to_count();
                let ended = grant.end(now, |client| client.leave_to_expire(grant.id, end));
                if ended.is_some() {
                    engine.carry_out();
                }
            });
        }
    }
}

impl Grant {
    /// Starts the release, once, if the engine is served.
    pub(super) fn release(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        number: u64,
    ) -> Result<ReleaseAnswer, ReleaseError> {
        // Checked before any lock is taken: in a forked child a thread that does not exist may hold one.
        if !engine.is_served() {
            return Err(ReleaseError::RuntimeEnded);
        }
        let mut ending = Ending { engine, grant: self, number: Some(number) };
        if self.hand_on(engine, number) {
            ending.number = None;
            return Ok(ReleaseAnswer::HandedOn);
        }
        let answer = self.give_back_as(engine, End::GivenBack(number));
        ending.number = None;
        // Only a shutdown releases another holder's lease.
        let answer = answer.ok_or(ReleaseError::ShutDown)?;
        self.handle_changed();
        Ok(ReleaseAnswer::Asked(answer))
    }

    /// Ends it, and has it released; `None` if it has ended.
    pub(super) fn give_back_as(
        &self,
        engine: &Arc<Engine>,
        end: End,
    ) -> Option<oneshot::Receiver<Result<(), ReleaseError>>> {
        let (answer, receiver) = oneshot::channel();
        // Counted before it is out of the list: a shutdown that waits for both finds one of them. If nothing is
        // released, both stay out here, to be dropped outside the lock: that may wake a waiter.
        let (mut answer, mut counted) = (Some(answer), Some(engine.count()));
        // Read before locking: the clock is user code and may panic.
        let at = engine.moment();
        let releasing = |kept: &mut Kept, ended: &EndedLease| Releasing {
            token: ended.token,
            caller: kept.caller.clone(),
            answer: answer.take(),
            report: kept.report.clone(),
            counted: counted.take(),
        };
        self.end(Some(at.now), |client| client.give_back(self.id, end, releasing, &at))?;
        engine.carry_out();
        Some(receiver)
    }

    /// Ends it, once: it is in no list any more.
    fn end(
        &self,
        now: Option<Timestamp>,
        end: impl FnOnce(&mut super::Client) -> Option<EndedLease>,
    ) -> Option<EndedLease> {
        let (ended, counts, hurries, kept) = {
            let mut client = self.client();
            let counts = client.data(self.id).map(|kept| kept.caller.counts).unwrap_or_default();
            let ended = end(&mut client)?;
            let of_it = client.data_mut(self.id);
            let (hurries, kept) =
                of_it.map(|of_it| (of_it.hurries.take(), of_it.kept.take())).unwrap_or_default();
            (ended, counts, hurries, kept)
        };
        // A lost lease was counted when its loss was told.
        if ended.was_held {
            metrics::lease_given_back(counts, now);
        }
        drop((hurries, kept));
        Some(ended)
    }

    /// Ends it without a release: its keys expire. A restore that is under way is undone all the same. Returns whether this
    /// has ended it, and it was not lost before.
    pub(super) fn let_expire(&self, engine: &Arc<Engine>, number: u64) -> bool {
        if !engine.is_served() {
            return false;
        }
        // Dropping this wakes a shutdown that waits until none is held.
        let _counted = engine.count();
        let end = End::Over(number, LossReason::LeftToExpire);
        let now = engine.now_to_count();
        let ended = self.end(now, |client| client.leave_to_expire(self.id, end));
        if ended.is_some() {
            engine.carry_out();
            self.handle_changed();
        }
        ended.is_some_and(|ended| ended.was_held)
    }

    /// Its extensions ask for this ttl from now on, and none is made by itself: its holder is about to leave it to whoever
    /// adopts it.
    pub(crate) fn lie_for(&self, engine: &Arc<Engine>, ttl: Duration) {
        let now = engine.now();
        let wakeup = {
            let mut client = self.client();
            let is_changed = client.change(self.id, |leases| leases.lie_for(ttl, now));
            is_changed.filter(|is_changed| *is_changed).map(|_| client.schedule(self.id))
        };
        wakeup.into_iter().for_each(|wakeup| engine.wake(wakeup));
    }

    /// Ends it without a release if it was lost under its holder's work and has a lock-delay: effects of that work may
    /// still be on their way, and the keys keep others out meanwhile. `false`: it is to be released.
    pub(super) fn leave_if_lost(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        if self.lock_delay().is_zero() || !engine.is_served() {
            return false;
        }
        let mut ending = Ending { engine, grant: self, number: Some(number) };
        // Reads the clock: in a process that stood still the loss may not have been told yet.
        let is_lost = self.check(Some(number)).is_err();
        let now = engine.now();
        ending.number = None;
        let leave = || self.client().change(self.id, |leases| leases.leave(number, now));
        let is_left = is_lost && leave().unwrap_or_default();
        if is_left {
            // Dropping this wakes a shutdown that waits until none is held.
            let _counted = engine.count();
            let end = End::Left(number);
            if let Some(EndedLease { token, .. }) =
                self.end(Some(now), |client| client.leave_to_expire(self.id, end))
            {
                let (caller, report) = {
                    let client = self.client();
                    let kept = client.data(self.id);
                    kept.map(|kept| (kept.caller.clone(), kept.report.clone())).unwrap_or_default()
                };
                report.iter().for_each(|report| report.note_left());
                metrics::released("left", caller.counts);
                telemetry::left(self.held(&caller, token), self.lock_delay());
                engine.carry_out();
                self.handle_changed();
            }
        }
        is_left
    }

    /// Ends it because the process is shutting down. Work that goes on under it is told, and releases it at its end:
    /// others must not be let in before.
    pub(in crate::engine) fn shut_down(self: &Arc<Self>, engine: &Arc<Engine>) {
        // A lingering grant is given back, and is no lease that ends.
        self.give_back(engine);
        let (number, has_work) = {
            let mut client = self.client();
            let shut_down = client.change(self.id, |leases| (leases.shut_down(), leases.number()));
            let Some((Some(has_work), number)) = shut_down else { return };
            if let Some(kept) = client.data_mut(self.id) {
                kept.report = Some(engine.outcomes.end_one());
            }
            (number, has_work)
        };
        if has_work {
            engine.decide(|client| client.handle_taken(self.id, false, &Moment::default()));
            self.handle_changed();
        } else if !self.leave_if_lost(engine, number) {
            drop(self.release(engine, number));
        }
    }

    /// Whether it has been given back, so that others may have its keys.
    pub(in crate::engine) fn is_given_back(&self) -> bool {
        self.ask(true, Leases::has_ended)
    }
}
