//! Those who ask the nodes: the leader of each queue, who asks for all who wait there, and those who ask for a permit beside it.
//!
//! It decides who asks next, what one does before its first round and between two, and who waits for its turn among all rounds.
//! There is one leader of a queue at a time, and the next begins when it ends.
//!
//! ```text
//!  begin --> [ Rests ] --> [ Pauses ] --> [ LetsIn ] --> [ Wants ] --> [ Turn ] --> [ Round ] --> won
//!                             ^                                                         |
//!                             +----- [ Looks ] <----------------------------------------+ lost
//! ```

use alloc::vec::Vec;
use core::mem;

use super::{Asks, AttemptId, Client, Event, Fails, NO_SLACK, QueueId, Timed, gone};
use crate::{
    acquisition::TurnedAway,
    concurrency::Turn,
    queue::{Place, Station},
    slab::Key,
    time::Timestamp,
};

/// One who asks the nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AskId(pub(super) Key);

/// What a leader does before its first round.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Pause {
    /// It asks.
    #[default]
    None,
    /// It goes on with the pause of the leader before, which ends when the key is gone.
    UntilFree(Timestamp),
    /// It leaves the resource to others until then, whether or not it is free.
    Rest(Timestamp),
}

/// One who asks the nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Asking<W> {
    pub(super) queue: QueueId,
    /// Under which it asks; of one who asks beside the queue, where it comes to stand there.
    pub(super) place: Place,
    /// It asks for all who wait.
    pub(super) leads: bool,
    /// Until it is answered.
    pub(super) request: Option<W>,
    pub(super) phase: Phase,
    /// It has paused, or lost a round.
    pub(super) has_paused: bool,
    /// It has stood in line. Whether a round may begin is asked of it from the first on, as it is of one that has paused.
    pub(super) has_stood: bool,
    /// Until its round begins.
    pub(super) turn: Option<Turn>,
    /// Its round, from then on until that is decided.
    pub(super) attempt: Option<AttemptId>,
    /// Its last round has only taken the place in the lines on the nodes.
    pub(super) takes_place: bool,
    /// Lost rounds of it that are heard out. Whatever ends this, they are heard no longer.
    pub(super) heard_out: Vec<AttemptId>,
    timer: Option<Timestamp>,
}

/// Where it is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Phase {
    /// It leaves the resource to others until then, whether or not it is free.
    Rests(Timestamp),
    /// The nodes are looked at, up to the first of the times; the second is the end of the pause behind that.
    Looks(Timestamp, Timestamp),
    /// It pauses up to then, before its first round where it `begins`.
    Pauses { at: Timestamp, begins: bool },
    /// It leaves the resource to those here who want several, and have waited for long.
    LetsIn,
    /// It wants a turn.
    Wants,
    /// It waits for its turn, under this place.
    Turn(u64),
    /// It has its turn, and is in a round.
    Round,
}

impl<W> Asking<W> {
    /// It has waited. One that has just come is not late.
    const fn has_waited(&self) -> bool {
        self.has_paused || self.has_stood
    }

    /// Whether its time is up, however short what it has waited was to be.
    pub(super) fn is_late<E>(&mut self, now: Timestamp) -> bool
    where
        W: Asks<E>,
    {
        let waited = self.has_waited() || self.turn.as_ref().is_some_and(Turn::waited);
        let request = self.request.as_mut();
        waited && request.is_some_and(|request| !request.acquisition().may_begin(now))
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// A request asks the nodes from now on. It goes on when its driver calls for that.
    pub(super) fn begin_asking(
        &mut self,
        queue: QueueId,
        (place, leads): (Place, bool),
        mut request: W,
        first: Pause,
    ) -> AskId {
        // No longer than it may wait at all.
        let deadline = request.acquisition().turn_deadline();
        let within = |at: Timestamp| deadline.map_or(at, |deadline| at.min(deadline));
        let phase = match first {
            Pause::Rest(until) => Phase::Rests(within(until)),
            Pause::UntilFree(at) => Phase::Pauses { at: within(at), begins: true },
            Pause::None if leads => Phase::LetsIn,
            Pause::None => Phase::Wants,
        };
        let request = Some(request);
        let has_paused = matches!(first, Pause::UntilFree(_));
        let asking = Asking {
            queue,
            place,
            leads,
            request,
            phase,
            has_paused,
            has_stood: false,
            turn: None,
            attempt: None,
            takes_place: false,
            heard_out: Vec::new(),
            timer: None,
        };
        let id = AskId(self.asking.insert(asking));
        if let Some(waiting) = self.queues.get_mut(queue.0) {
            waiting.asks.add(place, id);
        }
        if leads {
            self.handle_set_served(queue);
        }
        id
    }

    /// One who asks goes on, as far as it may by now.
    pub fn go_on(&mut self, id: AskId, now: Timestamp) {
        while let Some(phase) = self.next_phase(id, now) {
            self.stop_timer(id);
            if let Some(asking) = self.asking.get_mut(id.0) {
                asking.phase = phase;
            }
        }
    }

    /// What follows; `None` where it stays where it is, or is gone.
    fn next_phase(&mut self, id: AskId, now: Timestamp) -> Option<Phase> {
        let Asking { queue, phase, .. } = *self.asking.get(id.0)?;
        let (until, next) = match phase {
            Phase::Rests(until) => (Some(until), Phase::LetsIn),
            Phase::Looks(until, at) => (Some(until), Phase::Pauses { at, begins: false }),
            Phase::Pauses { at, begins } => {
                let next = if begins { Phase::LetsIn } else { Phase::Wants };
                (self.pause_end(id, at, now), next)
            }
            Phase::LetsIn => (self.kept_back_until(id, now), Phase::Wants),
            Phase::Wants => {
                self.want_turn(id, now);
                return None;
            }
            Phase::Turn(place) => {
                let deadline = self.asking.get(id.0)?.request.as_ref()?.turn_deadline();
                if deadline.is_none_or(|deadline| now < deadline) {
                    deadline.into_iter().for_each(|deadline| self.look_at_ask(id, deadline));
                } else if self.acquires.leave(place).is_some() {
                    self.turn_away(id, TurnedAway::Late, now);
                }
                return None;
            }
            Phase::Round => return None,
        };
        let Some(until) = until.filter(|until| now < *until) else {
            self.forget_pause(id, queue, phase);
            return Some(next);
        };
        self.asking.get_mut(id.0)?.has_paused = true;
        match phase {
            Phase::Pauses { .. } => {
                let waiting = self.queues.get_mut(queue.0)?;
                if !waiting.contended.pausing.contains(&id) {
                    waiting.contended.pausing.push(id);
                }
            }
            Phase::LetsIn => {
                self.kept_back.insert(id);
            }
            _ => {}
        }
        self.look_at_ask(id, until);
        None
    }

    /// When a pause up to `at` ends, by what is known now; `None` where it does not begin: the key is free here, or so the
    /// lines on the nodes say.
    fn pause_end(&mut self, id: AskId, at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let asking = self.asking.get_mut(id.0)?;
        // In an outage they say nothing, and without a pause the nodes that are left would be asked all the time.
        let is_in_line = asking.request.as_mut()?.acquisition().is_in_line();
        let waiting = self.queues.get_mut(asking.queue.0)?;
        let waiter = waiting.on_nodes.waiter.as_ref().filter(|_| is_in_line);
        let in_line = waiter.map(|waiter| waiter.next_round(now));
        if in_line.is_some_and(|next| next <= now) || mem::take(&mut waiting.freed) {
            return None;
        }
        Some(in_line.map_or(at, |next| next.min(at)))
    }

    /// Up to when it leaves the resource to one here who wants several, and has waited for long.
    fn kept_back_until(&self, id: AskId, now: Timestamp) -> Option<Timestamp> {
        let asking = self.asking.get(id.0)?;
        let request = asking.request.as_ref().filter(|request| !request.asks_once())?;
        let until = now.saturating_add(self.kept_back_for(asking.queue, now)?);
        Some(request.turn_deadline().map_or(until, |deadline| until.min(deadline)))
    }

    /// The nodes have been looked at again, for one that waits for that up to `until`.
    pub fn handle_looked(&mut self, id: AskId, until: Timestamp) {
        if let Some(asking) = self.asking.get_mut(id.0)
            && let Phase::Looks(looks, at) = asking.phase
            && looks == until
        {
            asking.phase = Phase::Pauses { at, begins: false };
            self.events.push_back(Event::GoOn(id));
        }
    }

    /// One of those who pause for a resource, the first to do so, asks at once. False where nobody pauses.
    pub(super) fn wake_pausing(&mut self, queue: QueueId) -> bool {
        let Some(waiting) = self.queues.get_mut(queue.0) else { return false };
        if waiting.contended.pausing.is_empty() {
            return false;
        }
        let id = waiting.contended.pausing.remove(0);
        if let Some(asking) = self.asking.get_mut(id.0)
            && let Phase::Pauses { begins, .. } = asking.phase
        {
            asking.phase = if begins { Phase::LetsIn } else { Phase::Wants };
            self.events.push_back(Event::GoOn(id));
        }
        true
    }

    /// Nobody can say what time it is: it asks no more, unless it needs no clock, in a round or until its turn.
    pub fn handle_not_gone_on(&mut self, id: AskId) {
        let phase = self.asking.get(id.0).map(|asking| asking.phase);
        if !matches!(phase, Some(Phase::Round | Phase::Turn(_))) {
            self.give_up(id, None, None);
        }
    }

    /// The next round of one who stands in the lines on the nodes is earlier than it was.
    pub(super) fn handle_moved(&mut self, queue: QueueId) {
        let leader = self.leader_id(queue);
        self.events.extend(leader.map(Event::GoOn));
    }

    /// It asks no more, in whatever way that came: the next in its queue does, where it was the leader. It is returned where
    /// it has not been answered.
    pub(super) fn end_asking(&mut self, id: AskId) -> Option<W> {
        // Its round has not begun.
        let has_turn = self.asking.get(id.0).is_some_and(|asking| asking.turn.is_some());
        let Asking { queue, place, leads, request, phase, has_paused, .. } =
            self.forget_asking(id)?;
        if let Some(waiting) = self.queues.get_mut(queue.0).filter(|_| leads) {
            // Where its pause had ended, and its round has not begun, the next one asks in its place.
            let may_ask = matches!(phase, Phase::LetsIn | Phase::Wants | Phase::Turn(_));
            waiting.freed |= has_paused && (may_ask || has_turn);
            waiting.in_round = false;
            waiting.queue.handle_over(place);
            self.handle_set_served(queue);
            self.handle_idle(queue);
            self.next_leader(queue);
        }
        request
    }

    /// It is in no list any more.
    pub(super) fn forget_asking(&mut self, id: AskId) -> Option<Asking<W>> {
        self.stop_timer(id);
        let mut asking = self.asking.remove(id.0)?;
        if let Phase::Turn(place) = asking.phase {
            self.acquires.leave(place);
        }
        if let Some(mut turn) = asking.turn.take() {
            self.give_turn_back(&mut turn);
        }
        // Before anybody is told, who may ask again at once.
        self.hear_no_longer(mem::take(&mut asking.heard_out));
        self.forget_pause(id, asking.queue, asking.phase);
        if let Some(waiting) = self.queues.get_mut(asking.queue.0) {
            waiting.asks.remove(asking.place);
        }
        Some(asking)
    }

    /// Where nobody asks, holds or waits, whoever comes next has not waited, and what was found by then is of no use to it.
    fn handle_idle(&mut self, queue: QueueId) {
        if let Some(waiting) = self.queues.get_mut(queue.0).filter(|it| it.queue.is_idle()) {
            waiting.forget_met();
            self.leave_place(queue);
        }
    }

    /// Starts who is next to ask the nodes for this resource, if anybody is.
    pub(super) fn next_leader(&mut self, queue: QueueId) {
        let Some(waiting) = self.queues.get_mut(queue.0) else { return };
        let Some((place, waiter)) = waiting.queue.next_to_ask() else { return };
        let first = waiting.contended.first;
        let request = gone(&mut self.timers, queue, waiter);
        let id = self.begin_asking(queue, (place, true), request, first);
        if let Some(asking) = self.asking.get_mut(id.0) {
            asking.has_stood = true;
        }
        self.events.push_back(Event::GoOn(id));
    }

    /// Whether the one who came with this place asks for all who wait in a queue.
    pub fn leads(&self, queue: QueueId, place: Place) -> bool {
        let now_at = self.queues.get(queue.0).map(|waiting| waiting.queue.now_at(place));
        now_at.is_some() && self.leader(queue).map(|leader| leader.place) == now_at
    }

    /// Who asks for all who wait in a queue.
    pub(super) fn leader(&self, queue: QueueId) -> Option<&Asking<W>> {
        self.asking.get(self.leader_id(queue)?.0)
    }

    fn leader_id(&self, queue: QueueId) -> Option<AskId> {
        let waiting = self.queues.get(queue.0)?;
        let Station::Asked(place) = waiting.queue.station() else { return None };
        waiting.asks.find(place)
    }

    /// It is among those no more who pause, or are kept back.
    fn forget_pause(&mut self, id: AskId, queue: QueueId, phase: Phase) {
        if let (Phase::Pauses { .. }, Some(waiting)) = (phase, self.queues.get_mut(queue.0)) {
            waiting.contended.pausing.retain(|other| *other != id);
        }
        if phase == Phase::LetsIn {
            self.kept_back.remove(&id);
        }
    }

    pub(super) fn look_at_ask(&mut self, id: AskId, at: Timestamp) {
        let Some(asking) = self.asking.get_mut(id.0) else { return };
        let old = asking.timer.replace(at);
        if old != Some(at) {
            let wakeup = self.timers.schedule(old, at, NO_SLACK, Timed::Ask(id));
            self.wake(wakeup);
        }
    }

    pub(super) fn stop_timer(&mut self, id: AskId) {
        if let Some(at) = self.asking.get_mut(id.0).and_then(|asking| asking.timer.take()) {
            self.timers.cancel(at, Timed::Ask(id));
        }
    }

    /// Its time has come, or will have within a moment.
    pub(super) fn handle_ask_due(&mut self, id: AskId, now: Timestamp) {
        if let Some(asking) = self.asking.get_mut(id.0) {
            asking.timer = None;
            self.go_on(id, now);
        }
    }

    /// Whether each one who asks goes on in time: it is in a round, waits for a turn, or is among the timers (K7); and whether
    /// a queue that is asked for has a leader, and no other has one (K6).
    pub fn go_on_in_time(&self) -> bool {
        let goes_on = |key: Key, asking: &Asking<W>| {
            let called = self.events.iter().any(|it| matches!(it, Event::GoOn(id) if id.0 == key));
            let rings = |at| self.timers.contains(at, Timed::Ask(AskId(key)));
            let leads = self.leader(asking.queue).is_some_and(|it| it.place == asking.place);
            (called
                || asking.timer.is_some_and(rings)
                || matches!(asking.phase, Phase::Round | Phase::Turn(_)))
                && asking.leads == leads
        };
        let is_led = |key: Key| self.is_led(QueueId(key)) == self.leader(QueueId(key)).is_some();
        self.asking.iter().all(|(key, asking)| goes_on(key, asking))
            && self.queues.iter().all(|(key, _)| is_led(key))
    }
}
