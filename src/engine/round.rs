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
    Engine, Grant,
    acquire::{AcquireSpec, Answer},
    fanout::{Fanout, Progress},
    footprint::{Footprint, Refusals},
    turns::Turn,
};
use crate::{
    error::{AcquireError, NodeOutcome, Reports},
    lease::Lease,
    node::NodeError,
    protocol::{
        Command, Lifecycle, NodeId, Owner, RenewalPolicy, Reply, Round, RoundLoss, RoundSpec,
        Timestamp, Verdict,
    },
};

/// One round with its commands under way.
pub(super) struct AcquireRound {
    engine: Arc<Engine>,
    pub(super) round: Round,
    pub(super) started: Timestamp,
    calls: Fanout,
    outcomes: Vec<NodeOutcome>,
    renewal: RenewalPolicy,
    /// The nodes to release on, and of each whether its acquire may still be executed.
    undone: Vec<(NodeId, bool)>,
    refusals: Refusals,
    /// The lease that was won, while somebody holds it.
    grant: Weak<Grant>,
    turn: Turn,
}

impl AcquireRound {
    /// Reads the clock, and then sends.
    pub(super) fn begin(engine: &Arc<Engine>, plan: &AcquireSpec, mut turn: Turn) -> Self {
        let mut spec = RoundSpec::new(
            plan.resource.clone(),
            Owner::from_random(engine.runtime.random()),
            plan.ttl,
        );
        spec.drift = engine.config.drift();
        spec.min_validity = plan.min_validity;
        spec.hint = engine.hint();
        spec.marks = engine.marks();
        let started = engine.now();
        turn.begin(started);
        let mut attempt = Self {
            round: Round::acquire(engine.quorum, spec, started),
            started,
            calls: Fanout::begun_at(engine, started),
            outcomes: vec![NodeOutcome::Unanswered; engine.nodes.len()],
            renewal: plan.renewal,
            undone: Vec::new(),
            refusals: Refusals::default(),
            grant: Weak::new(),
            turn,
            engine: Arc::clone(engine),
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
                command => self.calls.push(&self.engine, node, command),
            }
        }
    }

    /// Counts the nodes that cannot be asked before any other is, so that a round that cannot be won sends
    /// nothing.
    fn leave_out_unreachable(&mut self) {
        let engine = Arc::clone(&self.engine);
        for (index, slot) in engine.nodes.iter().enumerate() {
            let node = NodeId::new(index);
            if let Err(error) = slot.node.reachable().and_then(|()| engine.may_vote(node)) {
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
                match self.calls.poll_progress(&self.engine, cx) {
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
            Some(RoundLoss::Abandoned) => {}
            Some(RoundLoss::NoQuorum) if self.is_overrun() => {
                self.turn.handle_overrun(self.engine.now())
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
        let needed = self.engine.quorum.needed();
        answered < needed && answered.saturating_add(slow) >= needed
    }

    /// Whether it had to wait for its turn.
    pub(super) const fn has_waited(&self) -> bool {
        self.turn.waited
    }

    fn take(&mut self, progress: Progress) {
        let now = self.engine.now();
        match progress {
            Progress::Answered((node, result)) => {
                self.turn.handle_answer(&result, now);
                let reply = match &result {
                    Ok(reply) => {
                        if let Some(slot) = self.engine.slot(node) {
                            slot.pace.sample(now.saturating_since(self.started));
                        }
                        reply.clone()
                    }
                    Err(error) => Reply::Failed { sent: error.sent() },
                };
                let unanswered = self.outcomes.get(node.index()) == Some(&NodeOutcome::Unanswered);
                let kept = unanswered
                    && self.grant.upgrade().is_some_and(|grant| grant.answered(node, &reply));
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
        let spec = self.round.spec();
        let lifecycle =
            Lifecycle::new(self.started, self.round.deadline(), spec.ttl, spec.drift, self.renewal);
        let nodes = self.round.may_hold().map(|node| (node, self.may_land_late(node))).collect();
        let footprint = Footprint { nodes, refusals: self.refusals.clone() };
        let grant = Grant::new(
            &self.engine,
            spec.resource.clone(),
            spec.owner,
            self.round.token(),
            lifecycle,
            footprint,
        );
        self.grant = Arc::downgrade(&grant);
        grant.schedule(&self.engine);
        Lease::new(grant, Arc::clone(&self.engine))
    }

    /// Waits for the stragglers, and undoes whatever the round says must be undone.
    pub(super) async fn settle(mut self) {
        loop {
            self.undo();
            if self.calls.is_empty() {
                return;
            }
            let progress = self.calls.progress(&self.engine).await;
            self.take(progress);
        }
    }

    fn undo(&mut self) {
        let nodes = std::mem::take(&mut self.undone);
        if !nodes.is_empty() {
            let RoundSpec { resource, owner, ttl, .. } = self.round.spec();
            let grant = Footprint { nodes, refusals: self.refusals.clone() };
            self.engine.release_unwatched(resource.clone(), *owner, *ttl, &grant);
        }
    }

    /// Whether the acquire failed there, so that it may still be executed, even behind a release that is sent
    /// on another connection. A release behind one that is merely unanswered is in order.
    fn has_failed(&self, node: NodeId) -> bool {
        matches!(self.outcomes.get(node.index()), Some(NodeOutcome::Failed(_)))
    }

    /// Whether it is not known yet if the key stands there.
    fn may_land_late(&self, node: NodeId) -> bool {
        self.has_failed(node) || self.outcomes.get(node.index()) == Some(&NodeOutcome::Unanswered)
    }

    pub(super) fn error(&self, waited: Duration) -> AcquireError {
        match self.round.loss() {
            Some(RoundLoss::TooLate) => AcquireError::TooLate {
                ttl: self.round.spec().ttl,
                elapsed: self.engine.now().saturating_since(self.started),
                min_validity: self.round.spec().min_validity,
            },
            Some(RoundLoss::NoQuorum) => AcquireError::NoQuorum {
                granted: self.round.granted(),
                needed: self.engine.quorum.needed(),
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
        self.engine.reports(&self.outcomes)
    }

    /// When enough of the keys that stood in the way will have expired.
    fn free_after(&self, nodes: &Reports) -> Option<Duration> {
        let mut remaining: Vec<Option<Duration>> =
            nodes.denials().map(|(_, denial)| denial.remaining).collect();
        // A key without a ttl never expires: it sorts last.
        remaining.sort_by_key(|remaining| remaining.unwrap_or(Duration::MAX));
        let in_the_way = nodes.failures().count().saturating_add(remaining.len());
        let must_expire = in_the_way.checked_sub(self.engine.quorum.spare())?.checked_sub(1)?;
        remaining.get(must_expire).copied().flatten()
    }
}
