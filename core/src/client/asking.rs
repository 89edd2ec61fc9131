//! Requests that ask the nodes: the leader of each queue, for all its waiters, and requests for a permit beside the
//! queue.
//!
//! It decides which request asks next, what it does before its first round and between rounds, and which requests wait
//! for a turn. A queue has one leader at a time; the next begins when it ends.
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

/// A request that asks the nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AskId(pub(super) Key);

/// What a leader does before its first round.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Pause {
    /// It asks.
    #[default]
    None,
    /// It continues the previous leader's pause, which ends when the key is gone.
    UntilFree(Timestamp),
    /// It leaves the resource to others until then, whether or not it is free.
    Rest(Timestamp),
}

/// A request that asks the nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Asking<W> {
    pub(super) queue: QueueId,
    /// The place under which it asks; beside the queue, the place it would take there.
    pub(super) place: Place,
    /// It asks for all waiters.
    pub(super) leads: bool,
    /// `None` once answered.
    pub(super) request: Option<W>,
    pub(super) phase: Phase,
    /// It has paused, or lost a round.
    pub(super) has_paused: bool,
    /// It has stood in line, so that its first round may already be too late, as after a pause.
    pub(super) has_stood: bool,
    /// Held until its round begins.
    pub(super) turn: Option<Turn>,
    /// Its round, until that is decided.
    pub(super) attempt: Option<AttemptId>,
    /// Its last round had no place in the nodes' lines, so that the next only takes one.
    pub(super) takes_place: bool,
    /// Its lost rounds that are heard out. Every end of this request ends that.
    pub(super) heard_out: Vec<AttemptId>,
    timer: Option<Timestamp>,
}

/// Its phase.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Phase {
    /// It leaves the resource to others until then, whether or not it is free.
    Rests(Timestamp),
    /// The nodes are looked at until the first time; the pause ends at the second.
    Looks(Timestamp, Timestamp),
    /// It pauses until `at`; with `begins`, before its first round.
    Pauses { at: Timestamp, begins: bool },
    /// It leaves the resource to a set of this process that has waited long.
    LetsIn,
    /// It wants a turn.
    Wants,
    /// It waits for its turn, under this place.
    Turn(u64),
    /// It has its turn, and is in a round.
    Round,
}

impl<W> Asking<W> {
    /// Whether it has waited. A request that just came is not late.
    const fn has_waited(&self) -> bool {
        self.has_paused || self.has_stood
    }

    /// Whether its time is up after a wait, however short that was meant to be.
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
    /// Starts a request that asks the nodes. It proceeds when its driver calls `go_on`.
    pub(super) fn begin_asking(
        &mut self,
        queue: QueueId,
        (place, leads): (Place, bool),
        mut request: W,
        first: Pause,
    ) -> AskId {
        // Never beyond its own deadline.
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

    /// Advances a request as far as it may go now.
    pub fn go_on(&mut self, id: AskId, now: Timestamp) {
        while let Some(phase) = self.next_phase(id, now) {
            self.stop_timer(id);
            if let Some(asking) = self.asking.get_mut(id.0) {
                asking.phase = phase;
            }
        }
    }

    /// The next phase; `None` if the request stays in this one or is gone.
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
                let leads = self.asking.get(id.0)?.leads;
                let waiting = self.queues.get_mut(queue.0)?;
                if leads && !waiting.contended.pausing.contains(&id) {
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

    /// When a pause up to `at` ends, as known now. `None`: there is none, because the key is free here or the nodes'
    /// lines call for a round now.
    fn pause_end(&mut self, id: AskId, at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let asking = self.asking.get_mut(id.0)?;
        // In an outage the lines say nothing, and without a pause the remaining nodes would be asked all the time.
        let is_in_line = asking.request.as_mut()?.acquisition().is_in_line();
        let waiting = self.queues.get_mut(asking.queue.0)?;
        let waiter = waiting.on_nodes.waiter.as_ref().filter(|_| is_in_line);
        let in_line = waiter.map(|waiter| waiter.next_round(now));
        if in_line.is_some_and(|next| next <= now) || asking.leads && mem::take(&mut waiting.freed)
        {
            return None;
        }
        Some(in_line.map_or(at, |next| next.min(at)))
    }

    /// Until when it leaves the resource to a set of this process that has waited long.
    fn kept_back_until(&self, id: AskId, now: Timestamp) -> Option<Timestamp> {
        let asking = self.asking.get(id.0)?;
        let request = asking.request.as_ref().filter(|request| !request.asks_once())?;
        let until = now.saturating_add(self.kept_back_for(asking.queue, now)?);
        Some(request.turn_deadline().map_or(until, |deadline| until.min(deadline)))
    }

    /// The nodes have been looked at again, for a request that waits for that up to `until`.
    pub fn handle_looked(&mut self, id: AskId, until: Timestamp) {
        if let Some(asking) = self.asking.get_mut(id.0)
            && let Phase::Looks(looks, at) = asking.phase
            && looks == until
        {
            asking.phase = Phase::Pauses { at, begins: false };
            self.events.push_back(Event::GoOn(id));
        }
    }

    /// Lets the first pausing request of a resource ask at once. False if none pauses.
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

    /// No clock can be read: the request asks no more, unless it is in a round or waits for its turn, which need none.
    pub fn handle_not_gone_on(&mut self, id: AskId) {
        let phase = self.asking.get(id.0).map(|asking| asking.phase);
        if !matches!(phase, Some(Phase::Round | Phase::Turn(_))) {
            self.give_up(id, None, None);
        }
    }

    /// The nodes' lines call for the leader's next round earlier than before.
    pub(super) fn handle_moved(&mut self, queue: QueueId) {
        let leader = self.leader_id(queue);
        self.events.extend(leader.map(Event::GoOn));
    }

    /// Ends a request's asking, for whatever reason. If it led, the next in its queue asks. Returns the request if it
    /// was not answered.
    pub(super) fn end_asking(&mut self, id: AskId) -> Option<W> {
        // With a turn in hand, its round has not begun.
        let has_turn = self.asking.get(id.0).is_some_and(|asking| asking.turn.is_some());
        let Asking { queue, place, leads, request, phase, has_paused, .. } =
            self.forget_asking(id)?;
        if let Some(waiting) = self.queues.get_mut(queue.0).filter(|_| leads) {
            // Its pause had ended and its round had not begun: the next one asks in its place.
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

    /// Removes it from every list.
    pub(super) fn forget_asking(&mut self, id: AskId) -> Option<Asking<W>> {
        self.stop_timer(id);
        let mut asking = self.asking.remove(id.0)?;
        if let Phase::Turn(place) = asking.phase {
            self.acquires.leave(place);
        }
        if let Some(mut turn) = asking.turn.take() {
            self.give_turn_back(&mut turn);
        }
        // Before any answer: an answered caller may ask again at once.
        self.hear_no_longer(mem::take(&mut asking.heard_out));
        self.forget_pause(id, asking.queue, asking.phase);
        if let Some(waiting) = self.queues.get_mut(asking.queue.0) {
            waiting.asks.remove(asking.place);
        }
        Some(asking)
    }

    /// In an idle queue the next request has not waited, and earlier findings are of no use to it.
    fn handle_idle(&mut self, queue: QueueId) {
        if let Some(waiting) = self.queues.get_mut(queue.0).filter(|it| it.queue.is_idle()) {
            waiting.forget_met();
            self.leave_place(queue);
        }
    }

    /// Starts the next leader for this resource, if a request waits.
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

    /// Whether the request that came with this place leads the queue.
    pub fn leads(&self, queue: QueueId, place: Place) -> bool {
        let now_at = self.queues.get(queue.0).map(|waiting| waiting.queue.now_at(place));
        now_at.is_some() && self.leader(queue).map(|leader| leader.place) == now_at
    }

    /// The leader of a queue.
    pub(super) fn leader(&self, queue: QueueId) -> Option<&Asking<W>> {
        self.asking.get(self.leader_id(queue)?.0)
    }

    fn leader_id(&self, queue: QueueId) -> Option<AskId> {
        let waiting = self.queues.get(queue.0)?;
        let Station::Asked(place) = waiting.queue.station() else { return None };
        waiting.asks.find(place)
    }

    /// Removes it from the pausing and the kept-back requests.
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

    /// Its timer is due, or will be within a moment.
    pub(super) fn handle_ask_due(&mut self, id: AskId, now: Timestamp) {
        if let Some(asking) = self.asking.get_mut(id.0) {
            asking.timer = None;
            self.go_on(id, now);
        }
    }

    /// Whether each asking request is in a round, waits for a turn, has a timer or is called (K7), and whether exactly
    /// the queues that are asked for have a leader (K6).
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
