//! Who takes leases in a fleet that changes: rounds, extensions and leases, by the production's machines.
//!
//! A voter knows of each node what a client of its kind can know at best: it has just read it. A client that has read it
//! earlier is refused, or knows the same.

use core::time::Duration;

use super::{Fate, Grant, Kind, Node, Setup, TTL};
use crate::protocol::{
    Command, Drift, EpochMark, ExtendSpec, Failure, Join, Members, NodeId, Owner, Quorum, Resource,
    Round, RoundSpec, Tally, Timestamp, Verdict,
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Attempt {
    round: Round,
    /// What each node has not been asked yet.
    open: Vec<Vec<Command>>,
    /// The largest token before it began.
    above: u64,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Lease {
    owner: Owner,
    deadline: Timestamp,
    extension: Option<(Tally, Vec<Option<Command>>)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Voter {
    pub(super) kind: Kind,
    /// By the numbers of the world; everything else is by the places in this list.
    pub(super) nodes: Vec<usize>,
    members: Members,
    quorum: Quorum,
    attempt: Option<Attempt>,
    lease: Option<Lease>,
    pub(super) rounds: u8,
    pub(super) extensions: u8,
}

fn resource() -> Resource {
    Resource::new("r").expect("a name")
}

impl Voter {
    pub(super) fn new(setup: &Setup, kind: Kind) -> Self {
        Self {
            kind,
            nodes: kind.nodes(setup),
            members: kind.members(setup).at(if kind == Kind::New { 2 } else { 1 }),
            quorum: kind.quorum(setup),
            attempt: None,
            lease: None,
            rounds: 0,
            extensions: 0,
        }
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.attempt.is_none() && self.lease.is_none()
    }

    pub(super) const fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    pub(super) fn holds(&self, now: Timestamp) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.deadline > now)
    }

    pub(super) fn votes(&self, own: usize) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| !attempt.open[own].is_empty())
    }

    pub(super) fn may_extend(&self, now: Timestamp) -> bool {
        self.holds(now) && self.lease.as_ref().is_some_and(|lease| lease.extension.is_none())
    }

    pub(super) fn extends(&self, own: usize) -> bool {
        let extension = self.lease.as_ref().and_then(|lease| lease.extension.as_ref());
        extension.is_some_and(|(_, open)| open[own].is_some())
    }

    /// Whether a look now would tell that the node votes for it.
    fn is_served_by(&self, node: &Node, now: Timestamp) -> bool {
        let look = Join::look(TTL).generation(self.members.generation(), true);
        let told = node.store.clone().join_for(look, &self.members, now);
        told.is_ok_and(|marker| marker.ready)
    }

    /// Whether enough of the nodes would vote.
    pub(super) fn may_win(&self, nodes: &[&Node], now: Timestamp) -> bool {
        let votes = |node: &NodeId| self.is_served_by(nodes[self.nodes[node.index()]], now);
        self.quorum.is_met_by(self.quorum.everyone().iter().filter(votes).collect())
    }

    /// Asks the nodes that would vote now, each with its mark of now.
    pub(super) fn begin_round(
        &mut self,
        number: usize,
        (above, nodes): (u64, &[&Node]),
        now: Timestamp,
    ) {
        self.rounds += 1;
        let owner = Owner::from_random([u8::try_from(number * 16).unwrap() + self.rounds; 16]);
        let mut spec = RoundSpec::new(resource(), owner, TTL);
        spec.drift = Drift::new(0, Duration::ZERO);
        // Tokens must not rest on hints.
        spec.hint = Some(1);
        let nodes = self.nodes.iter().map(|node| nodes[*node]);
        let serves: Vec<bool> = nodes.clone().map(|node| self.is_served_by(node, now)).collect();
        spec.marks = nodes.map(|node| node.store.marker().mark()).collect::<Box<[EpochMark]>>();
        let mut round = Round::acquire(self.quorum, spec, now);
        for (at, _) in serves.iter().enumerate().filter(|(_, serves)| !**serves) {
            round.handle_reply(NodeId::new(at), Err(Failure::NOT_SENT), now);
        }
        let open = vec![Vec::new(); self.nodes.len()];
        self.attempt = Some(Attempt { round, open, above });
        let _ = self.settle();
        if let Some(attempt) = &mut self.attempt {
            for (open, serves) in attempt.open.iter_mut().zip(serves) {
                open.retain(|_| serves);
            }
        }
    }

    /// What the round wants sent is sent, and what became of it.
    fn settle(&mut self) -> Option<Grant> {
        let attempt = self.attempt.as_mut()?;
        while let Some((node, command)) = attempt.round.poll_command() {
            attempt.open[node.index()].push(command);
        }
        let verdict = attempt.round.verdict();
        let attempt = self.attempt.take_if(|_| verdict != Verdict::Pending)?;
        if verdict == Verdict::Lost {
            return None;
        }
        let (owner, deadline) = (attempt.round.spec().owner, attempt.round.deadline());
        self.lease = Some(Lease { owner, deadline, extension: None });
        let token = attempt.round.token()?.get();
        Some(Grant { above: attempt.above, token })
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
            let reply = reply.or(Err(Failure::NOT_SENT));
            attempt.round.handle_reply(NodeId::new(own), reply, now);
        }
        self.settle()
    }

    pub(super) fn extend(&mut self, now: Timestamp) {
        let Some(lease) = &mut self.lease else { return };
        self.extensions += 1;
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
        let serves = self.is_served_by(node, now);
        let Some(lease) = &mut self.lease else { return };
        let Some((tally, open)) = &mut lease.extension else { return };
        let Some(command) = open[own].take() else { return };
        let reply = (fate != Fate::Lost && serves)
            .then(|| node.store.execute(command, now, 1, &|_| true).0.ok())
            .flatten();
        let reply = reply.filter(|_| fate == Fate::Heard).ok_or(Failure::NOT_SENT);
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

    /// Forgets what is over where no round follows. What is still under way to nodes then is never executed.
    pub(super) fn handle_time(&mut self, now: Timestamp) {
        self.attempt.take_if(|attempt| attempt.round.deadline() <= now);
        self.lease.take_if(|lease| lease.deadline <= now);
    }

    pub(super) fn give_up(&mut self) {
        (self.attempt, self.lease) = (None, None);
    }

    /// What each of its nodes is told.
    pub(super) fn give_back(&mut self) -> Option<Command> {
        let owner = self.lease.take()?.owner;
        Some(Command::Release { target: resource().into(), owner, keep: None })
    }
}
