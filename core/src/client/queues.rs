//! The queues of a client: requests that come, go, or run out of time.
//!
//! It carries out `Queue::join`, and decides what a waiter learns that waited in vain: that the resource is held here,
//! or what the leader's rounds found. A waiter whose time is up during a round learns that round's result, because its
//! own round might end a little late too.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::mem;

use super::{
    AskId, Asks, Client, Event, Fails, GrantId, Met, NO_SLACK, Pause, QueueId, Timed, Waiter,
    Waiting, all_gone, asking::Phase, looked_at,
};
use crate::{
    acquisition::{GiveUp, TurnedAway},
    owner::Owner,
    queue::{Comer, Joined, Known, Place, Station},
    time::Timestamp,
    timers::Wakeup,
};

/// What becomes of a new request.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Came<W, E> {
    /// Its round begins: call [`Client::begin_round`].
    Begins(Place, AskId),
    /// It waits, or is about to ask.
    Waits(Place),
    /// It takes a kept grant.
    Takes(GrantId, W),
    /// It does not wait, and this grant of the process is in its way.
    Held(GrantId, W),
    /// It does not wait, and the waiting leader has found this.
    Told(Arc<Met<E>>, W),
    /// No more requests begin.
    Closed(W),
}

/// What becomes of a waiter whose timer has come.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Late<W, S> {
    /// It has gone.
    Nothing,
    /// It waits on, with this report, if any.
    Waits(Option<S>),
    /// It waited in vain, and is told that, or that this grant is in its way.
    InVain(W, GiveUp, Option<GrantId>),
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// A request comes. The grant `over` was in its way, and is now known not to be.
    pub fn join(
        &mut self,
        id: QueueId,
        over: Option<GrantId>,
        mut request: W,
        now: Timestamp,
    ) -> Came<W, E> {
        let rests = |waiting: &Waiting<W, E>| matches!(waiting.contended.first, Pause::Rest(_));
        let leaves_it = !request.asks_once()
            && self.queues.get(id.0).is_some_and(|waiting| rests(waiting))
            && self.is_wanted_beside(id);
        let Some(waiting) = self.queues.get_mut(id.0) else { return Came::Closed(request) };
        let holder = waiting.holder().filter(|grant| Some(*grant) != over);
        let (asks_once, adopts) = (request.asks_once(), request.adopts());
        let comer = Comer { asks_once, is_any: waiting.target.is_any(), adopts };
        let known = Known {
            closed: self.closed,
            kept: waiting.kept.is_some(),
            held: holder.is_some(),
            in_round: waiting.in_round,
            found_held: waiting.contended.met.as_ref().is_some_and(|(_, found_held)| *found_held),
        };
        match (waiting.queue.join(comer, known), holder) {
            (Joined::Closed, _) => return Came::Closed(request),
            (Joined::Beside(place), _) => {
                return self.asks((id, place, false), request, Pause::None, now);
            }
            (Joined::Asks(place), _) => {
                // Nobody held it here, so that others might have.
                waiting.stay.handle_left();
                // A resource released here a moment ago is left to requests here for something that overlaps it.
                let first = if leaves_it { waiting.contended.first } else { Pause::None };
                return self.asks((id, place, true), request, first, now);
            }
            (Joined::Takes, _) => {
                if let Some(kept) = waiting.kept.take() {
                    return Came::Takes(kept, request);
                }
            }
            (Joined::Held, Some(grant)) => return Came::Held(grant, request),
            (Joined::Told, _) => {
                if let Some((met, _)) = &waiting.contended.met {
                    return Came::Told(met.clone(), request);
                }
            }
            (Joined::Held | Joined::Shares | Joined::Stands, _) => {}
        }
        if let Some((met, _)) = &waiting.contended.met {
            request.handle_known(met);
        }
        let waiter = Waiter::new(request);
        let place = if comer.asks_once {
            waiting.queue.share(waiter)
        } else {
            waiting.contended.waited_for = waiting.contended.waited_for.max(Some(now));
            waiting.queue.stand(waiter)
        };
        let wakeup = self.look_at(id, place);
        self.wake(wakeup);
        Came::Waits(place)
    }

    /// A new request asks the nodes.
    fn asks(
        &mut self,
        (queue, place, leads): (QueueId, Place, bool),
        request: W,
        first: Pause,
        now: Timestamp,
    ) -> Came<W, E> {
        let id = self.begin_asking(queue, (place, leads), request, first);
        self.go_on(id, now);
        match self.events.pop_back() {
            Some(Event::Begin(begins)) if begins == id => Came::Begins(place, id),
            event => {
                self.events.extend(event);
                Came::Waits(place)
            }
        }
    }

    /// Sets the timer of the waiter under this place.
    pub(super) fn look_at(&mut self, id: QueueId, place: Place) -> Wakeup {
        let waiting = self.queues.get_mut(id.0);
        let Some(waiter) = waiting.and_then(|waiting| waiting.queue.get_mut(place)) else {
            return Wakeup::Silent;
        };
        let Some(at) = looked_at(&waiter.request) else { return Wakeup::Silent };
        let timed = Timed::Waiter(id, place);
        if let Some((at, place)) = waiter.timer.replace((at, place)) {
            self.timers.cancel(at, Timed::Waiter(id, place));
        }
        self.timers.schedule(None, at, NO_SLACK, timed)
    }

    /// The timer of a waiter has come, or will within a moment. A waiter that reports what it waits for learns which
    /// grant holds the resource here, how many requests are ahead of it here, and how many clients on the nodes.
    pub fn handle_waiter_due<S>(
        &mut self,
        id: QueueId,
        place: Place,
        now: Timestamp,
        says: impl FnOnce(&mut W, Option<Owner>, (usize, Option<u32>)) -> Option<S>,
    ) -> Late<W, S> {
        let (rank, leader) = (self.rank(id), self.leader(id).map(|leader| leader.phase));
        let waits_for_turn = matches!(leader, Some(Phase::Turn(_)));
        let Some(waiting) = self.queues.get_mut(id.0) else { return Late::Nothing };
        let holder = waiting.holder();
        let Some(waiter) = waiting.queue.get_mut(place) else { return Late::Nothing };
        // A waiter that has another place by now has its timer under that.
        let Some((at, _)) = waiter.timer.take_if(|(_, under)| *under == place) else {
            return Late::Nothing;
        };
        self.timers.cancel(at, Timed::Waiter(id, place));
        if waiter.request.turn_deadline().is_some_and(|deadline| deadline <= now) {
            let acquisition = waiter.request.acquisition();
            let told = if waits_for_turn {
                acquisition.handle_turned_away(TurnedAway::Late, now)
            } else {
                acquisition.handle_late(now)
            };
            let knows_nothing = holder.is_none() && told == GiveUp::Crowded;
            // A leader that waits for no turn asks or is about to, so that there is no crowd.
            if knows_nothing && !waits_for_turn && !mem::replace(&mut waiter.shares, true) {
                let at = now.saturating_add(self.settings.node_timeout);
                let timed = Timed::Waiter(id, place);
                waiter.timer = Some((at, place));
                let wakeup = self.timers.schedule(None, at, NO_SLACK, timed);
                waiting.queue.share_instead(place);
                self.wake(wakeup);
                return Late::Waits(None);
            }
            let left = waiting.queue.leave(place);
            return left.map_or(Late::Nothing, |waiter| Late::InVain(waiter.request, told, holder));
        }
        let held = holder.and_then(|grant| self.grants.get(grant.0)).map(|grant| grant.owner);
        let here = waiting.ahead(place).unwrap_or_default();
        let Some(waiter) = waiting.queue.get_mut(place) else { return Late::Nothing };
        let said = says(&mut waiter.request, held, (here, rank));
        // Timers due within a moment come along, and this may have been one.
        let wakeup = self.look_at(id, place);
        self.wake(wakeup);
        Late::Waits(said)
    }

    /// Takes out the waiters of all queues.
    pub fn take_all_waiting(&mut self) -> Vec<W> {
        let Self { queues, timers, .. } = self;
        let of_one = |(key, waiting): (_, &mut Box<Waiting<W, E>>)| {
            all_gone(timers, QueueId(key), waiting.queue.take_all())
        };
        queues.iter_mut().flat_map(of_one).collect()
    }

    /// The grant that holds this queue, if any.
    pub fn holder(&self, id: QueueId) -> Option<GrantId> {
        self.queues.get(id.0)?.holder()
    }

    /// How many requests are ahead of this place, if it waits or asks; and what the last round found.
    pub fn ahead(&self, id: QueueId, place: Place) -> Option<(usize, Option<&Arc<Met<E>>>)> {
        let waiting = self.queues.get(id.0)?;
        Some((waiting.ahead(place)?, waiting.contended.met.as_ref().map(|(met, _)| met)))
    }
}

impl<W, E> Waiting<W, E> {
    /// How many requests are ahead of this place: those in line, and the leader.
    fn ahead(&self, place: Place) -> Option<usize> {
        match (self.queue.ahead(place), self.queue.station()) {
            (Some(ahead), Station::Asked(_)) => Some(ahead.saturating_add(1)),
            (Some(ahead), _) => Some(ahead),
            (None, Station::Asked(leader)) if leader == self.queue.now_at(place) => Some(0),
            (None, _) => None,
        }
    }
}
