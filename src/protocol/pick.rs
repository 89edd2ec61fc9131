//! One fan-out that asks for any slot of a semaphore: each node picks one, and a quorum for one and the same slot wins.
//!
//! It decides which slot that is, and what has to be undone of the others. It keeps a [`Round`] for each slot that a node
//! has picked, which counts and agrees as for any resource. It does not send, wait or look at a clock.
//!
//! # Invariants
//!
//! - **S1** A permit is a quorum for one slot. Grants of different slots are never added up.
//! - **S2** What was granted and not won is released. A release names every slot that an unanswered command may have taken.
//! - **S3** The slots of a round share an owner, and each slot has votes, a token and a counter of its own.
//! - **S4** Filling in, a restore of the slot that was won where a node has picked another one, is sent after the win, and
//!   is never a vote.
//!
//! They are tested, each by name, in `tests/proof/protocol/pick.rs`.

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::{cmp::Reverse, time::Duration};

use super::{
    command::{Cause, Command, Denial, Failure, Granted, NodeId, Reply},
    footprint::Footprint,
    round::{Quorum, Round, RoundLoss, RoundSpec, Verdict},
    slots::Slots,
    target::Target,
    time::Timestamp,
};

/// What a node has said of the slots.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Said {
    NotAsked,
    Nothing,
    Took(u8),
    Denied(Option<Duration>),
    Failed(Failure),
}

/// One fan-out that asks all nodes for any slot. It is used as a [`Round`] is.
///
/// ```
/// use core::time::Duration;
/// use quorlock::protocol::{
///     FencingToken, Granted, NodeId, Owner, Pick, Quorum, Reply, RoundSpec, Slots, Timestamp, Verdict,
/// };
///
/// let slots = Slots::new(b"", "api", 10)?;
/// let mut spec = RoundSpec::new(slots.clone(), Owner::from_random([7; 16]), Duration::from_secs(10));
/// spec.hint = Some(1);
/// let start = Timestamp::ORIGIN;
/// let mut pick = Pick::begin(Quorum::of(3), spec, slots, 4, start);
/// while let Some((_node, _command)) = pick.poll_command() {} // send them
///
/// for (node, slot) in [(0, 4), (1, 5), (2, 4)] {
///     let picked = Granted::at(FencingToken::new(1)).in_slot(slot);
///     pick.handle_reply(NodeId::new(node), Ok(Reply::Granted(picked)), start);
/// }
/// assert_eq!((pick.verdict(), pick.slot()), (Verdict::Won, Some(4)));
/// # Ok::<(), quorlock::protocol::SlotsError>(())
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pick {
    quorum: Quorum,
    spec: RoundSpec,
    slots: Slots,
    begun: Timestamp,
    said: Vec<Said>,
    /// By the number of its slot. There always is that of the first one.
    rounds: Vec<(u8, Round)>,
    /// Which of them has won.
    won: Option<usize>,
    verdict: Verdict,
    /// Where a slot may stand that was not won; from the verdict on, until it is handed over.
    others: Option<Footprint>,
    commands: VecDeque<(NodeId, Command)>,
}

impl Pick {
    /// Begins at `now`, which must be read before the first command is sent, with the slots in the order that begins with
    /// this one. The target of the spec makes no difference, nor its count: each slot has one token.
    pub fn begin(quorum: Quorum, spec: RoundSpec, slots: Slots, first: u8, now: Timestamp) -> Self {
        let hint = spec.hint.unwrap_or_default();
        let target = Target::AnyOf(slots.clone());
        let spec = RoundSpec { hint: Some(hint), count: 1, target, ..spec };
        let nodes = || (0..quorum.nodes()).map(NodeId::new);
        let ask = |node| {
            let pick = Command::Pick {
                slots: slots.clone(),
                first,
                owner: spec.owner,
                ttl: spec.key_life(),
                hint,
                mark: spec.mark(node),
                note: spec.note.clone(),
                stand: spec.stand,
            };
            (node, pick)
        };
        let mut pick = Self {
            said: vec![Said::Nothing; quorum.nodes()],
            commands: nodes().map(ask).collect(),
            rounds: Vec::with_capacity(1),
            won: None,
            verdict: Verdict::Pending,
            others: None,
            quorum,
            spec,
            slots,
            begun: now,
        };
        pick.round_of(first, now);
        pick.settle();
        pick
    }

    /// The next command to send, if there is one.
    pub fn poll_command(&mut self) -> Option<(NodeId, Command)> {
        self.commands.pop_front().or_else(|| {
            let node = self.others.as_mut()?.poll_release()?.node;
            let (target, owner) = (self.undone_at(node), self.spec.owner);
            Some((node, Command::Release { target, owner, keep: None }))
        })
    }

    /// Takes the answer of `node`, which arrived at `now`. Each command is answered once; a second answer, or one of a node
    /// that was not asked, changes nothing.
    pub fn handle_reply(&mut self, node: NodeId, reply: Result<Reply, Failure>, now: Timestamp) {
        let Some(before) = self.said.get(node.index()).copied() else { return };
        let could_not_be_asked = matches!(reply, Err(Failure { sent: false, .. }));
        match before {
            // It has been asked to confirm, by the round of its slot.
            Said::Took(slot) => {
                if let Some((_, round)) = self.rounds.iter_mut().find(|(own, _)| *own == slot) {
                    round.handle_reply(node, reply, now);
                }
            }
            Said::Nothing => self.heard(node, &reply, now),
            Said::NotAsked if could_not_be_asked => self.heard(node, &reply, now),
            Said::NotAsked | Said::Denied(_) | Said::Failed(_) => return,
        }
        self.settle();
    }

    fn heard(&mut self, node: NodeId, reply: &Result<Reply, Failure>, now: Timestamp) {
        let reply = self.understood(reply);
        let said = match &reply {
            Ok(Reply::Granted(granted)) => granted.slot.map_or(Said::NotAsked, Said::Took),
            Ok(Reply::Denied(denial)) => Said::Denied(denial.remaining),
            Err(failure) => Said::Failed(*failure),
        };
        if matches!(said, Said::Failed(Failure { sent: false, .. })) {
            // The command may still be waiting to be handed out, and must not be any more.
            self.commands.retain(|(other, _)| *other != node);
        }
        if let Some(others) = &mut self.others {
            let won = self.won.and_then(|won| self.rounds.get(won)).map(|(slot, _)| *slot);
            others.handle_acquire(node, &of_others(won, &reply));
        }
        if let (Said::Took(slot), Verdict::Pending) = (said, self.verdict) {
            self.round_of(slot, now);
        }
        if let Some(place) = self.said.get_mut(node.index()) {
            *place = said;
        }
        for (slot, round) in &mut self.rounds {
            round.handle_reply(node, of_slot(*slot, &reply), now);
        }
    }

    /// A grant without a slot, or of one that was not asked for, says nothing that could be undone.
    fn understood(&self, reply: &Result<Reply, Failure>) -> Result<Reply, Failure> {
        match reply {
            Ok(Reply::Granted(granted))
                if granted.slot.is_none_or(|slot| usize::from(slot) >= self.slots.len()) =>
            {
                Err(Failure::new(true, Cause::Broken))
            }
            reply => reply.clone(),
        }
    }

    /// Begins the round of a slot that nobody has picked before, with all that has been heard.
    fn round_of(&mut self, number: u8, now: Timestamp) {
        if self.rounds.iter().any(|(slot, _)| *slot == number) {
            return;
        }
        let Some(slot) = self.slots.slot(number) else { return };
        let spec = RoundSpec { target: Target::Slot(slot), ..self.spec.clone() };
        let mut round = Round::acquire(self.quorum, spec, self.begun);
        // They have been asked, for any slot.
        while round.poll_command().is_some() {}
        for (node, said) in self.said.iter().enumerate() {
            let reply = match *said {
                Said::NotAsked | Said::Nothing => continue,
                Said::Took(_) => Ok(Reply::Denied(Denial::default())),
                Said::Denied(remaining) => Ok(Reply::Denied(Denial::new(None, remaining))),
                Said::Failed(failure) => Err(failure),
            };
            round.handle_reply(NodeId::new(node), reply, now);
        }
        self.rounds.push((number, round));
    }

    /// Settles the verdict if the rounds allow it, and takes the confirms that they ask for.
    fn settle(&mut self) {
        for (_, round) in &mut self.rounds {
            if round.verdict() == Verdict::Lost {
                // What is to be undone of it, `others` knows.
                drop(round.take_footprint());
            }
            while let Some(command) = round.poll_command() {
                self.commands.push_back(command);
            }
        }
        if self.verdict != Verdict::Pending {
            return;
        }
        let is = |verdict| move |(_, round): &(u8, Round)| round.verdict() == verdict;
        self.won = self.rounds.iter().position(is(Verdict::Won));
        if self.won.is_some() {
            self.verdict = Verdict::Won;
        } else if self.rounds.iter().all(is(Verdict::Lost)) {
            // More than the spare nodes have answered, so that a slot that nobody has picked so far cannot win either.
            self.verdict = Verdict::Lost;
        } else {
            return;
        }
        self.end();
    }

    /// What has to be undone from now on.
    fn end(&mut self) {
        let won = self.won.and_then(|won| self.rounds.get(won)).map(|(slot, _)| *slot);
        for (index, (_, round)) in self.rounds.iter_mut().enumerate() {
            if Some(index) != self.won {
                round.handle_abandoned();
                drop(round.take_footprint());
            }
        }
        if self.verdict == Verdict::Lost {
            // A command that has not been handed out is taken back.
            for (node, command) in core::mem::take(&mut self.commands) {
                if let (Command::Pick { .. }, Some(said)) =
                    (command, self.said.get_mut(node.index()))
                {
                    *said = Said::NotAsked;
                }
            }
        }
        let mut others = Footprint::new(self.quorum.nodes());
        for (index, said) in self.said.iter().enumerate() {
            let node = NodeId::new(index);
            let reply = match *said {
                Said::NotAsked | Said::Denied(_) => continue,
                Said::Took(slot) if Some(slot) == won => continue,
                Said::Took(_) => Some(Ok(Reply::Granted(Granted::DONE))),
                Said::Failed(failure) => Some(Err(failure)),
                Said::Nothing => None,
            };
            others.handle_acquire_sent(node);
            if let Some(reply) = reply {
                others.handle_acquire(node, &reply);
            }
        }
        others.handle_lost();
        if won.is_some() {
            // Nearly always it has picked the same slot. Where it turns out to have picked another one, or its time is up,
            // that is undone.
            others.handle_heard_out();
        }
        let is_only = won.is_some() && self.slots.len() == 1;
        self.others = (!is_only).then_some(others);
    }

    /// The caller went away: where it was open it is lost, whatever the nodes will say.
    pub fn handle_abandoned(&mut self) {
        if self.verdict == Verdict::Pending {
            self.verdict = Verdict::Lost;
            self.end();
        }
    }

    /// The time for one command to one node has passed: every node that has not replied has failed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for index in 0..self.quorum.nodes() {
            self.handle_reply(NodeId::new(index), Err(Failure::TIMED_OUT), now);
        }
    }

    /// How the count stands.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why it was lost; `None` while it is not.
    pub fn loss(&self) -> Option<RoundLoss> {
        match self.verdict {
            Verdict::Pending | Verdict::Won => None,
            // Most nodes have picked a slot that was won too late, and none is open any more where this was abandoned.
            Verdict::Lost => self.decided().and_then(Round::loss),
        }
    }

    /// The slot that was won.
    pub fn slot(&self) -> Option<u8> {
        self.won.and_then(|won| self.rounds.get(won)).map(|(slot, _)| *slot)
    }

    /// The round of the slot that was won. Where none was, that of the one that most nodes have picked, as far as it is to
    /// be told why.
    pub fn decided(&self) -> Option<&Round> {
        let most = || {
            let rounds = self.rounds.iter().enumerate();
            rounds.max_by_key(|(at, (_, round))| (round.granted(), Reverse(*at))).map(|(at, _)| at)
        };
        self.rounds.get(self.won.or_else(most)?).map(|(_, round)| round)
    }

    /// What was asked for: any slot.
    pub const fn spec(&self) -> &RoundSpec {
        &self.spec
    }

    /// Hands over what is known of where the slot stands that was won, once.
    pub fn take_footprint(&mut self) -> Option<Footprint> {
        let (_, round) = self.won.and_then(|won| self.rounds.get_mut(won))?;
        round.take_footprint()
    }

    /// Hands over, after the verdict, what is known of where slots may stand that were not won, once. Whoever takes it tells
    /// it what [`of_others`](Pick::of_others) says, releases what [`undone_at`](Pick::undone_at) says, and this yields no more
    /// releases.
    pub const fn take_others(&mut self) -> Option<Footprint> {
        self.others.take()
    }

    /// What an answer that comes after the win says of the slot that was won.
    ///
    /// # Errors
    ///
    /// The failure that it is.
    pub fn of_won(&self, reply: &Result<Reply, Failure>) -> Result<Reply, Failure> {
        let reply = self.understood(reply);
        self.slot().map_or_else(|| reply.clone(), |slot| of_slot(slot, &reply))
    }

    /// What an answer that comes after the verdict says of the slots that were not won.
    ///
    /// # Errors
    ///
    /// The failure that it is.
    pub fn of_others(&self, reply: &Result<Reply, Failure>) -> Result<Reply, Failure> {
        of_others(self.slot(), &self.understood(reply))
    }

    /// Which slots are to be released at a node: the one that it has picked, or all that it may have picked.
    pub fn undone_at(&self, node: NodeId) -> Target {
        let said = self.said.get(node.index());
        let picked = match said {
            Some(Said::Took(slot)) => self.slots.slot(*slot).map(Target::Slot),
            _ => None,
        };
        let all = || self.slots.clone();
        picked.unwrap_or_else(|| {
            let others = self.slot().map_or_else(|| Some(all()), |slot| self.slots.without(slot));
            Target::AnyOf(others.unwrap_or_else(all))
        })
    }

    /// Whether a node has picked another slot than the one that was won, which is filled in there.
    pub fn is_filled_in(&self, node: NodeId) -> bool {
        let took = self.said.get(node.index());
        self.slot().is_some_and(|won| matches!(took, Some(Said::Took(slot)) if *slot != won))
    }
}

fn of_slot(own: u8, reply: &Result<Reply, Failure>) -> Result<Reply, Failure> {
    match reply {
        Ok(Reply::Granted(granted)) if granted.slot != Some(own) => {
            Ok(Reply::Denied(Denial::default()))
        }
        reply => reply.clone(),
    }
}

fn of_others(won: Option<u8>, reply: &Result<Reply, Failure>) -> Result<Reply, Failure> {
    match reply {
        Ok(Reply::Granted(granted)) if granted.slot == won => Ok(Reply::Denied(Denial::default())),
        reply => reply.clone(),
    }
}
