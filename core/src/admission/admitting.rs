//! The admission of one node: whether its quarantine is over, where its counters go on, and what must be asked before.
//!
//! The other nodes are sealed before their counters count. A seal costs every client with rounds under way another
//! look. So the probe first looks whether the others know enough, and whether the node is still there and waiting. The
//! answer of a sealed majority then holds for as long as the node waits in this epoch.
//!
//! It decides. It never lets a node in whose standing has changed meanwhile, nor by what others said before they were
//! sealed. It never lets in the first node of a list while a node that answers belongs to another list, or is not held
//! for this one.

use alloc::vec::Vec;

use super::{
    Admission, AdmissionBlock, AdmissionNews, Claim, Floor, Marker, Standing,
    step::{ProbeStep, look_at},
};
use crate::{command::NodeId, members::Relation, time::Timestamp};

/// A node whose quarantine is over. A look at all nodes is under way when it begins.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Candidate {
    node: NodeId,
    /// The epoch in which it has waited. A change of the node's standing changes the epoch, and then the node is not
    /// admitted.
    epoch: u64,
    stage: Stage,
    /// Whether a majority was already let in for this list.
    made: bool,
    /// The others that answered the look and were let in for no list yet.
    answered: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Stage {
    /// The node and the others are looked at.
    Looking,
    /// All joining nodes are told that a majority has forgotten.
    Telling,
    /// The others are sealed.
    Sealing,
    /// The node is let in.
    Admitting(Floor),
    /// The node's marker is read again in any case: another client may have been faster.
    LookingAgain,
}

impl Candidate {
    /// `None` unless the node is joining.
    pub(super) fn new(admission: &Admission, node: NodeId) -> Option<Self> {
        match admission.standing(node) {
            Standing::Joining { epoch, .. } => {
                let (stage, answered) = (Stage::Looking, Vec::new());
                Some(Self { node, epoch, stage, made: false, answered })
            }
            Standing::Unknown | Standing::Ready => None,
        }
    }

    /// Whether a marker heard now changes the standing of its node. A marker of another node answers only the question
    /// of this admission, until that node is looked at for its own sake.
    pub(super) fn takes(&self, node: NodeId, marker: &Marker) -> bool {
        match self.stage {
            Stage::Looking => node == self.node && self.is_waiting(marker),
            Stage::Telling | Stage::LookingAgain => true,
            Stage::Sealing | Stage::Admitting(_) => false,
        }
    }

    const fn is_waiting(&self, marker: &Marker) -> bool {
        !marker.ready && marker.epoch == self.epoch
    }

    /// The next step after these markers; `None` at the end.
    pub(super) fn poll(
        &mut self,
        admission: &mut Admission,
        heard: &[(NodeId, Marker)],
        admitted: bool,
        now: Timestamp,
        wall_us: u64,
    ) -> Option<ProbeStep> {
        let node = self.node;
        match self.stage {
            Stage::Looking => {
                if !heard.iter().any(|(other, own)| *other == node && self.is_waiting(own)) {
                    return None;
                }
                let made = heard.iter().filter(|(_, marker)| marker.claim == Claim::Made);
                let made = made.map(|(other, _)| *other).collect();
                self.made = admission.quorum.is_met_before_by(made);
                let open = heard.iter().filter(|(_, marker)| marker.claim != Claim::Made);
                self.answered = open.map(|(other, _)| *other).collect();
                self.answered.retain(|other| *other != node);
                let floor = self.judge(admission, heard, now, wall_us)?;
                let sealed =
                    admission.record(node).and_then(|record| record.sealed_floor(self.epoch));
                // A node that answers now may not have been held when the others were sealed.
                if let Some(sealed) = sealed.filter(|_| self.made) {
                    let floor = Floor::new(sealed.known.max(floor.known), floor.wall_us);
                    return Some(self.admit(admission, heard, floor));
                }
                if floor.wall_us == 0 {
                    return Some(self.seal(admission));
                }
                // All joining nodes are told before the first of them is ready and looks like one that knows.
                let forgot =
                    |(other, marker): &(NodeId, Marker)| (!marker.knows()).then_some(*other);
                self.stage = Stage::Telling;
                let joining = heard.iter().filter_map(forgot).collect();
                Some(look_at(joining, admission.look().orphaned()))
            }
            Stage::Telling => Some(self.seal(admission)),
            Stage::Sealing => {
                let is_held = |node: &NodeId| {
                    let holds = |(other, marker): &(NodeId, Marker)| {
                        other == node && marker.claim >= Claim::Held
                    };
                    heard.iter().any(holds)
                };
                if !self.made && !self.answered.iter().all(is_held) {
                    self.hold_back(admission, AdmissionBlock::NotHeld);
                    return None;
                }
                let floor = self.judge(admission, heard, now, wall_us)?;
                let record = admission.nodes.get_mut(node.index())?;
                if floor.wall_us == 0 {
                    record.set_sealed_floor(self.epoch, floor);
                }
                Some(self.admit(admission, heard, floor))
            }
            Stage::Admitting(floor) => {
                if admitted {
                    admission.news.push_back(AdmissionNews::Admitted { node, floor });
                }
                self.stage = Stage::LookingAgain;
                Some(look_at([node].into(), admission.look()))
            }
            Stage::LookingAgain => None,
        }
    }

    fn seal(&mut self, admission: &Admission) -> ProbeStep {
        self.stage = Stage::Sealing;
        let others: Vec<_> = admission.everyone().filter(|other| *other != self.node).collect();
        look_at(others, admission.look().seal())
    }

    fn admit(
        &mut self,
        admission: &Admission,
        heard: &[(NodeId, Marker)],
        floor: Floor,
    ) -> ProbeStep {
        self.stage = Stage::Admitting(floor);
        let others: Vec<_> =
            heard.iter().filter(|(other, _)| *other != self.node).copied().collect();
        let serves = admission.record_for(self.node, &others);
        ProbeStep::Admit { node: self.node, epoch: self.epoch, floor, serves }
    }

    /// Where its counters go on, by the others' markers; `None` where it has to wait longer.
    fn judge(
        &self,
        admission: &mut Admission,
        heard: &[(NodeId, Marker)],
        now: Timestamp,
        wall_us: u64,
    ) -> Option<Floor> {
        let others = || heard.iter().filter(|(other, _)| *other != self.node);
        // The others may know a longer ttl than this process, and then the quarantine goes on.
        others().for_each(|(other, marker)| admission.handle_news(*other, *marker));
        let due = admission.remaining(self.node, now).is_some_and(|left| left.is_zero());
        let epoch = self.epoch;
        let stands = admission.standing(self.node);
        if !due || !matches!(stands, Standing::Joining { epoch: waits_in, .. } if waits_in == epoch)
        {
            return None;
        }
        let others: Vec<_> = others().map(|(other, marker)| (*other, Some(*marker))).collect();
        let is_into = |relation| matches!(relation, Relation::Into(_));
        let floor = if admission.is_told(|relation| relation == Relation::Left) {
            Err(AdmissionBlock::Left)
        } else if !self.made && admission.is_told(is_into) {
            Err(AdmissionBlock::NotOpen)
        } else if !self.made && admission.has_others() {
            Err(AdmissionBlock::OtherMembers)
        } else {
            admission.floor(self.node, &others, wall_us)
        };
        if let Some(record) = admission.nodes.get_mut(self.node.index()) {
            record.held_back = None;
        }
        floor.map_err(|block| self.hold_back(admission, block)).ok()
    }

    /// Notes why the node has to wait longer.
    fn hold_back(&self, admission: &mut Admission, block: AdmissionBlock) {
        if let Some(record) = admission.nodes.get_mut(self.node.index()) {
            record.held_back = Some(block);
        }
        admission.news.push_back(AdmissionNews::HeldBack { node: self.node, block });
    }
}
