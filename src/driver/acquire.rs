//! One acquire from its first round to its answer: rounds, pauses, and what is left behind.
//!
//! It decides when to try again. It runs beside the caller, who may go away at any moment: whatever has
//! been set by then is released here.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use tokio::sync::oneshot;

use super::{Driver, attempt::Attempt};
use crate::{
    error::{AcquireError, NodeOutcome, NodeReport, Reports},
    lease::Lease,
    protocol::{NodeId, Resource, Timestamp, Upkeep, Verdict},
    telemetry,
};

/// What a caller asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The key on the nodes.
    pub(crate) resource: Resource,
    pub(crate) ttl: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) patience: Patience,
    pub(crate) upkeep: Upkeep,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Patience {
    /// One round.
    OneRound,
    /// Rounds until this much time has passed.
    For(Duration),
    /// Rounds until it is granted.
    Unlimited,
}

pub(super) type Answer = oneshot::Sender<Result<Lease, AcquireError>>;

impl Driver {
    /// Starts to acquire; the answer comes through the channel. Dropping the receiver gives up.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        plan: Plan,
    ) -> oneshot::Receiver<Result<Lease, AcquireError>> {
        let (answer, receiver) = oneshot::channel();
        let driver = Arc::clone(self);
        self.spawn(async move { driver.acquire_rounds(plan, answer).await });
        receiver
    }

    async fn acquire_rounds(self: Arc<Self>, plan: Plan, mut answer: Answer) {
        let started = self.now();
        let mut lost = 0u32;
        let mut broken_since = None;
        loop {
            if self.is_closed() {
                let _ = answer.send(Err(AcquireError::Closed));
                return;
            }
            if answer.is_closed() {
                return;
            }
            let mut attempt = Attempt::begin(&self, &plan);
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
            let attempt_started = attempt.started;
            self.spawn(attempt.settle());
            broken_since = match &error {
                // A quarantine ends by itself, and so is worth waiting for.
                AcquireError::NoQuorum { nodes, .. } if !nodes.in_quarantine() => {
                    broken_since.or(Some(attempt_started))
                }
                _ => None,
            };
            let pause = self.pace.pause(lost, self.random_byte(), &self.config);
            let pause = match &error {
                // Expiry is known in advance, and nothing is gained by trying again just before it.
                AcquireError::Contended { retry_after: Some(expiry), .. } => pause.min(*expiry),
                _ => pause,
            };
            let next = now.saturating_add(pause.max(self.config.retry_min / 4));
            if !self.try_again(&plan, started, broken_since, next) {
                let _ = answer.send(Err(error));
                return;
            }
            let gone = pin!(answer.closed());
            if let Either::Left(_) = select(gone, self.runtime.sleep_until(next)).await {
                return;
            }
        }
    }

    /// Whether the caller's patience lasts until `next`. An outage is ridden out for a node timeout and
    /// then reported, because waiting does not mend it.
    fn try_again(
        &self,
        plan: &Plan,
        started: Timestamp,
        broken_since: Option<Timestamp>,
        next: Timestamp,
    ) -> bool {
        let patient = match plan.patience {
            Patience::OneRound => false,
            Patience::For(wait) => next < started.saturating_add(wait),
            Patience::Unlimited => true,
        };
        let bearable =
            broken_since.is_none_or(|since| next < since.saturating_add(self.config.node_timeout));
        patient && bearable
    }

    fn random_byte(&self) -> u8 {
        let [byte, ..] = self.runtime.random();
        byte
    }
}

impl Driver {
    /// One report per node.
    pub(super) fn reports(&self, outcomes: &[NodeOutcome]) -> Reports {
        let report =
            |(index, (member, outcome)): (usize, (&super::Member, &NodeOutcome))| NodeReport {
                node: NodeId::new(index),
                address: Arc::clone(&member.address),
                outcome: outcome.clone(),
            };
        Reports::new(self.nodes.iter().zip(outcomes).enumerate().map(report).collect())
    }
}
