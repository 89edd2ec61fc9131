//! Who comes to a line: the first asks the nodes, the others wait.
//!
//! It decides what a request for one round gets without asking: where the resource is held here it is told so, where the
//! head pauses what the head has found last, and where a round is under way what that finds. None of them sends anything,
//! nor stands before anybody.

use std::{sync::Arc, time::Duration};

use super::{Head, Pause, Standing, Waiter, held_here};
use crate::{
    engine::{Engine, Grant, Met, Request, renewals::Timed, resources::ResourceSlot},
    protocol::{GiveUp, Place, Timestamp, TurnedAway, WaitPolicy, Wakeup},
};

/// What becomes of a request that has come.
enum Joined {
    /// It is the head.
    Asks(Place, Request, Pause),
    /// It asks for a permit beside the line, in which nobody stands.
    Beside(Request),
    /// It waits.
    Waits(Place, Wakeup),
    /// It takes what is kept as nobody's.
    Takes(Arc<Grant>, Request),
    /// It does not wait, and this lease of the process is in its way.
    Held(Arc<Grant>, Request),
    /// It does not wait, and others do, who have found this.
    Known(Arc<Met>, Request),
    /// No more are begun.
    Closed(Request),
}

impl Engine {
    /// Takes its place, or begins at once; `None` says that it has been answered.
    pub(in crate::engine) fn join(
        self: &Arc<Self>,
        slot: &Arc<ResourceSlot>,
        mut request: Request,
        now: Timestamp,
    ) -> Option<Standing> {
        // Read before anything is taken: it is code of the user's, which may panic.
        let least = request.asked.hold_at_least;
        let keeps_until = least.map(|least| self.steady().saturating_add(least));
        let mut over = None;
        loop {
            match self.joined(slot, request, over.as_ref(), now) {
                Joined::Asks(place, mut asks, first) => {
                    asks.head = Some(Head::new(self, slot, place));
                    match self.moment_for_others(slot, &asks, first) {
                        Pause::None if asks.kept_back_until(self).is_none() => asks.ask(self, now),
                        first => asks.begin(self, first),
                    }
                    return Some(self.standing(slot, place));
                }
                Joined::Beside(asks) => {
                    let place = asks.reserved;
                    asks.ask(self, now);
                    return place.map(|place| self.standing(slot, place));
                }
                Joined::Waits(place, wakeup) => {
                    // Without the lock: it may spawn a task on a runtime that is the user's code.
                    self.wake(wakeup);
                    return Some(self.standing(slot, place));
                }
                Joined::Takes(grant, taking) => {
                    match grant.resume(self, taking, keeps_until, now) {
                        None => return None,
                        // It would not do, and has been given back.
                        Some(asks) => request = asks,
                    }
                }
                Joined::Held(grant, refused) => {
                    if let Ok(left) = grant.left() {
                        refused.held_here(self, grant.owner(), left);
                        return None;
                    }
                    // Its time is up: somebody may ask, or may in a moment, where this is called by whoever ends it.
                    (request, over) = (refused, Some(grant));
                }
                Joined::Known(met, mut refused) => {
                    refused.handle_met(&met);
                    refused.acquisition.handle_known(met.lost, met.at);
                    refused.turned_away(self, TurnedAway::Late);
                    return None;
                }
                Joined::Closed(refused) => {
                    refused.give_up(self, GiveUp::Closed);
                    return None;
                }
            }
        }
    }

    fn joined(
        self: &Arc<Self>,
        slot: &Arc<ResourceSlot>,
        mut request: Request,
        over: Option<&Arc<Grant>>,
        now: Timestamp,
    ) -> Joined {
        let is_over = |grant: &Arc<Grant>| over.is_some_and(|over| Arc::ptr_eq(over, grant));
        let mut line = slot.line();
        // Asked under the lock: whoever closes looks through the lines afterwards.
        if self.is_closed() {
            return Joined::Closed(request);
        }
        if slot.target().is_any() && line.queue.is_idle() {
            request.reserved = Some(line.queue.reserve());
            return Joined::Beside(request);
        }
        if let Some(place) = line.queue.ask() {
            // It was nobody's here, so that others might have had it.
            line.stay.handle_left();
            return Joined::Asks(place, request, line.first);
        }
        if line.queue.is_empty()
            && let Some(kept) = line.take_kept()
        {
            return Joined::Takes(kept, request);
        }
        let is_single = request.asked.wait_policy == WaitPolicy::OneRound;
        if is_single && let Some(grant) = held_here(&line).filter(|grant| !is_over(grant)) {
            return Joined::Held(grant, request);
        }
        if let Some(met) = &line.met {
            if is_single && !line.in_round && met.lost.found_held() {
                return Joined::Known(Arc::clone(met), request);
            }
            request.handle_met(met);
            request.acquisition.handle_known(met.lost, met.at);
        }
        let waiter = Box::new(Waiter { request, timer: None, shares: false, in_vain: None });
        let at = waiter.at();
        let place = if is_single { line.queue.share(waiter) } else { line.queue.stand(waiter) };
        if !is_single {
            line.waited_for = line.waited_for.max(Some(now));
        }
        let Some(at) = at else { return Joined::Waits(place, Wakeup::Silent) };
        let timed = Timed::Waiter(Arc::downgrade(slot), place);
        let (key, wakeup) = self.schedule(timed, None, at, Duration::ZERO);
        if let Some(waiter) = line.queue.get_mut(place) {
            waiter.timer = Some(key);
        }
        Joined::Waits(place, wakeup)
    }

    /// What one who comes anew does first where the resource was released here a moment ago, and somebody here wants
    /// something else that it is a part of.
    fn moment_for_others(&self, slot: &ResourceSlot, asks: &Request, first: Pause) -> Pause {
        let may_wait = asks.asked.wait_policy != WaitPolicy::OneRound;
        match first {
            Pause::Rest(_) if may_wait && slot.is_wanted_beside() => first,
            _ => Pause::None,
        }
    }

    fn standing(self: &Arc<Self>, slot: &Arc<ResourceSlot>, place: Place) -> Standing {
        Standing { engine: Arc::clone(self), slot: Arc::clone(slot), place }
    }
}
