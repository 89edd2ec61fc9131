//! The survey behind a jump: which clocks are read, how often, and what follows from the verdict.
//!
//! It carries out what `clock_fault` decides on the readings. It never lets a jump be judged by readings from before
//! it, nor by a look during which another jump was seen.

use alloc::{boxed::Box, vec::Vec};
use core::mem;

use super::{
    Admission, AdmissionNews, ClockFault, ConnectionView, Marker, NodeClock, clock_fault::Witness,
    connection_view::connected,
};
use crate::{command::NodeId, time::Timestamp};

/// A pair of looks is taken, and another pair where a further jump is seen in it, up to this many pairs. Then the
/// question is left for the next survey.
const MOST_LOOKS: usize = 4;

/// Per node in question, the series of its clock.
type Suspects = Vec<Option<u64>>;

/// The question which clock has jumped.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ClockSurvey {
    /// The suspects before the pair of looks under way.
    suspects: Suspects,
    looks_left: usize,
    stage: Stage,
    /// The nodes to blame, each with the epoch in which its jump was seen. They have to join again for the whole fleet.
    blamed: Vec<(NodeId, u64)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Stage {
    Begun,
    First { since: Timestamp, asked: Vec<NodeId> },
    Second { answered: Vec<NodeId>, clocks: Vec<Option<NodeClock>> },
}

impl ClockSurvey {
    pub(super) fn new(admission: &Admission, views: &[ConnectionView]) -> Self {
        let suspects = suspects(admission, views);
        Self { suspects, looks_left: MOST_LOOKS, stage: Stage::Begun, blamed: Vec::new() }
    }

    /// The nodes to look at next, after these answers; `None` once the jump is judged or left for the next survey.
    pub(super) fn poll(
        &mut self,
        admission: &mut Admission,
        views: &[ConnectionView],
        heard: &[(NodeId, Marker)],
        now: Timestamp,
    ) -> Option<Vec<NodeId>> {
        match mem::replace(&mut self.stage, Stage::Begun) {
            Stage::Begun => {}
            Stage::First { since, asked } => {
                let clocks: Vec<_> = views.iter().map(|view| view.clock).collect();
                let is_heard = |node: &NodeId| heard.iter().any(|(other, _)| other == node);
                let answers = |node: &NodeId| match clocks.get(node.index()).copied().flatten() {
                    Some(clock) => clock.read_at().is_some_and(|at| at >= since),
                    // A node that does not tell its clock is not heard while in question, but it is reachable.
                    None => admission.in_question(*node).is_some() || is_heard(node),
                };
                let answered: Vec<_> = asked.into_iter().filter(answers).collect();
                let second = answered.clone();
                self.stage = Stage::Second { answered, clocks };
                return Some(second);
            }
            Stage::Second { answered, clocks } => {
                let before = mem::replace(&mut self.suspects, suspects(admission, views));
                if self.suspects == before {
                    self.judge(admission, views, &answered, &clocks, now);
                    return None;
                }
            }
        }
        if self.suspects.iter().all(Option::is_none) || self.looks_left == 0 {
            return None;
        }
        self.looks_left -= 1;
        let asked = connected(views);
        self.stage = Stage::First { since: now, asked: asked.clone() };
        Some(asked)
    }

    pub(super) fn into_blamed(self) -> Vec<(NodeId, u64)> {
        self.blamed
    }

    /// Blames no node where our own clock jumped. Where too few can tell, the nodes in question do not vote for this
    /// client until the others can tell, or until a quarantine is over that only this client keeps.
    fn judge(
        &mut self,
        admission: &mut Admission,
        views: &[ConnectionView],
        answered: &[NodeId],
        clocks: &[Option<NodeClock>],
        now: Timestamp,
    ) {
        let connected = connected(views);
        let witness = |node: NodeId| {
            let suspected = admission.in_question(node).is_some() && connected.contains(&node);
            let clock = clocks.get(node.index()).copied().flatten();
            Witness::new(suspected, answered.contains(&node), clock)
        };
        let witnesses: Vec<Witness> = admission.everyone().map(witness).collect();
        let quarantine = admission.quarantine();
        let verdicts = admission.clocks.judge(&witnesses, now, quarantine);
        for ((node, record), verdict) in
            admission.everyone().zip(&mut admission.nodes).zip(&verdicts)
        {
            match (verdict, record.jumped_in) {
                (Some(ClockFault::Node), Some(epoch)) => self.blamed.push((node, epoch)),
                (Some(ClockFault::Ours | ClockFault::Nobody), _) => record.forget_jump(),
                _ => {}
            }
        }
        admission.news.push_back(AdmissionNews::Judged(Box::from(verdicts)));
    }
}

impl Admission {
    /// The epoch in which a node's clock was seen to jump, until the jump is settled.
    fn in_question(&self, node: NodeId) -> Option<u64> {
        self.record(node)?.jumped_in
    }
}

/// Notes the clocks after a look at all nodes that began at `since`.
pub(super) fn note_clocks(admission: &mut Admission, views: &[ConnectionView], since: Timestamp) {
    // A jump is judged first.
    if admission.nodes.iter().all(|record| record.jumped_in.is_none()) {
        let clocks: Vec<_> = views.iter().map(|view| view.clock).collect();
        admission.clocks.handle_look(since, &clocks);
    }
}

/// Whether a node tells its clock and is missing in the last look at all nodes.
pub(super) fn just_met(admission: &Admission, views: &[ConnectionView], node: NodeId) -> bool {
    let tells = views.get(node.index()).is_some_and(|view| view.clock.is_some());
    tells && !admission.has_seen_clock(node)
}

fn suspects(admission: &Admission, views: &[ConnectionView]) -> Suspects {
    let series = |view: &ConnectionView| view.clock.map_or(0, |clock| clock.series());
    let suspect = |(node, view)| admission.in_question(node).map(|_| series(view));
    admission.everyone().zip(views).map(suspect).collect()
}
