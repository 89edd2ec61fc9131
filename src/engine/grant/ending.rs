//! How a grant ends other than by being lost: given back by its last holder, left to expire, or ended because the process
//! shuts down.
//!
//! Each grant ends once, and is then in no list any more. It must never release what work still goes on under: that
//! gives it back itself.

use std::{sync::Arc, time::Duration};

use super::{Grant, ReleaseAnswer};
use crate::{
    engine::{Engine, footprint::Released, held::Outcomes},
    error::ReleaseError,
    protocol::{self, End, EndedLease, FencingToken, Leases, LossReason, ReleaseOrder, Timestamp},
    shield::shielded,
    telemetry::{self, Caller, metrics},
};

/// For how long a resource is left at the least to those here who want something else that overlaps. It is as long as the
/// first in a line on the nodes is waited for.
const MOMENT: Duration = Duration::from_millis(3);

/// What is left to do for a grant that has ended.
pub(super) struct Ended {
    pub(super) released: Released,
    pub(super) orders: Vec<ReleaseOrder>,
    pub(super) token: Option<FencingToken>,
    pub(super) caller: Caller,
    pub(super) report: Option<Arc<Outcomes>>,
}

/// An end under way. Where the clock or a task of the user's runtime puts an end to that by a panic, the keys are left to
/// expire: nobody would ever give it back, nor let those in who wait here.
pub(super) struct Ending<'a> {
    pub(super) grant: &'a Arc<Grant>,
    pub(super) step: Step,
}

/// How far it has come.
pub(super) enum Step {
    /// The tenure with this number still is the current one.
    Offered(u64),
    /// It is over, and those who wait here have not been let in.
    Ended,
    Done,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self { grant, step } = self;
        let is_over = match *step {
            Step::Offered(number) => {
                grant.end_as(End::Over(number, LossReason::LeftToExpire)).is_some()
            }
            Step::Ended => true,
            Step::Done => false,
        };
        if is_over {
            // It may be a panic that drops it, and a second one would end the process.
            shielded(|| grant.make_room());
        }
    }
}

impl Grant {
    /// Starts the release, once, if there is anybody to carry it out.
    pub(super) fn release(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        number: u64,
    ) -> Result<ReleaseAnswer, ReleaseError> {
        // Asked before any lock is taken: in a forked process a thread that is not there may have it.
        if !engine.is_served() {
            return Err(ReleaseError::RuntimeEnded);
        }
        let mut ending = Ending { grant: self, step: Step::Offered(number) };
        if self.hand_on(engine, number) {
            ending.step = Step::Done;
            return Ok(ReleaseAnswer::HandedOn);
        }
        self.make_way(engine);
        // From before it is out of the list: a shutdown that waits for both finds one of them.
        let _counted = engine.count();
        ending.step = Step::Done;
        // Nobody but a shutdown releases what somebody else holds.
        let ended = self.end_as(End::GivenBack(number)).ok_or(ReleaseError::ShutDown)?;
        let Ended { released, orders, token, caller, report } = ended;
        ending.step = Step::Ended;
        let is_freed = released.keep(engine).is_none();
        let answer =
            engine.release((released, orders), Arc::clone(&self.resource), token, caller, report);
        if is_freed {
            engine.decide(|client| client.handle_permit_given_back(self.resource.queue()));
        }
        // Behind the release, which the next round follows on every connection. Before anybody is told, who may ask at
        // once.
        drop(ending);
        self.handle_changed();
        Ok(ReleaseAnswer::Asked(answer))
    }

    /// Whoever is next here for the same leaves it for a moment to those here who want something else that overlaps: a set
    /// needs all of its resources at one time, and on the nodes nobody of the same process is before another.
    fn make_way(&self, engine: &Engine) {
        if self.client().is_wanted_beside(self.resource.queue()) {
            let round_trips = engine.round_trip.round_trip().unwrap_or_default() * 2;
            let until = engine.now().saturating_add(MOMENT.max(round_trips));
            self.client().rest_until(self.resource.queue(), until);
        }
    }

    /// Ends it without a release: the keys that stand expire. A restore that is under way is undone all the same.
    pub(super) fn let_expire(&self, engine: &Arc<Engine>, number: u64) {
        if !engine.is_served() {
            return;
        }
        // Its end wakes a shutdown that waits until none is held.
        let _counted = engine.count();
        if self.end_as(End::Over(number, LossReason::LeftToExpire)).is_some() {
            self.make_room();
            self.handle_changed();
        }
    }

    /// Ends it without a release where it was lost under its holder's work and has a lock-delay: what that work has sent
    /// may still be on its way, and the keys keep others out meanwhile. False says that it is to be released.
    pub(super) fn leave_if_lost(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        if self.lock_delay().is_zero() || !engine.is_served() {
            return false;
        }
        let mut ending = Ending { grant: self, step: Step::Offered(number) };
        // By the clock: in a process that stood still nobody may have been told yet.
        let is_lost = self.check(Some(number)).is_err();
        let now = engine.now();
        ending.step = Step::Done;
        let leave = || self.client().change(self.id, |leases| leases.leave(number, now));
        let is_left = is_lost && leave().unwrap_or_default();
        if is_left {
            // Its end wakes a shutdown that waits until none is held.
            let _counted = engine.count();
            if let Some(Ended { token, caller, report, .. }) = self.end_as(End::Left(number)) {
                report.iter().for_each(|report| report.note_left());
                metrics::released("left");
                telemetry::left(self.held(&caller, token), self.lock_delay());
                self.make_room();
                self.handle_changed();
            }
        }
        is_left
    }

    /// Ends it because the process is shutting down. Where work goes on under it, that is told, and releases it when it
    /// has come to its end: others must not be let in before.
    pub(in crate::engine) fn shut_down(self: &Arc<Self>, engine: &Arc<Engine>) {
        // What is nobody's is given back, and is no lease that ends.
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
            self.schedule(engine);
            self.handle_changed();
        } else if !self.leave_if_lost(engine, number) {
            drop(self.release(engine, number));
        }
    }

    /// Whether it has been given back, so that others may have its keys.
    pub(in crate::engine) fn is_given_back(&self) -> bool {
        self.ask(true, Leases::has_ended)
    }

    /// It is over and handed to nobody: whoever is first in line may ask the nodes. No lock may be held.
    pub(super) fn make_room(&self) {
        let Some(engine) = self.engine.upgrade() else { return };
        engine.decide(|client| client.handle_grant_over(self.id));
    }

    /// Takes it out of all lists, once. What is returned says what is to be released.
    pub(super) fn end_as(&self, end: End) -> Option<Ended> {
        let (was_held, hurries, kept, ended) = {
            let mut client = self.client();
            let protocol::Ended { lease, orders } = client.end(self.id, end)?;
            let EndedLease { token, hold, was_held } = lease;
            let released = self.released(client.leases(self.id)?.key_life(), hold);
            let of_it = client.data_mut(self.id)?;
            let (caller, report) = (of_it.caller.clone(), of_it.report.clone());
            let (hurries, kept) = (of_it.hurries.take(), of_it.kept.take());
            (was_held, hurries, kept, Ended { released, orders, token, caller, report })
        };
        // One that was lost was counted when that was told.
        if was_held {
            metrics::lease_given_back();
        }
        drop((hurries, kept));
        Some(ended)
    }

    /// What is to be released of what was set too late. Where the keys are left for the lock-delay, so is that.
    pub(in crate::engine) fn to_release(&self, engine: &Engine) -> Released {
        // Read before the lock is taken: it is code of the user's, which may panic.
        let (now, steady) = (engine.now(), engine.steady());
        let gone = (Duration::ZERO, None);
        let hold = |leases: &Leases| (leases.key_life(), leases.hold_of_late(now, steady));
        let (key_life, hold) = self.ask(gone, hold);
        self.released(key_life, hold)
    }

    fn released(&self, key_life: Duration, hold: Option<Timestamp>) -> Released {
        Released {
            target: self.target().clone(),
            owner: self.owner,
            key_life,
            footprint: Arc::clone(&self.footprint),
            hold,
        }
    }
}
