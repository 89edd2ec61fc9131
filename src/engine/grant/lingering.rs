//! A grant that is kept for a while as nobody's lease, so that this process takes it again without a round trip.
//!
//! It decides when one is kept: where its last holder asked for that, nobody waits here or is known to wait elsewhere,
//! and it would do for another lease. Nobody holds it meanwhile, so that there is nothing to lose and nobody to tell. It
//! goes back when somebody stands in line on the nodes, when its time is up, before a close or a shutdown returns, and
//! with the engine. It is taken, kept and given back under its own lock, each once.

use std::{mem, sync::Arc};

use futures::future::{join_all, select};

use super::{
    Grant, HeldTenure, State, Tenure,
    ending::{Ended, Ending, Step},
};
use crate::{
    engine::{Engine, Line, NodeSlot, Request, resources::ResourceSlot},
    protocol::{Begun, Command, Situation, Timestamp},
    shield::shielded,
    telemetry::{self, Held, metrics},
};

impl Grant {
    /// Keeps it, if it may be. To be called under the lock of the line, by the holder that releases it while nobody stands
    /// there.
    pub(super) fn linger(
        self: &Arc<Self>,
        engine: &Engine,
        state: &mut State,
        line: &mut Line,
        situation: Situation,
    ) -> bool {
        let heard_until = self.resource.on_nodes().hears_until();
        let is_kept = !engine.is_closed() && state.leases.keep(situation, heard_until);
        if is_kept {
            line.keep(Arc::clone(self));
        }
        is_kept
    }

    /// Makes sure that somebody looks when it has been kept for long enough. A timer that is due before is left as it is:
    /// it is looked at then.
    pub(super) fn schedule_its_end(self: &Arc<Self>, engine: &Arc<Engine>) {
        let is_early = {
            let state = self.state();
            let next = state.leases.poll_timeout();
            next.is_none_or(|next| state.scheduled.is_some_and(|scheduled| scheduled.at() <= next))
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
        let resumed = {
            let mut guard = self.state();
            let state = &mut *guard;
            // What others are kept out for ended before it was kept, so that no other clock is read for it.
            let situation = self.situation(engine, state, now, Timestamp::ORIGIN);
            let begun = state.leases.resume(&asked.next(keeps_until), situation);
            begun.map(|begun| {
                state.caller = asked.caller.clone();
                (begun, if begun.moved { state.scheduled.take() } else { None })
            })
        };
        let Some((Begun { number, token, moved }, timer)) = resumed else {
            self.give_back(engine);
            return Some(request);
        };
        if let Some(timer) = timer {
            engine.cancel(timer);
        }
        // In its hands before the runtime is asked, which may panic: dropping it gives it back.
        let tenure = Tenure::new(Arc::clone(self), number, token, asked.ttl);
        let tenure = HeldTenure::new(tenure, Arc::clone(engine));
        if moved {
            self.schedule(engine);
        }
        metrics::lease_begun();
        let held =
            Held { caller: &request.asked.caller, target: self.target(), owner: self.owner, token };
        telemetry::acquired(held, 0, now.saturating_since(request.acquisition.started()));
        request.grant(tenure);
        None
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
        self.end_with(engine, |state| {
            let ended = state.leases.end_kept()?;
            // Under the lock: what is kept there is what lingers now, and not what another holder has kept since.
            self.resource.line().forget(self);
            Some(ended)
        })
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
