//! The queues of a client: who comes, who goes, and whose time is up.
//!
//! It carries out what `Queue::join` decides, and decides what somebody is told who has waited in vain: that the resource is
//! held here, or what the leader's rounds have found. One whose time is up while a round is under way is told what that
//! finds, as a round of its own might end a little later too.

use alloc::{boxed::Box, vec::Vec};
use core::{mem, time::Duration};

use super::{
    Asks, Client, GrantId, NO_SLACK, QueueId, Timed, Waiter, Waiting, all_gone, gone,
    leader::Pause, looked_at,
};
use crate::{
    acquisition::{GiveUp, TurnedAway},
    queue::{Comer, Joined, Known, Place, Station},
    time::Timestamp,
    timers::Wakeup,
};

/// What becomes of a request that has come.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Came<W, M> {
    /// It is the leader, which asks the nodes for all who come behind it.
    Asks(Place, W, Pause),
    /// It asks for a permit beside the queue, in which nobody stands, and has this place where it comes to stand there.
    Beside(Place, W),
    /// It waits.
    Waits(Place, Wakeup),
    /// It takes what is kept as nobody's.
    Takes(GrantId, W),
    /// It does not wait, and this lease of the process is in its way.
    Held(GrantId, W),
    /// It does not wait, and others do, who have found this.
    Told(M, W),
    /// No more are begun.
    Closed(W),
}

/// What is left of one who leaves a queue.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Left<W> {
    /// It waited.
    pub request: Option<W>,
    /// It was the leader, and has this place among all acquires.
    pub turn: Option<u64>,
}

/// What becomes of one whose timer has come.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Late<W, S> {
    /// It has gone.
    Nothing,
    /// It waits on. What it says meanwhile, where anything.
    Waits(Option<S>, Wakeup),
    /// It has waited in vain, and is told so; or that this grant is in its way.
    InVain(W, GiveUp, Option<GrantId>),
}

impl<G, W: Asks<M>, M: Clone> Client<G, W, M> {
    /// A resource is wanted or held here.
    pub fn open_queue(&mut self) -> QueueId {
        QueueId(self.queues.insert(Box::new(Waiting::default())))
    }

    /// Nobody has to do with it any more. Whoever stood there is returned.
    pub fn close_queue(&mut self, id: QueueId) -> Vec<W> {
        let waiting = self.queues.remove(id.0);
        let all = waiting.map(|mut waiting| waiting.queue.take_all()).unwrap_or_default();
        all_gone(&mut self.timers, id, all)
    }

    /// Somebody comes. The grant `over` was in its way, and is by now known not to be.
    pub fn join(
        &mut self,
        id: QueueId,
        comer: Comer,
        (closed, over): (bool, Option<GrantId>),
        mut request: W,
        now: Timestamp,
    ) -> Came<W, M> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Came::Closed(request) };
        let holder = waiting.holder().filter(|grant| Some(*grant) != over);
        let known = Known {
            closed,
            kept: waiting.kept.is_some(),
            held: holder.is_some(),
            in_round: waiting.in_round,
            found_held: waiting.met.as_ref().is_some_and(|(_, found_held)| *found_held),
        };
        match (waiting.queue.join(comer, known), holder) {
            (Joined::Closed, _) => return Came::Closed(request),
            (Joined::Beside(place), _) => return Came::Beside(place, request),
            (Joined::Asks(place), _) => {
                // It was nobody's here, so that others might have had it.
                waiting.stay.handle_left();
                return Came::Asks(place, request, waiting.first);
            }
            (Joined::Takes, _) => {
                if let Some(kept) = waiting.kept.take() {
                    return Came::Takes(kept, request);
                }
            }
            (Joined::Held, Some(grant)) => return Came::Held(grant, request),
            (Joined::Told, _) => {
                if let Some((met, _)) = &waiting.met {
                    return Came::Told(met.clone(), request);
                }
            }
            (Joined::Held | Joined::Shares | Joined::Stands, _) => {}
        }
        if let Some((met, _)) = &waiting.met {
            request.handle_known(met);
        }
        let waiter = Box::new(Waiter::new(request));
        let place = if comer.asks_once {
            waiting.queue.share(waiter)
        } else {
            waiting.waited_for = waiting.waited_for.max(Some(now));
            waiting.queue.stand(waiter)
        };
        Came::Waits(place, self.look_at(id, place))
    }

    /// Who waits under this place is looked at when it wants to be.
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

    /// The time has come for one who waits, or will have within a moment. Whoever says for whom it waits is told of what holds
    /// the resource here, and how many come before it here.
    pub fn handle_waiter_due<S>(
        &mut self,
        id: QueueId,
        place: Place,
        (now, node_timeout): (Timestamp, Duration),
        says: impl FnOnce(&mut W, Option<&G>, usize) -> Option<S>,
    ) -> Late<W, S> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Late::Nothing };
        let (holder, waits_for_turn) = (waiting.holder(), waiting.turn.is_some());
        let here = waiting.ahead(place).unwrap_or_default();
        let Some(waiter) = waiting.queue.get_mut(place) else { return Late::Nothing };
        // One that stands under another place by now is looked at under that.
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
            // Where the leader does not wait for its turn there is no crowd: it asks, or is about to.
            if knows_nothing && !waits_for_turn && !mem::replace(&mut waiter.shares, true) {
                let at = now.saturating_add(node_timeout);
                let timed = Timed::Waiter(id, place);
                waiter.timer = Some((at, place));
                let wakeup = self.timers.schedule(None, at, NO_SLACK, timed);
                waiting.queue.share_instead(place);
                return Late::Waits(None, wakeup);
            }
            let left = waiting.queue.leave(place);
            return left.map_or(Late::Nothing, |waiter| Late::InVain(waiter.request, told, holder));
        }
        let held = holder.and_then(|grant| self.grants.get(grant.0)).map(|grant| &grant.data);
        let said = says(&mut waiter.request, held, here);
        // Timers that are due within a moment come along, and this one may have been one of them.
        Late::Waits(said, self.look_at(id, place))
    }

    /// Leaves the queue, from wherever in it.
    pub fn leave(&mut self, id: QueueId, place: Place) -> Left<W> {
        let Some(waiting) = self.queues.get_mut(id.0) else {
            return Left { request: None, turn: None };
        };
        let now_at = waiting.queue.now_at(place);
        let left = waiting.queue.leave(place);
        let turn = waiting.turn.take_if(|(leader, _)| left.is_none() && *leader == now_at);
        let request = left.map(|waiter| gone(&mut self.timers, id, *waiter));
        Left { request, turn: turn.map(|(_, turn)| turn) }
    }

    /// Takes out all who wait in any queue.
    pub fn take_all_waiting(&mut self) -> Vec<W> {
        let Self { queues, timers, .. } = self;
        let of_one = |(key, waiting): (_, &mut Box<Waiting<W, M>>)| {
            all_gone(timers, QueueId(key), waiting.queue.take_all())
        };
        queues.iter_mut().flat_map(of_one).collect()
    }

    /// What is held under this queue, where anything is.
    pub fn holder(&self, id: QueueId) -> Option<GrantId> {
        self.queues.get(id.0)?.holder()
    }

    /// How many come before this place, where somebody stands there or asks; and what the last round has met.
    pub fn ahead(&self, id: QueueId, place: Place) -> Option<(usize, Option<&M>)> {
        let waiting = self.queues.get(id.0)?;
        Some((waiting.ahead(place)?, waiting.met.as_ref().map(|(met, _)| met)))
    }
}

impl<W, M> Waiting<W, M> {
    /// How many come before this place: those in line, and who asks for them.
    fn ahead(&self, place: Place) -> Option<usize> {
        match (self.queue.ahead(place), self.queue.station()) {
            (Some(ahead), Station::Asked(_)) => Some(ahead.saturating_add(1)),
            (Some(ahead), _) => Some(ahead),
            (None, Station::Asked(leader)) if leader == self.queue.now_at(place) => Some(0),
            (None, _) => None,
        }
    }
}
