//! One probe of the nodes: which nodes to look at next, what each look asks for, and when to probe again.
//!
//! It asks one thing at a time. The driver carries out the step of [`Probe::poll`], hands in the answers as they come,
//! and polls again when all have come or the time is up. It decides. It never takes an answer that was asked for before
//! the node's standing was taken away, nor that of a node whose clock is in question. A node that refuses meanwhile
//! does not wait for the others: it is looked at beside the step.

use alloc::{collections::VecDeque, vec::Vec};
use core::{iter, mem};

use super::{
    Admission, ConnectionView, Join, Marker, Standing, VoteGuard,
    admitting::Candidate,
    changing::Changing,
    clock_survey::{self, ClockSurvey},
    connection_view,
    step::{ProbeStep, look_at},
};
use crate::{command::NodeId, time::Timestamp};

/// The state of one probe. It begins with [`Admission::begin_probe`].
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Probe {
    everyone: bool,
    /// Whether another probe is needed soon.
    again: bool,
    /// The nodes whose standing this probe finds out.
    nodes: Vec<NodeId>,
    stage: Stage,
    /// The guards of the nodes that the last step asked.
    asked: Vec<VoteGuard>,
    /// The answers to the last step.
    heard: Vec<(NodeId, Marker)>,
    /// The guards of the nodes looked at beside the step.
    beside: Vec<VoteGuard>,
    /// The nodes whose data is older than was seen before, each with its epoch.
    went_back: Vec<(NodeId, u64)>,
    admitted: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Stage {
    Begun,
    /// The survey finds out whose clock has jumped.
    Judging(ClockSurvey),
    /// The probe's nodes are looked at since then. The blamed nodes are made to join again, each in the epoch in which
    /// its jump was seen.
    Reading {
        since: Timestamp,
        blamed: Vec<(NodeId, u64)>,
    },
    /// Nodes whose data went back, for example to a backup, are made to join again.
    JoiningAgain {
        since: Timestamp,
        read: Vec<NodeId>,
    },
    /// All clocks are read together since then, for a node that was just met.
    Meeting {
        since: Timestamp,
    },
    /// One node is let in; `due` come after it.
    Admitting {
        candidate: Candidate,
        due: VecDeque<NodeId>,
    },
    /// The fleet goes on to its next list.
    Changing(Changing),
    Over,
}

impl Admission {
    /// Takes what every answer to a look says, whatever its purpose. Returns false if the answer counts no further.
    fn handle_answer(&mut self, vote_guard: VoteGuard, epoch: u64, forced: bool) -> bool {
        if !self.counts(vote_guard) {
            return false;
        }
        let Some(record) = self.nodes.get_mut(vote_guard.node.index()) else { return false };
        record.unreadable = false;
        record.newest = record.newest.max(epoch);
        // A jump seen after the question has taken the standing away, and such an answer does not get here.
        if forced {
            record.forget_jump();
        }
        record.jumped_in.is_none()
    }
}

impl Probe {
    /// A probe of the nodes that are not ready, or of all.
    pub const fn new(everyone: bool) -> Self {
        Self {
            everyone,
            again: false,
            nodes: Vec::new(),
            stage: Stage::Begun,
            asked: Vec::new(),
            heard: Vec::new(),
            beside: Vec::new(),
            went_back: Vec::new(),
            admitted: false,
        }
    }

    /// The next step, once the step before was answered or its time is up. `views` are the current views of all nodes.
    /// `now` is the time of our steady clock, and `wall_us` that of our wall clock in microseconds.
    pub fn poll(
        &mut self,
        admission: &mut Admission,
        views: &[ConnectionView],
        now: Timestamp,
        wall_us: u64,
    ) -> ProbeStep {
        loop {
            let step = self.advance(admission, views, now, wall_us);
            self.heard.clear();
            self.admitted = false;
            self.asked.clear();
            self.beside.clear();
            match step {
                // No node is to be asked, so none has to answer.
                Some(ProbeStep::Look(joins)) if joins.is_empty() => {}
                Some(ProbeStep::Look(mut joins)) => {
                    for (node, join) in &mut joins {
                        self.asked.push(admission.vote_guard(*node));
                        // `now` is before the send: the wait that the node is told is never too long.
                        *join = join.waited(admission.standing(*node).waited(now));
                    }
                    return ProbeStep::Look(joins);
                }
                Some(step) => return step,
                None if self.stage == Stage::Over => {
                    let stands = |node: &NodeId| admission.standing(*node) == Standing::Ready;
                    let waiting = self.again || !self.nodes.iter().all(stands);
                    return ProbeStep::Done(admission.pause(waiting, now));
                }
                None => {}
            }
        }
    }

    /// Takes the marker with which a node answered the last step, at `now`.
    pub fn handle_marker(
        &mut self,
        admission: &mut Admission,
        node: NodeId,
        marker: Marker,
        now: Timestamp,
    ) {
        let Some(vote_guard) = self.asked.iter().find(|vote_guard| vote_guard.node == node) else {
            return;
        };
        let forced = match &self.stage {
            Stage::Reading { blamed, .. } => blamed.iter().any(|(blamed, _)| *blamed == node),
            _ => false,
        };
        if !admission.handle_answer(*vote_guard, marker.epoch, forced) {
            return;
        }
        let takes = match &self.stage {
            Stage::Reading { .. } | Stage::JoiningAgain { .. } | Stage::Changing(_) => true,
            Stage::Admitting { candidate, .. } => candidate.takes(node, &marker),
            _ => false,
        };
        // The session knows the new seal by now, and new rounds must know it too.
        let sealed = marker.ready && admission.standing(node) == Standing::Ready;
        if (takes || sealed) && !admission.handle_marker(node, marker, now) {
            self.again = true;
            self.went_back.retain(|(other, _)| *other != node);
            self.went_back.push((node, marker.epoch));
        }
        self.heard.push((node, marker));
    }

    /// The nodes to look at beside the step, as the step may wait for a node that hangs. Each has lost its standing
    /// since its last look, for example because another client sealed it. Each marker goes to
    /// [`handle_beside`](Probe::handle_beside). The driver calls this when a step begins, and whenever a node refuses.
    pub fn poll_beside(
        &mut self,
        admission: &Admission,
        views: &[ConnectionView],
    ) -> Vec<(NodeId, Join)> {
        let reads = matches!(self.stage, Stage::Reading { .. } | Stage::JoiningAgain { .. });
        let mut joins = Vec::new();
        for (node, view) in admission.everyone().zip(views) {
            let vote_guard = admission.vote_guard(node);
            let is_asked =
                self.beside.contains(&vote_guard) || reads && self.asked.contains(&vote_guard);
            // A node that was just met, or has another process, is left to the next probe.
            let is_known = admission.has_lapsed(node, view.identity.as_ref())
                && !clock_survey::just_met(admission, views, node);
            if view.connected == Some(true) && is_known && !is_asked {
                self.beside.push(vote_guard);
                joins.push((node, admission.look()));
            }
        }
        joins
    }

    /// Takes the marker of a node that is looked at beside the step, at `now`.
    pub fn handle_beside(
        &mut self,
        admission: &mut Admission,
        node: NodeId,
        marker: Marker,
        now: Timestamp,
    ) {
        let vote_guard = self.beside.iter().rev().find(|vote_guard| vote_guard.node == node);
        if vote_guard
            .is_some_and(|vote_guard| admission.handle_answer(*vote_guard, marker.epoch, false))
        {
            // The next probe makes a node join again whose data went back.
            self.again |= !admission.handle_marker(node, marker, now);
        }
    }

    /// Takes note that the node was let in.
    pub const fn handle_admitted(&mut self) {
        self.admitted = true;
    }

    /// The next step, and `None` where it needs no answer.
    fn advance(
        &mut self,
        admission: &mut Admission,
        views: &[ConnectionView],
        now: Timestamp,
        wall_us: u64,
    ) -> Option<ProbeStep> {
        let look = admission.look();
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Begun => {
                self.meet(admission, views);
                self.stage = Stage::Judging(ClockSurvey::new(admission, views));
                None
            }
            Stage::Judging(mut clock_survey) => {
                if let Some(nodes) = clock_survey.poll(admission, views, &self.heard, now) {
                    self.stage = Stage::Judging(clock_survey);
                    return Some(look_at(nodes, look));
                }
                let blamed = clock_survey.into_blamed();
                let force = |node: NodeId| blamed.iter().find(|(blamed, _)| *blamed == node);
                let join =
                    |node: &NodeId| (*node, look.force(force(*node).map(|(_, epoch)| *epoch)));
                let joins = self.nodes.iter().map(join).collect();
                self.stage = Stage::Reading { since: now, blamed };
                Some(ProbeStep::Look(joins))
            }
            Stage::Reading { since, .. } => {
                let read = self.heard.iter().map(|(node, _)| *node).collect();
                self.stage = Stage::JoiningAgain { since, read };
                let seen = |node| admission.record(node).map_or(0, |record| record.newest);
                let again =
                    |(node, epoch)| (node, look.force(Some(epoch)).lost().after(seen(node)));
                Some(ProbeStep::Look(
                    mem::take(&mut self.went_back).into_iter().map(again).collect(),
                ))
            }
            Stage::JoiningAgain { since, .. } if self.everyone => {
                clock_survey::note_clocks(admission, views, since);
                self.choose(admission, now)
            }
            // A node that was just met has not been looked at together with the others.
            Stage::JoiningAgain { read, .. }
                if read.iter().any(|node| clock_survey::just_met(admission, views, *node)) =>
            {
                self.stage = Stage::Meeting { since: now };
                Some(look_at(connection_view::connected(views), look))
            }
            Stage::JoiningAgain { .. } => self.choose(admission, now),
            Stage::Meeting { since } => {
                clock_survey::note_clocks(admission, views, since);
                self.choose(admission, now)
            }
            Stage::Admitting { mut candidate, due } => {
                let step = candidate.poll(admission, &self.heard, self.admitted, now, wall_us);
                match step {
                    Some(step) => {
                        self.stage = Stage::Admitting { candidate, due };
                        Some(step)
                    }
                    None => self.admit_next(admission, due, now),
                }
            }
            Stage::Changing(mut changing) => {
                let step = changing.poll(admission, &self.heard, now);
                if step.is_some() {
                    self.stage = Stage::Changing(changing);
                }
                step
            }
            Stage::Over => None,
        }
    }

    /// Takes the views of the nodes, and decides which nodes are looked at.
    fn meet(&mut self, admission: &mut Admission, views: &[ConnectionView]) {
        for (node, view) in admission.everyone().zip(views) {
            let Some(connected) = view.connected else {
                self.again = true;
                continue;
            };
            admission.handle_view(node, connected, view.identity.as_ref());
            let looks = match admission.standing(node) {
                // Another client may admit a joining node.
                Standing::Unknown | Standing::Joining { .. } => true,
                Standing::Ready => self.everyone,
            };
            if connected && looks {
                self.nodes.push(node);
            }
        }
    }

    fn choose(&mut self, admission: &mut Admission, now: Timestamp) -> Option<ProbeStep> {
        let due = admission.due(now).into();
        self.admit_next(admission, due, now)
    }

    fn admit_next(
        &mut self,
        admission: &mut Admission,
        mut due: VecDeque<NodeId>,
        now: Timestamp,
    ) -> Option<ProbeStep> {
        let next =
            iter::from_fn(|| due.pop_front()).find_map(|node| Candidate::new(admission, node));
        let Some(candidate) = next else {
            let mut changing = Changing::Begun;
            let step = changing.poll(admission, &[], now)?;
            self.stage = Stage::Changing(changing);
            return Some(step);
        };
        let look = admission.look();
        self.stage = Stage::Admitting { candidate, due };
        Some(look_at(admission.everyone().collect(), look))
    }
}
