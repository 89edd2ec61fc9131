//! One fan-out to all nodes: who is asked, what the replies amount to, and what must be undone.
//!
//! A round decides. It does not send, wait or look at a clock, and it stays alive after its verdict,
//! because a command that timed out may still have taken effect.

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::time::Duration;

use super::{
    command::{Command, NodeId, Reply},
    owner::Owner,
    quorum::{Quorum, Verdict},
    resource::Resource,
    time::Timestamp,
    validity::{self, Drift},
};

/// What an acquire round asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Terms {
    /// The key on the nodes.
    pub resource: Resource,
    /// The value, fresh for this round.
    pub owner: Owner,
    /// The lifetime asked for.
    pub ttl: Duration,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// A win with less than this left is no win.
    pub min_validity: Duration,
}

impl Terms {
    /// Terms with the default drift and no minimum validity.
    pub fn new(resource: Resource, owner: Owner, ttl: Duration) -> Self {
        Self { resource, owner, ttl, drift: Drift::default(), min_validity: Duration::ZERO }
    }
}

/// Why a round was lost.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// Enough nodes answered, and someone else holds too many of them; for a release, the key was gone from
    /// too many.
    Contended,
    /// Too many nodes failed: no round could be won, whoever holds the resource; for a release, the nodes
    /// that failed might have made the quorum.
    NoQuorum,
    /// A quorum granted, with less than the minimum validity left.
    TooLate,
    /// The caller went away before the verdict.
    Abandoned,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Vote {
    NotAsked,
    Waiting,
    Granted,
    Denied,
    Failed { sent: bool },
}

impl Vote {
    /// Whether the command may have taken effect there, or may do so later.
    const fn may_hold(self) -> bool {
        matches!(self, Self::Waiting | Self::Granted | Self::Failed { sent: true })
    }
}

/// One fan-out to all nodes.
///
/// Inputs are the `handle_*` calls, each with the time where it matters. After every input, and after
/// the constructor, drain [`poll_command`](Round::poll_command) and send what it yields, in order, to
/// the node named. A node must execute the commands of one connection in the order in which they were
/// sent: a release sent behind an unanswered acquire relies on it.
///
/// ```
/// use core::time::Duration;
/// use quorlock::protocol::{NodeId, Owner, Quorum, Reply, Resource, Round, Terms, Timestamp, Verdict};
///
/// let terms = Terms::new(Resource::new("r")?, Owner::from_random([7; 16]), Duration::from_secs(10));
/// let start = Timestamp::ORIGIN;
/// let mut round = Round::acquire(Quorum::of(3), terms, start);
/// while let Some((_node, _command)) = round.poll_command() {} // send them
///
/// let later = start.saturating_add(Duration::from_millis(1));
/// round.handle_reply(NodeId::new(2), Reply::Granted, later);
/// round.handle_reply(NodeId::new(0), Reply::Granted, later);
/// assert_eq!(round.verdict(), Verdict::Won);
/// # Ok::<(), quorlock::protocol::ResourceError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Round {
    purpose: Purpose,
    terms: Terms,
    quorum: Quorum,
    deadline: Timestamp,
    votes: Vec<Vote>,
    verdict: Verdict,
    loss: Option<Loss>,
    commands: VecDeque<(NodeId, Command)>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Purpose {
    Acquire,
    Release,
}

impl Round {
    /// Begins an acquire round at `now`, which must be read before the first command is sent.
    pub fn acquire(quorum: Quorum, terms: Terms, now: Timestamp) -> Self {
        let deadline = validity::deadline(now, terms.ttl, terms.drift);
        let mut round = Self::new(Purpose::Acquire, quorum, terms, deadline);
        for index in 0..quorum.nodes() {
            round.send(NodeId::new(index));
        }
        // Of no nodes at all, a quorum is out of reach from the start.
        round.settle(now);
        round
    }

    /// Begins a release round for what an acquire round may have set, on the nodes `held`.
    ///
    /// The quorum is counted over all nodes: those not named count as having nothing to delete.
    pub fn release(
        quorum: Quorum,
        resource: Resource,
        owner: Owner,
        held: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        let terms = Terms::new(resource, owner, Duration::ZERO);
        let mut round = Self::new(Purpose::Release, quorum, terms, Timestamp::ORIGIN);
        for node in held {
            round.send(node);
        }
        round.settle(Timestamp::ORIGIN);
        round
    }

    fn new(purpose: Purpose, quorum: Quorum, terms: Terms, deadline: Timestamp) -> Self {
        Self {
            purpose,
            terms,
            quorum,
            deadline,
            votes: vec![Vote::NotAsked; quorum.nodes()],
            verdict: Verdict::Pending,
            loss: None,
            commands: VecDeque::with_capacity(quorum.nodes()),
        }
    }

    /// The next command to send, if there is one.
    pub fn poll_command(&mut self) -> Option<(NodeId, Command)> {
        self.commands.pop_front()
    }

    /// Takes the reply of `node`, which arrived at `now`.
    ///
    /// Each node is counted once; a second reply, or one of a node that was not asked, changes nothing.
    pub fn handle_reply(&mut self, node: NodeId, reply: Reply, now: Timestamp) {
        let Some(vote) = self.votes.get_mut(node.index()).filter(|vote| **vote == Vote::Waiting)
        else {
            return;
        };
        if reply == (Reply::Failed { sent: false }) {
            // The command may still be waiting to be handed out, and must not be any more.
            self.commands.retain(|(other, _)| *other != node);
        }
        *vote = match reply {
            Reply::Granted => Vote::Granted,
            Reply::Denied(_) => Vote::Denied,
            Reply::Failed { sent } => Vote::Failed { sent },
        };
        match self.verdict {
            Verdict::Pending => self.settle(now),
            // The release that was sent at the verdict ran behind the acquire on the same connection. A
            // failure after that says that the connection may be gone, and the order with it.
            Verdict::Lost if *vote == (Vote::Failed { sent: true }) => self.undo(node),
            Verdict::Won | Verdict::Lost => {}
        }
    }

    /// The time for one command to one node has passed: every node that has not replied has failed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for index in 0..self.votes.len() {
            self.handle_reply(NodeId::new(index), Reply::Failed { sent: true }, now);
        }
    }

    /// The caller went away: a round that was open is lost, whatever the nodes will say.
    pub fn handle_abandoned(&mut self) {
        if self.verdict == Verdict::Pending {
            self.lose(Loss::Abandoned);
        }
    }

    /// How the count stands.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why the round was lost; `None` while it is not.
    pub const fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// The point up to which a win may be relied on. It is set when the round begins.
    pub const fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// What the round asked for.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The number of nodes that granted so far.
    pub fn granted(&self) -> usize {
        self.votes.iter().filter(|vote| **vote == Vote::Granted).count()
    }

    /// The nodes on which the key may stand with this round's owner, now or later.
    pub fn may_hold(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.votes
            .iter()
            .enumerate()
            .filter(|(_, vote)| vote.may_hold())
            .map(|(index, _)| NodeId::new(index))
    }

    fn send(&mut self, node: NodeId) {
        let Some(vote) = self.votes.get_mut(node.index()).filter(|vote| **vote == Vote::NotAsked)
        else {
            return;
        };
        *vote = Vote::Waiting;
        let Terms { resource, owner, ttl, .. } = &self.terms;
        let (resource, owner, ttl) = (resource.clone(), *owner, *ttl);
        self.commands.push_back((
            node,
            match self.purpose {
                Purpose::Acquire => Command::Acquire { resource, owner, ttl },
                Purpose::Release => Command::Release { resource, owner },
            },
        ));
    }

    /// Counts the votes and settles the verdict if they allow it.
    fn settle(&mut self, now: Timestamp) {
        let granted = self.granted();
        let waiting = self.votes.iter().filter(|vote| **vote == Vote::Waiting).count();
        let refused = self.votes.len().saturating_sub(granted).saturating_sub(waiting);
        match self.quorum.verdict(granted, refused) {
            Verdict::Pending => {}
            Verdict::Won if self.purpose == Purpose::Acquire && !self.enough_left(now) => {
                self.lose(Loss::TooLate);
            }
            Verdict::Won => self.verdict = Verdict::Won,
            Verdict::Lost => {
                let failed =
                    self.votes.iter().filter(|vote| matches!(vote, Vote::Failed { .. })).count();
                let broken = match self.purpose {
                    Purpose::Acquire => failed > self.quorum.spare(),
                    // Nodes that were never asked have nothing to say about whether the key was there.
                    Purpose::Release => granted + waiting + failed >= self.quorum.needed(),
                };
                self.lose(if broken { Loss::NoQuorum } else { Loss::Contended });
            }
        }
    }

    /// > "and the total time elapsed to acquire the lock is less than lock validity time, the lock is
    /// > considered to be acquired" (the Redis page)
    fn enough_left(&self, now: Timestamp) -> bool {
        let left = validity::left(self.deadline, now);
        left > Duration::ZERO && left >= self.terms.min_validity
    }

    fn lose(&mut self, loss: Loss) {
        self.verdict = Verdict::Lost;
        self.loss = Some(loss);
        if self.purpose == Purpose::Release {
            return;
        }
        // A command that has not been handed out is taken back, so that it needs no undoing.
        for (node, _) in core::mem::take(&mut self.commands) {
            if let Some(vote) = self.votes.get_mut(node.index()) {
                *vote = Vote::NotAsked;
            }
        }
        let held: Vec<NodeId> = self.may_hold().collect();
        for node in held {
            self.undo(node);
        }
    }

    fn undo(&mut self, node: NodeId) {
        if self.purpose == Purpose::Acquire {
            let Terms { resource, owner, .. } = &self.terms;
            let release = Command::Release { resource: resource.clone(), owner: *owner };
            self.commands.push_back((node, release));
        }
    }
}
