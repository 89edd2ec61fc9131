//! A request on its way to an answer: what the nodes have said of it, and which error its caller gets.
//!
//! It decides the words of the answer and of the log. `protocol::Acquisition` decides whether it goes on; the round it
//! speaks of is over.

use std::{cmp::Reverse, fmt::Display, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    engine::{Engine, HeldTerm, NodeSlot, line::Ahead, resources::ResourceSlot},
    error::{AcquireError, NodeOutcome, NodeReport, NotAdopted, Reports},
    node::NodeError,
    protocol::{
        self, Acquisition, AdoptionEnd, GiveUp, Lane, NodeId, Owner, Resource, RoundAsked,
        RoundLoss, Said, Target, Timestamp, Told, TurnedAway, WaitPolicy,
    },
    telemetry::{self, Asked, Caller},
};

/// What a caller asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct AcquireSpec {
    pub(crate) round: RoundAsked,
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) through_outages: bool,
    /// The span in which it was asked for.
    pub(crate) caller: Caller,
}

pub(in crate::engine) type Answer = oneshot::Sender<Result<HeldTerm, AcquireError>>;

/// What a lost round has met.
pub(in crate::engine) type Met = protocol::Met<NodeError>;

/// A request, its state machine, and what the nodes have said.
pub(in crate::engine) struct Request {
    pub(in crate::engine) asked: AcquireSpec,
    pub(in crate::engine) resource: Arc<ResourceSlot>,
    pub(in crate::engine) acquisition: Acquisition,
    pub(in crate::engine) answer: Answer,
    /// What the last round has met.
    last: Option<Arc<Met>>,
    /// What the nodes said when a round last found the resource held.
    found_held: Option<Arc<Met>>,
    /// When it says for whom it waits; `None` once it has.
    pub(in crate::engine) says_at: Option<Timestamp>,
}

/// What a request waits for and behind whom, to be told without a lock.
pub(in crate::engine) struct Waits {
    caller: Caller,
    target: Target,
    rounds: u32,
    waited: Duration,
    /// The owner of the lease in the way, if that is one of this process.
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
        let (last, found_held) = (None, None);
        Self { asked, resource, acquisition, answer, last, found_held, says_at }
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

    /// Like `give_up`, with the number that wait for a turn now.
    pub(in crate::engine) fn give_up_now(self, engine: &Engine, give_up: GiveUp) {
        let crowd = engine.client.lock().crowd(Lane::Acquires);
        self.give_up(engine, give_up, crowd);
    }

    /// Answers why it was not acquired. `waiting` requests waited for a turn when that was decided.
    pub(in crate::engine) fn give_up(self, engine: &Engine, give_up: GiveUp, waiting: usize) {
        let now = engine.now();
        let waited = now.saturating_since(self.acquisition.started());
        let target = || Some(self.asked.round.target.clone());
        let crowded = || AcquireError::Crowded { target: target(), waited, waiting };
        let found = || self.found_held.as_ref().map(|met| engine.reports(&met.said));
        let last = || self.last.as_ref().map(|met| engine.error(met, &self.asked.round, waited));
        let error = match give_up {
            GiveUp::FoundHeld { .. } if self.asked.round.from.is_some() => {
                let (target, reason) = (target(), NotAdopted::Undecided);
                let nodes = found().unwrap_or_default();
                AcquireError::NotAdopted { target, waited, reason, nodes }
            }
            GiveUp::Closed => AcquireError::Closed,
            GiveUp::LastRound => last().unwrap_or_else(crowded),
            GiveUp::FoundHeld { free_after } => found().map_or_else(crowded, |nodes| {
                let resource = in_the_way(&self.asked.round.target, &nodes);
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

    /// Answers that a lease of this process holds the resource, for `left` as far as is known.
    pub(in crate::engine) fn held_here(self, engine: &Engine, owner: Owner, left: Duration) {
        let now = engine.now();
        let waited = now.saturating_since(self.acquisition.started());
        let nodes = engine.not_asked().of_lease_here(owner);
        let target = &self.asked.round.target;
        let resource = target.is_set().then(|| target.resource().clone());
        let (target, expires_in) = (Some(target.clone()), Some(left));
        self.refuse(AcquireError::Contended { target, waited, expires_in, resource, nodes }, now);
    }

    /// Answers that it has been granted. If its caller is gone, the lease is dropped.
    pub(in crate::engine) fn grant(self, held: HeldTerm) {
        drop(self.answer.send(Ok(held)));
    }

    fn refuse(self, error: AcquireError, now: Timestamp) {
        telemetry::not_acquired(self.shown(now), error.outcome(), &error);
        let _ = self.answer.send(Err(error));
    }

    /// What it waits for and behind whom: once, after a while.
    pub(in crate::engine) fn says_for_whom(
        &mut self,
        holder: Option<Owner>,
        ahead: Ahead,
        now: Timestamp,
    ) -> Option<Waits> {
        self.says_at.take_if(|at| now >= *at)?;
        Some(Waits {
            caller: self.asked.caller.clone(),
            target: self.asked.round.target.clone(),
            rounds: self.acquisition.lost_rounds(),
            waited: now.saturating_since(self.acquisition.started()),
            holder,
            ahead,
            last: self.last.clone(),
        })
    }

    /// Its entry in a log.
    pub(super) fn shown(&self, now: Timestamp) -> Asked<'_> {
        Asked {
            caller: &self.asked.caller,
            target: &self.asked.round.target,
            rounds: self.acquisition.lost_rounds(),
            waited: now.saturating_since(self.acquisition.started()),
        }
    }
}

impl Waits {
    /// Tells it. No lock may be held.
    pub(in crate::engine) fn tell(&self, engine: &Engine, now: Timestamp) {
        let Self { caller, target, rounds, waited, holder, ahead, last } = self;
        let asked = Asked { caller, target, rounds: *rounds, waited: *waited };
        let nodes = last.as_ref().map(|met| engine.reports(&met.said));
        let named = holder.map(|owner| owner.to_string());
        // Without the error's advice, which is for the end of the wait.
        let met: &dyn Display = match (holder, &nodes) {
            (Some(_), _) => &"held by another lease of this process",
            (None, Some(nodes)) => nodes,
            (None, None) => &"the first in line here has not been answered yet",
        };
        let holder = named.or_else(|| nodes.as_ref().and_then(Reports::holder));
        let times = engine.is_waiter_told(target.resource(), now);
        let ahead = (ahead.here, ahead.elsewhere);
        telemetry::still_waiting(asked, holder.as_deref(), ahead, met, times);
    }
}

/// The resource that most nodes name, of several; of two named as often, the first in byte order.
fn in_the_way(target: &Target, nodes: &Reports) -> Option<Resource> {
    let named = || nodes.denials().filter_map(|(_, denial)| denial.which);
    let votes = |which: &u8| named().filter(|other| other == which).count();
    let which = named().max_by_key(|which| (votes(which), Reverse(*which)))?;
    target.resources().get(usize::from(which)).cloned()
}

/// Log entries of lost rounds, to be told without a lock.
#[derive(Default)]
pub(in crate::engine) struct Log {
    lost: Vec<Lost>,
    waits: Vec<Waits>,
    /// How long contended rounds took, which nodes have answered.
    took: Vec<Duration>,
}

struct Lost {
    caller: Caller,
    target: Target,
    rounds: u32,
    waited: Duration,
    owner: Owner,
    loss: RoundLoss,
    granted: usize,
}

impl Log {
    pub(in crate::engine) fn note(
        &mut self,
        request: &mut Request,
        told: Told<'_>,
        now: Timestamp,
    ) {
        match told {
            Told::Lost(lost, owner, granted) => {
                if lost.loss == RoundLoss::Contended {
                    self.took.push(now.saturating_since(lost.begun));
                }
                if telemetry::IS_ON {
                    let Asked { caller, target, rounds, waited } = request.shown(now);
                    let (caller, target) = (caller.clone(), target.clone());
                    let loss = lost.loss;
                    self.lost.push(Lost { caller, target, rounds, waited, owner, loss, granted });
                }
            }
            Told::Waits(elsewhere) => {
                let ahead = Ahead { here: 0, elsewhere };
                self.waits.extend(request.says_for_whom(None, ahead, now));
            }
        }
    }

    /// Tells it. No lock may be held.
    pub(in crate::engine) fn tell(self, engine: &Engine, now: Timestamp) {
        let Self { lost, waits, took } = self;
        took.into_iter().for_each(|took| engine.unloaded.sample(took));
        for Lost { caller, target, rounds, waited, owner, loss, granted } in lost {
            let asked = Asked { caller: &caller, target: &target, rounds, waited };
            telemetry::round_lost(asked, owner, loss, granted);
        }
        waits.into_iter().for_each(|waits| waits.tell(engine, now));
    }
}

impl Engine {
    /// The error for a lost round, for a request that asked for this and has waited so long.
    fn error(&self, met: &Met, asked: &RoundAsked, waited: Duration) -> AcquireError {
        let target = Some(asked.target.clone());
        let nodes = self.reports(&met.said);
        match met.lost.loss {
            RoundLoss::TooLate => AcquireError::TooLate {
                target,
                ttl: asked.ttl,
                elapsed: met.at.saturating_since(met.lost.begun),
                min_validity: asked.min_validity,
            },
            RoundLoss::NoQuorum => {
                let needed = self.quorum.needed_beyond(met.granted);
                let granted = met.granted.len();
                AcquireError::NoQuorum { target, granted, needed, nodes }
            }
            _ if asked.from.is_some() => {
                let reason = match met.lost.ended {
                    Some(AdoptionEnd::Over) => NotAdopted::Over,
                    Some(AdoptionEnd::Taken) => NotAdopted::Taken,
                    None => NotAdopted::Undecided,
                };
                AcquireError::NotAdopted { target, waited, reason, nodes }
            }
            RoundLoss::Contended | RoundLoss::Abandoned => {
                let resource = in_the_way(&asked.target, &nodes);
                let expires_in = met.lost.free_after;
                AcquireError::Contended { target, waited, expires_in, resource, nodes }
            }
        }
    }

    /// The reports of a request that asked no node.
    pub(crate) fn not_asked(&self) -> Reports {
        self.reports(&vec![Said::NotAsked; self.nodes.len()])
    }

    /// One report per node.
    pub(in crate::engine) fn reports(&self, said: &[Said<NodeError>]) -> Reports {
        let report = |(index, (slot, said)): (usize, (&NodeSlot, &Said<NodeError>))| NodeReport {
            node: NodeId::new(index),
            address: Arc::clone(&slot.address),
            outcome: NodeOutcome::of(said),
        };
        self.nodes.iter().zip(said).enumerate().map(report).collect()
    }
}
