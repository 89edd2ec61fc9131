//! One acquire from its first round to its answer: rounds, pauses, and what is left behind.
//!
//! It decides when to try again. It runs beside the caller, who may go away at any moment: whatever has
//! been set by then is released here.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures::future::{Either, select};
use tokio::sync::oneshot;

use super::{
    Driver,
    fanout::{Fanout, Progress},
};
use crate::{
    error::{AcquireError, NodeOutcome, NodeReport, Reports},
    lease::Lease,
    node::NodeError,
    protocol::{Loss, NodeId, Owner, Reply, Resource, Round, Terms, Timestamp, Verdict},
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

type Answer = oneshot::Sender<Result<Lease, AcquireError>>;

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
                self.pace.sample(self.now().saturating_since(attempt.started));
                telemetry::acquired(
                    &plan.resource,
                    lost.saturating_add(1),
                    self.now().saturating_since(started),
                );
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
                AcquireError::NoQuorum { .. } => broken_since.or(Some(attempt_started)),
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

/// One round with its commands under way.
struct Attempt {
    driver: Arc<Driver>,
    round: Round,
    started: Timestamp,
    calls: Fanout,
    outcomes: Vec<NodeOutcome>,
}

impl Attempt {
    /// Reads the clock, and then sends.
    fn begin(driver: &Arc<Driver>, plan: &Plan) -> Self {
        let mut terms = Terms::new(
            plan.resource.clone(),
            Owner::from_random(driver.runtime.random()),
            plan.ttl,
        );
        terms.drift = driver.config.drift();
        terms.min_validity = plan.min_validity;
        let started = driver.now();
        let mut attempt = Self {
            round: Round::acquire(driver.quorum, terms, started),
            started,
            calls: Fanout::new(driver),
            outcomes: vec![NodeOutcome::Unanswered; driver.nodes.len()],
            driver: Arc::clone(driver),
        };
        attempt.leave_out_unreachable();
        while let Some((node, command)) = attempt.round.poll_command() {
            attempt.calls.push(driver, node, command);
        }
        attempt
    }

    /// Counts the nodes that cannot be asked before any other is, so that a round that cannot be won sends
    /// nothing.
    fn leave_out_unreachable(&mut self) {
        let driver = Arc::clone(&self.driver);
        for (index, member) in driver.nodes.iter().enumerate() {
            if let Err(error) = member.node.reachable() {
                let node = NodeId::new(index);
                let reply = Reply::Failed { sent: error.sent() };
                self.note(node, Err(error));
                self.round.handle_reply(node, reply, self.started);
            }
        }
    }

    /// Runs until the verdict, or until the caller is gone.
    async fn decide(&mut self, answer: &mut Answer) {
        poll_fn(|cx| {
            while self.round.verdict() == Verdict::Pending {
                match self.calls.poll_progress(cx) {
                    Poll::Ready(progress) => self.take(progress),
                    Poll::Pending if answer.poll_closed(cx).is_ready() => {
                        self.round.handle_abandoned();
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn take(&mut self, progress: Progress) {
        let now = self.driver.now();
        match progress {
            Progress::Answered((node, result)) => {
                let reply = match &result {
                    Ok(reply) => {
                        if let Some(member) = self.driver.member(node) {
                            member.pace.sample(now.saturating_since(self.started));
                        }
                        reply.clone()
                    }
                    Err(error) => Reply::Failed { sent: error.sent() },
                };
                self.note(node, result);
                self.round.handle_reply(node, reply, now);
            }
            // Every node has replied or failed by now, so the verdict is settled.
            Progress::TimedOut | Progress::Done => {
                for outcome in &mut self.outcomes {
                    if *outcome == NodeOutcome::Unanswered {
                        *outcome = NodeOutcome::Failed(NodeError::TimedOut);
                    }
                }
                self.round.handle_timeout(now);
            }
        }
    }

    fn note(&mut self, node: NodeId, result: Result<Reply, NodeError>) {
        if let Some(outcome) = self.outcomes.get_mut(node.index()) {
            *outcome = match result {
                Ok(Reply::Granted) => NodeOutcome::Granted,
                Ok(Reply::Denied(denial)) => NodeOutcome::Denied(denial),
                Ok(Reply::Failed { .. }) => NodeOutcome::Failed(NodeError::TimedOut),
                Err(error) => NodeOutcome::Failed(error),
            };
        }
    }

    fn lease(&self) -> Lease {
        let terms = self.round.terms();
        Lease::new(
            Arc::clone(&self.driver),
            terms.resource.clone(),
            terms.owner,
            terms.ttl,
            self.round.deadline(),
            self.round.may_hold().map(|node| (node, self.is_unsure(node))).collect(),
        )
    }

    /// Waits for the stragglers, and undoes whatever the round says must be undone.
    async fn settle(mut self) {
        loop {
            self.undo();
            if self.calls.is_empty() {
                return;
            }
            let progress = self.calls.progress().await;
            self.take(progress);
        }
    }

    fn undo(&mut self) {
        let mut nodes = Vec::new();
        while let Some((node, _release)) = self.round.poll_command() {
            nodes.push((node, self.has_failed(node)));
        }
        if !nodes.is_empty() {
            let terms = self.round.terms();
            self.driver.release_unwatched(terms.resource.clone(), terms.owner, terms.ttl, nodes);
        }
    }

    /// Whether the acquire failed there, so that it may still be executed, even behind a release that is sent
    /// on another connection. A release behind one that is merely unanswered is in order.
    fn has_failed(&self, node: NodeId) -> bool {
        matches!(self.outcomes.get(node.index()), Some(NodeOutcome::Failed(_)))
    }

    /// Whether it is not known yet if the key stands there.
    fn is_unsure(&self, node: NodeId) -> bool {
        self.has_failed(node) || self.outcomes.get(node.index()) == Some(&NodeOutcome::Unanswered)
    }

    fn error(&self, waited: Duration) -> AcquireError {
        match self.round.loss() {
            Some(Loss::TooLate) => AcquireError::TooLate {
                ttl: self.round.terms().ttl,
                elapsed: self.driver.now().saturating_since(self.started),
                min_validity: self.round.terms().min_validity,
            },
            Some(Loss::NoQuorum) => AcquireError::NoQuorum {
                granted: self.round.granted(),
                needed: self.driver.quorum.needed(),
                nodes: self.reports(),
            },
            _ => {
                let nodes = self.reports();
                let retry_after = self.free_after(&nodes);
                AcquireError::Contended { waited, retry_after, nodes }
            }
        }
    }

    fn reports(&self) -> Reports {
        self.driver.reports(&self.outcomes)
    }

    /// When enough of the keys that stood in the way will have expired.
    fn free_after(&self, nodes: &Reports) -> Option<Duration> {
        let mut remaining: Vec<Option<Duration>> =
            nodes.denials().map(|(_, denial)| denial.remaining).collect();
        // A key without a ttl never expires: it sorts last.
        remaining.sort_by_key(|remaining| remaining.unwrap_or(Duration::MAX));
        let in_the_way = nodes.failures().count().saturating_add(remaining.len());
        let must_expire = in_the_way.checked_sub(self.driver.quorum.spare())?.checked_sub(1)?;
        remaining.get(must_expire).copied().flatten()
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
