//! One fan-out to all nodes: who is asked, what the replies amount to, and what must be undone.
//!
//! A round decides. It does not send, wait or look at a clock, and it stays alive after its verdict,
//! because a command that timed out may still have taken effect.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::time::Duration;

use super::{
    command::{Command, Mark, NodeId, Reply},
    fencing::FencingToken,
    owner::Owner,
    quorum::{Quorum, Verdict},
    resource::Resource,
    time::Timestamp,
    validity::{self, Drift},
    vote::{Vote, Votes},
};

/// What a round asks for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct RoundSpec {
    /// The key on the nodes.
    pub resource: Resource,
    /// The value, fresh for every acquire round.
    pub owner: Owner,
    /// The lifetime asked for.
    pub ttl: Duration,
    /// The allowance for clock rates.
    pub drift: Drift,
    /// A win with less than this left is no win.
    pub min_validity: Duration,
    /// The client's wall clock in microseconds, the same for all nodes, where a fencing token is wanted.
    pub hint: Option<u64>,
    /// What is known of each node before the round begins, in their order, where a fencing token is wanted.
    pub marks: Box<[Mark]>,
    /// The token of the lease that is extended, where it has one.
    pub token: Option<FencingToken>,
}

impl RoundSpec {
    /// RoundSpec with the default drift, no minimum validity and no fencing token.
    pub fn new(resource: Resource, owner: Owner, ttl: Duration) -> Self {
        Self {
            resource,
            owner,
            ttl,
            drift: Drift::default(),
            min_validity: Duration::ZERO,
            hint: None,
            marks: Box::default(),
            token: None,
        }
    }

    fn mark(&self, node: NodeId) -> Mark {
        self.marks.get(node.index()).copied().unwrap_or_default()
    }
}

/// Why a round was lost.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RoundLoss {
    /// Enough nodes answered, and someone else holds too many of them; for a release or an extension, the
    /// key was gone from too many.
    Contended,
    /// Too many nodes failed: no round could be won, whoever holds the resource; for a release or an
    /// extension, the nodes that failed might have made the quorum.
    NoQuorum,
    /// A quorum granted, with less than the minimum validity left.
    TooLate,
    /// The caller went away before the verdict.
    Abandoned,
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
/// use quorlock::protocol::{NodeId, Owner, Quorum, Reply, Resource, Round, RoundSpec, Timestamp, Verdict};
///
/// let spec = RoundSpec::new(Resource::new("r")?, Owner::from_random([7; 16]), Duration::from_secs(10));
/// let start = Timestamp::ORIGIN;
/// let mut round = Round::acquire(Quorum::of(3), spec, start);
/// while let Some((_node, _command)) = round.poll_command() {} // send them
///
/// let later = start.saturating_add(Duration::from_millis(1));
/// round.handle_reply(NodeId::new(2), Reply::Granted(None), later);
/// round.handle_reply(NodeId::new(0), Reply::Granted(None), later);
/// assert_eq!(round.verdict(), Verdict::Won);
/// # Ok::<(), quorlock::protocol::ResourceError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Round {
    purpose: Purpose,
    spec: RoundSpec,
    quorum: Quorum,
    deadline: Timestamp,
    votes: Votes,
    /// The token to agree on, chosen once, at the first quorum of grants.
    token: Option<FencingToken>,
    verdict: Verdict,
    loss: Option<RoundLoss>,
    commands: VecDeque<(NodeId, Command)>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Purpose {
    Acquire,
    Extend,
    Release,
}

impl Round {
    /// Begins an acquire round at `now`, which must be read before the first command is sent.
    pub fn acquire(quorum: Quorum, spec: RoundSpec, now: Timestamp) -> Self {
        Self::begin(Purpose::Acquire, quorum, spec, now)
    }

    /// Begins a round that prolongs what an acquire round has won, at `now`, which must be read before the
    /// first command is sent. Every configured node is asked, and the quorum is of all of them; a lost one
    /// undoes nothing, because the validity that was promised before still runs.
    pub fn extend(quorum: Quorum, spec: RoundSpec, now: Timestamp) -> Self {
        Self::begin(Purpose::Extend, quorum, spec, now)
    }

    fn begin(purpose: Purpose, quorum: Quorum, spec: RoundSpec, now: Timestamp) -> Self {
        let deadline = validity::deadline(now, spec.ttl, spec.drift);
        let mut round = Self::new(purpose, quorum, spec, deadline);
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
        let spec = RoundSpec::new(resource, owner, Duration::ZERO);
        let mut round = Self::new(Purpose::Release, quorum, spec, Timestamp::ORIGIN);
        for node in held {
            round.send(node);
        }
        round.settle(Timestamp::ORIGIN);
        round
    }

    fn new(purpose: Purpose, quorum: Quorum, spec: RoundSpec, deadline: Timestamp) -> Self {
        Self {
            purpose,
            spec,
            quorum,
            deadline,
            votes: Votes::new(quorum.nodes()),
            token: None,
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
    /// Each command is answered once; a second reply, or one of a node that was not asked, changes nothing.
    pub fn handle_reply(&mut self, node: NodeId, reply: Reply, now: Timestamp) {
        let Some(before) = self.votes.get(node).filter(|vote| vote.is_open()) else { return };
        if reply == (Reply::Failed { sent: false }) {
            // The command may still be waiting to be handed out, and must not be any more.
            self.commands.retain(|(other, _)| *other != node);
        }
        let vote = match (before, reply) {
            (Vote::Confirming, Reply::Granted(_)) => Vote::Confirmed,
            (Vote::Confirming, Reply::Denied(_)) => Vote::Outvoted,
            // It has granted, so that the key stands there whatever became of the confirm.
            (Vote::Confirming, Reply::Failed { .. }) => Vote::Failed { sent: true },
            (_, Reply::Granted(fence)) => Vote::Granted(fence),
            (_, Reply::Denied(_)) => Vote::Denied,
            (_, Reply::Failed { sent }) => Vote::Failed { sent },
        };
        self.votes.set(node, vote);
        match self.verdict {
            Verdict::Pending => self.settle(now),
            // The release that was sent at the verdict ran behind the acquire, if that was on the same
            // connection, and sent in one piece. Whatever shows that the key may stand there is undone again.
            Verdict::Lost if before == Vote::Waiting && vote.may_hold() => self.undo(node),
            Verdict::Won | Verdict::Lost => {}
        }
    }

    /// The time for one command to one node has passed: every node that has not replied has failed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for index in 0..self.quorum.nodes() {
            self.handle_reply(NodeId::new(index), Reply::Failed { sent: true }, now);
        }
    }

    /// The caller went away: a round that was open is lost, whatever the nodes will say.
    pub fn handle_abandoned(&mut self) {
        if self.verdict == Verdict::Pending {
            self.lose(RoundLoss::Abandoned);
        }
    }

    /// How the count stands.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why the round was lost; `None` while it is not.
    pub const fn loss(&self) -> Option<RoundLoss> {
        self.loss
    }

    /// The point up to which a win may be relied on. It is set when the round begins.
    pub const fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The fencing token of a round that was won with a hint. A round that was not won has none that may
    /// be used.
    pub fn token(&self) -> Option<FencingToken> {
        self.token.filter(|_| self.verdict == Verdict::Won)
    }

    /// What the round asked for.
    pub const fn spec(&self) -> &RoundSpec {
        &self.spec
    }

    /// The number of nodes that granted so far.
    pub fn granted(&self) -> usize {
        self.votes.granted()
    }

    /// The nodes on which the key may stand with this round's owner, now or later.
    pub fn may_hold(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.votes.iter().filter(|(_, vote)| vote.may_hold()).map(|(node, _)| node)
    }

    fn send(&mut self, node: NodeId) {
        if self.votes.get(node) != Some(Vote::NotAsked) {
            return;
        }
        self.votes.set(node, Vote::Waiting);
        let RoundSpec { resource, owner, ttl, hint, token, .. } = &self.spec;
        let (resource, owner, ttl) = (resource.clone(), *owner, *ttl);
        let mark = self.spec.mark(node);
        self.commands.push_back((
            node,
            match self.purpose {
                Purpose::Acquire => Command::Acquire { resource, owner, ttl, hint: *hint, mark },
                Purpose::Extend => Command::Extend { resource, owner, ttl, token: *token },
                Purpose::Release => Command::Release { resource, owner },
            },
        ));
    }

    /// Counts the votes and settles the verdict if they allow it.
    fn settle(&mut self, now: Timestamp) {
        if self.purpose == Purpose::Acquire && self.granted() >= self.quorum.needed() {
            self.agree();
        }
        let fenced = self.purpose == Purpose::Acquire && self.spec.hint.is_some();
        let votes = match self.token {
            Some(token) => self.votes.for_token(Some(token)),
            // Where a token is wanted, nothing is won before there is one.
            None if fenced => 0,
            None => self.votes.granted(),
        };
        match self.quorum.verdict(votes, self.votes.against()) {
            Verdict::Pending => {}
            Verdict::Won if self.purpose != Purpose::Release && !self.enough_left(now) => {
                self.lose(RoundLoss::TooLate);
            }
            Verdict::Won => self.verdict = Verdict::Won,
            Verdict::Lost => {
                let failed = self.votes.failed();
                let broken = match self.purpose {
                    Purpose::Acquire => failed > self.quorum.spare(),
                    // Nodes that were never asked have nothing to say about whether the key was there.
                    Purpose::Extend | Purpose::Release => {
                        let open = self.votes.count(Vote::is_open);
                        votes + open + failed >= self.quorum.needed()
                    }
                };
                self.lose(if broken { RoundLoss::NoQuorum } else { RoundLoss::Contended });
            }
        }
    }

    /// Chooses the token at the first quorum of grants, and asks the nodes that are behind it to confirm.
    ///
    /// A confirm is only sent to a node whose grant was heard: one that is counted where the reply was lost
    /// is how two holders got one token.
    fn agree(&mut self) {
        if let Some(hint) = self.spec.hint.filter(|_| self.token.is_none()) {
            self.votes.outvote_implausible(hint);
            if self.votes.plausible() < self.quorum.needed() {
                return;
            }
        }
        let Some(token) = self.token.or_else(|| self.votes.largest()) else {
            if self.spec.hint.is_some() {
                // Nodes that count nothing cannot vote for a token.
                self.votes.outvote_uncounted();
            }
            return;
        };
        self.token = Some(token);
        let grants: Vec<(NodeId, Option<FencingToken>)> = self
            .votes
            .iter()
            .filter_map(|(node, vote)| match vote {
                Vote::Granted(fence) => Some((node, fence)),
                _ => None,
            })
            .collect();
        for (node, fence) in grants {
            match fence {
                Some(fence) if fence == token => {}
                Some(fence) if fence < token => {
                    let RoundSpec { resource, owner, .. } = &self.spec;
                    let (resource, owner) = (resource.clone(), *owner);
                    let mark = self.spec.mark(node);
                    self.votes.set(node, Vote::Confirming);
                    let confirm = Command::Confirm { resource, owner, token, mark };
                    self.commands.push_back((node, confirm));
                }
                Some(_) | None => self.votes.set(node, Vote::Outvoted),
            }
        }
    }

    /// > "and the total time elapsed to acquire the lock is less than lock validity time, the lock is
    /// > considered to be acquired" (the Redis page)
    fn enough_left(&self, now: Timestamp) -> bool {
        let left = validity::left(self.deadline, now);
        left > Duration::ZERO && left >= self.spec.min_validity
    }

    fn lose(&mut self, loss: RoundLoss) {
        self.verdict = Verdict::Lost;
        self.loss = Some(loss);
        if self.purpose != Purpose::Acquire {
            return;
        }
        // A command that has not been handed out is taken back. An acquire then needs no undoing; a confirm
        // leaves the grant that it would have confirmed.
        for (node, command) in core::mem::take(&mut self.commands) {
            match command {
                Command::Acquire { .. } => self.votes.set(node, Vote::NotAsked),
                _ => self.votes.set(node, Vote::Outvoted),
            }
        }
        let held: Vec<NodeId> = self.may_hold().collect();
        for node in held {
            self.undo(node);
        }
    }

    fn undo(&mut self, node: NodeId) {
        if self.purpose == Purpose::Acquire {
            let RoundSpec { resource, owner, .. } = &self.spec;
            let release = Command::Release { resource: resource.clone(), owner: *owner };
            self.commands.push_back((node, release));
        }
    }
}
