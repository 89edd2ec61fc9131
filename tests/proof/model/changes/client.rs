//! One client of a fleet that changes: its admission, its rounds and its lease, by the production's machines.

use core::time::Duration;

use super::{Fate, Grant, Node, Setup, Stamp, TTL};
use crate::protocol::{
    Admission, AdmissionPolicy, Command, ConnectionView, Drift, ExtendSpec, Failure, Floor, Join,
    Members, NodeId, NodeSet, Owner, Probe, ProbeStep, Quorum, Reply, Resource, Round, RoundSpec,
    Serves, Tally, Timestamp, Verdict,
};

/// Which lists a client has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Old,
    Both,
    New,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Asked {
    Look(Join),
    Admit(u64, Floor, Serves),
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Attempt {
    round: Round,
    /// What each node has not been asked yet.
    open: Vec<Vec<Command>>,
    began: u8,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Lease {
    owner: Owner,
    pub(super) deadline: Timestamp,
    pub(super) extension: Option<(Tally, Vec<Option<Command>>)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Client {
    pub(super) kind: Kind,
    /// By the numbers of the world; everything else is by the places in this list.
    pub(super) nodes: Vec<usize>,
    members: Members,
    quorum: Quorum,
    admission: Admission,
    pub(super) probe: Option<Probe>,
    open: Vec<Option<Asked>>,
    /// The state in which each node was read last, as one that serves this client.
    stamps: Vec<Option<Stamp>>,
    pub(super) attempt: Option<Attempt>,
    pub(super) lease: Option<Lease>,
    pub(super) rounds: u8,
}

/// The list or the lists of a client.
pub(super) fn members(setup: &Setup, kind: Kind) -> Members {
    let list = |nodes: &[usize]| Members::new("f", nodes.iter().map(|node| format!("n{node}")));
    let (before, after) = (list(setup.before), list(setup.after));
    match kind {
        Kind::Old => before,
        Kind::Both => after.after(&before),
        Kind::New => after,
    }
}

fn resource() -> Resource {
    Resource::new("r").expect("a name")
}

impl Client {
    pub(super) fn new(setup: &Setup, number: usize) -> Self {
        let kind = setup.clients[number];
        let mut nodes = match kind {
            Kind::Old => setup.before.to_vec(),
            Kind::Both => [setup.before, setup.after].concat(),
            Kind::New => setup.after.to_vec(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        let of = |list: &[usize]| {
            let places = nodes.iter().enumerate().filter(|(_, node)| list.contains(node));
            places.map(|(place, _)| NodeId::new(place)).collect::<NodeSet>()
        };
        let quorum = match kind {
            Kind::Both => Quorum::of_both(of(setup.before), of(setup.after)),
            Kind::Old | Kind::New => Quorum::of(nodes.len()),
        };
        let members = members(setup, kind);
        let policy = AdmissionPolicy::Quarantine;
        let admission = Admission::new(quorum, policy, TTL, Duration::ZERO);
        let count = nodes.len();
        Self {
            kind,
            nodes,
            quorum,
            admission: admission.with_members(members.clone()),
            members,
            probe: None,
            open: vec![None; count],
            stamps: vec![None; count],
            attempt: None,
            lease: None,
            rounds: 0,
        }
    }

    pub(super) fn asks(&self, own: usize) -> bool {
        self.open[own].is_some()
    }

    pub(super) fn votes(&self, own: usize) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| !attempt.open[own].is_empty())
    }

    pub(super) fn extends(&self, own: usize) -> bool {
        let extension = self.lease.as_ref().and_then(|lease| lease.extension.as_ref());
        extension.is_some_and(|(_, open)| open[own].is_some())
    }

    /// Whether enough of its nodes vote.
    pub(super) fn may_win(&self, now: Timestamp) -> bool {
        let votes = |node: &NodeId| self.admission.may_vote(*node, now).is_ok();
        self.quorum.is_met_by(self.quorum.everyone().iter().filter(votes).collect())
    }

    pub(super) fn begin_probe(&mut self, now: Timestamp) {
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

    fn list(&self) -> Members {
        self.members.at(self.admission.generation())
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
                        self.stamps[own] = marker.ready.then(|| node.stamp());
                        if let Some(probe) = &mut self.probe {
                            probe.handle_marker(&mut self.admission, place, marker, now);
                        }
                    }
                    Some(Err((record, told))) => {
                        self.stamps[own] = None;
                        let _ = self.admission.handle_other_members(place, &record, told);
                    }
                    None => {}
                }
            }
            Asked::Admit(epoch, floor, serves) => {
                let list = self.list();
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

    pub(super) fn begin_round(&mut self, number: usize, grants: u8, now: Timestamp) {
        self.rounds += 1;
        let owner = Owner::from_random([u8::try_from(number * 16).unwrap() + self.rounds; 16]);
        let mut spec = RoundSpec::new(resource(), owner, TTL);
        spec.drift = Drift::new(0, Duration::ZERO);
        // Tokens must not rest on hints.
        spec.hint = Some(1);
        spec.marks = self.admission.marks();
        let round = Round::acquire(self.quorum, spec, now);
        let open = vec![Vec::new(); self.nodes.len()];
        self.attempt = Some(Attempt { round, open, began: grants });
        let _ = self.settle(now);
    }

    /// What the round wants sent is sent, and what became of it.
    fn settle(&mut self, now: Timestamp) -> Option<Grant> {
        let attempt = self.attempt.as_mut()?;
        while let Some((node, command)) = attempt.round.poll_command() {
            let is_vote = !matches!(command, Command::Release { .. });
            if is_vote && self.admission.may_vote(node, now).is_err() {
                attempt.round.handle_reply(node, Err(Failure::NOT_SENT), now);
            } else {
                attempt.open[node.index()].push(command);
            }
        }
        let began = attempt.began;
        match attempt.round.verdict() {
            Verdict::Pending => None,
            Verdict::Lost => {
                self.attempt = None;
                None
            }
            Verdict::Won => {
                let (owner, deadline) = (attempt.round.spec().owner, attempt.round.deadline());
                let token = attempt.round.token().map(|token| token.get());
                self.attempt = None;
                self.lease = Some(Lease { owner, deadline, extension: None });
                token.map(|token| Grant { began, token })
            }
        }
    }

    pub(super) fn vote(
        &mut self,
        own: usize,
        node: &mut Node,
        fate: Fate,
        now: Timestamp,
    ) -> Option<Grant> {
        let attempt = self.attempt.as_mut()?;
        let command = attempt.open[own].remove(0);
        if fate == Fate::Lost {
            return None;
        }
        let (reply, _) = node.store.execute(command, now, 1, &|_| true);
        if fate == Fate::Heard {
            let place = NodeId::new(own);
            let vote_guard = self.admission.vote_guard(place);
            if reply.is_err() {
                let _ = self.admission.handle_refused(vote_guard);
            }
            attempt.round.handle_reply(place, reply.or(Err(Failure::NOT_SENT)), now);
        }
        self.settle(now)
    }

    pub(super) fn extend(&mut self, now: Timestamp) {
        let Some(lease) = &mut self.lease else { return };
        if lease.deadline <= now {
            return;
        }
        let spec = ExtendSpec {
            drift: Drift::new(0, Duration::ZERO),
            fenced: true,
            ..ExtendSpec::new(resource(), lease.owner, TTL)
        };
        let mut tally = Tally::extend(self.quorum, spec, now);
        let mut open = vec![None; self.nodes.len()];
        while let Some((node, command)) = tally.poll_command() {
            open[node.index()] = Some(command);
        }
        lease.extension = Some((tally, open));
    }

    pub(super) fn extended(&mut self, own: usize, node: &mut Node, fate: Fate, now: Timestamp) {
        let Some(lease) = &mut self.lease else { return };
        let Some((tally, open)) = &mut lease.extension else { return };
        let Some(command) = open[own].take() else { return };
        let reply = if fate != Fate::Lost && self.stamps[own] == Some(node.stamp()) {
            node.store.execute(command, now, 1, &|_| true).0.ok()
        } else {
            None
        };
        let reply: Result<Reply, Failure> =
            reply.filter(|_| fate == Fate::Heard).ok_or(Failure::NOT_SENT);
        tally.handle_reply(NodeId::new(own), reply, now);
        match tally.verdict() {
            Verdict::Pending => {}
            Verdict::Won if lease.deadline > now => {
                lease.deadline = lease.deadline.max(tally.deadline());
                lease.extension = None;
            }
            Verdict::Won | Verdict::Lost => lease.extension = None,
        }
    }
}

impl Lease {
    pub(super) fn release(&self, node: &mut Node, now: Timestamp) {
        let command = Command::Release { target: resource().into(), owner: self.owner, keep: None };
        let _ = node.store.execute(command, now, 1, &|_| true);
    }
}
