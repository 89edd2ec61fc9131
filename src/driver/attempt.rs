//! One acquire round as it runs: what is sent, what comes back, and what has to be undone.
//!
//! It carries out what the round decides. It must see to every node that it asked, also after the verdict.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use super::{
    Driver,
    acquire::{Answer, Plan},
    fanout::{Fanout, Progress},
    footprint::{Footprint, Refusals},
    turns::Turn,
};
use crate::{
    error::{AcquireError, NodeOutcome, Reports},
    lease::{Held, Lease},
    node::NodeError,
    protocol::{
        Command, Lifecycle, Loss, NodeId, Owner, Reply, Round, Terms, Timestamp, Upkeep, Verdict,
    },
};

/// One round with its commands under way.
pub(super) struct Attempt {
    driver: Arc<Driver>,
    pub(super) round: Round,
    pub(super) started: Timestamp,
    calls: Fanout,
    outcomes: Vec<NodeOutcome>,
    upkeep: Upkeep,
    /// The nodes to release on, and of each whether its acquire may still be executed.
    undone: Vec<(NodeId, bool)>,
    refusals: Refusals,
    /// The lease that was won, while somebody holds it.
    held: Weak<Held>,
    turn: Turn,
}

impl Attempt {
    /// Reads the clock, and then sends.
    pub(super) fn begin(driver: &Arc<Driver>, plan: &Plan, mut turn: Turn) -> Self {
        let mut terms = Terms::new(
            plan.resource.clone(),
            Owner::from_random(driver.runtime.random()),
            plan.ttl,
        );
        terms.drift = driver.config.drift();
        terms.min_validity = plan.min_validity;
        terms.hint = driver.hint();
        terms.marks = driver.marks();
        let started = driver.now();
        turn.begin(started);
        let mut attempt = Self {
            round: Round::acquire(driver.quorum, terms, started),
            started,
            calls: Fanout::begun_at(driver, started),
            outcomes: vec![NodeOutcome::Unanswered; driver.nodes.len()],
            upkeep: plan.upkeep,
            undone: Vec::new(),
            refusals: Refusals::default(),
            held: Weak::new(),
            turn,
            driver: Arc::clone(driver),
        };
        attempt.leave_out_unreachable();
        attempt.send();
        attempt
    }

    /// Sends what the round asks for; what is to be undone is kept for later.
    fn send(&mut self) {
        while let Some((node, command)) = self.round.poll_command() {
            match command {
                Command::Release { .. } => self.undone.push((node, self.has_failed(node))),
                command => self.calls.push(&self.driver, node, command),
            }
        }
    }

    /// Counts the nodes that cannot be asked before any other is, so that a round that cannot be won sends
    /// nothing.
    fn leave_out_unreachable(&mut self) {
        let driver = Arc::clone(&self.driver);
        for (index, member) in driver.nodes.iter().enumerate() {
            let node = NodeId::new(index);
            if let Err(error) = member.node.reachable().and_then(|()| driver.may_vote(node)) {
                let reply = Reply::Failed { sent: error.sent() };
                self.note(node, Err(error));
                self.round.handle_reply(node, reply, self.started);
            }
        }
    }

    /// Runs until the verdict, or until the caller is gone.
    pub(super) async fn decide(&mut self, answer: &mut Answer) {
        poll_fn(|cx| {
            while self.round.verdict() == Verdict::Pending {
                match self.calls.poll_progress(&self.driver, cx) {
                    Poll::Ready(progress) => self.take(progress),
                    Poll::Pending if answer.poll_closed(cx).is_ready() => {
                        self.round.handle_abandoned();
                        self.send();
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(())
        })
        .await;
        match self.round.loss() {
            // What a caller has given up is under way all the same: it counts until it is answered.
            Some(Loss::Abandoned) => {}
            Some(Loss::NoQuorum) if self.is_overrun() => {
                self.turn.handle_overrun(self.driver.now())
            }
            _ => self.turn.give_back(),
        }
    }

    /// Whether a quorum might have answered, and was too slow for it: the nodes may have too much to do.
    pub(super) fn is_overrun(&self) -> bool {
        let count = |wanted: fn(&NodeOutcome) -> bool| {
            self.outcomes.iter().filter(|outcome| wanted(outcome)).count()
        };
        let answered =
            count(|outcome| matches!(outcome, NodeOutcome::Granted | NodeOutcome::Denied(_)));
        let slow = count(|outcome| {
            let slow =
                |error: &NodeError| matches!(error, NodeError::TimedOut | NodeError::ArrivedLate);
            matches!(outcome, NodeOutcome::Failed(error) if slow(error))
        });
        let needed = self.driver.quorum.needed();
        answered < needed && answered.saturating_add(slow) >= needed
    }

    /// Whether it had to wait for its turn.
    pub(super) const fn has_waited(&self) -> bool {
        self.turn.waited
    }

    fn take(&mut self, progress: Progress) {
        let now = self.driver.now();
        match progress {
            Progress::Answered((node, result)) => {
                self.turn.handle_answer(&result, now);
                let reply = match &result {
                    Ok(reply) => {
                        if let Some(member) = self.driver.member(node) {
                            member.pace.sample(now.saturating_since(self.started));
                        }
                        reply.clone()
                    }
                    Err(error) => Reply::Failed { sent: error.sent() },
                };
                let unanswered = self.outcomes.get(node.index()) == Some(&NodeOutcome::Unanswered);
                let kept = unanswered
                    && self.held.upgrade().is_some_and(|held| held.answered(node, &reply));
                self.note(node, result);
                self.round.handle_reply(node, reply, now);
                if unanswered && !kept && !self.round.may_hold().any(|other| other == node) {
                    self.undone.retain(|(other, _)| *other != node);
                    self.refusals.add(node);
                }
            }
            // Every node has replied or failed by now, so the verdict is settled.
            Progress::TimedOut | Progress::Done => {
                let mut unanswered = 0;
                for outcome in &mut self.outcomes {
                    if *outcome == NodeOutcome::Unanswered {
                        *outcome = NodeOutcome::Failed(NodeError::TimedOut);
                        unanswered += 1;
                    }
                }
                self.turn.handle_timeout(unanswered, now);
                self.round.handle_timeout(now);
            }
        }
        self.send();
    }

    fn note(&mut self, node: NodeId, result: Result<Reply, NodeError>) {
        if let Some(outcome) = self.outcomes.get_mut(node.index()) {
            // A grant that was not confirmed is still a grant.
            if *outcome == NodeOutcome::Granted && result.is_ok() {
                return;
            }
            *outcome = match result {
                Ok(Reply::Granted(_)) => NodeOutcome::Granted,
                Ok(Reply::Denied(denial)) => NodeOutcome::Denied(denial),
                Ok(Reply::Failed { .. }) => NodeOutcome::Failed(NodeError::TimedOut),
                Err(error) => NodeOutcome::Failed(error),
            };
        }
    }

    pub(super) fn lease(&mut self) -> Lease {
        let terms = self.round.terms();
        let lifecycle = Lifecycle::new(
            self.started,
            self.round.deadline(),
            terms.ttl,
            terms.drift,
            self.upkeep,
        );
        let nodes = self.round.may_hold().map(|node| (node, self.is_unsure(node))).collect();
        let footprint = Footprint { nodes, refusals: self.refusals.clone() };
        let held = Held::new(
            &self.driver,
            terms.resource.clone(),
            terms.owner,
            self.round.token(),
            lifecycle,
            footprint,
        );
        self.held = Arc::downgrade(&held);
        held.schedule(&self.driver);
        Lease::new(held, Arc::clone(&self.driver))
    }

    /// Waits for the stragglers, and undoes whatever the round says must be undone.
    pub(super) async fn settle(mut self) {
        loop {
            self.undo();
            if self.calls.is_empty() {
                return;
            }
            let progress = self.calls.progress(&self.driver).await;
            self.take(progress);
        }
    }

    fn undo(&mut self) {
        let nodes = std::mem::take(&mut self.undone);
        if !nodes.is_empty() {
            let Terms { resource, owner, ttl, .. } = self.round.terms();
            let held = Footprint { nodes, refusals: self.refusals.clone() };
            self.driver.release_unwatched(resource.clone(), *owner, *ttl, &held);
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

    pub(super) fn error(&self, waited: Duration) -> AcquireError {
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
