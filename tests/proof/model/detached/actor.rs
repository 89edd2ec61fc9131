//! One who takes a resource: adopts a detached lease, or acquires what is free. By the production's rounds.

use core::time::Duration;

use super::{Fate, Grant};
use crate::protocol::{
    Command, Drift, EpochMark, Failure, NodeId, NodeRefusal, NodeStore, Owner, Quorum, Reply,
    Resource, Round, RoundSpec, Timestamp, Verdict,
};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Actor {
    /// Whose keys it takes over; `None` for one who waits until they are free.
    from: Option<Owner>,
    ttl: Duration,
    round: Option<Round>,
    /// What each node has not been asked yet, in its order: what a round undoes comes behind what it asked for.
    open: [Vec<Command>; super::NODES],
    /// What a node may still get, though its time was up.
    late: Option<(usize, Command)>,
    /// The largest token before its round began.
    above: u64,
    /// When what it holds ends.
    pub(super) deadline: Option<Timestamp>,
    owner: Option<Owner>,
    pub(super) rounds: u8,
}

pub(super) fn resource() -> Resource {
    Resource::new("r").expect("a name")
}

impl Actor {
    pub(super) const fn new(from: Option<Owner>, ttl: Duration) -> Self {
        Self {
            from,
            ttl,
            round: None,
            open: [const { Vec::new() }; super::NODES],
            late: None,
            above: 0,
            deadline: None,
            owner: None,
            rounds: 0,
        }
    }

    pub(super) const fn adopts(&self) -> bool {
        self.from.is_some()
    }

    pub(super) fn holds(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline > now)
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.round.is_some()
    }

    pub(super) const fn has_won(&self) -> bool {
        self.deadline.is_some()
    }

    /// The next thing for this node, if there is one; and whether it asks for a vote.
    pub(super) fn next(&self, node: usize) -> Option<bool> {
        self.open[node].first().map(Command::is_asking)
    }

    pub(super) const fn has_late(&self) -> bool {
        self.late.is_some()
    }

    pub(super) fn begin(&mut self, number: u8, above: u64, marks: Vec<EpochMark>, now: Timestamp) {
        self.rounds += 1;
        self.above = above;
        let owner = Owner::from_random([number * 16 + self.rounds; 16]);
        let mut spec = RoundSpec::new(resource(), owner, self.ttl);
        spec.drift = Drift::new(0, Duration::ZERO);
        spec.hint = Some(1);
        (spec.marks, spec.from) = (marks.into(), self.from);
        self.round = Some(Round::acquire(Quorum::of(super::NODES), spec, now));
        let _ = self.settle();
    }

    /// What the round wants sent is sent, and what became of it.
    fn settle(&mut self) -> Option<Grant> {
        let round = self.round.as_mut()?;
        while let Some((node, command)) = round.poll_command() {
            self.open[node.index()].push(command);
        }
        match round.verdict() {
            // What it has to undo is under way.
            Verdict::Pending | Verdict::Lost => None,
            Verdict::Won => {
                (self.deadline, self.owner) = (Some(round.deadline()), Some(round.spec().owner));
                let token = round.token()?.get();
                self.round = None;
                self.open = Default::default();
                Some(Grant { above: self.above, token, adopts: self.from.is_some() })
            }
        }
    }

    /// Whether its round was lost and all is undone, as far as that can be.
    pub(super) fn is_lost(&self) -> bool {
        let is_lost = self.round.as_ref().is_some_and(|round| round.verdict() == Verdict::Lost);
        is_lost && self.open.iter().all(Vec::is_empty)
    }

    pub(super) fn end_round(&mut self) {
        self.round = None;
    }

    pub(super) fn send(
        &mut self,
        at: usize,
        node: &mut NodeStore,
        fate: Fate,
        now: Timestamp,
    ) -> Option<Grant> {
        let command = self.open[at].remove(0);
        let is_vote = !matches!(command, Command::HandBack { .. } | Command::Release { .. });
        let reply: Result<Reply, Failure> = match fate {
            Fate::Late => {
                self.late = Some((at, command));
                Err(Failure::TIMED_OUT)
            }
            Fate::Heard | Fate::Unheard => {
                let reply = execute(node, command, now);
                if fate == Fate::Heard {
                    reply.or(Err(Failure::NOT_SENT))
                } else {
                    Err(Failure::TIMED_OUT)
                }
            }
        };
        if let (true, Some(round)) = (is_vote, &mut self.round) {
            round.handle_reply(NodeId::new(at), reply, now);
        }
        self.settle()
    }

    pub(super) const fn late_node(&self) -> Option<usize> {
        match self.late {
            Some((at, _)) => Some(at),
            None => None,
        }
    }

    pub(super) fn land(&mut self, node: &mut NodeStore, now: Timestamp) {
        if let Some((_, command)) = self.late.take() {
            let _ = execute(node, command, now);
        }
    }

    /// Of its own keys, and of those that the owner before has where it has not got them.
    pub(super) fn releases(&mut self) -> Vec<Command> {
        self.deadline = None;
        let release = |owner| Command::Release { target: resource().into(), owner, keep: None };
        self.owner.take().into_iter().chain(self.from).map(release).collect()
    }

    /// Forgets what is over.
    pub(super) fn handle_time(&mut self, now: Timestamp) {
        if !self.holds(now) && self.deadline.is_some() {
            (self.deadline, self.owner) = (None, None);
        }
    }
}

pub(super) fn execute(
    node: &mut NodeStore,
    command: Command,
    now: Timestamp,
) -> Result<Reply, NodeRefusal> {
    node.execute(command, now, 1, &|_| true).0
}
