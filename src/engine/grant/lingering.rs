//! A lingering grant: kept for a while without a holder, so that this process takes it again without a round trip.
//!
//! It carries out what `protocol::Client` decides: a grant is kept if its last holder asked for that, no request waits
//! here or is known to wait elsewhere, and it would do for another lease. Without a holder there is nothing to lose and
//! nobody to tell. It goes back when another client stands in line on the nodes, when its time is up, before a close or
//! a shutdown returns, and with the engine. It is taken, kept and given back in one step each, once.

use std::{mem, sync::Arc};

use futures::future::{join_all, select};

use super::{Grant, HeldTerm, LeaseTerm};
use crate::{
    engine::{Engine, NodeSlot, Request},
    protocol::{Asks, Begun, Command, End, GrantId, Moment},
    shield::shielded,
    telemetry::{self, Held, metrics},
};

impl Grant {
    /// Gives the grant to a request that has come while it was kept. If it will not do, it is given back, and the
    /// request is returned.
    pub(in crate::engine) fn resume(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        request: Box<Request>,
        at: &Moment<'_>,
    ) -> Option<Box<Request>> {
        let asked = &request.asked;
        let resumed = {
            let mut client = self.client();
            let resumed = client.resume(self.id, &request.next(at.steady), at);
            if resumed.is_some()
                && let Some(kept) = client.data_mut(self.id)
            {
                kept.caller = asked.caller.clone().holding(at.now);
            }
            resumed
        };
        let Some((Begun { number, token, .. }, wakeup)) = resumed else {
            self.give_back(engine);
            return Some(request);
        };
        // Held before the runtime is asked, which may panic: dropping it gives it back.
        let term = LeaseTerm::new(Arc::clone(self), number, token, asked.round.ttl);
        let term = HeldTerm::new(term, Arc::clone(engine));
        engine.wake(wakeup);
        metrics::lease_begun();
        let held =
            Held { caller: &request.asked.caller, target: self.target(), owner: self.owner, token };
        telemetry::acquired(held, 0, at.now.saturating_since(request.acquisition.started()));
        request.grant(term);
        None
    }

    /// Gives it back, if it is kept. No lock may be held.
    pub(in crate::engine) fn give_back(&self, engine: &Arc<Engine>) {
        if engine.is_served() {
            drop(self.give_back_as(engine, End::Kept));
        }
    }
}

impl Engine {
    /// Gives back a kept grant: another client wants it, or its time is up. If it was taken just now, it is extended
    /// where that is due.
    pub(in crate::engine) fn give_back_kept(self: &Arc<Self>, id: GrantId, extend: bool) {
        let grant = self.grant(id);
        shielded(|| grant.iter().for_each(|grant| grant.give_back(self)));
        if grant.is_some_and(|grant| !grant.is_given_back()) {
            shielded(|| {
                let at = self.moment();
                self.decide(|client| client.handle_taken(id, extend, &at));
            });
        }
    }

    /// Gives back all kept grants.
    pub(in crate::engine) fn give_back_all_kept(self: &Arc<Self>) {
        for kept in self.take_all_kept() {
            kept.give_back(self);
        }
    }

    fn take_all_kept(&self) -> Vec<Arc<Grant>> {
        let mut client = self.client.lock();
        let all = client.take_all_kept();
        all.into_iter().filter_map(|kept| client.data_mut(kept)?.kept.take()).collect()
    }

    /// The engine is gone: a task that nothing waits for releases the kept grants, once.
    pub(in crate::engine) fn abandon_kept(&mut self) {
        if !self.is_served() {
            // Unreleased, they expire. Each keeps the client alive, and the client each of them, until they are
            // dropped.
            if self.process.is_here() {
                drop(self.take_all_kept());
            }
            return;
        }
        // The lock may be waited for: others hold it only for a moment, and no user code runs under it.
        let kept = self.take_all_kept();
        if kept.is_empty() {
            return;
        }
        let nodes: Box<[NodeSlot]> = mem::take(&mut self.nodes);
        let mut calls = Vec::new();
        for grant in kept {
            let orders = self.client.lock().end_unwatched(grant.id, End::Kept);
            for order in orders {
                if let Some(slot) = nodes.get(order.node.index()) {
                    let (target, owner) = (grant.target().clone(), grant.owner);
                    calls.push(slot.node.call(Command::Release { target, owner, keep: None }));
                }
            }
        }
        let mut limit = None;
        // The runtime is user code and may panic, even while another panic drops this.
        shielded(|| {
            let until = self.now().saturating_add(self.config.node_timeout);
            limit = Some(self.runtime.sleep_until(until));
        });
        let Some(limit) = limit else { return };
        // The nodes live until then: otherwise their connections would be closed first.
        let released = async move {
            select(join_all(calls), limit).await;
            drop(nodes);
        };
        shielded(|| self.runtime.spawn(Box::pin(released)));
    }
}
