//! The rules of a round for any slot of a semaphore: each node takes one slot, and a quorum for the same slot wins.
//!
//! It decides what an answer says of the won slot and of the others, and what to undo of the others. It must never name
//! the won slot as one to undo.
//!
//! # Invariants
//!
//! - **S1** A permit is a quorum for one slot. Grants of different slots are never added up.
//! - **S2** A granted slot that was not won is released. A release names every slot that an unanswered command may have
//!   taken.
//! - **S3** The slots of a round share an owner; each has its own votes, token and counter.
//! - **S4** Filling in restores the won slot on a node that took another one. It is sent after the win, and is never a
//!   vote.
//!
//! Each is tested by name in `tests/proof/protocol/slots.rs`.

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

    /// The won slot.
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

    /// Hands over, once, after a win, the footprint of the other slots. The caller passes answers to it by
    /// [`tell_others`](Round::tell_others), and releases what [`undone_at`](Round::undone_at) says.
    pub fn take_others(&mut self) -> Option<Footprint> {
        self.others.take().map(|others| *others)
    }

    /// Passes an answer to its acquire to a footprint that was taken.
    pub fn tell(&self, footprint: &mut Footprint, node: NodeId, reply: &Result<Reply, Failure>) {
        if self.is_any() {
            footprint.handle_acquire(node, &self.about(reply, false));
        } else {
            footprint.handle_acquire(node, reply);
        }
    }

    /// The same for the footprint of the other slots.
    pub fn tell_others(
        &self,
        others: &mut Footprint,
        node: NodeId,
        reply: &Result<Reply, Failure>,
    ) {
        others.handle_acquire(node, &self.about(reply, true));
    }

    /// What to release at `node` of what was not won: for a semaphore the slot that it took, or all that it may have
    /// taken. `None` if that is the won slot, or no other is possible.
    pub fn undone_at(&self, node: NodeId) -> Option<Target> {
        let Some(slots) = &self.slots else { return Some(self.spec.target.clone()) };
        match (self.votes.took(node), self.slot()) {
            (Some(took), Some(won)) if took == won => None,
            (Some(took), _) => slots.slot(took).map(Target::Slot),
            (None, Some(won)) => slots.without(won).map(Target::AnyOf),
            (None, None) => Some(Target::AnyOf(slots.clone())),
        }
    }

    /// Whether `node` took another slot than the won one, which is filled in there.
    pub fn is_filled_in(&self, node: NodeId) -> bool {
        let (took, won) = (self.votes.took(node), self.slot());
        took.is_some() && won.is_some() && took != won
    }

    /// Passes the answer to an acquire to the round's own footprints, and returns it as a vote.
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

    /// The target that the votes count for.
    pub(super) fn counted(&self) -> Target {
        let slot = self.votes.counted().and_then(|number| self.slots.as_ref()?.slot(number));
        slot.map_or_else(|| self.spec.target.clone(), Target::Slot)
    }

    /// After a win, other slots may stand too: splits the footprint.
    pub(super) fn part(&mut self) {
        let (Some(slots), Some(footprint)) = (&self.slots, &mut self.footprint) else { return };
        if slots.len() == 1 {
            return;
        }
        // A node takes one slot, so it is in one part. A node whose slot is unknown nearly always took the won one. If
        // not, or if its time runs out, the other slot is undone.
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

    /// What an answer says of the won slot, or with `others` of the rest: a slot granted in one part counts as denied
    /// in the other.
    fn about(&self, reply: &Result<Reply, Failure>, others: bool) -> Result<Reply, Failure> {
        match (reply, self.chosen(reply), self.slot()) {
            (_, Some(took), Some(won)) if (took == won) == others => {
                Ok(Reply::Denied(Denial::default()))
            }
            // It names no slot to undo.
            (Ok(Reply::Granted(_)), None, _) if self.is_any() => {
                Err(Failure::new(true, Cause::Broken))
            }
            (reply, ..) => reply.clone(),
        }
    }

    /// The granted slot, if it was asked for.
    fn chosen(&self, reply: &Result<Reply, Failure>) -> Option<u8> {
        match (reply, &self.slots) {
            (Ok(Reply::Granted(Granted { slot, .. })), Some(slots)) => {
                slot.filter(|slot| usize::from(*slot) < slots.len())
            }
            _ => None,
        }
    }
}
