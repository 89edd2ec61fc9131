//! One acquire from its first round to its answer: rounds, pauses, and what is left behind.
//!
//! It decides when to try again. It runs beside the caller, who may go away at any moment: whatever has
//! been set by then is released here.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{Either, select};
use tokio::sync::oneshot;

use super::{
    Engine,
    round::AcquireRound,
    turns::{Line, Place, Turn, TurnedAway},
};
use crate::{
    error::{AcquireError, NodeOutcome, NodeReport, Reports},
    lease::Lease,
    protocol::{NodeId, RenewalPolicy, Resource, Timestamp, Verdict},
    telemetry,
};

/// What a caller asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct AcquireSpec {
    /// The key on the nodes.
    pub(crate) resource: Resource,
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) renewal: RenewalPolicy,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaitPolicy {
    /// One round. It is begun again, for up to a node timeout, where nodes whose state had just changed would have
    /// made the difference.
    OneRound,
    /// Rounds until this much time has passed.
    For(Duration),
    /// Rounds until it is granted.
    Unlimited,
}

impl WaitPolicy {
    /// Whether another round may begin at `next`, for a request that was made at `started`.
    fn lasts(self, started: Timestamp, next: Timestamp) -> bool {
        match self {
            Self::OneRound => false,
            Self::For(wait) => next < started.saturating_add(wait),
            Self::Unlimited => true,
        }
    }
}

pub(super) type Answer = oneshot::Sender<Result<Lease, AcquireError>>;

/// An acquire under way, as its caller holds it. Dropping it gives up.
pub(crate) struct Acquiring {
    answer: oneshot::Receiver<Result<Lease, AcquireError>>,
    /// Where it had to wait for its first round.
    _place: Option<Place>,
}

impl Future for Acquiring {
    type Output = Result<Lease, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        answer.map(|answer| answer.unwrap_or(Err(AcquireError::RuntimeEnded)))
    }
}

/// What a round of an acquire said that found the resource held.
struct FoundHeld {
    /// When enough of the keys that stood in the way will have expired.
    free_at: Option<Timestamp>,
    nodes: Reports,
}

/// What is known of an acquire between its rounds.
struct Acquisition {
    plan: AcquireSpec,
    answer: Answer,
    started: Timestamp,
}

impl Acquisition {
    /// The end of the wait for a turn.
    fn deadline(&self, engine: &Engine) -> Option<Timestamp> {
        match self.plan.wait_policy {
            WaitPolicy::OneRound => Some(self.started.saturating_add(engine.config.node_timeout)),
            WaitPolicy::For(wait) => Some(self.started.saturating_add(wait)),
            WaitPolicy::Unlimited => None,
        }
    }

    /// Begins, or says why not. No node has been asked.
    fn start(self, engine: &Arc<Engine>, turn: Result<Turn, TurnedAway>) {
        match turn {
            Ok(turn) => {
                let driver_of_task = Arc::clone(engine);
                engine.spawn(async move { driver_of_task.acquire_rounds(self, turn).await });
            }
            Err(reason) => {
                let error = engine.turned_away(reason, self.started, None);
                let _ = self.answer.send(Err(error));
            }
        }
    }
}

impl Engine {
    /// Starts to acquire, or waits in line for that; the answer comes through the channel.
    pub(crate) fn acquire(self: &Arc<Self>, plan: AcquireSpec) -> Acquiring {
        let (answer, receiver) = oneshot::channel();
        if !self.is_served() {
            return Acquiring { answer: receiver, _place: None };
        }
        let acquisition = Acquisition { plan, answer, started: self.now() };
        let place = match self.take_turn(Line::Acquires) {
            Some(turn) => {
                acquisition.start(self, Ok(turn));
                None
            }
            None => {
                let (deadline, engine) = (acquisition.deadline(self), Arc::clone(self));
                let start = Box::new(move |turn| acquisition.start(&engine, turn));
                self.wait_for_turn(Line::Acquires, deadline, start)
            }
        };
        let place = place.map(|place| Place { engine: Arc::clone(self), place });
        Acquiring { answer: receiver, _place: place }
    }

    async fn acquire_rounds(self: Arc<Self>, acquisition: Acquisition, mut turn: Turn) {
        let deadline = acquisition.deadline(&self);
        let Acquisition { plan, mut answer, started } = acquisition;
        let mut lost = 0u32;
        let mut broken_since = None;
        // It has had to wait for a turn.
        let mut crowded = false;
        // What was said when the resource was found held last.
        let mut found_held = None;
        loop {
            if self.is_closed() {
                let _ = answer.send(Err(AcquireError::Closed));
                return;
            }
            if answer.is_closed() {
                return;
            }
            let mut attempt = AcquireRound::begin(&self, &plan, turn);
            attempt.decide(&mut answer).await;
            if attempt.round.verdict() == Verdict::Won {
                let now = self.now();
                self.pace.sample(now.saturating_since(attempt.started));
                let waited = now.saturating_since(started);
                telemetry::acquired(&plan.resource, lost.saturating_add(1), waited);
                // A caller that is gone hands the lease back, and dropping it releases it.
                drop(answer.send(Ok(attempt.lease())));
                attempt.settle().await;
                return;
            }
            lost = lost.saturating_add(1);
            telemetry::round_lost(&plan.resource, attempt.round.loss(), attempt.round.granted());
            let now = self.now();
            let error = attempt.error(now.saturating_since(started));
            if let AcquireError::Contended { retry_after, nodes, .. } = &error {
                found_held = Some(FoundHeld {
                    free_at: retry_after.map(|after| now.saturating_add(after)),
                    nodes: nodes.clone(),
                });
            }
            let (begun, overrun) = (attempt.started, attempt.is_overrun());
            crowded |= attempt.has_waited();
            self.spawn(attempt.settle());
            broken_since = self.broken_since(begun, overrun, &error, broken_since);
            let pause = self.pace.pause(lost, self.random_byte(), &self.config);
            let pause = match &error {
                // Expiry is known in advance, and nothing is gained by trying again just before it.
                AcquireError::Contended { retry_after: Some(expiry), .. } => pause.min(*expiry),
                _ => pause,
            };
            let next = now.saturating_add(pause.max(self.config.retry_min / 4));
            let bearable = self.is_bearable(&plan, broken_since, next);
            // The nodes are well: this client has not yet heard of their new state, as after another one was admitted.
            let outdated = error.nodes().is_some_and(Reports::is_outdated);
            let again = now.saturating_since(started) < self.config.node_timeout;
            if outdated && again && plan.wait_policy == WaitPolicy::OneRound {
                if let Either::Left(_) =
                    select(pin!(answer.closed()), pin!(self.look_ended())).await
                {
                    return;
                }
            } else if !bearable || !plan.wait_policy.lasts(started, next) {
                // Its time went by in line, or its round in a throng: that does not show that the nodes are broken.
                let slow = crowded && bearable
                    || self.last_answered(Line::Acquires) >= begun
                        && self.was_thronged(Line::Acquires, begun);
                let error = match error {
                    AcquireError::NoQuorum { .. } if overrun && slow => {
                        self.turned_away(TurnedAway::Late, started, found_held)
                    }
                    error => error,
                };
                let _ = answer.send(Err(error));
                return;
            }
            let closing = pin!(self.closing());
            let pause = select(self.runtime.sleep_until(next), closing);
            if let Either::Left(_) = select(pin!(answer.closed()), pause).await {
                return;
            }
            turn = match self.next_turn(deadline, &mut answer).await {
                Some(Ok(turn)) => turn,
                Some(Err(reason)) => {
                    let error = match error {
                        // What the nodes have said tells more, but for what only says that they were slow.
                        AcquireError::NoQuorum { .. } | AcquireError::TooLate { .. }
                            if !overrun && reason == TurnedAway::Late =>
                        {
                            error
                        }
                        _ => self.turned_away(reason, started, found_held),
                    };
                    let _ = answer.send(Err(error));
                    return;
                }
                None => return,
            };
        }
    }

    /// Ends when the nodes have been looked at again, so that a quorum may vote, or when that takes too long.
    async fn look_ended(&self) {
        let until = self.now().saturating_add(self.config.node_timeout);
        let mut limit = self.runtime.sleep_until(until);
        loop {
            let changed = pin!(self.fleet.changed.notified());
            let nodes = (0..self.nodes.len()).map(NodeId::new);
            if nodes.filter(|node| self.may_vote(*node).is_ok()).count() >= self.quorum.needed() {
                return;
            }
            if let Either::Right(_) = select(changed, &mut limit).await {
                return;
            }
        }
    }

    /// A turn for another round. It is at the end of the line: many who wait for one resource must not keep all others
    /// from theirs. `None` says that the caller is gone.
    async fn next_turn(
        self: &Arc<Self>,
        deadline: Option<Timestamp>,
        answer: &mut Answer,
    ) -> Option<Result<Turn, TurnedAway>> {
        if let Some(turn) = self.take_turn(Line::Acquires) {
            return Some(Ok(turn));
        }
        let (give, given) = oneshot::channel();
        // Where nobody takes it, it is given back by being dropped.
        let start = Box::new(move |turn| drop(give.send(turn)));
        let place = self.wait_for_turn(Line::Acquires, deadline, start);
        let _place = place.map(|place| Place { engine: Arc::clone(self), place });
        match select(pin!(answer.closed()), given).await {
            Either::Left(_) => None,
            Either::Right((turn, _)) => Some(turn.unwrap_or(Err(TurnedAway::Closed))),
        }
    }

    fn turned_away(
        &self,
        reason: TurnedAway,
        started: Timestamp,
        found_held: Option<FoundHeld>,
    ) -> AcquireError {
        let now = self.now();
        let waited = now.saturating_since(started);
        match (reason, found_held) {
            (TurnedAway::Closed, _) => AcquireError::Closed,
            (TurnedAway::Late, Some(FoundHeld { free_at, nodes })) => {
                let retry_after = free_at.map(|at| at.saturating_since(now));
                AcquireError::Contended { waited, retry_after, nodes }
            }
            (TurnedAway::Late, None) => {
                AcquireError::Crowded { waited, waiting: self.waiting(Line::Acquires) }
            }
        }
    }

    /// Since when too few nodes answer, after a lost round that was `begun` then.
    fn broken_since(
        &self,
        begun: Timestamp,
        overrun: bool,
        error: &AcquireError,
        before: Option<Timestamp>,
    ) -> Option<Timestamp> {
        match error {
            // A quarantine ends by itself, and so is worth waiting for.
            AcquireError::NoQuorum { nodes, .. } if !nodes.in_quarantine() => {
                // Where others have been answered meanwhile, the nodes are slow, and not gone.
                let slow = overrun.then(|| self.last_answered(Line::Acquires));
                Some(before.unwrap_or(begun).max(slow.unwrap_or_default()))
            }
            _ => None,
        }
    }

    /// Whether an outage is ridden out until `next`: for a quarter of the wait, and for a node timeout at least. Then
    /// it is reported, because waiting does not mend it.
    fn is_bearable(
        &self,
        plan: &AcquireSpec,
        broken_since: Option<Timestamp>,
        next: Timestamp,
    ) -> bool {
        let wait = match plan.wait_policy {
            WaitPolicy::OneRound => Duration::ZERO,
            WaitPolicy::For(wait) => wait,
            WaitPolicy::Unlimited => self.config.wait,
        };
        let bearable = self.config.node_timeout.max(wait / 4);
        broken_since.is_none_or(|since| next < since.saturating_add(bearable))
    }

    fn random_byte(&self) -> u8 {
        let [byte, ..] = self.runtime.random();
        byte
    }
}

impl Engine {
    /// One report per node.
    pub(super) fn reports(&self, outcomes: &[NodeOutcome]) -> Reports {
        let report =
            |(index, (slot, outcome)): (usize, (&super::NodeSlot, &NodeOutcome))| NodeReport {
                node: NodeId::new(index),
                address: Arc::clone(&slot.address),
                outcome: outcome.clone(),
            };
        Reports::new(self.nodes.iter().zip(outcomes).enumerate().map(report).collect())
    }
}
