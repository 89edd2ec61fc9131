//! Who comes to a line: the first asks the nodes, the others wait.
//!
//! It carries out what `protocol::Client` decides. Only who asks sends anything.

use std::sync::Arc;

use super::{QueueLeader, Standing};
use crate::{
    engine::{Engine, Request, resources::ResourceSlot},
    protocol::{Came, Comer, GiveUp, Pause, Place, Timestamp, TurnedAway, WaitPolicy},
};

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
        let asks_once = request.asked.wait_policy == WaitPolicy::OneRound;
        let comer = Comer { asks_once, is_any: slot.target().is_any() };
        let mut over = None;
        loop {
            let came = {
                let mut client = self.client.lock();
                // Asked under the lock: whoever closes looks through the lines afterwards.
                client.join(slot.queue(), comer, (self.is_closed(), over), request, now)
            };
            match came {
                Came::Asks(place, mut asks, first) => {
                    asks.leader = Some(QueueLeader::new(self, slot, place));
                    match self.moment_for_others(slot, &asks, first) {
                        Pause::None if asks.kept_back_until(self).is_none() => asks.ask(self, now),
                        first => asks.begin(self, first),
                    }
                    return Some(self.standing(slot, place));
                }
                Came::Beside(place, mut asks) => {
                    asks.reserved = Some(place);
                    asks.ask(self, now);
                    return Some(self.standing(slot, place));
                }
                Came::Waits(place, wakeup) => {
                    // Without the lock: it may spawn a task on a runtime that is the user's code.
                    self.wake(wakeup);
                    return Some(self.standing(slot, place));
                }
                Came::Takes(kept, taking) => {
                    let kept = {
                        let mut client = self.client.lock();
                        client.data_mut(kept).and_then(|kept| kept.kept.take())
                    };
                    match kept {
                        Some(grant) => match grant.resume(self, taking, keeps_until, now) {
                            None => return None,
                            // It would not do, and has been given back.
                            Some(asks) => request = asks,
                        },
                        None => request = taking,
                    }
                }
                Came::Held(held, refused) => {
                    let grant = self.grant(held);
                    if let Some((grant, left)) = grant.and_then(|grant| {
                        let left = grant.left().ok()?;
                        Some((grant, left))
                    }) {
                        refused.held_here(self, grant.owner(), left);
                        return None;
                    }
                    // Its time is up: somebody may ask, or may in a moment, where this is called by whoever ends it.
                    (request, over) = (refused, Some(held));
                }
                Came::Told(met, mut refused) => {
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
