//! Carries out what the client has decided of requests: begins a round, or answers a request.
//!
//! It decides nothing: it draws and looks up what a round begins with.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};

use super::{Log, Request};
use crate::{
    engine::{Engine, Grant, HeldTerm},
    error::AcquireError,
    protocol::{AskId, FencingToken, GrantId, NodeId, Owner, RoundStart, Timestamp},
    shield::shielded,
    telemetry::{self, Held, metrics},
};

/// A round that is about to begin. If the user's clock panics first, the request is given up.
struct Beginning<'a> {
    engine: &'a Arc<Engine>,
    ask: Option<AskId>,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        let Self { engine, ask } = self;
        if let Some(ask) = ask.take() {
            // A panic may be dropping this, and a second one would end the process.
            shielded(|| engine.decide(|client| client.handle_gone_away(ask)));
        }
    }
}

impl Engine {
    /// Begins the round of a request that has its turn.
    pub(in crate::engine) fn begin_round(self: &Arc<Self>, ask: AskId) {
        let mut beginning = Beginning { engine: self, ask: Some(ask) };
        // Read before anything is looked up or sent: validity counts from here.
        let at = self.moment();
        let asked = self.client.lock().request(ask).map(|request| request.asked.round.clone());
        let mut log = Log::default();
        if let Some(asked) = asked {
            let count = self.client.lock().tokens_wanted(ask, &asked, at.now);
            let blocked = self.nodes.iter().enumerate().filter_map(|(index, slot)| {
                let node = NodeId::new(index);
                let may_be_asked = slot.node.reachable().and_then(|()| self.may_vote(node));
                Some((node, may_be_asked.err()?))
            });
            // `uuid` sets the version bits, and draws nothing.
            let owner = uuid::Builder::from_random_bytes(self.runtime.random()).into_uuid();
            let start = RoundStart {
                owner: Owner::from_random(owner.into_bytes()),
                count,
                hint: self.hint(count),
                marks: self.marks(),
                note: self.note(),
                random: if asked.target.is_any() { self.random_byte() } else { 0 },
                blocked: blocked.collect(),
            };
            let mut client = self.client.lock();
            client.begin_round(ask, &asked, start, &at, &mut |request, told| {
                log.note(request, told, at.now);
            });
        }
        beginning.ask = None;
        log.tell(self, at.now);
        self.carry_out();
    }

    /// Hands over what a round has won. If the caller is gone, the lease is dropped, which hands it on to the next in
    /// line or releases it.
    pub(in crate::engine) fn won(
        self: &Arc<Self>,
        request: Box<Request>,
        id: GrantId,
        now: Timestamp,
        (took, counter): (Duration, Option<FencingToken>),
    ) {
        let Some(owner) = self.client.lock().keys(id).map(|(_, owner)| owner) else { return };
        let grant = Grant::new(self, Arc::clone(&request.resource), id, owner, &request.asked, now);
        // Held before any user code runs, which may panic: dropping it gives it back.
        let held = HeldTerm::new(grant.term(), Arc::clone(self));
        // A later shutdown finds it; after an earlier one, it is given back.
        let counts = self.client.lock().count(id);
        self.round_trip.sample(took);
        self.unloaded.sample(took);
        metrics::round_won(took);
        metrics::lease_begun();
        if counts {
            grant.keep_near(self);
        }
        counter.into_iter().for_each(|counter| self.counted(counter));
        let token = held.term.token();
        let waited = now.saturating_since(request.acquisition.started());
        let rounds = request.acquisition.lost_rounds().saturating_add(1);
        let (caller, target, owner) = (&request.asked.caller, grant.target(), grant.owner());
        telemetry::acquired(Held { caller, target, owner, token }, rounds, waited);
        drop(request.answer.send(if counts { Ok(held) } else { Err(AcquireError::Closed) }));
    }

    /// Ends when enough nodes for a quorum may vote, or at `until`.
    pub(in crate::engine) async fn look_ended(&self, until: Timestamp) {
        let mut limit = self.runtime.sleep_until(until);
        loop {
            // Made before the nodes are looked at: from then on no change is missed.
            let changed = pin!(self.fleet.changed.notified());
            let nodes = (0..self.nodes.len()).map(NodeId::new);
            if self.quorum.is_met_by(nodes.filter(|node| self.may_vote(*node).is_ok()).collect()) {
                return;
            }
            if let Either::Right(_) = select(changed, &mut limit).await {
                return;
            }
        }
    }

    pub(crate) fn random_byte(&self) -> u8 {
        let [byte, ..] = self.runtime.random();
        byte
    }
}
