//! Whose time is up in line, and who says in the log for whom it waits.
//!
//! It decides what somebody is told who has waited in vain: that the resource is held here, or what the head's rounds
//! have found. One whose time is up while a round is under way is told what that finds, as a round of its own might end
//! a little later too.

use std::{sync::Arc, time::Duration};

use super::{Ahead, Waiter, held_here};
use crate::{
    engine::{Engine, Grant, Said, renewals::Timed, resources::ResourceSlot},
    protocol::{GiveUp, Place, Timestamp, TurnedAway, Wakeup},
};

/// What becomes of one whose timer has come.
enum Due {
    Nothing,
    Waits(Option<Said>, Wakeup),
    InVain(Box<Waiter>, GiveUp, Option<Arc<Grant>>),
}

impl Engine {
    /// The time has come for one who waits, or will have within a moment.
    pub(in crate::engine) fn handle_waiter_due(
        self: &Arc<Self>,
        slot: &Arc<ResourceSlot>,
        place: Place,
        now: Timestamp,
    ) {
        match self.waiter_due(slot, place, now) {
            Due::Nothing => {}
            Due::Waits(said, wakeup) => {
                self.wake(wakeup);
                if let Some(said) = said {
                    said.tell(self, now);
                }
            }
            Due::InVain(waiter, told, holder) => {
                let held = holder.and_then(|grant| Some((grant.owner(), grant.left().ok()?)));
                let Waiter { request, .. } = *waiter;
                match held {
                    Some((owner, left)) => request.held_here(self, owner, left),
                    None => request.give_up(self, told),
                }
            }
        }
    }

    fn waiter_due(self: &Arc<Self>, slot: &Arc<ResourceSlot>, place: Place, now: Timestamp) -> Due {
        let mut line = slot.line();
        let holder = held_here(&line);
        let waits_for_turn = line.turn.is_some();
        let here = line.ahead(place).unwrap_or_default();
        let Some(waiter) = line.queue.get_mut(place) else { return Due::Nothing };
        waiter.timer = None;
        let request = &mut waiter.request;
        let is_late = request.acquisition.turn_deadline().is_some_and(|deadline| deadline <= now);
        if is_late {
            let told = if waits_for_turn {
                request.acquisition.handle_turned_away(TurnedAway::Late, now)
            } else {
                request.acquisition.handle_late(now)
            };
            let knows_nothing = holder.is_none() && told == GiveUp::Crowded;
            // Where the head does not wait for its turn there is no crowd: it asks, or is about to.
            if knows_nothing && !waits_for_turn && !std::mem::replace(&mut waiter.shares, true) {
                let at = now.saturating_add(self.config.node_timeout);
                let timed = Timed::Waiter(Arc::downgrade(slot), place);
                let (key, wakeup) = self.schedule(timed, None, at, Duration::ZERO);
                waiter.timer = Some(key);
                line.queue.share_instead(place);
                return Due::Waits(None, wakeup);
            }
            return line
                .queue
                .leave(place)
                .map_or(Due::Nothing, |waiter| Due::InVain(waiter, told, holder));
        }
        let ahead = Ahead { here, elsewhere: slot.on_nodes().rank() };
        let said = request.says_for_whom(holder.map(|grant| grant.owner()), ahead, now);
        // Timers that are due within a moment come along, and this one may have been one of them.
        let Some(at) = waiter.at() else { return Due::Waits(said, Wakeup::Silent) };
        let timed = Timed::Waiter(Arc::downgrade(slot), place);
        let (key, wakeup) = self.schedule(timed, None, at, Duration::ZERO);
        waiter.timer = Some(key);
        Due::Waits(said, wakeup)
    }
}
