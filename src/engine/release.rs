//! Releases: the one a caller waits for, and those that nobody waits for.
//!
//! It sends what the footprint orders, and reports what the tally says. It must never report a release that no quorum
//! confirmed.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use tokio::sync::oneshot;

use super::{
    Engine,
    fanout::{Fanout, Progress},
    footprint::Released,
    held::Outcomes,
    limits::Limit,
    resources::ResourceSlot,
    turn::Turn,
    unsent::{AskedRelease, Unsent},
};
use crate::{
    error::{NodeOutcome, ReleaseError},
    node::NodeError,
    protocol::{
        Command, Failure, FencingToken, NodeId, ReleaseOrder, Reply, RoundLoss, Tally, Timestamp,
        UnconfirmedRelease, Verdict, longest_release,
    },
    telemetry::{self, Caller, Held, metrics},
};

impl Engine {
    /// Releases a lease on the nodes that may hold it. It is sent when its turn has come, which is at once but for
    /// bursts of releases. The answer comes at the verdict; the work goes on until every node has answered or is left
    /// to be released later, whether or not anybody listens.
    pub(super) fn release(
        self: &Arc<Self>,
        (released, orders): (Released, Vec<ReleaseOrder>),
        slot: Arc<ResourceSlot>,
        token: Option<FencingToken>,
        caller: Caller,
        report: Option<Arc<Outcomes>>,
    ) -> oneshot::Receiver<Result<(), ReleaseError>> {
        let (answer, receiver) = oneshot::channel();
        // It counts as under way while it waits for its turn, too.
        let (started, counted) = (self.now(), self.count());
        let answer = Some(answer);
        let asked = AskedRelease {
            released,
            slot,
            token,
            caller,
            orders,
            started,
            answer,
            report,
            counted,
        };
        // What is left of the whole time after a node timeout for the round itself.
        let node_timeout = self.config.node_timeout;
        let most = longest_release(node_timeout).saturating_sub(node_timeout).max(node_timeout / 2);
        Unsent::release(self, asked).wait(self, Some(started.saturating_add(most)), started);
        receiver
    }

    /// Sends a release with its first poll. Without a turn it is no part of the load that turns count.
    pub(super) async fn release_round(self: Arc<Self>, asked: AskedRelease, turn: Option<Turn>) {
        let AskedRelease {
            released,
            slot,
            token,
            caller,
            orders,
            started,
            mut answer,
            report,
            counted,
        } = asked;
        // Where it was said to be late in line, its time begins now.
        let started = if answer.is_some() { started } else { self.now() };
        let is_kept = released.keep(&self).is_some();
        let mut tally = tally(&self, &released, &orders);
        let (target, owner) = (released.target.clone(), released.owner);
        let mut releases = Releases::new(&self, released, orders, started);
        releases.begin_turn(turn);
        while let Some((node, command)) = tally.poll_command() {
            releases.send(node, command);
        }
        loop {
            if tally.verdict() != Verdict::Pending && !releases.decided {
                let held = Held { caller: &caller, target: &target, owner, token };
                telemetry::released(held, tally.granted());
                metrics::released(match (tally.verdict(), tally.loss()) {
                    (Verdict::Won, _) => "confirmed",
                    (_, Some(RoundLoss::NoQuorum)) => "unconfirmed",
                    _ => "already_ended",
                });
                // Whoever pauses for it in this process need not wait for a node to say so.
                if tally.verdict() == Verdict::Won && !is_kept {
                    self.decide(|client| client.handle_released(slot.queue()));
                }
                if let Some(report) = &report {
                    report.note(&releases.result(&tally));
                }
                if let Some(answer) = answer.take() {
                    let _ = answer.send(releases.result(&tally));
                }
                // Stragglers keep nobody waiting.
                releases.turn = None;
                releases.decided = true;
            }
            match releases.next().await {
                // A release has no validity, so that it does not matter when its replies come.
                Some((node, reply)) => tally.handle_reply(node, reply, Timestamp::ORIGIN),
                None if tally.verdict() == Verdict::Pending => {
                    tally.handle_timeout(Timestamp::ORIGIN);
                }
                None => break,
            }
        }
        drop(counted);
    }

    /// Releases without anybody waiting, where the footprint has ordered it: the undoing of a lost round, and of what
    /// came too late.
    pub(super) fn release_unwatched(self: &Arc<Self>, released: &Released) {
        let orders = released.footprint.orders();
        if !orders.is_empty() {
            self.release_ordered(released.clone(), orders);
        }
    }

    /// The same, with the orders.
    pub(super) fn release_ordered(self: &Arc<Self>, released: Released, orders: Vec<ReleaseOrder>) {
        let mut tally = tally(self, &released, &orders);
        let mut releases = Releases::new(self, released, orders, self.now());
        // Nobody asks whether it was confirmed.
        releases.decided = true;
        while let Some((node, command)) = tally.poll_command() {
            releases.send(node, command);
        }
        // Sent here and now: the next round for this resource may begin at once, and must not overtake them.
        let mut rest = Box::pin(async move { while releases.next().await.is_some() {} });
        if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.spawn(rest);
        }
    }
}

fn tally(engine: &Engine, released: &Released, orders: &[ReleaseOrder]) -> Tally {
    let nodes = orders.iter().map(|order| order.node);
    let keep = released.keep(engine);
    Tally::release_keeping(engine.quorum, released.target.clone(), released.owner, keep, nodes)
}

/// Release commands under way, with what became of each.
struct Releases {
    engine: Arc<Engine>,
    released: Released,
    orders: Vec<ReleaseOrder>,
    calls: Fanout,
    outcomes: Vec<NodeOutcome>,
    /// Until a quorum has answered, where somebody waits for the release.
    turn: Option<Turn>,
    /// The time for stragglers. While it is not decided whether the lease is released, commands have longer.
    stragglers_until: Timestamp,
    decided: bool,
    /// Made when it is needed.
    limit: Option<Limit>,
}

impl Releases {
    /// The releases were asked for at `started`.
    fn new(
        engine: &Arc<Engine>,
        released: Released,
        orders: Vec<ReleaseOrder>,
        started: Timestamp,
    ) -> Self {
        let timeout = engine.config.node_timeout;
        Self {
            engine: Arc::clone(engine),
            released,
            orders,
            calls: Fanout::until(engine, started.saturating_add(longest_release(timeout))),
            outcomes: vec![NodeOutcome::NotAsked; engine.nodes.len()],
            turn: None,
            // From now on, however long it has waited in line.
            stragglers_until: engine.now().saturating_add(timeout),
            decided: false,
            limit: None,
        }
    }

    fn begin_turn(&mut self, turn: Option<Turn>) {
        self.turn = turn;
        if let Some(turn) = &mut self.turn {
            turn.begin(self.engine.now());
        }
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
            let limit = self.limit.get_or_insert_with(|| Limit::new(self.stragglers_until));
            ready!(limit.poll(&self.engine.limits, cx));
            // Dropped, the calls have timed out; from an empty fan-out the loop learns that there are no more.
            self.calls = Fanout::new(&self.engine);
            Poll::Ready(Progress::TimedOut)
        })
        .await
    }

    /// The next reply; `None` when there will be no more.
    async fn next(&mut self) -> Option<(NodeId, Result<Reply, Failure>)> {
        match self.progress().await {
            Progress::Answered((node, result)) => {
                if let Some(turn) = &mut self.turn {
                    turn.handle_answer(&result, self.calls.heard(&self.engine));
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
                    let _ = self.answered(node, Err(NodeError::TimedOut));
                }
                // The tally hears of the others by `handle_timeout`, when nothing more comes.
                first.map(|node| (node, Err(Failure::TIMED_OUT)))
            }
        }
    }

    /// Notes what became of the release on a node. What has not been confirmed is left to be released later, and what
    /// found nothing is looked at again where the key may land yet.
    fn answered(
        &mut self,
        node: NodeId,
        result: Result<Reply, NodeError>,
    ) -> Result<Reply, Failure> {
        let engine = &self.engine;
        match &result {
            // Nothing that sets the key is on its way any more.
            Ok(Reply::Granted(_)) if !self.order(node).is_some_and(|order| order.several) => {}
            // The acquire has meanwhile turned out to have set nothing there.
            _ if self.released.footprint.is_clear(node) => {}
            Ok(reply) => {
                let release = self.unconfirmed(node);
                if let Some(again) = engine.answered(release, reply, engine.steady()) {
                    engine.leave_for_later(node, again, self.released.clone());
                }
            }
            Err(_) => {
                let release = self.unconfirmed(node);
                engine.leave_for_later(node, release, self.released.clone());
            }
        }
        let reply = result.clone().map_err(|error| error.failure());
        if let Some(slot) = self.outcomes.get_mut(node.index()) {
            *slot = NodeOutcome::of(result);
        }
        reply
    }

    /// The last order for a node knows most: a late answer may have added one.
    fn order(&self, node: NodeId) -> Option<&ReleaseOrder> {
        self.orders.iter().rfind(|order| order.node == node)
    }

    fn unconfirmed(&self, node: NodeId) -> UnconfirmedRelease {
        self.engine.unconfirmed(&self.released, self.order(node))
    }

    fn result(&self, tally: &Tally) -> Result<(), ReleaseError> {
        let released = tally.granted();
        let nodes = || self.engine.reports(&self.outcomes);
        let target = || Some(self.released.target.clone());
        match (tally.verdict(), tally.loss()) {
            (Verdict::Won, _) => Ok(()),
            (_, Some(RoundLoss::NoQuorum)) => Err(ReleaseError::Unconfirmed {
                target: target(),
                released,
                needed: self.engine.quorum.needed(),
                nodes: nodes(),
            }),
            _ => Err(ReleaseError::AlreadyEnded { target: target(), released, nodes: nodes() }),
        }
    }
}
