//! A grant handed on: the next tenure begins where the one before ends, on the thread that releases.
//!
//! It carries out what `protocol::Client` decides: who is next, whether the grant will do for it, and under which token. Before
//! that it asks whether somebody here waits for several resources, this one among them, and has waited for long: then it is
//! released (`protocol::keeps_back`, H6). No command is sent, no timer is moved but where the next one asks for another ttl or renewal, and nothing is waited for.
//!
//! **Who may think that it holds, when.** The tenure changes in one step, under the lock of the client: before it, only
//! the number of the holder who releases is the current one, and after it only that of the next. A check, a signal or a
//! heartbeat of the one before finds its number past, whatever it had read. So no two holders are told at once that the
//! lease is theirs, and an effect of the holder before that still comes is refused by its older token.

use std::{mem, sync::Arc, time::Duration};

use super::{Grant, HeldTenure, Tenure};
use crate::{
    engine::{Engine, Request},
    protocol::{Begun, HandOn, Passed, Situation, Timestamp, Wakeup, turn_of},
    telemetry::{self, Caller, Held, metrics},
};

impl Grant {
    /// Hands it on to the first in line, if there is one and it will do for that one, or keeps it where that was asked for.
    /// Then the tenure with this number is over, and nothing is to be released.
    pub(super) fn hand_on(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        let may_pass = self.client().may_pass(self.id);
        if !may_pass || engine.kept_back(&self.resource).is_some() {
            return false;
        }
        // Read before the lock is taken: it is code of the user's, which may panic.
        let (now, steady) = (engine.now(), engine.steady());
        let (passed, before, late, caller) = {
            let mut client = self.client();
            let given_back = HandOn {
                // Under the lock: who comes for something else that overlaps is seen here, or finds it kept.
                situation: self.situation(engine, now, steady),
                heard_until: self.resource.on_nodes().hears_until(),
                closed: engine.is_closed(),
            };
            let Some((passed, before, late)) = client.hand_on(self.id, number, given_back) else {
                return false;
            };
            // Whose it was before.
            let caller = client.data_mut(self.id).map(|kept| match &passed {
                Passed::To(request, ..) => {
                    mem::replace(&mut kept.caller, request.asked.caller.clone())
                }
                Passed::Kept(_) => {
                    kept.kept = Some(Arc::clone(self));
                    mem::take(&mut kept.caller)
                }
                Passed::ToNobody(_) => Caller::default(),
            });
            (passed, before, late, caller.unwrap_or_default())
        };
        let handed_on = match passed {
            Passed::To(request, begun, wakeup) => {
                let before = self.held(&caller, before);
                self.begin_tenure(engine, request, (begun, wakeup), before, now);
                true
            }
            Passed::Kept(wakeup) => {
                metrics::released("kept");
                metrics::lease_given_back();
                telemetry::kept(self.held(&caller, before));
                self.changed.notify_waiters();
                engine.wake(wakeup);
                true
            }
            Passed::ToNobody(moment) => {
                if let Some(moment) = moment {
                    self.let_others_in(engine, moment, now);
                }
                false
            }
        };
        for request in late {
            engine.refuse_late(request, self);
        }
        handed_on
    }

    /// What decides whether it goes from one lease to the next. It reads no clock.
    pub(super) fn situation(
        &self,
        engine: &Engine,
        now: Timestamp,
        steady: Timestamp,
    ) -> Situation {
        let turn = turn_of(engine.unloaded.round_trip());
        Situation { others: self.resource.others_wait(now), turn, now, steady }
    }

    /// Whoever is next here leaves the resource to others for a moment before it asks.
    fn let_others_in(&self, engine: &Engine, most: Duration, now: Timestamp) {
        let random = u32::from(engine.random_byte());
        let moment = (most / 2).saturating_add((most / 2).saturating_mul(random) / 255);
        self.client().rest_until(self.resource.queue(), now.saturating_add(moment));
    }

    /// Tells of a tenure that has begun, and of the one before. No lock may be held.
    fn begin_tenure(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        request: Request,
        (Begun { number, token, .. }, wakeup): (Begun, Wakeup),
        before: Held<'_>,
        now: Timestamp,
    ) {
        // In its hands before the runtime is asked, which may panic: dropping it gives it back. It is no shorter than before:
        // others are not handed it.
        let tenure = Tenure::new(Arc::clone(self), number, token, request.asked.ttl);
        let tenure = HeldTenure::new(tenure, Arc::clone(engine));
        engine.wake(wakeup);
        metrics::released("handed_on");
        telemetry::handed_on(before);
        // Those who look at the tenure before learn that it is over.
        self.changed.notify_waiters();
        let held = self.held(&request.asked.caller, token);
        let waited = now.saturating_since(request.acquisition.started());
        telemetry::acquired(held, request.acquisition.lost_rounds(), waited);
        // Where its caller has gone meanwhile, the tenure is dropped here, which hands it on again.
        request.grant(tenure);
    }
}
