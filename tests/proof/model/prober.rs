//! What lets a node vote again: one client that looks after the nodes.
//!
//! Goal: the production's admission decides when and with which counters a node that has forgotten votes again. Method: its
//! `Admission` and `Probe`, pumped as `src/engine/probe.rs` does it, one answer after the other.
//!
//! Not modelled: nodes that tell their clocks (`tests/proof/protocol/admission` has those), several who look after the nodes
//! at once, and nodes that cannot be reached.

use core::time::Duration;

use super::node::{Node, WALL};
use crate::protocol::{
    Admission, AdmissionPolicy, ConnectionView, Floor, Join, NodeId, Probe, ProbeStep, Quorum,
    Timestamp,
};

const NODES: usize = 3;

/// What a node is asked.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Asked {
    Look(Join),
    Admit(u64, Floor),
}

/// One client that looks after the nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Prober {
    admission: Admission,
    probe: Option<Probe>,
    open: [Option<Asked>; NODES],
}

impl Prober {
    /// A prober that has seen nothing yet and knows of no longer leases than this.
    pub(crate) fn new(longest: Duration) -> Self {
        let policy = AdmissionPolicy::Quarantine;
        let quorum = Quorum::of(NODES);
        let admission = Admission::new(quorum, policy, longest, Duration::ZERO);
        Self { admission, probe: None, open: [const { None }; NODES] }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.probe.is_none()
    }

    pub(crate) fn asks(&self, at: usize) -> bool {
        self.open[at].is_some()
    }

    /// The same where all are asked one after the other.
    pub(crate) fn asks_next(&self, at: usize) -> bool {
        self.open.iter().position(Option::is_some) == Some(at)
    }

    pub(crate) fn waits(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    /// It begins to see to the nodes.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.probe = Some(Probe::new(false));
        self.go_on(now);
    }

    /// All have answered.
    pub(crate) fn go_on(&mut self, now: Timestamp) {
        let Some(probe) = &mut self.probe else { return };
        let views: [ConnectionView; NODES] =
            std::array::from_fn(|_| ConnectionView::new(Some(true), None, None));
        match probe.poll(&mut self.admission, &views, now, WALL) {
            ProbeStep::Look(joins) => {
                joins.into_iter().for_each(|(at, join)| {
                    self.open[at.index()] = Some(Asked::Look(join));
                });
            }
            ProbeStep::Admit { node, epoch, floor, .. } => {
                self.open[node.index()] = Some(Asked::Admit(epoch, floor));
            }
            ProbeStep::Done(_) => self.probe = None,
        }
        while self.admission.poll_news().is_some() {}
    }

    /// The node does what it was asked, by its own clock, and is heard at once.
    pub(crate) fn answer(&mut self, at: usize, node: &mut Node, clock: Timestamp, now: Timestamp) {
        let (Some(asked), Some(probe)) = (self.open[at].take(), &mut self.probe) else { return };
        match asked {
            Asked::Look(join) => {
                let marker = node.join(join, clock);
                probe.handle_marker(&mut self.admission, NodeId::new(at), marker, now);
            }
            Asked::Admit(epoch, floor) => {
                if node.admit(epoch, floor, clock) {
                    probe.handle_admitted();
                }
            }
        }
        if !self.waits() {
            self.go_on(now);
        }
    }

    /// The node gives no answer.
    pub(crate) fn no_answer(&mut self, at: usize, now: Timestamp) {
        self.open[at] = None;
        if !self.waits() {
            self.go_on(now);
        }
    }

    pub(crate) fn tell(&self, at: usize) -> &'static str {
        match &self.open[at] {
            Some(Asked::Look(join)) if join.seal => "looked at and sealed",
            Some(Asked::Look(_)) => "looked at",
            Some(Asked::Admit(..)) => "let in",
            None => "left alone",
        }
    }
}
