//! Whose clock has jumped, asked of all: which clocks are read and how often, and what follows from the verdict.
//!
//! It carries out what `clock_fault` decides on the readings. It never lets a jump be judged by readings from before it, nor by
//! a look in the middle of which another jump was seen.

use alloc::{boxed::Box, vec::Vec};
use core::mem;

use super::{
    Admission, AdmissionNews, ClockFault, ConnectionView, Marker, NodeClock, clock_fault::Witness,
    connection_view::connected,
};
use crate::{command::NodeId, time::Timestamp};

/// Two looks are taken, and two more where a further jump is seen in them, but no more often than this. Then it is
/// left for the next time.
const MOST_LOOKS: usize = 4;

/// Of each node, the series of its clock that has begun since it is in question.
type Suspects = Vec<Option<u64>>;

/// The question whose clock it was.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct ClockSurvey {
    /// As they were before the looks that are under way.
    suspects: Suspects,
    looks_left: usize,
    stage: Stage,
    /// The nodes that are to blame, and have to join again for the whole fleet, each in the epoch in which its jump was
    /// seen.
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

    /// The nodes that are to be looked at next, after these have answered; `None` where it is judged or left for the
    /// next time.
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
                    // One that does not tell its clock is not heard while it is in question, but it is there.
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

    /// Where it was our own clock nobody is blamed. Where too few can tell, the nodes in question do not vote for this
    /// client until they can, or until a quarantine is over that only this client keeps.
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
    /// The epoch in which a node's clock was seen to jump, until that has been dealt with.
    fn in_question(&self, node: NodeId) -> Option<u64> {
        self.record(node)?.jumped_in
    }
}

/// Notes what the clocks have shown at a look at everyone that began at `since`.
pub(super) fn note_clocks(admission: &mut Admission, views: &[ConnectionView], since: Timestamp) {
    // One that shows a jump is judged first.
    if admission.nodes.iter().all(|record| record.jumped_in.is_none()) {
        let clocks: Vec<_> = views.iter().map(|view| view.clock).collect();
        admission.clocks.handle_look(since, &clocks);
    }
}

/// Whether a node tells its clock and was not there when all were looked at together.
pub(super) fn just_met(admission: &Admission, views: &[ConnectionView], node: NodeId) -> bool {
    let tells = views.get(node.index()).is_some_and(|view| view.clock.is_some());
    tells && !admission.has_seen_clock(node)
}

fn suspects(admission: &Admission, views: &[ConnectionView]) -> Suspects {
    let series = |view: &ConnectionView| view.clock.map_or(0, |clock| clock.series());
    let suspect = |(node, view)| admission.in_question(node).map(|_| series(view));
    admission.everyone().zip(views).map(suspect).collect()
}
