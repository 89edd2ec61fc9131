//! One fan-out that acquires: which nodes are asked, which token they agree on, and the verdict on their replies.
//!
//! A round decides. It does not send, wait or read a clock. It stays alive after its verdict, because a command that
//! timed out may still have taken effect. `any` has the rules for any slot of a semaphore.

mod any;

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::time::Duration;

use super::{
    RoundLoss,
    quorum::{Quorum, Verdict},
    spec::RoundSpec,
    vote::{Vote, Votes},
};
use crate::{
    command::{Cause, Command, Failure, NodeId, Reply},
    fencing::{FencingToken, TokenRange},
    footprint::Footprint,
    node_set::NodeSet,
    slots::Slots,
    target::Target,
    time::Timestamp,
    validity,
};

/// One fan-out to all nodes.
///
/// Inputs are the `handle_*` calls, with the time where it matters. After the constructor and after every input, drain
/// [`poll_command`](Round::poll_command) and send its commands in order to the node named. A node must execute the
/// commands of one connection in the order of sending: a release behind an unanswered acquire relies on it.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::{Granted, NodeId, Owner, Quorum, Reply, Resource, Round, RoundSpec, Timestamp, Verdict};
///
/// let spec = RoundSpec::new(Resource::new("r")?, Owner::from_random([7; 16]), Duration::from_secs(10));
/// let start = Timestamp::ORIGIN;
/// let mut round = Round::acquire(Quorum::of(3), spec, start);
/// while let Some((_node, _command)) = round.poll_command() {} // send them
///
/// let later = start.saturating_add(Duration::from_millis(1));
/// round.handle_reply(NodeId::new(2), Ok(Reply::Granted(Granted::DONE)), later);
/// round.handle_reply(NodeId::new(0), Ok(Reply::Granted(Granted::DONE)), later);
/// assert_eq!(round.verdict(), Verdict::Won);
/// # Ok::<(), quorlock_core::ResourceError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Round {
    /// Once a slot is won, its target is that slot.
    spec: RoundSpec,
    /// Present where any slot is asked for.
    slots: Option<Slots>,
    quorum: Quorum,
    deadline: Timestamp,
    votes: Votes,
    /// Until the caller takes it, to undo after the verdict.
    footprint: Option<Footprint>,
    /// Where slots that were not won may stand: from the win until the caller takes it.
    others: Option<Box<Footprint>>,
    /// The token to agree on, chosen once, at the first quorum of grants.
    token: Option<FencingToken>,
    verdict: Verdict,
    loss: Option<RoundLoss>,
    commands: VecDeque<(NodeId, Command)>,
}

impl Round {
    /// Begins at `now`, read before the first command is sent.
    pub fn acquire(quorum: Quorum, spec: RoundSpec, now: Timestamp) -> Self {
        let slots = match &spec.target {
            Target::AnyOf(slots) => Some(slots.clone()),
            _ => None,
        };
        // Readers share one number and count nothing; a slot and an adopt have one token.
        let has_one = spec.target.is_shared() || slots.is_some() || spec.from.is_some();
        let count = if has_one { 1 } else { spec.count.clamp(1, TokenRange::MOST) };
        let hint = if slots.is_some() { spec.hint.or(Some(0)) } else { spec.hint };
        let first = usize::from(spec.first) % slots.as_ref().map_or(1, Slots::len);
        let first = u8::try_from(first).unwrap_or_default();
        let spec = RoundSpec { count, hint, first, ..spec };
        let mut round = Self {
            deadline: validity::deadline(now, spec.ttl, spec.drift),
            votes: Votes::new(quorum, slots.is_some()),
            spec,
            slots,
            quorum,
            footprint: Some(Footprint::new(quorum.nodes())),
            others: None,
            token: None,
            verdict: Verdict::Pending,
            loss: None,
            commands: VecDeque::with_capacity(quorum.nodes()),
        };
        for index in 0..quorum.nodes() {
            round.ask(NodeId::new(index));
        }
        // With no nodes at all, a quorum is out of reach from the start.
        round.settle(now);
        round
    }

    /// The next command to send, if there is one.
    pub fn poll_command(&mut self) -> Option<(NodeId, Command)> {
        self.commands.pop_front().or_else(|| {
            let footprint = self.others.as_deref_mut().or(self.footprint.as_mut());
            let node = footprint?.poll_release()?.node;
            let (target, owner) = (self.undone_at(node)?, self.spec.owner);
            Some((node, Command::undo(target, owner, self.spec.from)))
        })
    }

    /// Whether there is a command other than a release.
    pub fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Hands over the footprint, once, after the verdict. From then on the caller undoes what stands, and passes later
    /// answers to it by [`tell`](Round::tell); this round yields no more of its releases.
    pub const fn take_footprint(&mut self) -> Option<Footprint> {
        match self.verdict {
            Verdict::Pending => None,
            Verdict::Won | Verdict::Lost => self.footprint.take(),
        }
    }

    /// Takes the answer of `node`, which arrived at `now`.
    ///
    /// Each command is answered once; a second answer, or one of a node that was not asked, changes nothing. One
    /// exception: a node that was not asked because the round was lost before may still say that it could not be asked.
    /// That counts for why the round was lost.
    pub fn handle_reply(&mut self, node: NodeId, reply: Result<Reply, Failure>, now: Timestamp) {
        let Some(before) = self.votes.get(node) else { return };
        let could_not_be_asked = matches!(reply, Err(Failure { sent: false, .. }));
        if !(before.is_open() || before == Vote::NotAsked && could_not_be_asked) {
            return;
        }
        if could_not_be_asked {
            // The command may not have been handed out yet, and must not be any more.
            self.commands.retain(|(other, _)| *other != node);
        }
        // The release at the verdict ran behind the acquire if both went in one piece on the same connection. If a
        // later answer shows that the key may stand there, it is released again.
        let is_confirm = before == Vote::Confirming;
        let reply = if is_confirm { reply } else { self.handle_answer(node, reply) };
        let vote = match (before, reply) {
            (Vote::Confirming, Ok(Reply::Granted(_))) => Vote::Confirmed,
            (Vote::Confirming, Ok(Reply::Denied(_))) => Vote::Outvoted,
            // It has granted, so the key stands there whatever became of the confirm.
            (Vote::Confirming, Err(failure)) => Vote::Failed(Failure { sent: true, ..failure }),
            (_, Ok(Reply::Granted(granted))) => Vote::Granted(granted.token),
            (_, Ok(Reply::Denied(denial))) => Vote::Denied(denial.remaining),
            (_, Err(failure)) => Vote::Failed(failure),
        };
        self.votes.set(node, vote);
        if self.verdict == Verdict::Pending {
            self.settle(now);
        }
    }

    /// The time limit for one command to one node has passed: every node without a reply has failed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for index in 0..self.quorum.nodes() {
            self.handle_reply(NodeId::new(index), Err(Failure::TIMED_OUT), now);
        }
    }

    /// The caller went away: an open round is lost, whatever the nodes will say.
    pub fn handle_abandoned(&mut self) {
        if self.verdict == Verdict::Pending {
            self.lose(RoundLoss::Abandoned);
        }
    }

    /// The verdict so far.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why the round was lost; `None` while it is not.
    pub const fn loss(&self) -> Option<RoundLoss> {
        self.loss
    }

    /// Until when a win may be relied on. It is fixed when the round begins.
    pub const fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// The fencing tokens of a won round with a hint: as many as were asked for, up to the counter that a quorum agreed
    /// on. A round that was not won has no usable token.
    pub fn tokens(&self) -> Option<TokenRange> {
        let agreed = self.token.filter(|_| self.verdict == Verdict::Won)?;
        Some(TokenRange::ending_at(agreed, self.spec.count))
    }

    /// The first of them: the token of the first lease.
    pub fn token(&self) -> Option<FencingToken> {
        self.tokens().map(|tokens| tokens.first())
    }

    /// The nodes that granted with a counter that no clock explains; their votes do not count.
    pub fn implausible(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_implausible = |(_, vote): &(NodeId, Vote)| *vote == Vote::Implausible;
        self.votes.iter().filter(is_implausible).map(|(node, _)| node)
    }

    /// What the round asked for; once a slot is won, that slot.
    pub const fn spec(&self) -> &RoundSpec {
        &self.spec
    }

    /// The nodes that granted so far.
    pub fn granted(&self) -> NodeSet {
        self.votes.granted()
    }

    /// The nodes on which the key may stand with this round's owner, now or later; none once the footprint is handed
    /// over.
    pub fn may_stand(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.footprint.iter().flat_map(Footprint::may_stand)
    }

    /// Whether a quorum might have answered but was too slow: the nodes may be overloaded.
    pub fn is_overrun(&self) -> bool {
        let answered = self.votes.granted().or(self.votes.denied());
        let slow = self.votes.failed_by(Cause::Slow);
        !self.quorum.is_met_by(answered) && self.quorum.is_met_by(answered.or(slow))
    }

    /// Whether nodes whose state has changed since they were looked at would have made the difference: they are well,
    /// and may vote in the next round.
    pub fn is_outdated(&self) -> bool {
        let outdated = self.votes.failed_by(Cause::Outdated);
        let others = self.votes.failed().without(outdated).or(self.votes.denied());
        !outdated.is_empty() && self.quorum.can_miss(others)
    }

    /// Whether the nodes in quarantine, or whose state has changed, would have made the difference.
    pub fn is_quarantined(&self) -> bool {
        let waits: NodeSet = self.votes.quarantines().map(|(_, node)| node).collect();
        let pass = waits.or(self.votes.failed_by(Cause::Outdated));
        self.quorum.can_miss(self.votes.failed().without(pass))
    }

    /// If nodes in quarantine would have made the difference: when enough of them leave it for a quorum to vote. `None`
    /// if that takes more, or only nodes whose state has changed, which may vote in the next round.
    pub fn quorum_after(&self) -> Option<Duration> {
        let mut waits: Vec<(Duration, NodeId)> = self.votes.quarantines().collect();
        waits.sort_unstable();
        // Nodes whose state has changed vote again at once; then the quarantines end, the soonest first.
        let failed = self.votes.failed().without(self.votes.failed_by(Cause::Outdated));
        self.back_after(failed, &waits)
    }

    /// When enough of the keys in the way will have expired; `None` if unknown.
    pub fn free_after(&self) -> Option<Duration> {
        let keys = self.votes.iter().filter_map(|(node, vote)| match vote {
            Vote::Denied(remaining) => Some((remaining, node)),
            _ => None,
        });
        let mut keys: Vec<(Option<Duration>, NodeId)> = keys.collect();
        // A key without a ttl never expires: it sorts last.
        keys.sort_by_key(|(remaining, _)| remaining.unwrap_or(Duration::MAX));
        self.back_after(self.votes.failed().or(self.votes.denied()), &keys).flatten()
    }

    /// The first of `coming`, in their order, from which on the nodes that are still missing may be missed. `None` if
    /// that is never so, or from the start.
    fn back_after<T: Copy>(&self, missing: NodeSet, coming: &[(T, NodeId)]) -> Option<T> {
        let there = NodeSet::below(self.quorum.nodes()).without(missing);
        if self.quorum.is_met_by(there) { None } else { self.quorum.met_at(there, coming) }
    }

    fn ask(&mut self, node: NodeId) {
        let RoundSpec { target, owner, hint, count, first, note, from, .. } = &self.spec;
        let (target, owner, note) = (target.clone(), *owner, note.clone());
        let (ttl, mark) = (self.spec.key_life(), self.spec.mark(node));
        let asks = match *from {
            Some(from) => {
                let hint = hint.unwrap_or_default();
                Command::Adopt { target, from, owner, ttl, hint, mark, note }
            }
            None => Command::Acquire {
                target,
                owner,
                ttl,
                hint: *hint,
                count: *count,
                first: *first,
                mark,
                note,
                stand: self.spec.stand,
            },
        };
        self.votes.set(node, Vote::Waiting);
        self.commands.push_back((node, asks));
        if let Some(footprint) = &mut self.footprint {
            footprint.handle_acquire_sent(node);
        }
    }

    /// Counts the votes and settles the verdict if they allow it.
    fn settle(&mut self, now: Timestamp) {
        // Grants first, then votes: with a token a grant counts only once the node's counter is that token.
        if self.quorum.is_met_by(self.granted()) {
            self.agree();
        }
        let votes = match self.token {
            Some(token) => self.votes.for_token(Some(token)),
            // With a token wanted, nothing is won before there is one.
            None if self.spec.hint.is_some() => NodeSet::NONE,
            None => self.votes.granted(),
        };
        match self.quorum.verdict(votes, self.votes.against()) {
            Verdict::Pending => {}
            // Judged at the time of the winning reply, which may have waited long in a socket.
            Verdict::Won if !self.enough_left(now) => self.lose(RoundLoss::TooLate),
            Verdict::Won => {
                self.verdict = Verdict::Won;
                self.spec.target = self.counted();
                self.part();
            }
            Verdict::Lost if !self.quorum.can_miss(self.votes.failed()) => {
                self.lose(RoundLoss::NoQuorum);
            }
            Verdict::Lost => self.lose(RoundLoss::Contended),
        }
    }

    /// Chooses the token at the first quorum of grants, and asks nodes behind it to confirm.
    ///
    /// A confirm is only sent to a node whose grant was heard: counting a node whose reply was lost is how two holders
    /// got one token.
    fn agree(&mut self) {
        if let Some(hint) = self.spec.hint.filter(|_| self.token.is_none()) {
            self.votes.outvote_implausible(hint);
            if !self.quorum.is_met_by(self.votes.plausible()) {
                return;
            }
        }
        let Some(token) = self.token.or_else(|| self.votes.largest()) else {
            if self.spec.hint.is_some() {
                // Nodes without a counter cannot vote for a token.
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
                    let (owner, mark) = (self.spec.owner, self.spec.mark(node));
                    let target = self.counted();
                    self.votes.set(node, Vote::Confirming);
                    let confirm = Command::Confirm { target, owner, token, mark };
                    self.commands.push_back((node, confirm));
                }
                // Above the token, or without a counter, a confirm could only be refused; and a reader may not see what
                // was written after its token.
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
        let Some(footprint) = &mut self.footprint else { return };
        // Takes back commands not handed out yet. An acquire then needs no undoing; a confirm leaves its node's grant.
        for (node, command) in core::mem::take(&mut self.commands) {
            if command.is_asking() {
                self.votes.set(node, Vote::NotAsked);
                footprint.handle_acquire_withdrawn(node);
            } else {
                self.votes.set(node, Vote::Outvoted);
            }
        }
        footprint.handle_lost();
    }
}
