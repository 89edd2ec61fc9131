//! A client's place in the nodes' lines for one resource: what its next round says, and what the nodes told of others.
//!
//! It carries out [`Waiter`]; no verdict, vote or deadline rests on it. It stays with the queue, so that the client's
//! next request asks from the same place.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::{Asks, Client, ClientSettings, Event, Fails, Moment, QueueId, resources::Which};
use crate::{
    command::NodeId,
    handover::OthersWait,
    line::{ClientId, LineHint, Stand},
    node_set::NodeSet,
    resource::Resource,
    round::Quorum,
    target::Target,
    time::Timestamp,
    waiter::{LineAnswer, Waiter},
};

/// The least time that a line lives on a node, as in `node/redis/scripts/line.lua` and `line/wait_list.rs`.
const LINE_LIFE: Duration = Duration::from_secs(4);

/// The state of the lines for one target.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct OnNodes {
    /// `None` while no request waits.
    pub(super) waiter: Option<Box<Waiter>>,
    /// How many rounds have begun, to recognize late answers to the last one.
    rounds: u64,
    /// The nodes that, since the last round began, said whether others wait.
    said: NodeSet,
    /// Those of them that said so.
    want: NodeSet,
    /// Until when the nodes report newcomers.
    heard_until: Timestamp,
}

/// The answers to a lost round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    /// Each node's answer.
    pub(super) answers: &'a [(NodeId, LineAnswer<'a>)],
    /// The round stated a place in the line.
    pub(super) stood: bool,
    /// Spreads out clients that are told the same.
    pub(super) random: u8,
    /// When that is known.
    pub(super) at: &'a Moment<'a>,
}

impl OnNodes {
    /// Begins a round: returns what it says, and its number. A round for several tokens says its client's name, so that
    /// the nodes report newcomers for as long as its keys live without an extension.
    pub(super) fn begin_round(
        &mut self,
        named: Option<ClientId>,
        ttl: Duration,
        now: Timestamp,
    ) -> (Option<Stand>, u64) {
        (self.said, self.want) = (NodeSet::NONE, NodeSet::NONE);
        self.heard_until = now.saturating_add(ttl.max(LINE_LIFE));
        self.rounds = self.rounds.wrapping_add(1);
        let stand = match &mut self.waiter {
            Some(waiter) => Some(waiter.begin_round(now)),
            None => named.map(Stand::named),
        };
        (stand, self.rounds)
    }

    /// Whether others wait, by what the nodes said since the last round began.
    pub(super) fn others_wait(&self, quorum: Quorum, now: Timestamp) -> OthersWait {
        if !self.want.is_empty() {
            OthersWait::Somebody
        } else if quorum.is_met_by(self.said) && now < self.heard_until {
            OthersWait::Nobody
        } else {
            OthersWait::Unknown
        }
    }

    /// Until when the nodes report newcomers to the line; `None` if they have no line.
    pub(super) fn hears_until(&self) -> Option<Timestamp> {
        (!self.said.is_empty()).then_some(self.heard_until)
    }

    /// Records what a node said. A node that was granted before does not take back a newcomer.
    fn say_of_others(&mut self, node: NodeId, wait: bool) {
        self.said.insert(node);
        if wait {
            self.want.insert(node);
        }
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// No request waits here any more: gives up the place.
    pub(super) fn leave_place(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get_mut(id.0)
            && let Some(ticket) = waiting.on_nodes.waiter.take().and_then(|waiter| waiter.ticket())
        {
            let target = waiting.target.clone();
            let nodes = (0..self.settings.quorum.nodes()).map(NodeId::new).collect();
            self.leave_lines(&target, ticket, nodes);
            self.say_place_gone(id);
        }
    }

    /// In a resource's line a process has one place for all uses but reading, and one for all reading. This queue's
    /// place is given up or served, so that queues for other uses take it again.
    pub(super) fn say_place_gone(&mut self, id: QueueId) {
        if !self.by_name.is_plain()
            && let Some(waiting) = self.queues.get(id.0).filter(|it| !it.target.is_any())
        {
            self.events.push_back(Event::PlaceGone(waiting.target.clone()));
        }
    }

    /// How many clients stood before this one at the last denied round, if it stands in the lines.
    pub fn rank(&self, id: QueueId) -> Option<u32> {
        self.queues.get(id.0)?.on_nodes.waiter.as_ref()?.rank()
    }

    /// Whether a request waits with its place.
    pub(super) fn waits_on_nodes(&self, id: QueueId) -> bool {
        self.queues.get(id.0).is_some_and(|waiting| waiting.on_nodes.waiter.is_some())
    }

    /// Whether others than this queue's requests wait, as far as known: other processes, or queues here that overlap
    /// with it.
    pub(super) fn others_wait(&self, id: QueueId, now: Timestamp) -> OthersWait {
        if self.overlaps(id, |_| true) {
            return OthersWait::Somebody;
        }
        let waiting = self.queues.get(id.0);
        let wait = waiting.map(|it| it.on_nodes.others_wait(self.settings.quorum, now));
        wait.unwrap_or_default()
    }

    /// Whether nodes denied a round with a place because of another place of this process that no request here waits
    /// with: its place for reading, if this one is for other uses, or the reverse.
    pub(super) fn has_left_a_place(&self, id: QueueId, found: &Found<'_>) -> bool {
        let own = Some(self.settings.client);
        let is_own = |(_, it): &(NodeId, LineAnswer<'_>)| matches!(it, LineAnswer::Denied(it) if it.behind == own);
        if !found.stood || !found.answers.iter().any(is_own) {
            return false;
        }
        let is_shared = self.target(id).is_some_and(Target::is_shared);
        let others = self.overlapping(id, if is_shared { Which::Others } else { Which::Readers });
        !others.into_iter().any(|other| self.is_led(other) && self.waits_on_nodes(other))
    }

    /// A byte that spreads out clients that are told the same: it differs by process, queue and time.
    pub(super) fn spread(&self, id: QueueId, now: Timestamp) -> u8 {
        let client = self.settings.client.to_hex().into_iter();
        let time = now.since_origin().as_nanos().to_be_bytes();
        let bytes = client.chain(id.0.index().to_be_bytes()).chain(time);
        let hash = bytes
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        (hash >> 16) as u8 ^ hash as u8
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Tells the waiter of a queue. If its next round moves forward, the leader goes on.
    fn tell_waiter(&mut self, id: QueueId, now: Timestamp, tell: impl FnOnce(&mut Waiter, u8)) {
        let random = self.spread(id, now);
        let waiting = self.queues.get_mut(id.0);
        let Some(waiter) = waiting.and_then(|waiting| waiting.on_nodes.waiter.as_mut()) else {
            return;
        };
        let before = waiter.next_round(now);
        tell(waiter, random);
        if waiter.next_round(now) < before {
            self.handle_moved(id);
        }
    }

    /// A node answered the round with this number after its loss.
    pub(super) fn handle_late_answer(
        &mut self,
        id: QueueId,
        number: u64,
        (node, answer): (NodeId, LineAnswer<'_>),
        now: Timestamp,
    ) {
        let last = self.queues.get(id.0).map(|waiting| waiting.on_nodes.rounds);
        // A round beside the queue has no number and says nothing of this client's place.
        if number > 0 && last == Some(number) {
            self.tell_waiter(id, now, |waiter, _| waiter.handle_late_answer(node, answer, now));
        }
    }

    /// A node reports on a resource's line. A wrong hint costs nothing.
    pub fn handle_hint(&mut self, node: NodeId, name: &Resource, hint: LineHint, now: Timestamp) {
        if let LineHint::KeepsOut { ticket } = hint {
            // A place that no request waits with is given up again. A place taken meanwhile has another ticket.
            let is_wanted =
                self.by_name.covering(name, Which::Others).any(|id| self.waits_on_nodes(id));
            if !is_wanted {
                let target = Target::One(name.clone());
                self.leave_lines(&target, ticket, alloc::vec![node]);
            }
            return;
        }
        for id in self.by_name.told_of(name) {
            match hint {
                LineHint::Wanted | LineHint::Alone => {
                    if let Some(waiting) = self.queues.get_mut(id.0) {
                        waiting.on_nodes.say_of_others(node, hint == LineHint::Wanted);
                    }
                    if hint == LineHint::Wanted
                        && let Some(kept) = self.take_kept(id)
                    {
                        self.events.push_back(Event::GiveBack(kept, false));
                    }
                }
                LineHint::Next | LineHint::StandBy { .. } | LineHint::KeepsOut { .. } => {
                    self.tell_waiter(id, now, |waiter, _| waiter.handle_hint(node, hint, now));
                }
            }
        }
    }

    /// The key of a resource is gone on a node. Gone from a quorum, one pausing request asks at once.
    pub fn handle_gone(&mut self, node: NodeId, name: &Resource) {
        for id in self.by_name.told_of(name) {
            let Some(waiting) = self.queues.get_mut(id.0) else { continue };
            waiting.contended.gone_from.insert(node);
            if self.settings.quorum.is_met_by(waiting.contended.gone_from) {
                self.handle_freed(id);
            }
        }
    }

    /// The connection to a node was lost or is back: its reports may have been missed.
    pub fn handle_connection(&mut self, node: NodeId, now: Timestamp) {
        for id in self.waiting_on_nodes() {
            self.tell_waiter(id, now, |waiter, random| waiter.handle_connection(node, random, now));
        }
    }

    /// A node votes that did not before. It may have forgotten its lines.
    pub fn handle_ready(&mut self, node: NodeId, now: Timestamp) {
        for id in self.waiting_on_nodes() {
            self.tell_waiter(id, now, |waiter, random| waiter.handle_ready(node, random, now));
        }
    }

    /// The process's place in a target's lines is gone: overlapping queues for other uses ask soon, which takes it
    /// again. Each of the many readers is told once.
    pub fn handle_place_gone(&mut self, target: &Target, now: Timestamp) {
        let others: Vec<QueueId> = if target.is_shared() {
            self.take_placed(target.resource()).into_iter().collect()
        } else {
            let covering = |one| self.by_name.covering(one, Which::Others);
            target.resources().iter().flat_map(covering).collect()
        };
        for id in others {
            if target.is_shared() || self.target(id) != Some(target) {
                for node in (0..self.settings.quorum.nodes()).map(NodeId::new) {
                    // Earlier reports may have been meant for the use that lost the place.
                    self.tell_waiter(id, now, |waiter, random| {
                        waiter.handle_connection(node, random, now);
                    });
                }
            }
        }
    }

    fn waiting_on_nodes(&self) -> Vec<QueueId> {
        let waits = self.queues.iter().filter(|(_, waiting)| waiting.on_nodes.waiter.is_some());
        waits.map(|(key, _)| QueueId(key)).collect()
    }

    /// A round was won: the nodes have removed this client from the lines.
    pub(super) fn handle_place_served(&mut self, id: QueueId, now: Timestamp) {
        let waiting = self.queues.get_mut(id.0);
        let waiter = waiting.and_then(|waiting| waiting.on_nodes.waiter.take());
        if let Some(late) = waiter.and_then(|waiter| waiter.passed_over()) {
            self.patience.pass_over(late, now);
        }
        self.say_place_gone(id);
    }

    /// A round was lost to others' keys, or to others that are first, and its request goes on. Returns when the next
    /// begins if nothing is told; `None` if too few nodes have a line.
    pub(super) fn stand_on_nodes(&mut self, id: QueueId, found: &Found<'_>) -> Option<Timestamp> {
        let is_left_behind = self.has_left_a_place(id, found);
        let ClientSettings { client, quorum, .. } = self.settings;
        let on_nodes = &mut self.queues.get_mut(id.0)?.on_nodes;
        let patience = &self.patience;
        let waiter = on_nodes
            .waiter
            .get_or_insert_with(|| Box::new(Waiter::new(client, quorum).knowing(patience.clone())));
        waiter.handle_other_place(is_left_behind);
        let Found { random, at: Moment { clocks, round_trip, now, .. }, .. } = *found;
        let answers = found.answers.iter().copied();
        let next = waiter.handle_lost_round(answers, clocks, *round_trip, random, *now);
        match next {
            Some(_) => self.handle_placed(id),
            None => on_nodes.waiter = None,
        }
        next
    }
}
