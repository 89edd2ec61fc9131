//! Releases: those that a caller waits for, and those that undo what was set and not won.
//!
//! It decides when each is sent. A release with a waiting caller is sent at its turn, or earlier if this process asks
//! the nodes for something that it blocks. Otherwise a process could be told that its own lease holds what it has
//! released. It must never report a release that no quorum has confirmed.

use alloc::{boxed::Box, vec::Vec};
use core::{iter, mem, time::Duration};

use super::{
    Asks, Client, Ended, Event, Fails, FootprintId, GrantId, Moment, QueueId, Released, Said,
    calls::{Purpose, replied},
    undone::Undone,
};
use crate::{
    acquisition::TurnedAway,
    command::{NodeId, Reply},
    concurrency::{Load, Turn},
    footprint::{Footprint, ReleaseOrder, UnconfirmedRelease},
    lateness::taken_for,
    releases::longest_release,
    round::{RoundLoss, Tally, Verdict},
    slab::Key,
    slots::Slots,
    target::Target,
    time::Timestamp,
};

/// How many are sent at once ahead of a round: all permits of a semaphore.
const MOST_AT_ONCE: usize = Slots::MOST;

/// A release that a caller waits for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ReleaseId(pub(super) Key);

/// A release under way.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Releasing<R, E> {
    undone: Undone,
    orders: Vec<ReleaseOrder>,
    /// How many commands are unanswered.
    open: usize,
    /// Present while a caller waits.
    asked: Option<Box<Asked<R, E>>>,
}

/// The part of a release that a caller waits for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Asked<R, E> {
    data: R,
    queue: QueueId,
    /// Its place in the lane.
    place: Option<u64>,
    turn: Option<Turn>,
    /// The start of its time limit: once reported late, its send.
    started: Timestamp,
    is_late: bool,
    /// Set at the send.
    tally: Option<Tally>,
    said: Box<[Said<E>]>,
    is_kept: bool,
}

impl<R, E> Releasing<R, E> {
    pub(super) const fn undone_mut(&mut self) -> &mut Undone {
        &mut self.undone
    }

    /// Until when to wait for answers beyond their own time limit; `None` once it is decided.
    pub(super) fn waits_until(&self, node_timeout: Duration) -> Option<Timestamp> {
        let asked = self.asked.as_ref()?;
        let is_open = asked.tally.as_ref()?.verdict() == Verdict::Pending;
        is_open.then(|| asked.started.saturating_add(longest_release(node_timeout)))
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Releases an ended grant, at once unless many releases are under way.
    pub(super) fn release(
        &mut self,
        grant: GrantId,
        ended: Ended,
        data: R,
        at: &Moment<'_>,
    ) -> Option<ReleaseId> {
        let found = self.grants.get(grant.0)?;
        let undone = Undone {
            target: found.target.clone(),
            owner: found.owner,
            key_life: found.key_life(self.settings.max_ttl),
            footprint: found.footprint,
            from: None,
            hold: ended.lease.hold,
        };
        let queue = found.queue;
        self.release_predecessor_of(grant);
        self.hold_footprint(undone.footprint);
        // A request for it here finds this release until it is sent.
        self.hold_queue(queue);
        let said = iter::repeat_with(Said::default).take(self.settings.quorum.nodes()).collect();
        let is_kept = undone.keep(at.steady, self.settings.drift).is_some();
        let asked = Asked {
            data,
            queue,
            place: None,
            turn: None,
            started: at.now,
            is_late: false,
            tally: None,
            said,
            is_kept,
        };
        let orders = ended.orders;
        let releasing = Releasing { undone, orders, open: 0, asked: Some(Box::new(asked)) };
        let id = ReleaseId(self.releasing.insert(releasing));
        if let Some(turn) = self.releases.begin(at.now) {
            self.send_release(id, Some(turn), at);
            return Some(id);
        }
        // The whole time limit, less a node timeout for the round itself.
        let node_timeout = self.settings.node_timeout;
        let most = longest_release(node_timeout).saturating_sub(node_timeout).max(node_timeout / 2);
        self.wait_for_turn(id, Some(at.now.saturating_add(most)));
        self.unsent.entry(queue).or_default().push_back(id);
        self.let_releases_in(at);
        Some(id)
    }

    /// No driver is left: returns its data of all releases.
    pub fn take_all_releases(&mut self) -> Vec<R> {
        let ids: Vec<ReleaseId> = self.releasing.iter().map(|(key, _)| ReleaseId(key)).collect();
        let mut all = Vec::new();
        for id in ids {
            let Some(releasing) = self.releasing.get_mut(id.0) else { continue };
            let Some(asked) = releasing.asked.take() else { continue };
            let Asked { data, queue, place, turn, tally, .. } = *asked;
            let (undone, orders) = (releasing.undone.clone(), mem::take(&mut releasing.orders));
            place.into_iter().for_each(|place| {
                self.releases.leave(place);
            });
            turn.into_iter().for_each(|mut turn| {
                self.releases.give_back(&mut turn, None, Timestamp::ORIGIN);
            });
            if tally.is_none() {
                // It has not been sent.
                self.release_ordered(undone, orders, None);
            }
            self.end_release(id);
            self.let_go_of_queue(queue);
            all.push(data);
        }
        self.unsent.clear();
        all
    }

    fn wait_for_turn(&mut self, id: ReleaseId, deadline: Option<Timestamp>) {
        // This lane is never closed.
        let place = self.releases.wait(id, deadline).ok();
        if let Some(asked) = self.asked(id) {
            asked.place = place;
        }
        self.look_at_releases();
    }

    fn asked(&mut self, id: ReleaseId) -> Option<&mut Asked<R, E>> {
        self.releasing.get_mut(id.0)?.asked.as_deref_mut()
    }

    /// Its target.
    pub fn release_target(&self, id: ReleaseId) -> Option<&Target> {
        self.releasing.get(id.0).map(|releasing| &releasing.undone.target)
    }

    /// The driver's data.
    pub fn release_data(&mut self, id: ReleaseId) -> Option<&mut R> {
        self.asked(id).map(|asked| &mut asked.data)
    }

    /// It has its turn; or it was too long in its lane, which is reported while it waits on.
    pub(super) fn handle_release_turn(
        &mut self,
        id: ReleaseId,
        turn: Result<Turn, TurnedAway>,
        at: &Moment<'_>,
    ) {
        if let Ok(turn) = turn {
            return self.send_release(id, Some(turn), at);
        }
        if let Some(asked) = self.asked(id) {
            asked.is_late = true;
        }
        self.events.push_back(Event::ReleaseLate(id));
        self.wait_for_turn(id, None);
    }

    /// Sends the releases that would block a round of this queue, however many wait for a turn before them. Thousands
    /// of readers' releases would take the renewals' room, so that their number is limited.
    pub(super) fn send_before(&mut self, queue: QueueId, at: &Moment<'_>) {
        // Nearly always there are none.
        if self.unsent.is_empty() {
            return;
        }
        let mut left = MOST_AT_ONCE;
        for queue in self.in_the_way_of(queue) {
            let Some(unsent) = self.unsent.get_mut(&queue) else { continue };
            let all: Vec<ReleaseId> = unsent.drain(..left.min(unsent.len())).collect();
            left = left.saturating_sub(all.len());
            for id in all {
                // Without a turn it does not count as load.
                self.send_release(id, None, at);
            }
        }
    }

    fn send_release(&mut self, id: ReleaseId, turn: Option<Turn>, at: &Moment<'_>) {
        let (quorum, drift) = (self.settings.quorum, self.settings.drift);
        let Some(releasing) = self.releasing.get_mut(id.0) else { return };
        let Some(asked) = releasing.asked.as_deref_mut() else { return };
        asked.place.take().into_iter().for_each(|place| {
            self.releases.leave(place);
        });
        if let Some(unsent) = self.unsent.get_mut(&asked.queue) {
            unsent.retain(|other| *other != id);
            if unsent.is_empty() {
                self.unsent.remove(&asked.queue);
            }
        }
        asked.turn = turn;
        asked.turn.iter_mut().for_each(|turn| turn.handle_begun(at.now));
        if asked.is_late {
            asked.started = at.now;
        }
        let undone = &releasing.undone;
        let keep = undone.keep(at.steady, drift);
        asked.is_kept = keep.is_some();
        let nodes = releasing.orders.iter().map(|order| order.node);
        let (target, owner) = (undone.target.clone(), undone.owner);
        let mut tally = Tally::release_keeping(quorum, target, owner, keep, nodes);
        let mut commands = Vec::with_capacity(releasing.orders.len());
        while let Some((node, command)) = tally.poll_command() {
            if let Some(said) = asked.said.get_mut(node.index()) {
                *said = Said::Unanswered;
            }
            commands.push((node, command));
        }
        asked.tally = Some(tally);
        releasing.open = commands.len();
        for (node, command) in commands {
            self.send(Purpose::Release(id, node), node, command);
        }
        // With too few nodes a quorum is out of reach from the start.
        self.judge_release(id, at);
        self.end_release(id);
    }

    /// Sends the footprint's releases that no caller waits for: of a lost round, or of a late key.
    pub(super) fn release_unwatched(&mut self, undone: Undone, keep: Option<Duration>) {
        let orders = self.orders(undone.footprint);
        if !orders.is_empty() {
            self.release_ordered(undone, orders, keep);
        }
    }

    /// The same, with given orders.
    pub(super) fn release_ordered(
        &mut self,
        undone: Undone,
        orders: Vec<ReleaseOrder>,
        keep: Option<Duration>,
    ) {
        self.hold_footprint(undone.footprint);
        let command = undone.command(keep);
        let mut nodes: Vec<NodeId> = orders.iter().map(|order| order.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let releasing = Releasing { undone, orders, open: nodes.len(), asked: None };
        let id = ReleaseId(self.releasing.insert(releasing));
        for node in nodes {
            self.send(Purpose::Release(id, node), node, command.clone());
        }
    }

    /// A node has answered, or its time is up. An unconfirmed release is kept for later; one that found nothing is
    /// repeated if the key may still land.
    pub(super) fn handle_release_answer(
        &mut self,
        id: ReleaseId,
        node: NodeId,
        result: Result<Reply, E>,
        at: &Moment<'_>,
    ) {
        let node_timeout = self.settings.node_timeout;
        let Some(releasing) = self.releasing.get_mut(id.0) else { return };
        releasing.open = releasing.open.saturating_sub(1);
        let (unanswered, undone) = (releasing.open.saturating_add(1), &releasing.undone);
        let footprint = self.footprints.get(undone.footprint.0);
        let is_clear = footprint.is_none_or(|traced| traced.footprint.is_clear(node));
        // The last order for a node knows most: a late answer may have added it.
        let order = releasing.orders.iter().rfind(|order| order.node == node);
        let ordered = |order| {
            let taken_for = taken_for(node_timeout);
            UnconfirmedRelease::ordered(at.steady, undone.key_life, taken_for, order)
        };
        let again = match &result {
            // No command that sets the key is under way any more.
            Ok(Reply::Granted(_)) if !order.is_some_and(|order| order.several) => None,
            // The acquire turned out to have set nothing there.
            _ if is_clear => None,
            Ok(reply) => {
                let has_deleted = matches!(reply, Reply::Granted(_));
                ordered(order).handle_answer(has_deleted, at.steady, at.steady, node_timeout)
            }
            Err(_) => Some(ordered(order)),
        };
        if let Some(again) = again {
            let undone = undone.clone();
            self.leave_for_later(node, again, undone, at);
        }
        if let Some(asked) = self.asked(id) {
            let load = asked.turn.as_mut().and_then(|turn| match &result {
                Err(error) if error.is_late() => turn.handle_timeout(unanswered),
                result => turn.handle_answer(result.is_ok()),
            });
            let reply = replied(&result);
            if let Some(said) = asked.said.get_mut(node.index()) {
                *said = Said::of(result);
            }
            if let Some(tally) = &mut asked.tally {
                // A release has no validity, so the time of its replies does not matter.
                tally.handle_reply(node, reply, Timestamp::ORIGIN);
            }
            if load.is_some() {
                self.give_back_turn_of(id, load, at);
            }
        }
        self.judge_release(id, at);
        self.end_release(id);
    }

    fn give_back_turn_of(&mut self, id: ReleaseId, load: Option<Load>, at: &Moment<'_>) {
        if let Some(mut turn) = self.asked(id).and_then(|asked| asked.turn.take()) {
            let load = load.filter(|_| self.settings.adapts);
            self.releases.give_back(&mut turn, load, at.now);
        }
    }

    /// Answers the caller once a quorum has confirmed it or none can. Stragglers delay nobody.
    fn judge_release(&mut self, id: ReleaseId, at: &Moment<'_>) {
        let Some(releasing) = self.releasing.get_mut(id.0) else { return };
        let is_decided = |asked: &&mut Box<Asked<R, E>>| {
            asked.tally.as_ref().is_some_and(|tally| tally.verdict() != Verdict::Pending)
        };
        if releasing.asked.as_mut().filter(is_decided).is_none() {
            return;
        }
        self.give_back_turn_of(id, None, at);
        let Some(releasing) = self.releasing.get_mut(id.0) else { return };
        let Undone { target, owner, .. } = &releasing.undone;
        let (target, owner) = (target.clone(), *owner);
        let Some(asked) = releasing.asked.take() else { return };
        let Asked { data, queue, tally, said, is_kept, .. } = *asked;
        let Some(tally) = tally else { return };
        let result = match (tally.verdict(), tally.loss()) {
            (Verdict::Won, _) => Ok(()),
            (_, loss) => Err(loss.unwrap_or(RoundLoss::Contended)),
        };
        // A request that pauses here need not wait for a node's report.
        if result.is_ok() && !is_kept {
            self.handle_released(queue);
        }
        self.let_go_of_queue(queue);
        let released = Released { target, owner, result, released: tally.granted(), said };
        self.events.push_back(Event::Released(data, Box::new(released)));
    }

    fn end_release(&mut self, id: ReleaseId) {
        let is_over =
            |releasing: &&Releasing<R, E>| releasing.open == 0 && releasing.asked.is_none();
        if self.releasing.get(id.0).filter(is_over).is_some()
            && let Some(releasing) = self.releasing.remove(id.0)
        {
            self.let_go_of(releasing.undone.footprint);
        }
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Where to release now.
    pub(super) fn orders(&mut self, id: FootprintId) -> Vec<ReleaseOrder> {
        let footprint = self.footprints.get_mut(id.0).map(|traced| &mut traced.footprint);
        footprint.map(all_orders).unwrap_or_default()
    }
}

pub(super) fn all_orders(footprint: &mut Footprint) -> Vec<ReleaseOrder> {
    iter::from_fn(|| footprint.poll_release()).collect()
}
