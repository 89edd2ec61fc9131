//! Who comes to a line: the first asks the nodes, the others wait.
//!
//! It carries out what `Queue::join` decides. Only who asks sends anything.

use std::{sync::Arc, time::Duration};

use super::{Head, Pause, Standing, Waiter, held_here};
use crate::{
    engine::{Engine, Grant, Met, Request, renewals::Timed, resources::ResourceSlot},
    protocol::{Comer, GiveUp, Joined, Known, Place, Timestamp, TurnedAway, WaitPolicy, Wakeup},
};

/// What becomes of a request that has come.
enum Came {
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
                Came::Asks(place, mut asks, first) => {
                    asks.head = Some(Head::new(self, slot, place));
                    match self.moment_for_others(slot, &asks, first) {
                        Pause::None if asks.kept_back_until(self).is_none() => asks.ask(self, now),
                        first => asks.begin(self, first),
                    }
                    return Some(self.standing(slot, place));
                }
                Came::Beside(asks) => {
                    let place = asks.reserved;
                    asks.ask(self, now);
                    return place.map(|place| self.standing(slot, place));
                }
                Came::Waits(place, wakeup) => {
                    // Without the lock: it may spawn a task on a runtime that is the user's code.
                    self.wake(wakeup);
                    return Some(self.standing(slot, place));
                }
                Came::Takes(grant, taking) => {
                    match grant.resume(self, taking, keeps_until, now) {
                        None => return None,
                        // It would not do, and has been given back.
                        Some(asks) => request = asks,
                    }
                }
                Came::Held(grant, refused) => {
                    if let Ok(left) = grant.left() {
                        refused.held_here(self, grant.owner(), left);
                        return None;
                    }
                    // Its time is up: somebody may ask, or may in a moment, where this is called by whoever ends it.
                    (request, over) = (refused, Some(grant));
                }
                Came::Known(met, mut refused) => {
                    refused.handle_met(&met);
                    refused.acquisition.handle_known(met.lost, met.at);
                    refused.turned_away(self, TurnedAway::Late);
                    return None;
                }
                Came::Closed(refused) => {
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
    ) -> Came {
        let is_over = |grant: &Arc<Grant>| over.is_some_and(|over| Arc::ptr_eq(over, grant));
        let mut line = slot.line();
        let holder = held_here(&line).filter(|grant| !is_over(grant));
        let asks_once = request.asked.wait_policy == WaitPolicy::OneRound;
        let comer = Comer { asks_once, is_any: slot.target().is_any() };
        let known = Known {
            // Asked under the lock: whoever closes looks through the lines afterwards.
            closed: self.is_closed(),
            kept: line.kept.is_some(),
            held: holder.is_some(),
            in_round: line.in_round,
            found_held: line.met.as_ref().is_some_and(|met| met.lost.found_held()),
        };
        match (line.queue.join(comer, known), holder) {
            (Joined::Closed, _) => return Came::Closed(request),
            (Joined::Beside(place), _) => {
                request.reserved = Some(place);
                return Came::Beside(request);
            }
            (Joined::Asks(place), _) => {
                // It was nobody's here, so that others might have had it.
                line.stay.handle_left();
                return Came::Asks(place, request, line.first);
            }
            (Joined::Takes, _) => {
                if let Some(kept) = line.take_kept() {
                    return Came::Takes(kept, request);
                }
            }
            (Joined::Held, Some(grant)) => return Came::Held(grant, request),
            (Joined::Told, _) => {
                if let Some(met) = &line.met {
                    return Came::Known(Arc::clone(met), request);
                }
            }
            (Joined::Held | Joined::Shares | Joined::Stands, _) => {}
        }
        if let Some(met) = &line.met {
            request.handle_met(met);
            request.acquisition.handle_known(met.lost, met.at);
        }
        let waiter = Box::new(Waiter { request, timer: None, shares: false, in_vain: None });
        let at = waiter.at();
        let place = if asks_once { line.queue.share(waiter) } else { line.queue.stand(waiter) };
        if !asks_once {
            line.waited_for = line.waited_for.max(Some(now));
        }
        let Some(at) = at else { return Came::Waits(place, Wakeup::Silent) };
        let timed = Timed::Waiter(Arc::downgrade(slot), place);
        let (key, wakeup) = self.schedule(timed, None, at, Duration::ZERO);
        if let Some(waiter) = line.queue.get_mut(place) {
            waiter.timer = Some(key);
        }
        Came::Waits(place, wakeup)
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
