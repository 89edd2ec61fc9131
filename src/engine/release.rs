//! Releases: the one a caller waits for, and those that nobody waits for.
//!
//! It decides which nodes need another release later. It must never report a release that no quorum
//! confirmed.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use tokio::sync::oneshot;

use super::{
    Counted, Engine,
    cleanup::PendingRelease,
    fanout::{Fanout, Progress},
    footprint::{Footprint, Refusals},
    turns::{Line, Turn, TurnedAway},
};
use crate::{
    error::{NodeOutcome, ReleaseError},
    node::NodeError,
    protocol::{Command, NodeId, Owner, Reply, Resource, Round, RoundLoss, Timestamp, Verdict},
    runtime::Task,
    telemetry,
};

/// How long a release waits for a quorum, in line and after it: ten node timeouts, and at most a second unless one of
/// them is longer. No validity depends on it, so that there is no hurry: a hiccup of the nodes need not look like a
/// release that failed.
fn longest(node_timeout: Duration) -> Duration {
    node_timeout.saturating_mul(10).min(Duration::from_secs(1)).max(node_timeout)
}

impl Engine {
    /// Releases a lease on the nodes that may hold it. It is sent when its turn has come, which is at once but for
    /// bursts of releases. The answer comes at the verdict; the work goes on until every node has answered or is left
    /// to be released later, whether or not anybody listens.
    pub(crate) fn release(
        self: &Arc<Self>,
        resource: Resource,
        owner: Owner,
        ttl: Duration,
        held: Footprint,
    ) -> oneshot::Receiver<Result<(), ReleaseError>> {
        let (answer, receiver) = oneshot::channel();
        // It counts as under way while it waits for its turn, too.
        let (started, counted) = (self.now(), self.count());
        let answer = Some(answer);
        let asked = Asked { resource, owner, ttl, held, started, answer, counted };
        match self.take_turn(Line::Releases) {
            Some(turn) => asked.begin(self, Ok(turn)),
            None => {
                let node_timeout = self.config.node_timeout;
                let most = longest(node_timeout).saturating_sub(node_timeout).max(node_timeout / 2);
                let engine = Arc::clone(self);
                let start = Box::new(move |turn| asked.begin(&engine, turn));
                self.wait_for_turn(Line::Releases, Some(started.saturating_add(most)), start);
            }
        }
        receiver
    }

    async fn release_round(self: Arc<Self>, asked: Asked, turn: Turn) {
        let Asked { resource, owner, ttl, held, started, mut answer, counted } = asked;
        let nodes = held.nodes.iter().map(|(node, _)| *node);
        let mut round = Round::release(self.quorum, resource, owner, nodes);
        let mut releases = Releases::new(&self, &round, ttl, &held, started).with_turn(turn);
        while let Some((node, command)) = round.poll_command() {
            releases.send(node, command);
        }
        loop {
            if round.verdict() != Verdict::Pending && !releases.decided {
                telemetry::released(&round.spec().resource, round.granted());
                if let Some(answer) = answer.take() {
                    let _ = answer.send(releases.result(&round));
                }
                // Stragglers keep nobody waiting.
                releases.turn = None;
                releases.decided = true;
            }
            match releases.next().await {
                // A release has no validity, so that it does not matter when its replies come.
                Some((node, reply)) => round.handle_reply(node, reply, Timestamp::ORIGIN),
                None if round.verdict() == Verdict::Pending => {
                    round.handle_timeout(Timestamp::ORIGIN);
                }
                None => break,
            }
        }
        drop(counted);
    }

    /// Releases on some nodes without anybody waiting: the undoing of a lost round.
    pub(super) fn release_unwatched(
        self: &Arc<Self>,
        resource: Resource,
        owner: Owner,
        ttl: Duration,
        held: &Footprint,
    ) {
        let nodes = held.nodes.iter().map(|(node, _)| *node);
        let mut round = Round::release(self.quorum, resource, owner, nodes);
        let mut releases = Releases::new(self, &round, ttl, held, self.now());
        // Nobody asks whether it was confirmed.
        releases.decided = true;
        while let Some((node, command)) = round.poll_command() {
            releases.send(node, command);
        }
        self.spawn(async move { while releases.next().await.is_some() {} });
    }
}

/// A release that somebody waits for, before its round.
struct Asked {
    resource: Resource,
    owner: Owner,
    ttl: Duration,
    held: Footprint,
    started: Timestamp,
    /// Until whoever waits for it has been told.
    answer: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    counted: Counted,
}

impl Asked {
    /// Begins; or, when its time is up in line, says so to whoever waits for it, and goes on waiting for its turn.
    fn begin(mut self, engine: &Arc<Engine>, turn: Result<Turn, TurnedAway>) {
        if let Ok(turn) = turn {
            engine.spawn_uncounted(Arc::clone(engine).release_round(self, turn));
            return;
        }
        if let Some(answer) = self.answer.take().filter(|answer| !answer.is_closed()) {
            let _ = answer.send(Err(ReleaseError::Unconfirmed {
                released: 0,
                needed: engine.quorum.needed(),
                nodes: engine.reports(&vec![NodeOutcome::NotAsked; engine.nodes.len()]),
            }));
        }
        let driver_of_start = Arc::clone(engine);
        let start = Box::new(move |turn: Result<Turn, TurnedAway>| {
            if let Ok(turn) = turn {
                // Its time begins now.
                self.started = driver_of_start.now();
                self.begin(&driver_of_start, Ok(turn));
            }
        });
        engine.wait_for_turn(Line::Releases, None, start);
    }
}

/// Release commands under way, with what became of each.
struct Releases {
    engine: Arc<Engine>,
    resource: Resource,
    owner: Owner,
    ttl: Duration,
    calls: Fanout,
    outcomes: Vec<NodeOutcome>,
    /// The nodes where an acquire may still be executed after its release.
    may_land_late: Vec<NodeId>,
    refusals: Refusals,
    /// Until a quorum has answered, where somebody waits for the release.
    turn: Option<Turn>,
    /// The time for stragglers. While it is not decided whether the lease is released, commands have longer.
    stragglers_until: Timestamp,
    decided: bool,
    /// Made when it is needed.
    limit: Option<Task>,
}

impl Releases {
    /// The releases were asked for at `started`.
    fn new(
        engine: &Arc<Engine>,
        round: &Round,
        ttl: Duration,
        held: &Footprint,
        started: Timestamp,
    ) -> Self {
        let timeout = engine.config.node_timeout;
        Self {
            engine: Arc::clone(engine),
            resource: round.spec().resource.clone(),
            owner: round.spec().owner,
            ttl,
            calls: Fanout::until(engine, started.saturating_add(longest(timeout))),
            stragglers_until: engine.now().saturating_add(timeout),
            decided: false,
            limit: None,
            outcomes: vec![NodeOutcome::NotAsked; engine.nodes.len()],
            may_land_late: held.nodes.iter().filter(|held| held.1).map(|(node, _)| *node).collect(),
            refusals: held.refusals.clone(),
            turn: None,
        }
    }

    fn with_turn(mut self, mut turn: Turn) -> Self {
        turn.begin(self.engine.now());
        self.turn = Some(turn);
        self
    }

    fn send(&mut self, node: NodeId, command: Command) {
        if let Some(outcome) = self.outcomes.get_mut(node.index()) {
            *outcome = NodeOutcome::Unanswered;
        }
        self.calls.push(&self.engine, node, command);
    }

    /// What happens next. Once it is decided, stragglers have a node timeout in all.
    async fn progress(&mut self) -> Progress {
        poll_fn(|cx| {
            let progress = self.calls.poll_progress(&self.engine, cx);
            if progress.is_ready() || !self.decided {
                return progress;
            }
            let limit = || self.engine.sleep_until(self.stragglers_until);
            if self.limit.get_or_insert_with(limit).as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.calls = Fanout::new(&self.engine);
            Poll::Ready(Progress::TimedOut)
        })
        .await
    }

    /// The next reply; `None` when there will be no more.
    async fn next(&mut self) -> Option<(NodeId, Reply)> {
        match self.progress().await {
            Progress::Answered((node, result)) => {
                if let Some(turn) = &mut self.turn {
                    turn.handle_answer(&result, self.engine.now());
                }
                Some((node, self.answered(node, result)))
            }
            Progress::Done => None,
            Progress::TimedOut => {
                let unanswered = |(index, outcome): (usize, &NodeOutcome)| {
                    (*outcome == NodeOutcome::Unanswered).then(|| NodeId::new(index))
                };
                let late: Vec<NodeId> =
                    self.outcomes.iter().enumerate().filter_map(unanswered).collect();
                if let Some(turn) = &mut self.turn {
                    turn.handle_timeout(late.len(), self.engine.now());
                }
                let first = late.first().copied();
                for node in late {
                    self.answered(node, Err(NodeError::TimedOut));
                }
                first.map(|node| (node, Reply::Failed { sent: true }))
            }
        }
    }

    fn answered(&mut self, node: NodeId, result: Result<Reply, NodeError>) -> Reply {
        let (outcome, reply) = match result {
            Ok(Reply::Granted(_)) => (NodeOutcome::Granted, Reply::Granted(None)),
            Ok(Reply::Denied(denial)) => {
                let now = self.engine.steady();
                if self.may_land_late.contains(&node)
                    && let Some(pending) = self.pending(true).found_nothing(&self.engine, now)
                {
                    self.engine.leave_for_later(node, pending);
                }
                (NodeOutcome::Denied(denial.clone()), Reply::Denied(denial))
            }
            Ok(Reply::Failed { sent }) => {
                self.later(node);
                (NodeOutcome::Failed(NodeError::TimedOut), Reply::Failed { sent })
            }
            Err(error) => {
                self.later(node);
                let sent = error.sent();
                (NodeOutcome::Failed(error), Reply::Failed { sent })
            }
        };
        if let Some(slot) = self.outcomes.get_mut(node.index()) {
            *slot = outcome;
        }
        reply
    }

    /// Leaves the release to be sent again later.
    fn later(&self, node: NodeId) {
        if !self.refusals.contain(node) {
            self.engine.leave_for_later(node, self.pending(self.may_land_late.contains(&node)));
        }
    }

    fn pending(&self, may_land_late: bool) -> PendingRelease {
        let refusals = self.refusals.clone();
        PendingRelease::new(
            &self.engine,
            &self.resource,
            self.owner,
            self.ttl,
            may_land_late,
            refusals,
        )
    }

    fn result(&self, round: &Round) -> Result<(), ReleaseError> {
        let released = round.granted();
        let nodes = || self.engine.reports(&self.outcomes);
        match (round.verdict(), round.loss()) {
            (Verdict::Won, _) => Ok(()),
            (_, Some(RoundLoss::NoQuorum)) => Err(ReleaseError::Unconfirmed {
                released,
                needed: self.engine.quorum.needed(),
                nodes: nodes(),
            }),
            _ => Err(ReleaseError::AlreadyEnded { released, nodes: nodes() }),
        }
    }
}
