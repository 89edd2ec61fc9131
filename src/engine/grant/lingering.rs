//! A grant that is kept for a while as nobody's lease, so that this process takes it again without a round trip.
//!
//! It decides when one is kept: where its last holder asked for that, nobody waits here or is known to wait elsewhere,
//! and it would do for another lease. Nobody holds it meanwhile, so that there is nothing to lose and nobody to tell. It
//! goes back when somebody stands in line on the nodes, when its time is up, before a close or a shutdown returns, and
//! with the engine. It is taken, kept and given back under its own lock, each once.

use std::{mem, sync::Arc, time::Duration};

use futures::future::{join_all, select};

use super::{
    Current, Grant, HeldTenure, State, Tenure,
    ending::{Ended, Ending, Step},
};
use crate::{
    engine::{Engine, Line, NodeSlot, Request, resources::ResourceSlot},
    protocol::{Command, Offer, OthersWait, RenewalPolicy, Timestamp, turn_of},
    shield::shielded,
    telemetry::{self, Caller, Held, metrics},
};

impl Grant {
    /// Keeps it, if it may be; what is returned is whose it was. To be called under the lock of the line, by the holder
    /// that releases it while nobody stands there.
    pub(super) fn linger(
        self: &Arc<Self>,
        engine: &Engine,
        state: &mut State,
        line: &mut Line,
        now: Timestamp,
    ) -> Option<Current> {
        let linger = state.current.linger;
        let may = !linger.is_zero()
            && !engine.is_closed()
            && self.station.is_some()
            && state.current.report.is_none()
            && self.resource.others_wait() != OthersWait::Somebody
            && state.row.has_next()
            && state.lifecycle.is_sound(now);
        if !may {
            return None;
        }
        // Where the nodes tell of whoever comes, it is not kept for longer than they do.
        let until = now.saturating_add(linger);
        let until = self.resource.on_nodes().hears_until().map_or(until, |heard| until.min(heard));
        if until <= now {
            return None;
        }
        // Limits of a lease that is over are nobody's.
        let renewal = RenewalPolicy { renew: state.lifecycle.renews(), ..RenewalPolicy::default() };
        let ttl = state.lifecycle.ttl();
        state.lifecycle.handle_tenure(ttl, renewal, now);
        let mut nobodys = Current::first(None, Caller::default(), None);
        nobodys.number = state.current.number.wrapping_add(1);
        nobodys.linger = linger;
        state.lingers_until = Some(until);
        line.keep(Arc::clone(self));
        Some(mem::replace(&mut state.current, nobodys))
    }

    /// Makes sure that somebody looks when it has been kept for long enough. A timer that is due before is left as it is:
    /// it is looked at then.
    pub(super) fn schedule_its_end(self: &Arc<Self>, engine: &Arc<Engine>) {
        let is_early = {
            let state = self.state();
            state.lingers_until.is_none_or(|until| {
                state.scheduled.is_some_and(|scheduled| scheduled.at() <= until)
            })
        };
        if !is_early {
            self.schedule(engine);
        }
    }

    /// The lease of a request that has come while it was kept. Where it will not do, it is given back, and the request
    /// is returned.
    pub(in crate::engine) fn resume(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        request: Request,
        keeps_until: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Request> {
        let asked = &request.asked;
        let others = self.resource.others_wait();
        let resumed = {
            let mut guard = self.state();
            let state = &mut *guard;
            let offer = Offer {
                lifecycle: &state.lifecycle,
                lock_delay: self.lock_delay,
                alone: self.alone,
                is_kept: false,
                others,
                turn: self.turn(engine, state, others),
                now,
            };
            let lingers = state.lingers_until.is_some() && !state.released;
            let token = if lingers { state.row.next(&offer, asked.wanted()).ok() } else { None };
            token.map(|token| {
                state.lingers_until = None;
                let mut current = Current::first(token, asked.caller.clone(), keeps_until);
                current.number = state.current.number.wrapping_add(1);
                current.linger = asked.linger;
                let number = current.number;
                state.current = current;
                let changed = state.lifecycle.handle_tenure(asked.ttl, asked.renewal, now);
                (number, token, if changed { state.scheduled.take() } else { None }, changed)
            })
        };
        let Some((number, token, timer, changed)) = resumed else {
            self.give_back(engine);
            return Some(request);
        };
        if let Some(timer) = timer {
            engine.cancel(timer);
        }
        if changed {
            self.schedule(engine);
        }
        metrics::lease_begun();
        let held =
            Held { caller: &request.asked.caller, target: self.target(), owner: self.owner, token };
        telemetry::acquired(held, 0, now.saturating_since(request.acquisition.started()));
        let tenure = Tenure::new(Arc::clone(self), number, token, asked.ttl);
        request.grant(HeldTenure::new(tenure, Arc::clone(engine)));
        None
    }

    /// For how long it may go from one lease to the next while it is not known whether others wait: they wait for as long
    /// as was asked for at most.
    pub(super) fn turn(&self, engine: &Engine, state: &State, others: OthersWait) -> Duration {
        let turn = turn_of(engine.unloaded.round_trip());
        if others == OthersWait::Unknown { turn.max(state.current.linger) } else { turn }
    }

    /// Gives it back, if it is kept. No lock may be held.
    pub(in crate::engine) fn give_back(self: &Arc<Self>, engine: &Arc<Engine>) {
        if !engine.is_served() {
            return;
        }
        let _counted = engine.count();
        let Some(Ended { released, token, caller, report }) = self.end_lingering(engine) else {
            return;
        };
        let ending = Ending { grant: self, engine, step: Step::Ended };
        let slot = Arc::clone(&self.resource);
        drop(engine.release(released, slot, token, caller, report));
        drop(ending);
    }

    fn end_lingering(&self, engine: &Engine) -> Option<Ended> {
        let number = {
            let state = self.state();
            state.lingers_until?;
            // Under the lock: what is kept there is what lingers now, and not what another holder has kept since.
            self.resource.line().forget(self);
            state.current.number
        };
        self.end(engine, number, None).ok()
    }
}

impl Engine {
    /// Gives a grant back that is kept of this resource, if there is one: somebody else wants it.
    pub(in crate::engine) fn give_back_kept(self: &Arc<Self>, slot: &ResourceSlot) {
        let kept = slot.line().take_kept();
        if let Some(kept) = kept {
            kept.give_back(self);
        }
    }

    /// Gives all grants back that are kept.
    pub(in crate::engine) fn give_back_all_kept(self: &Arc<Self>) {
        for slot in self.resources.all() {
            self.give_back_kept(&slot);
        }
    }

    /// The engine is gone: what is kept is released once, by a task that nobody waits for.
    pub(in crate::engine) fn abandon_kept(&mut self) {
        if !self.is_served() {
            return;
        }
        // Nothing is held up by a lock that somebody else has: it is had for a moment, and no user's code runs under it.
        let kept: Vec<Arc<Grant>> =
            self.resources.all().iter().filter_map(|slot| slot.line().take_kept()).collect();
        if kept.is_empty() {
            return;
        }
        let nodes: Box<[NodeSlot]> = mem::take(&mut self.nodes);
        let mut calls = Vec::new();
        for grant in kept {
            for order in grant.footprint.give_back() {
                if let Some(slot) = nodes.get(order.node.index()) {
                    let (target, owner) = (grant.target().clone(), grant.owner);
                    calls.push(slot.node.call(Command::Release { target, owner, keep: None }));
                }
            }
        }
        let limit = self.now().saturating_add(self.config.node_timeout);
        let limit = self.runtime.sleep_until(limit);
        // The nodes live until then, or their connections would be closed first.
        let released = async move {
            select(join_all(calls), limit).await;
            drop(nodes);
        };
        shielded(|| self.runtime.spawn(Box::pin(released)));
    }
}
