//! The place of this process in the lines on the nodes, for one resource: what its next round says, when that begins, and
//! what the nodes have told of others.
//!
//! It carries out what `protocol::Waiter` decides, and no verdict, vote or deadline rests on any of it. It is kept with the
//! resource, so that whoever asks next for this process asks from the same place. What the nodes tell comes in on the
//! task that reads a connection, and is dealt with there and then.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    error::NodeOutcome,
    lock::Lock,
    protocol::{
        ClientId, LineAnswer, LineHint, NodeId, OthersWait, Patience, Quorum, Stand, Ticket,
        Timestamp, Waiter,
    },
    runtime::Runtime,
};

/// For how long a line lives on a node at the least: `node/redis/scripts/line.lua` and `protocol/line/wait_list.rs` say so.
const LINE_LIFE: Duration = Duration::from_secs(4);

/// The place of one process in the lines for one resource.
pub(super) struct OnNodes {
    runtime: Arc<dyn Runtime>,
    /// Whom this process has passed over, for whatever resource.
    patience: Arc<Lock<Patience>>,
    known: Lock<Known>,
    /// Tells whoever waits with it that the time of the next round has moved.
    moved: Notify,
}

struct Known {
    client: ClientId,
    quorum: Quorum,
    /// Nothing while nobody waits.
    waiter: Option<Box<Waiter>>,
    /// How many rounds have begun, so that what is answered late is known to be of the last one.
    rounds: u64,
    /// What each node has said of others since the last round began.
    others: Vec<(NodeId, bool)>,
    /// Up to when they say so of whoever comes.
    heard_until: Timestamp,
}

/// What a lost round has shown.
pub(super) struct Lost<'a> {
    pub(super) outcomes: &'a [NodeOutcome],
    /// Nobody here waits with the other place that this process has in the lines.
    pub(super) is_left_behind: bool,
    /// The nodes' clocks in microseconds, as far as they are known: a client whose ticket rested on those alone that have
    /// answered first would come before others, or after them, by as much as the clocks are apart.
    pub(super) clocks: &'a [Option<u64>],
    pub(super) round_trip: Option<Duration>,
    pub(super) random: u8,
    pub(super) now: Timestamp,
}

impl OnNodes {
    pub(super) fn new(
        client: ClientId,
        quorum: Quorum,
        patience: Arc<Lock<Patience>>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let heard_until = Timestamp::ORIGIN;
        let (waiter, rounds, others) = (None, 0, Vec::new());
        let known = Known { client, quorum, waiter, rounds, others, heard_until };
        Self { runtime, patience, known: Lock::new(known), moved: Notify::new() }
    }

    /// A round begins: what it says, and its number. One that asks for several tokens says its name, to be told of those
    /// who come for as long as its keys live unless they are prolonged.
    pub(super) fn begin_round(
        &self,
        several: bool,
        ttl: Duration,
        now: Timestamp,
    ) -> (Option<Stand>, u64) {
        let mut known = self.known();
        known.others.clear();
        known.heard_until = now.saturating_add(ttl.max(LINE_LIFE));
        known.rounds += 1;
        let stand = match &mut known.waiter {
            Some(waiter) => Some(waiter.begin_round(now)),
            None => several.then_some(Stand::named(known.client)),
        };
        (stand, known.rounds)
    }

    /// A round was won: the nodes have taken the client out of the line.
    pub(super) fn handle_won(&self, now: Timestamp) {
        let waiter = self.known().waiter.take();
        if let Some(late) = waiter.and_then(|waiter| waiter.passed_over()) {
            self.patience.lock().pass_over(late, now);
        }
    }

    /// A round was lost by others' keys, or by others who are first, and the request goes on. When the next one begins if
    /// nothing is told; `None` where too few nodes have a line.
    pub(super) fn handle_lost(&self, lost: &Lost<'_>) -> Option<Timestamp> {
        let mut known = self.known();
        let (client, quorum) = (known.client, known.quorum);
        let waiter = known.waiter.get_or_insert_with(|| {
            Box::new(Waiter::new(client, quorum).knowing(self.patience.lock().clone()))
        });
        waiter.handle_other_place(lost.is_left_behind);
        let answers = lost.outcomes.iter().enumerate();
        let answers = answers
            .filter_map(|(index, outcome)| Some((NodeId::new(index), said_of_line(outcome)?)));
        let next =
            waiter.handle_lost_round(answers, lost.clocks, lost.round_trip, lost.random, lost.now);
        if next.is_none() {
            known.waiter = None;
        }
        next
    }

    /// A round was lost since nodes must be looked at first. When the next one begins once they have been, for one who
    /// stands in the lines.
    pub(super) fn handle_outdated(&self, random: u8, now: Timestamp) -> Option<Timestamp> {
        self.known().waiter.as_mut()?.handle_outdated_round(random, now)
    }

    /// Whether the round that was lost just now may be heard out before it is undone.
    pub(super) fn hears_out(&self) -> bool {
        self.known().waiter.as_ref().is_some_and(|waiter| waiter.hears_out())
    }

    /// A node has answered a round after it was lost, the one of this number.
    pub(super) fn handle_late(&self, number: u64, node: NodeId, outcome: &NodeOutcome) {
        if !self.waits() {
            return;
        }
        // Read before the lock is taken, here and below: it is code of the user's.
        let now = self.runtime.now();
        let mut known = self.known();
        if known.rounds != number {
            return;
        }
        let Some((waiter, answer)) = known.waiter.as_mut().zip(said_of_line(outcome)) else {
            return;
        };
        let before = waiter.next_round(now);
        waiter.handle_late_answer(node, answer, now);
        let is_earlier = waiter.next_round(now) < before;
        drop(known);
        self.tell_if(is_earlier);
    }

    /// When the next round begins, by what has been told so far; `None` for one who does not wait here.
    pub(super) fn next_round(&self, now: Timestamp) -> Option<Timestamp> {
        self.known().waiter.as_ref().map(|waiter| waiter.next_round(now))
    }

    /// Ends when that may have moved, for one of those who wait.
    pub(super) async fn moved(&self) {
        self.moved.notified().await;
    }

    /// A node has told something.
    pub(super) fn handle_hint(&self, node: NodeId, hint: LineHint) {
        match hint {
            LineHint::Wanted => self.known().say_of_others(node, true),
            LineHint::Alone => self.known().say_of_others(node, false),
            LineHint::KeepsOut { .. } => {}
            LineHint::Next | LineHint::StandBy { .. } => {
                let now = self.runtime.now();
                let mut known = self.known();
                let Some(waiter) = &mut known.waiter else { return };
                let before = waiter.next_round(now);
                waiter.handle_hint(node, hint, now);
                let is_earlier = waiter.next_round(now) < before;
                drop(known);
                self.tell_if(is_earlier);
            }
        }
    }

    /// What a node has told may not have been heard.
    pub(super) fn handle_connection(&self, node: NodeId) {
        if !self.waits() {
            return;
        }
        let (now, [random, ..]) = (self.runtime.now(), self.runtime.random());
        let mut known = self.known();
        let Some(waiter) = &mut known.waiter else { return };
        waiter.handle_connection(node, random, now);
        drop(known);
        self.tell_if(true);
    }

    /// Its place may have been taken out of the lines on all nodes: it asks soon, which takes it again.
    pub(super) fn handle_place_lost(&self) {
        let nodes = {
            let known = self.known();
            if known.waiter.is_none() {
                return;
            }
            known.quorum.nodes()
        };
        // What was told until then may have been meant for whoever has taken it out.
        (0..nodes).map(NodeId::new).for_each(|node| self.handle_connection(node));
    }

    /// Tells one who waits here. No lock may be held: what wakes a task is the runtime's, which may run it there and then.
    fn tell_if(&self, has_moved: bool) {
        if has_moved {
            self.moved.notify_one();
        }
    }

    /// A node votes that did not before.
    pub(super) fn handle_ready(&self, node: NodeId) {
        if !self.waits() {
            return;
        }
        let (now, [random, ..]) = (self.runtime.now(), self.runtime.random());
        let mut known = self.known();
        let Some(waiter) = &mut known.waiter else { return };
        let before = waiter.next_round(now);
        waiter.handle_ready(node, random, now);
        let is_earlier = waiter.next_round(now) < before;
        drop(known);
        self.tell_if(is_earlier);
    }

    /// Whether somebody waits with it.
    pub(super) fn waits(&self) -> bool {
        self.known().waiter.is_some()
    }

    /// How many clients stood before this one when a round was denied last, where it stands in the lines.
    pub(super) fn rank(&self) -> Option<u32> {
        self.known().waiter.as_ref()?.rank()
    }

    /// Whether others wait, as far as the nodes have said since the last round began.
    pub(super) fn others_wait(&self, now: Timestamp) -> OthersWait {
        let known = self.known();
        if known.others.iter().any(|(_, wait)| *wait) {
            OthersWait::Somebody
        } else if known.others.len() >= known.quorum.needed() && now < known.heard_until {
            OthersWait::Nobody
        } else {
            OthersWait::Unknown
        }
    }

    /// Up to when the nodes tell of whoever comes to stand in line; `None` where they have no line to tell of.
    pub(super) fn hears_until(&self) -> Option<Timestamp> {
        let known = self.known();
        (!known.others.is_empty()).then_some(known.heard_until)
    }

    /// Nobody waits here any more. The place that is to be given up, if there is one.
    pub(super) fn leave(&self) -> Option<(ClientId, Ticket)> {
        let mut known = self.known.try_lock()?;
        let client = known.client;
        let ticket = known.waiter.take()?.ticket()?;
        Some((client, ticket))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

/// What a node has said, as far as its line is concerned.
const fn said_of_line(outcome: &NodeOutcome) -> Option<LineAnswer<'_>> {
    match outcome {
        NodeOutcome::Granted => Some(LineAnswer::Granted),
        NodeOutcome::Denied(denial) => Some(LineAnswer::Denied(denial)),
        NodeOutcome::Failed(_) => Some(LineAnswer::Failed),
        NodeOutcome::Unanswered | NodeOutcome::NotAsked => None,
    }
}

impl Known {
    /// Somebody who has come is not taken back by a node that was granted before.
    fn say_of_others(&mut self, node: NodeId, wait: bool) {
        match self.others.iter_mut().find(|(other, _)| *other == node) {
            Some((_, waits)) => *waits |= wait,
            None => self.others.push((node, wait)),
        }
    }
}

#[cfg(test)]
#[path = "stand_test.rs"]
mod tests;
