//! What is peculiar to a round for any slot of a semaphore: each node takes one, and a quorum for one and the same slot wins.
//!
//! It decides what an answer says of the slot that was won and of the others, and what has to be undone of those. It must never
//! name the slot that was won as one to undo.
//!
//! # Invariants
//!
//! - **S1** A permit is a quorum for one slot. Grants of different slots are never added up.
//! - **S2** What was granted and not won is released. A release names every slot that an unanswered command may have taken.
//! - **S3** The slots of a round share an owner, and each slot has votes, a token and a counter of its own.
//! - **S4** Filling in, a restore of the slot that was won where a node took another one, is sent after the win, and is never
//!   a vote.
//!
//! They are tested, each by name, in `tests/proof/protocol/slots.rs`.

use alloc::boxed::Box;

use super::Round;
use crate::{
    command::{Cause, Denial, Failure, Granted, NodeId, Reply},
    footprint::Footprint,
    round::Verdict,
    target::Target,
};

impl Round {
    /// Whether it asks for any slot of a semaphore.
    pub const fn is_any(&self) -> bool {
        self.slots.is_some()
    }

    /// The slot that was won.
    ///
    /// A round for any slot of a semaphore asks each node to choose one. A quorum that chose the same slot wins it.
    ///
    /// ```
    /// use core::time::Duration;
    /// use quorlock_core::{
    ///     FencingToken, Granted, NodeId, Owner, Quorum, Reply, Round, RoundSpec, Slots, Timestamp, Verdict,
    /// };
    ///
    /// let slots = Slots::new(b"", "api", 10)?;
    /// let mut spec = RoundSpec::new(slots, Owner::from_random([7; 16]), Duration::from_secs(10));
    /// spec.first = 4;
    /// let start = Timestamp::ORIGIN;
    /// let mut round = Round::acquire(Quorum::of(3), spec, start);
    /// while let Some((_node, _command)) = round.poll_command() {} // send them
    ///
    /// for (node, slot) in [(0, 4), (1, 5), (2, 4)] {
    ///     let granted = Granted::at(FencingToken::new(1)).in_slot(slot);
    ///     round.handle_reply(NodeId::new(node), Ok(Reply::Granted(granted)), start);
    /// }
    /// assert_eq!((round.verdict(), round.slot()), (Verdict::Won, Some(4)));
    /// # Ok::<(), quorlock_core::ResourceError>(())
    /// ```
    pub fn slot(&self) -> Option<u8> {
        self.votes.counted().filter(|_| self.verdict == Verdict::Won)
    }

    /// Hands over, once, after a slot was won, what is known of where other slots may stand. The caller has
    /// [`tell_others`](Round::tell_others) tell it, and releases what [`undone_at`](Round::undone_at) says.
    pub fn take_others(&mut self) -> Option<Footprint> {
        self.others.take().map(|others| *others)
    }

    /// Tells a footprint that was taken of an answer to its acquire.
    pub fn tell(&self, footprint: &mut Footprint, node: NodeId, reply: &Result<Reply, Failure>) {
        if self.is_any() {
            footprint.handle_acquire(node, &self.about(reply, false));
        } else {
            footprint.handle_acquire(node, reply);
        }
    }

    /// Tells the footprint of the slots that were not won, where that was taken.
    pub fn tell_others(
        &self,
        others: &mut Footprint,
        node: NodeId,
        reply: &Result<Reply, Failure>,
    ) {
        others.handle_acquire(node, &self.about(reply, true));
    }

    /// What is to be released at `node` of what was not won: of a semaphore the slot that it took, or all that it may have
    /// taken. `None` where that is the slot that was won, or no other can be.
    pub fn undone_at(&self, node: NodeId) -> Option<Target> {
        let Some(slots) = &self.slots else { return Some(self.spec.target.clone()) };
        match (self.votes.took(node), self.slot()) {
            (Some(took), Some(won)) if took == won => None,
            (Some(took), _) => slots.slot(took).map(Target::Slot),
            (None, Some(won)) => slots.without(won).map(Target::AnyOf),
            (None, None) => Some(Target::AnyOf(slots.clone())),
        }
    }

    /// Whether `node` took another slot than the one that was won, which is filled in there.
    pub fn is_filled_in(&self, node: NodeId) -> bool {
        let (took, won) = (self.votes.took(node), self.slot());
        took.is_some() && won.is_some() && took != won
    }

    /// Tells its own footprints of the answer to an acquire, and says what it is as a vote.
    pub(super) fn handle_answer(
        &mut self,
        node: NodeId,
        reply: Result<Reply, Failure>,
    ) -> Result<Reply, Failure> {
        if let Some(mut others) = self.others.take() {
            self.tell_others(&mut others, node, &reply);
            self.others = Some(others);
        }
        if let Some(mut footprint) = self.footprint.take() {
            self.tell(&mut footprint, node, &reply);
            self.footprint = Some(footprint);
        }
        if let Some(slot) = self.chosen(&reply) {
            self.votes.take(node, slot);
        }
        if self.is_any() { self.about(&reply, false) } else { reply }
    }

    /// What the votes are counted for.
    pub(super) fn counted(&self) -> Target {
        let slot = self.votes.counted().and_then(|number| self.slots.as_ref()?.slot(number));
        slot.map_or_else(|| self.spec.target.clone(), Target::Slot)
    }

    /// Where a slot was won, others may stand beside it.
    pub(super) fn part(&mut self) {
        let (Some(slots), Some(footprint)) = (&self.slots, &mut self.footprint) else { return };
        if slots.len() == 1 {
            return;
        }
        // A node has taken one slot, so that nothing stands there of the other part. Where that is not known yet, nearly
        // always it has taken the one that was won; where not, or where its time is up, that is undone.
        let mut others = footprint.clone();
        for node in (0..self.quorum.nodes()).map(NodeId::new) {
            match self.votes.took(node) {
                took @ Some(_) if took == self.votes.counted() => {
                    others.handle_acquire_withdrawn(node);
                }
                Some(_) => footprint.handle_acquire_withdrawn(node),
                None => {}
            }
        }
        others.handle_lost();
        others.handle_heard_out();
        self.others = Some(Box::new(others));
    }

    /// What an answer says of what was won, or of the slots that were not: a slot that was granted is denied to the others.
    fn about(&self, reply: &Result<Reply, Failure>, others: bool) -> Result<Reply, Failure> {
        match (reply, self.chosen(reply), self.slot()) {
            (_, Some(took), Some(won)) if (took == won) == others => {
                Ok(Reply::Denied(Denial::default()))
            }
            // It names nothing that could be undone.
            (Ok(Reply::Granted(_)), None, _) if self.is_any() => {
                Err(Failure::new(true, Cause::Broken))
            }
            (reply, ..) => reply.clone(),
        }
    }

    /// Which slot was granted, of those that were asked for.
    fn chosen(&self, reply: &Result<Reply, Failure>) -> Option<u8> {
        match (reply, &self.slots) {
            (Ok(Reply::Granted(Granted { slot, .. })), Some(slots)) => {
                slot.filter(|slot| usize::from(*slot) < slots.len())
            }
            _ => None,
        }
    }
}
