//! A request on its way to an answer: what the nodes have said of it, and which error its caller gets.
//!
//! It decides the words, of the answer and of the log. Whether it goes on, `protocol::Acquisition` decides; the round it
//! speaks of is over.

use std::{fmt::Display, sync::Arc, time::Duration};

use crate::{
    engine::{
        Engine, NodeSlot,
        resources::ResourceSlot,
        round::{AcquireRound, AcquireSpec, Answer},
        turns::Line,
    },
    error::{AcquireError, NodeOutcome, NodeReport, Reports},
    protocol::{Acquisition, GiveUp, LostRound, NodeId, RoundLoss, Timestamp, TurnedAway},
    telemetry::{self, Asked},
};

/// A request with what decides on it, and with what the nodes have said.
pub(super) struct Request {
    pub(super) asked: AcquireSpec,
    pub(super) resource: Arc<ResourceSlot>,
    pub(super) acquisition: Acquisition,
    pub(super) answer: Answer,
    /// The last round, as it is reported.
    pub(super) last: Option<AcquireError>,
    /// What the nodes said when the resource was found held last.
    pub(super) found_held: Option<Reports>,
    /// When it says for whom it waits; nothing once it has.
    pub(super) says_at: Option<Timestamp>,
}

impl Request {
    /// Whether a round may be begun for it.
    pub(super) fn may_begin(&self, engine: &Engine) -> bool {
        !engine.is_closed() && !self.answer.is_closed()
    }

    /// Says why not, if anybody still wants to know.
    pub(super) fn not_begun(self, engine: &Engine) {
        if engine.is_closed() {
            self.give_up(engine, GiveUp::Closed);
        }
    }

    pub(super) fn turned_away(self, engine: &Engine, reason: TurnedAway) {
        let give_up = self.acquisition.handle_turned_away(reason, engine.now());
        self.give_up(engine, give_up);
    }

    /// Answers why it was not acquired.
    pub(super) fn give_up(mut self, engine: &Engine, give_up: GiveUp) {
        let now = engine.now();
        let waited = now.saturating_since(self.acquisition.started());
        let waiting = engine.waiting(Line::Acquires);
        let crowded = AcquireError::Crowded { waited, waiting };
        let error = match (give_up, self.last.take(), self.found_held.take()) {
            (GiveUp::Closed, ..) => AcquireError::Closed,
            (GiveUp::LastRound, Some(error), _) => error,
            (GiveUp::FoundHeld { free_after }, _, Some(nodes)) => {
                AcquireError::Contended { waited, expires_in: free_after, nodes }
            }
            (GiveUp::Quarantined { remaining }, Some(AcquireError::NoQuorum { nodes, .. }), _) => {
                AcquireError::Quarantined { waited, remaining, nodes }
            }
            (GiveUp::Quarantined { .. }, Some(error), _) => error,
            (
                GiveUp::Crowded
                | GiveUp::LastRound
                | GiveUp::Quarantined { .. }
                | GiveUp::FoundHeld { .. },
                ..,
            ) => crowded,
        };
        telemetry::not_acquired(self.shown(now), error.outcome(), &error);
        let _ = self.answer.send(Err(error));
    }

    /// Says for what and for whom it waits, once, after a while.
    pub(super) fn say_for_whom(&mut self, engine: &Engine, now: Timestamp) {
        let says = self.says_at.take_if(|at| now >= *at);
        let Some(last) = self.last.as_ref().filter(|_| says.is_some()) else { return };
        let holder = last.nodes().and_then(Reports::holder);
        // Without the advice that the error gives, which is for the end of the wait.
        let met: &dyn Display = match last.nodes() {
            Some(nodes) => nodes,
            None => last,
        };
        let times = engine.is_waiter_told(self.resource.name(), now);
        telemetry::still_waiting(self.shown(now), holder.as_deref(), met, times);
    }

    /// As it is shown in a log.
    pub(super) fn shown(&self, now: Timestamp) -> Asked<'_> {
        Asked {
            caller: &self.asked.caller,
            resource: &self.asked.resource,
            rounds: self.acquisition.lost_rounds(),
            waited: now.saturating_since(self.acquisition.started()),
        }
    }
}

impl Engine {
    /// A lost round, as it is reported.
    pub(super) fn error(
        &self,
        round: &AcquireRound,
        lost: LostRound,
        nodes: Reports,
        waited: Duration,
    ) -> AcquireError {
        let spec = round.round.spec();
        match lost.loss {
            RoundLoss::TooLate => AcquireError::TooLate {
                ttl: spec.ttl,
                elapsed: self.now().saturating_since(lost.begun),
                min_validity: spec.min_validity,
            },
            RoundLoss::NoQuorum => AcquireError::NoQuorum {
                granted: round.round.granted(),
                needed: self.quorum.needed(),
                nodes,
            },
            RoundLoss::Contended | RoundLoss::Abandoned => {
                AcquireError::Contended { waited, expires_in: lost.free_after, nodes }
            }
        }
    }

    /// One report per node.
    pub(in crate::engine) fn reports(&self, outcomes: &[NodeOutcome]) -> Reports {
        let report = |(index, (slot, outcome)): (usize, (&NodeSlot, &NodeOutcome))| NodeReport {
            node: NodeId::new(index),
            address: Arc::clone(&slot.address),
            outcome: outcome.clone(),
        };
        self.nodes.iter().zip(outcomes).enumerate().map(report).collect()
    }
}
