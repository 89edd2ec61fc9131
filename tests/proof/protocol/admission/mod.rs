//! The invariants M1 to M10 of the admission, each by name, and random schedules of all of them at once.
//!
//! Goal: whether a node may vote is decided right, whatever happens to nodes, answers and clients meanwhile. Method: for
//! each invariant the machine is driven by hand, step by step, without a runtime; then several clients run it over nodes
//! that restart, are flushed, jump and cannot be reached (`world`). Flaws that are planted in the nodes, or in the code
//! that pumps the machine, must be found by the same search. Those of the seals, which need no time, are found in
//! `forgetting.rs`. `QUORLOCK_SCHEDULES` sets how many schedules are tried.

use std::{sync::Arc, time::Duration};

use quorlock_core::{
    Admission, AdmissionBlock, AdmissionNews, AdmissionPolicy, ClockFault, ConnectionView, Floor,
    Join, Marker, NodeClock, Probe, ProbeStep, Serves, VoteBlock,
};

use super::*;

mod letting_in;
mod members;
mod schedules;
mod short_lived;
mod standing;
mod waits;
mod world;

const ATTEMPT: Duration = Duration::from_secs(1);
/// The longest ttl, a tenth of it, and an attempt.
const QUARANTINE: Duration = Duration::from_secs(12);
const AGAIN: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_secs(10);
const WALL: u64 = 1_000_000_000_000;

/// Pumps the machine, one step at a time.
#[derive(Clone)]
struct Hand {
    admission: Admission,
    probe: Probe,
    views: Vec<ConnectionView>,
    now: Duration,
}

fn ready(epoch: u64) -> Marker {
    Marker::new(true, TTL, 100).in_epoch(epoch)
}

fn high_of(high: u64) -> Marker {
    Marker::new(true, TTL, high).in_epoch(1)
}

fn joining(epoch: u64) -> Marker {
    Marker::new(false, TTL, 0).in_epoch(epoch)
}

fn look(nodes: impl IntoIterator<Item = usize>, join: Join) -> ProbeStep {
    ProbeStep::Look(nodes.into_iter().map(|index| (node(index), join)).collect())
}

const PLAIN: Join = Join::look(TTL);

impl Hand {
    /// Nodes that are all connected, and of which nothing is known.
    fn new(nodes: usize) -> Self {
        Self::with(nodes, AdmissionPolicy::Quarantine)
    }

    fn with(nodes: usize, policy: AdmissionPolicy) -> Self {
        let view = ConnectionView::new(Some(true), Some(Arc::from("a")), None);
        Self {
            admission: Admission::new(Quorum::of(nodes), policy, TTL, ATTEMPT),
            probe: Probe::new(false),
            views: vec![view; nodes],
            now: Duration::from_secs(100),
        }
    }

    /// The same, and all are ready in epoch 1.
    fn ready(nodes: usize) -> Self {
        let mut hand = Self::new(nodes);
        assert_eq!(hand.begin(), look(0..nodes, PLAIN));
        (0..nodes).for_each(|index| hand.says(index, ready(1)));
        assert_eq!(hand.poll(), ProbeStep::Done(LOOK));
        hand
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.now)
    }

    fn begin(&mut self) -> ProbeStep {
        let now = self.now();
        self.probe = self.admission.begin_probe(now);
        self.poll()
    }

    /// What comes next. A look tells each node for how long it has been joining, as far as this client knows, and no
    /// node anything else; what else it asks for is returned.
    fn poll(&mut self) -> ProbeStep {
        let now = self.now();
        let step = self.probe.poll(&mut self.admission, &self.views, now, WALL);
        let ProbeStep::Look(mut joins) = step else { return step };
        for (node, join) in &mut joins {
            assert_eq!(join.waited, self.admission.standing(*node).waited(now), "{node}");
            *join = join.waited(None);
        }
        ProbeStep::Look(joins)
    }

    fn says(&mut self, index: usize, marker: Marker) {
        let now = self.now();
        self.probe.handle_marker(&mut self.admission, node(index), marker, now);
    }

    fn may_vote(&self, index: usize) -> Result<(), VoteBlock> {
        self.admission.may_vote(node(index), self.now())
    }

    fn jump(&mut self, index: usize) {
        self.admission.handle_clock_jumped(node(index), None);
    }

    fn news(&mut self) -> Vec<AdmissionNews> {
        std::iter::from_fn(|| self.admission.poll_news()).collect()
    }

    /// The last verdict on each node.
    fn verdicts(&mut self) -> Vec<Option<ClockFault>> {
        let judged = |news| match news {
            AdmissionNews::Judged(verdicts) => Some(verdicts.into_vec()),
            _ => None,
        };
        self.news().into_iter().filter_map(judged).next_back().unwrap()
    }

    /// All are asked twice whose clock it was, and answer. What comes then.
    fn judge(&mut self, answers: &[usize]) -> ProbeStep {
        assert_eq!(self.begin(), look(0..self.views.len(), PLAIN));
        answers.iter().for_each(|index| self.says(*index, ready(1)));
        let answered = joins_of(&self.poll());
        assert!(answered.iter().all(|(_, join)| *join == PLAIN), "{answered:?}");
        answers.iter().for_each(|index| self.says(*index, ready(1)));
        self.poll()
    }
}

fn joins_of(step: &ProbeStep) -> Vec<(usize, Join)> {
    let ProbeStep::Look(joins) = step else { panic!("{step:?}") };
    joins.iter().map(|(node, join)| (node.index(), *join)).collect()
}

/// Node 0 is joining in epoch 5 since now, the others are ready.
fn with_one_joining(nodes: usize) -> Hand {
    let mut hand = Hand::new(nodes);
    assert_eq!(hand.begin(), look(0..nodes, PLAIN));
    hand.says(0, joining(5));
    (1..nodes).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), ProbeStep::Done(AGAIN));
    assert_eq!(hand.may_vote(0), Err(VoteBlock::Quarantined { remaining: QUARANTINE }));
    let quarantined = AdmissionNews::Quarantined { node: node(0), quarantine: QUARANTINE };
    assert_eq!(hand.news(), [quarantined]);
    hand
}

/// Its quarantine is over, and all are being looked at to admit it.
fn with_one_due(nodes: usize) -> Hand {
    let mut hand = with_one_joining(nodes);
    hand.now += QUARANTINE;
    assert_eq!(hand.begin(), look(0..nodes, PLAIN), "that of everyone every ten seconds");
    hand.says(0, joining(5));
    (1..nodes).for_each(|index| hand.says(index, ready(1)));
    assert_eq!(hand.poll(), look(0..nodes, PLAIN));
    hand
}
