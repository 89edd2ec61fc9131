//! A grant handed on: the next tenure begins where the one before ends, on the thread that releases.
//!
//! It carries out what `protocol::Row` and `protocol::Queue` decide: who is next, whether the grant will do for it, and
//! under which token. No command is sent, no timer is moved but where the next one asks for another ttl or renewal, and
//! nothing is waited for.
//!
//! **Who may think that it holds, when.** The tenure changes in one step, under the lock of the grant: before it, only
//! the number of the holder who releases is the current one, and after it only that of the next. A check, a signal or a
//! heartbeat of the one before finds its number past, whatever it had read. So no two holders are told at once that the
//! lease is theirs, and an effect of the holder before that still comes is refused by its older token.

use std::{mem, sync::Arc, time::Duration};

use super::{Grant, HeldTenure, Tenure, tenure::Current};
use crate::{
    engine::{Engine, Waiter},
    protocol::{FencingToken, GivenBack, Offer, Timestamp},
    telemetry::{self, Held, metrics},
};

/// What has come of an offer to those in line.
enum Offered {
    /// It is the current tenure of this one, with this number and token; and whose it was before.
    To(Next, Current),
    /// Nobody is in line, and it is kept; and whose it was before.
    Kept(Current),
    /// It goes back to the nodes.
    ToNobody(Option<Moment>),
}

/// For how long at most whoever is next here leaves the resource to others, and half as long at least.
struct Moment(Duration);

/// Who has the grant from now on.
struct Next {
    waiter: Box<Waiter>,
    number: u64,
    token: Option<FencingToken>,
}

impl Grant {
    /// Hands it on to the first in line, if there is one and it will do for that one, or keeps it where that was asked for.
    /// Then the tenure with this number is over, and nothing is to be released.
    pub(super) fn hand_on(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        let Some(station) = self.station.filter(|_| !self.is_lowered()) else { return false };
        if engine.kept_back(&self.resource).is_some() {
            return false;
        }
        let lingers = !self.state().current.linger.is_zero();
        if !lingers && self.resource.line().is_deserted(station) {
            return false;
        }
        // Read before any lock is taken: it is code of the user's, which may panic.
        let (now, steady) = (engine.now(), engine.steady());
        let mut late = Vec::new();
        let (offered, changed) = {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.is_past(Some(number)) || state.released || state.current.report.is_some() {
                return false;
            }
            let mut line = self.resource.line();
            let offered = loop {
                let Some(wanted) = line.wanted_next(station, now) else {
                    let is_free = state.current.hold.is_none_or(|until| until <= steady);
                    let kept =
                        is_free.then(|| self.linger(engine, state, &mut line, now)).flatten();
                    break kept.map_or(Offered::ToNobody(None), Offered::Kept);
                };
                // Its time is up, or its caller is about to leave the line.
                let Ok(wanted) = wanted else {
                    late.extend(line.hand_on(station));
                    continue;
                };
                let others = self.resource.others_wait();
                let turn = self.turn(engine, state, others);
                let offer = Offer {
                    lifecycle: &state.lifecycle,
                    lock_delay: self.lock_delay,
                    alone: self.alone,
                    is_kept: state.current.hold.is_some_and(|until| until > steady),
                    others,
                    turn,
                    now,
                };
                let Ok(token) = state.row.next(&offer, wanted) else {
                    let leases = state.row.leases();
                    let given_back = GivenBack { leases, others, turn, now };
                    break Offered::ToNobody(line.handle_given_back(given_back).map(Moment));
                };
                let Some(waiter) = line.hand_on(station) else { break Offered::ToNobody(None) };
                let asked = waiter.asked();
                let keeps_until = asked.hold_at_least.map(|least| steady.saturating_add(least));
                let mut current = Current::first(token, asked.caller.clone(), keeps_until);
                current.number = number.wrapping_add(1);
                current.linger = asked.linger;
                let next = Next { waiter, number: current.number, token };
                break Offered::To(next, mem::replace(&mut state.current, current));
            };
            drop(line);
            let changed = match &offered {
                Offered::To(next, _) => {
                    let asked = next.waiter.asked();
                    state.lifecycle.handle_tenure(asked.ttl, asked.renewal, now)
                }
                Offered::Kept(_) | Offered::ToNobody(_) => false,
            };
            // Its timer is of another time, or may come along at another.
            let old = if changed { state.scheduled.take() } else { None };
            if let Some(old) = old {
                engine.cancel(old);
            }
            (offered, changed)
        };
        let handed_on = match offered {
            Offered::To(next, before) => {
                if changed {
                    self.schedule(engine);
                }
                self.begin_tenure(engine, next, &before, now);
                true
            }
            Offered::Kept(before) => {
                metrics::released("kept");
                metrics::lease_given_back();
                telemetry::kept(self.held(&before.caller, before.token));
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
        Next { waiter, number, token }: Next,
        before: &Current,
        now: Timestamp,
    ) {
        metrics::released("handed_on");
        telemetry::handed_on(self.held(&before.caller, before.token));
        // Those who look at the tenure before learn that it is over.
        self.changed.notify_waiters();
        // It is no shorter than before: others are not handed it.
        let tenure = Tenure::new(Arc::clone(self), number, token, waiter.asked().ttl);
        engine.answer(waiter, |request, _| {
            let held = Held {
                caller: &request.asked.caller,
                target: self.target(),
                owner: self.owner,
                token,
            };
            let waited = now.saturating_since(request.acquisition.started());
            telemetry::acquired(held, request.acquisition.lost_rounds(), waited);
            // Where its caller has gone meanwhile, the tenure is dropped here, which hands it on again.
            request.grant(HeldTenure::new(tenure, Arc::clone(engine)));
        });
    }
}
