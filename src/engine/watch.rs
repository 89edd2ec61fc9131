//! Tells the log the state of the nodes, and whether a quorum votes, as this process sees it.
//!
//! `protocol::Watch` decides what is told and when; this file looks at the nodes on each change, and when a line is due
//! again. It decides nothing about locks, asks no node anything, holds no lock while it tells, and keeps no engine
//! alive.

use std::{
    fmt,
    mem::Discriminant,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::select;

use super::{Engine, readiness};
use crate::{
    node::{NodeState, NodeStatus, Refusal},
    protocol::{
        AdmissionBlock, Manner, NodeId, NodeSet, Notice, Pacer, Resource, Timestamp, VoteBlock,
        Watch,
    },
    telemetry::{self, NodeShown},
};

/// What is told of one node, without the details.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Votes,
    /// Its first connection is being made, or it is being looked at.
    Asked,
    Quarantined,
    HeldBack(AdmissionBlock),
    Down,
    Refused(Discriminant<Refusal>),
}

/// What is told of all nodes together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fleet {
    /// A quorum votes.
    Votes,
    /// A quorum would vote but for quarantines, such as in a new deployment.
    Waits,
    Missing,
}

/// Repeated events, told with a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Repeated {
    Admitted(NodeId),
    OwnClock,
    ReleaseQueued(NodeId),
    ReleaseGivenUp(NodeId),
}

/// Keeps the log informed until the engine is gone.
pub(super) async fn attend(engine: Weak<Engine>) {
    let Some(fleet) = engine.upgrade().map(|engine| Arc::clone(&engine.fleet)) else { return };
    let mut watched = Watched::default();
    loop {
        // Registered before the nodes are looked at, so that no change in between is missed, nor the end of the engine,
        // which signals a change.
        let mut changed = pin!(fleet.changed.notified());
        changed.as_mut().enable();
        let sleep = {
            let Some(engine) = engine.upgrade() else { return };
            watched.look(&engine).map(|at| engine.sleep_until(at))
        };
        match sleep {
            Some(sleep) => drop(select(changed, sleep).await),
            None => changed.await,
        }
    }
}

/// All that has been told.
#[derive(Default)]
struct Watched {
    nodes: Vec<Watch<Kind>>,
    /// Whether there is a quorum, from the first one on.
    quorum: Watch<bool>,
    /// What else blocks all acquires: quarantines, and before the first quorum any cause.
    fleet: Watch<Fleet>,
    /// Which of both was told, and its end not yet.
    waits: bool,
    none_yet: bool,
    had_quorum: bool,
}

impl Watched {
    /// Looks at all nodes, and tells what is new. Returns when a line is due again.
    fn look(&mut self, engine: &Engine) -> Option<Timestamp> {
        let (statuses, now) = (engine.statuses(), engine.now());
        self.nodes.resize_with(statuses.len(), Watch::default);
        let kinds: Vec<Kind> = statuses
            .iter()
            .enumerate()
            .map(|(index, status)| kind(engine, NodeId::new(index), status))
            .collect();
        let fleet = fleet(engine, &kinds);
        let nodes = self.nodes.iter_mut().zip(&statuses).zip(&kinds).enumerate();
        for (index, ((watch, status), kind)) in nodes {
            // One line for all of them, if nobody can acquire.
            let together = *kind == Kind::Quarantined && fleet == Fleet::Waits;
            let manner = if together { Manner::Silent } else { manner(engine, kind) };
            if let Some(notice) = watch.handle(kind, manner, now) {
                tell(NodeId::new(index), status, kind, notice);
            }
        }
        self.look_at_quorum(engine, &statuses, fleet, now);
        let timeouts = self.nodes.iter().map(Watch::poll_timeout);
        timeouts.chain([self.quorum.poll_timeout(), self.fleet.poll_timeout()]).flatten().min()
    }

    fn look_at_quorum(
        &mut self,
        engine: &Engine,
        statuses: &[NodeStatus],
        fleet: Fleet,
        now: Timestamp,
    ) {
        let ready = readiness::ready(statuses);
        let (votes, needed) = (ready.len(), engine.quorum.needed_beyond(ready));
        let there = engine.quorum.is_met_by(ready);
        let missing = Missing(statuses);
        let node_timeout = engine.config.node_timeout;
        let manner = match fleet {
            Fleet::Votes => Manner::Over,
            // One line is to tell of all waiting nodes.
            Fleet::Waits => Manner::Lasting(node_timeout),
            // The loss is told below.
            Fleet::Missing if self.had_quorum => Manner::Silent,
            Fleet::Missing => Manner::Lasting(engine.config.connect_timeout),
        };
        match (self.fleet.handle(&fleet, manner, now), fleet) {
            (Some(notice), Fleet::Votes) => {
                if std::mem::take(&mut self.waits) {
                    telemetry::quarantine_over(votes, needed, notice.times);
                }
                if std::mem::take(&mut self.none_yet) {
                    telemetry::quorum_there(votes, needed);
                }
            }
            (Some(notice), Fleet::Waits) => {
                self.waits = true;
                let waits = waits(statuses);
                let missing = needed.saturating_sub(votes).checked_sub(1);
                let left = missing.and_then(|last| waits.get(last)).copied().unwrap_or_default();
                let max_ttl = engine.admission().longest();
                telemetry::nobody_votes(waits.len(), statuses.len(), left, max_ttl, notice);
            }
            (Some(notice), Fleet::Missing) => {
                self.none_yet = true;
                telemetry::no_quorum_yet(votes, needed, &missing, notice);
            }
            (None, _) => {}
        }
        self.had_quorum |= there;
        if !self.had_quorum {
            return;
        }
        // Nodes that are looked at again, as after another's admission, do not vote for a moment.
        let lost = Manner::Lasting(node_timeout.saturating_mul(2));
        match self.quorum.handle(&there, if there { Manner::Over } else { lost }, now) {
            Some(notice) if there => telemetry::quorum_back(votes, needed, notice.times),
            Some(notice) => telemetry::quorum_lost(votes, needed, &missing, notice),
            None => {}
        }
    }
}

fn kind(engine: &Engine, node: NodeId, status: &NodeStatus) -> Kind {
    match &status.state {
        NodeState::Connecting => Kind::Asked,
        NodeState::Ready => Kind::Votes,
        NodeState::Quarantined { .. } => {
            // Read before locking: the clock is user code.
            let now = engine.steady();
            let block = engine.admission().may_vote(node, now);
            match block {
                Err(VoteBlock::HeldBack(block)) => Kind::HeldBack(block),
                _ => Kind::Quarantined,
            }
        }
        NodeState::Down { .. } => Kind::Down,
        NodeState::Refused(refusal) => Kind::Refused(std::mem::discriminant(refusal)),
    }
}

/// The state of all nodes together. A node that is held back does not end its wait by itself.
fn fleet(engine: &Engine, kinds: &[Kind]) -> Fleet {
    let of = |of: Kind| -> NodeSet {
        let those = kinds.iter().enumerate().filter(|(_, kind)| **kind == of);
        those.map(|(index, _)| NodeId::new(index)).collect()
    };
    let votes = of(Kind::Votes);
    if engine.quorum.is_met_by(votes) {
        Fleet::Votes
    } else if engine.quorum.is_met_by(votes.or(of(Kind::Quarantined))) {
        Fleet::Waits
    } else {
        Fleet::Missing
    }
}

/// The nodes' remaining waits, the shortest first.
fn waits(statuses: &[NodeStatus]) -> Vec<Duration> {
    let wait = |status: &NodeStatus| match status.state {
        NodeState::Quarantined { remaining } => Some(remaining),
        _ => None,
    };
    let mut waits: Vec<Duration> = statuses.iter().filter_map(wait).collect();
    waits.sort_unstable();
    waits
}

fn manner(engine: &Engine, kind: &Kind) -> Manner {
    match kind {
        // The other nodes may take this long to say that they wait too.
        Kind::Quarantined => Manner::Lasting(engine.config.node_timeout),
        Kind::Votes => Manner::Once,
        // The node itself says so at its connect timeout, if it can.
        Kind::Asked => Manner::Lasting(
            engine.config.connect_timeout.saturating_add(engine.config.node_timeout),
        ),
        _ => Manner::Lasting(Duration::ZERO),
    }
}

fn tell(node: NodeId, status: &NodeStatus, kind: &Kind, notice: Notice) {
    let shown = NodeShown { node, address: &status.address };
    match (kind, &status.state) {
        (Kind::HeldBack(block), _) => telemetry::node_held_back(shown, *block, notice),
        (_, NodeState::Ready) => telemetry::node_votes(shown, status.version.as_deref(), notice),
        (_, NodeState::Connecting) => telemetry::node_silent(shown, notice),
        (_, NodeState::Quarantined { remaining }) => {
            telemetry::node_quarantined(shown, *remaining, notice);
        }
        (_, NodeState::Down { reason }) => {
            telemetry::node_down(shown, reason, status.failed_attempts, notice);
        }
        (_, NodeState::Refused(refusal)) => telemetry::node_refused(shown, refusal, notice),
    }
}

/// The nodes that do not vote, and why, in one line.
struct Missing<'a>(&'a [NodeStatus]);

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.0.iter().enumerate();
        let missing = nodes.filter(|(_, status)| status.state != NodeState::Ready);
        for (place, (index, status)) in missing.enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}node {index} ({}): ", status.address)?;
            match &status.state {
                NodeState::Connecting => f.write_str("no answer yet")?,
                NodeState::Ready => {}
                NodeState::Quarantined { remaining } => {
                    write!(f, "in quarantine for {remaining:?}")?;
                }
                NodeState::Down { reason } => write!(f, "down, {reason}")?,
                NodeState::Refused(refusal) => write!(f, "refused, {refusal}")?,
            }
        }
        Ok(())
    }
}

impl Engine {
    /// If this is told now, how often it has happened since it was last told.
    pub(super) fn is_told(&self, what: Repeated) -> Option<u64> {
        let now = self.now();
        self.repeats.lock().handle(what, now)
    }

    /// A request has waited for a resource for a while. If that is told now, how many have since it was last told.
    pub(super) fn is_waiter_told(&self, resource: &Resource, now: Timestamp) -> Option<u64> {
        self.waiters.lock().handle(resource.clone(), now)
    }
}

/// What the engine keeps for [`Engine::is_told`].
pub(super) type Repeats = Pacer<Repeated>;

/// What it keeps for [`Engine::is_waiter_told`]. It belongs to no resource's queue: between two requests for a resource
/// there may be no waiter.
pub(super) type Waiters = Pacer<Resource>;

/// For how many resources in a minute a wait is told. More fit on no screen.
const WAITED_FOR: usize = 20;

pub(super) const fn waiters() -> Waiters {
    Pacer::of_at_most(WAITED_FOR)
}
