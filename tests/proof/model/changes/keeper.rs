//! Who sees to the nodes of a fleet that changes: looks at them, admits, seals and opens, by the production's machines.

use core::time::Duration;

use super::{Fate, Kind, Node, Setup, TTL};
use crate::protocol::{
    Admission, AdmissionPolicy, ConnectionView, Floor, Join, Members, NodeId, Probe, ProbeStep,
    Serves, Timestamp,
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Asked {
    Look(Join),
    Admit(u64, Floor, Serves),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Keeper {
    pub(super) kind: Kind,
    /// By the numbers of the world; everything else is by the places in this list.
    pub(super) nodes: Vec<usize>,
    members: Members,
    admission: Admission,
    pub(super) probe: Option<Probe>,
    open: Vec<Option<Asked>>,
    pub(super) probes: u8,
}

impl Keeper {
    pub(super) fn new(setup: &Setup, kind: Kind) -> Self {
        let (nodes, members) = (kind.nodes(setup), kind.members(setup));
        let policy = AdmissionPolicy::Quarantine;
        let admission = Admission::new(kind.quorum(setup), policy, TTL, Duration::ZERO)
            .with_members(members.clone());
        let open = vec![None; nodes.len()];
        Self { kind, nodes, admission, members, probe: None, open, probes: 0 }
    }

    /// Its probes count from here on. With `ends` it ends the change, though no client with the new list asks for it.
    pub(super) fn stand(&mut self, ends: bool) {
        self.probes = 0;
        if ends {
            self.admission.end_change();
        }
    }

    pub(super) fn asks(&self, own: usize) -> bool {
        self.open[own].is_some()
    }

    pub(super) fn begin_probe(&mut self, now: Timestamp) {
        self.probes += 1;
        self.probe = Some(Probe::new(true));
        self.go_on(now);
    }

    fn go_on(&mut self, now: Timestamp) {
        let Some(probe) = &mut self.probe else { return };
        let views = vec![ConnectionView::new(Some(true), None, None); self.nodes.len()];
        match probe.poll(&mut self.admission, &views, now, 1) {
            ProbeStep::Look(joins) => {
                for (node, join) in joins {
                    self.open[node.index()] = Some(Asked::Look(join));
                }
            }
            ProbeStep::Admit { node, epoch, floor, serves } => {
                self.open[node.index()] = Some(Asked::Admit(epoch, floor, serves));
            }
            ProbeStep::Done(_) => self.probe = None,
        }
        while self.admission.poll_news().is_some() {}
    }

    /// The node does what it is asked.
    pub(super) fn look(&mut self, own: usize, node: &mut Node, fate: Fate, now: Timestamp) {
        let (Some(asked), place) = (self.open[own].take(), NodeId::new(own)) else { return };
        match asked {
            Asked::Look(join) => {
                let list = self.members.at(join.generation);
                let answer = (fate != Fate::Lost).then(|| node.store.join_for(join, &list, now));
                match answer.filter(|_| fate == Fate::Heard) {
                    Some(Ok(marker)) => {
                        if let Some(probe) = &mut self.probe {
                            probe.handle_marker(&mut self.admission, place, marker, now);
                        }
                    }
                    Some(Err((record, told))) => {
                        let _ = self.admission.handle_other_members(place, &record, told);
                    }
                    None => {}
                }
            }
            Asked::Admit(epoch, floor, serves) => {
                let list = self.members.at(self.admission.generation());
                let is_admitted =
                    fate != Fate::Lost && node.store.admit_for(epoch, floor, &list, serves, 1);
                node.lost &= !is_admitted;
                let is_heard = is_admitted && fate == Fate::Heard;
                if let (true, Some(probe)) = (is_heard, &mut self.probe) {
                    probe.handle_admitted();
                }
            }
        }
        if self.open.iter().all(Option::is_none) {
            self.go_on(now);
        }
    }
}
