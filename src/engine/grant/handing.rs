//! A grant handed on: the next tenure begins where the one before ends, on the thread that releases.
//!
//! It carries out what `protocol::Leases` and `protocol::Queue` decide: who is next, whether the grant will do for it, and
//! under which token. No command is sent, no timer is moved but where the next one asks for another ttl or renewal, and
//! nothing is waited for.
//!
//! **Who may think that it holds, when.** The tenure changes in one step, under the lock of the grant: before it, only
//! the number of the holder who releases is the current one, and after it only that of the next. A check, a signal or a
//! heartbeat of the one before finds its number past, whatever it had read. So no two holders are told at once that the
//! lease is theirs, and an effect of the holder before that still comes is refused by its older token.

use std::{mem, sync::Arc, time::Duration};

use super::{Grant, HeldTenure, State, Tenure};
use crate::{
    engine::{Engine, Waiter},
    protocol::{Begun, GivenBack, Situation, Timestamp, turn_of},
    telemetry::{self, Caller, Held, metrics},
};

/// What has come of an offer to those in line.
enum Offered {
    /// It is the current tenure of this one.
    To(Box<Waiter>, Begun),
    /// Nobody is in line, and it is kept.
    Kept,
    /// It goes back to the nodes.
    ToNobody(Option<Moment>),
}

/// For how long at most whoever is next here leaves the resource to others, and half as long at least.
struct Moment(Duration);

impl Grant {
    /// Hands it on to the first in line, if there is one and it will do for that one, or keeps it where that was asked for.
    /// Then the tenure with this number is over, and nothing is to be released.
    pub(super) fn hand_on(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        let Some(station) = self.station.filter(|_| !self.is_lowered()) else { return false };
        if engine.kept_back(&self.resource).is_some() {
            return false;
        }
        let lingers = self.state().leases.lingers();
        if !lingers && self.resource.line().is_deserted(station) {
            return false;
        }
        // Read before any lock is taken: it is code of the user's, which may panic.
        let (now, steady) = (engine.now(), engine.steady());
        let mut late = Vec::new();
        let (offered, caller, token) = {
            let mut guard = self.state();
            let state = &mut *guard;
            if !state.leases.may_go_on(number) {
                return false;
            }
            let before = state.leases.token();
            let mut line = self.resource.line();
            let offered = loop {
                // Under the lock of the line: who comes for something else that overlaps is seen here, or finds it kept.
                let situation = self.situation(engine, state, now, steady);
                let Some(wanted) = line.wanted_next(station, steady, now) else {
                    let is_kept = self.linger(engine, state, &mut line, situation);
                    break if is_kept { Offered::Kept } else { Offered::ToNobody(None) };
                };
                // Its time is up, or its caller is about to leave the line.
                let Ok(next) = wanted else {
                    late.extend(line.hand_on(station));
                    continue;
                };
                let Ok(begun) = state.leases.hand_on(&next, situation) else {
                    let (leases, Situation { others, turn, .. }) =
                        (state.leases.count(), situation);
                    let given_back = GivenBack { leases, others, turn, now };
                    break Offered::ToNobody(line.handle_given_back(given_back).map(Moment));
                };
                let Some(waiter) = line.hand_on(station) else { break Offered::ToNobody(None) };
                break Offered::To(waiter, begun);
            };
            drop(line);
            // Whose it was before.
            let caller = match &offered {
                Offered::To(waiter, _) => {
                    mem::replace(&mut state.caller, waiter.asked().caller.clone())
                }
                Offered::Kept => mem::take(&mut state.caller),
                Offered::ToNobody(_) => Caller::default(),
            };
            // Its timer is of another time, or may come along at another.
            if let Offered::To(_, Begun { moved: true, .. }) = &offered
                && let Some(old) = state.scheduled.take()
            {
                engine.cancel(old);
            }
            (offered, caller, before)
        };
        let handed_on = match offered {
            Offered::To(waiter, begun) => {
                if begun.moved {
                    self.schedule(engine);
                }
                self.begin_tenure(engine, waiter, begun, self.held(&caller, token), now);
                true
            }
            Offered::Kept => {
                metrics::released("kept");
                metrics::lease_given_back();
                telemetry::kept(self.held(&caller, token));
                self.changed.notify_waiters();
                self.schedule_its_end(engine);
                true
            }
            Offered::ToNobody(moment) => {
                if let Some(moment) = moment {
                    self.let_others_in(engine, moment, now);
                }
                false
            }
        };
        for waiter in late {
            engine.turn_away_late_waiter(waiter, self);
        }
        handed_on
    }

    /// What decides whether it goes from one lease to the next. It reads no clock.
    pub(super) fn situation(
        &self,
        engine: &Engine,
        state: &State,
        now: Timestamp,
        steady: Timestamp,
    ) -> Situation {
        let (others, turn) =
            (self.resource.others_wait(now), turn_of(engine.unloaded.round_trip()));
        state.leases.situation(Situation { others, turn, now, steady })
    }

    /// Whoever is next here leaves the resource to others for a moment before it asks.
    fn let_others_in(&self, engine: &Engine, Moment(most): Moment, now: Timestamp) {
        let random = u32::from(engine.random_byte());
        let moment = (most / 2).saturating_add((most / 2).saturating_mul(random) / 255);
        self.resource.line().rest_until(now.saturating_add(moment));
    }

    /// Tells of a tenure that has begun, and of the one before. No lock may be held.
    fn begin_tenure(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        waiter: Box<Waiter>,
        Begun { number, token, .. }: Begun,
        before: Held<'_>,
        now: Timestamp,
    ) {
        metrics::released("handed_on");
        telemetry::handed_on(before);
        // Those who look at the tenure before learn that it is over.
        self.changed.notify_waiters();
        // It is no shorter than before: others are not handed it.
        let tenure = Tenure::new(Arc::clone(self), number, token, waiter.asked().ttl);
        engine.answer(waiter, |request, _| {
            let held = self.held(&request.asked.caller, token);
            let waited = now.saturating_since(request.acquisition.started());
            telemetry::acquired(held, request.acquisition.lost_rounds(), waited);
            // Where its caller has gone meanwhile, the tenure is dropped here, which hands it on again.
            request.grant(HeldTenure::new(tenure, Arc::clone(engine)));
        });
    }
}
