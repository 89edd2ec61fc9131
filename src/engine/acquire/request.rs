//! A request on its way to an answer: what the nodes have said of it, and which error its caller gets.
//!
//! It decides the words, of the answer and of the log. Whether it goes on, `protocol::Acquisition` decides; the round it
//! speaks of is over.

use std::{cmp::Reverse, fmt::Display, sync::Arc, time::Duration};

use crate::{
    engine::{
        Engine, HeldTenure, NodeSlot,
        line::Ahead,
        resources::ResourceSlot,
        round::{AcquireRound, AcquireSpec, Answer, HeardOut},
    },
    error::{AcquireError, NodeOutcome, NodeReport, Reports},
    protocol::{
        Acquisition, Drift, GiveUp, Lane, LostRound, NodeId, Owner, Resource, RoundLoss, Target,
        Timestamp, TurnedAway,
    },
    telemetry::{self, Asked, Caller},
};

/// A request with what decides on it, and with what the nodes have said.
pub(in crate::engine) struct Request {
    pub(in crate::engine) asked: AcquireSpec,
    pub(in crate::engine) resource: Arc<ResourceSlot>,
    pub(in crate::engine) acquisition: Acquisition,
    pub(in crate::engine) answer: Answer,
    /// What the last round has met.
    last: Option<Arc<Met>>,
    /// What the nodes said when the resource was found held last.
    found_held: Option<Arc<Met>>,
    /// When it says for whom it waits; nothing once it has.
    pub(in crate::engine) says_at: Option<Timestamp>,
    /// Its last round has only taken the place in the lines on the nodes.
    pub(super) takes_place: bool,
    /// Lost rounds of it that are heard out. Whatever ends this, they are heard no longer.
    pub(super) heard_out: Vec<HeardOut>,
}

/// What a lost round has met, for the one that it was begun for and for all who wait behind that.
pub(in crate::engine) struct Met {
    pub(super) error: AcquireError,
    pub(in crate::engine) lost: LostRound,
    /// When that was known.
    pub(in crate::engine) at: Timestamp,
    /// How much clocks may be off by.
    pub(super) drift: Drift,
}

impl Met {
    /// Whom the nodes name that hold the resource.
    pub(in crate::engine) fn holder(&self) -> Option<String> {
        self.error.nodes().and_then(Reports::holder)
    }

    /// Whether a round that took as long would have been in time for this, which it was not for the leader of the line.
    pub(in crate::engine) fn would_do_for(&self, asked: &AcquireSpec) -> bool {
        let AcquireSpec { ttl, min_validity, .. } = *asked;
        let took = self.at.saturating_since(self.lost.begun);
        let left = ttl.saturating_sub(self.drift.of(ttl)).saturating_sub(took);
        self.lost.loss == RoundLoss::TooLate && !left.is_zero() && left >= min_validity
    }

    /// As it is told to one who has asked for this, and has waited for so long.
    fn told(&self, asked: &AcquireSpec, waited: Duration) -> AcquireError {
        let mut error = self.error.clone();
        match &mut error {
            AcquireError::Contended { target, waited: said, .. } => {
                (*target, *said) = (Some(asked.target.clone()), waited);
            }
            AcquireError::TooLate { target, ttl, min_validity, .. } => {
                *target = Some(asked.target.clone());
                (*ttl, *min_validity) = (asked.ttl, asked.min_validity);
            }
            AcquireError::NoQuorum { target, .. } => *target = Some(asked.target.clone()),
            _ => {}
        }
        error
    }
}

/// For what and for whom somebody waits, to be told without a lock.
pub(in crate::engine) struct Said {
    caller: Caller,
    target: Target,
    rounds: u32,
    waited: Duration,
    /// Whose lease is in the way, where that is one of this process.
    holder: Option<Owner>,
    ahead: Ahead,
    last: Option<Arc<Met>>,
}

impl Request {
    pub(super) fn new(
        asked: AcquireSpec,
        resource: Arc<ResourceSlot>,
        acquisition: Acquisition,
        answer: Answer,
        says_at: Option<Timestamp>,
    ) -> Self {
        let (last, found_held, takes_place, heard_out) = (None, None, false, Vec::new());
        Self {
            asked,
            resource,
            acquisition,
            answer,
            last,
            found_held,
            says_at,
            takes_place,
            heard_out,
        }
    }

    /// What is under way must not be in the way of the next round. One that takes the place in line comes at once, and is
    /// denied as the one before it was.
    pub(super) fn forget_heard_out(&mut self) {
        if !self.takes_place {
            self.heard_out.clear();
        }
    }

    /// Whether a round may be begun for it.
    pub(super) fn may_begin(&self, engine: &Engine) -> bool {
        !engine.is_closed() && !self.answer.is_closed()
    }

    /// Says why not, if anybody still wants to know.
    pub(super) fn not_begun(self, engine: &Engine) {
        if engine.is_closed() {
            self.give_up_now(engine, GiveUp::Closed);
        }
    }

    /// A round for its resource was lost, its own or that of the leader of the line.
    pub(in crate::engine) fn note_met(&mut self, met: &Arc<Met>) {
        self.last = Some(Arc::clone(met));
        if met.lost.found_held() {
            self.found_held = Some(Arc::clone(met));
        }
    }

    pub(in crate::engine) fn turned_away(self, engine: &Engine, reason: TurnedAway) {
        let give_up = self.acquisition.handle_turned_away(reason, engine.now());
        self.give_up_now(engine, give_up);
    }

    /// The same, with how many wait for a turn now.
    pub(in crate::engine) fn give_up_now(self, engine: &Engine, give_up: GiveUp) {
        let crowd = engine.client.lock().crowd(Lane::Acquires);
        self.give_up(engine, give_up, crowd);
    }

    /// Answers why it was not acquired. So many waited for a turn when that was decided.
    pub(in crate::engine) fn give_up(self, engine: &Engine, give_up: GiveUp, waiting: usize) {
        let now = engine.now();
        let waited = now.saturating_since(self.acquisition.started());
        let target = || Some(self.asked.target.clone());
        let crowded = || AcquireError::Crowded { target: target(), waited, waiting };
        let found = || self.found_held.as_ref().and_then(|met| met.error.nodes()).cloned();
        let last = || self.last.as_ref().map(|met| met.told(&self.asked, waited));
        let error = match give_up {
            GiveUp::Closed => AcquireError::Closed,
            GiveUp::LastRound => last().unwrap_or_else(crowded),
            GiveUp::FoundHeld { free_after } => found().map_or_else(crowded, |nodes| {
                let resource = in_the_way(&self.asked.target, &nodes);
                let (target, expires_in) = (target(), free_after);
                AcquireError::Contended { target, waited, expires_in, resource, nodes }
            }),
            GiveUp::Quarantined { remaining } => match last() {
                Some(AcquireError::NoQuorum { target, nodes, .. }) => {
                    AcquireError::Quarantined { target, waited, remaining, nodes }
                }
                Some(error) => error,
                None => crowded(),
            },
            GiveUp::Crowded => crowded(),
        };
        self.refuse(error, now);
    }

    /// Answers that a lease of this process holds the resource, for so long as is known.
    pub(in crate::engine) fn held_here(self, engine: &Engine, owner: Owner, left: Duration) {
        let now = engine.now();
        let waited = now.saturating_since(self.acquisition.started());
        let nodes = engine.not_asked().of_lease_here(owner);
        let target = &self.asked.target;
        let resource = target.is_set().then(|| target.resource().clone());
        let (target, expires_in) = (Some(target.clone()), Some(left));
        self.refuse(AcquireError::Contended { target, waited, expires_in, resource, nodes }, now);
    }

    /// Answers that it has been granted; where its caller has gone, that is dropped.
    pub(in crate::engine) fn grant(self, held: HeldTenure) {
        drop(self.answer.send(Ok(held)));
    }

    fn refuse(mut self, error: AcquireError, now: Timestamp) {
        // Before anybody is told, who may ask again at once.
        self.heard_out.clear();
        telemetry::not_acquired(self.shown(now), error.outcome(), &error);
        let _ = self.answer.send(Err(error));
    }

    /// For what and for whom it waits, once, after a while.
    pub(in crate::engine) fn says_for_whom(
        &mut self,
        holder: Option<Owner>,
        ahead: Ahead,
        now: Timestamp,
    ) -> Option<Said> {
        self.says_at.take_if(|at| now >= *at)?;
        Some(Said {
            caller: self.asked.caller.clone(),
            target: self.asked.target.clone(),
            rounds: self.acquisition.lost_rounds(),
            waited: now.saturating_since(self.acquisition.started()),
            holder,
            ahead,
            last: self.last.clone(),
        })
    }

    /// As it is shown in a log.
    pub(super) fn shown(&self, now: Timestamp) -> Asked<'_> {
        Asked {
            caller: &self.asked.caller,
            target: &self.asked.target,
            rounds: self.acquisition.lost_rounds(),
            waited: now.saturating_since(self.acquisition.started()),
        }
    }
}

impl Said {
    /// Tells it. No lock may be held.
    pub(in crate::engine) fn tell(&self, engine: &Engine, now: Timestamp) {
        let Self { caller, target, rounds, waited, holder, ahead, last } = self;
        let asked = Asked { caller, target, rounds: *rounds, waited: *waited };
        let nodes = last.as_ref().and_then(|met| met.error.nodes());
        let named = holder.map(|owner| owner.to_string());
        // Without the advice that the error gives, which is for the end of the wait.
        let met: &dyn Display = match (holder, nodes, last) {
            (Some(_), ..) => &"held by another lease of this process",
            (None, Some(nodes), _) => nodes,
            (None, None, Some(met)) => &met.error,
            (None, None, None) => &"the first in line here has not been answered yet",
        };
        let holder = named.or_else(|| last.as_ref().and_then(|met| met.holder()));
        let times = engine.is_waiter_told(target.resource(), now);
        let ahead = (ahead.here, ahead.elsewhere);
        telemetry::still_waiting(asked, holder.as_deref(), ahead, met, times);
    }
}

/// Of several resources the one that most nodes name: of two that are named as often, the first in byte order.
fn in_the_way(target: &Target, nodes: &Reports) -> Option<Resource> {
    let named = || nodes.denials().filter_map(|(_, denial)| denial.which);
    let votes = |which: &u8| named().filter(|other| other == which).count();
    let which = named().max_by_key(|which| (votes(which), Reverse(*which)))?;
    target.resources().get(usize::from(which)).cloned()
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
        let target = Some(spec.target.clone());
        match lost.loss {
            RoundLoss::TooLate => AcquireError::TooLate {
                target,
                ttl: spec.ttl,
                elapsed: self.now().saturating_since(lost.begun),
                min_validity: spec.min_validity,
            },
            RoundLoss::NoQuorum => AcquireError::NoQuorum {
                target,
                granted: round.granted(),
                needed: self.quorum.needed(),
                nodes,
            },
            RoundLoss::Contended | RoundLoss::Abandoned => {
                let resource = in_the_way(&spec.target, &nodes);
                let expires_in = lost.free_after;
                AcquireError::Contended { target, waited, expires_in, resource, nodes }
            }
        }
    }

    /// Of a request for which no node was asked.
    pub(crate) fn not_asked(&self) -> Reports {
        self.reports(&vec![NodeOutcome::NotAsked; self.nodes.len()])
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
