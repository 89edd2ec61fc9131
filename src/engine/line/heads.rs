//! The head of a line: who speaks to the nodes for all who wait behind it.
//!
//! It decides who is told of what the head's round has found. There is one head at a time, and the next begins when it
//! ends, in whatever way: its guard is dropped with its request. Heads are started in a loop and not by each other: a
//! runtime that refuses every task would otherwise end a thousand of them inside each other.

use std::{sync::Arc, time::Duration};

use super::{Line, Pause, Waiter};
use crate::{
    engine::{Engine, Grant, Met, Request, renewals::Timed, resources::ResourceSlot},
    protocol::{LostRound, Place, RoundLoss, Timestamp, Traffic, WaitPolicy, Wakeup},
    shield::shielded,
};

/// Who has it asks the nodes for a resource. Dropping it makes room for the next.
pub(in crate::engine) struct Head {
    engine: Arc<Engine>,
    slot: Arc<ResourceSlot>,
    place: Place,
    has_won: bool,
}

impl Head {
    pub(super) fn new(engine: &Arc<Engine>, slot: &Arc<ResourceSlot>, place: Place) -> Self {
        slot.set_asks(true);
        Self { engine: Arc::clone(engine), slot: Arc::clone(slot), place, has_won: false }
    }

    pub(in crate::engine) const fn place(&self) -> Place {
        self.place
    }

    /// A round begins; says whether it is to ask for several tokens, one for each lease that is likely to follow.
    pub(in crate::engine) fn begin_round(&self) -> bool {
        // Read before the lock is taken: it is code of the user's.
        let now = self.engine.now();
        let mut line = self.slot.line();
        line.in_round = true;
        line.turn = None;
        line.is_wanted_here(now)
    }

    /// It has won. Those who wanted to know what its round finds are told that the resource is held here.
    #[allow(clippy::vec_box, reason = "as they stood in line")]
    pub(in crate::engine) fn win(mut self, grant: &Arc<Grant>, now: Timestamp) -> Vec<Box<Waiter>> {
        self.has_won = true;
        self.slot.set_asks(false);
        let mut line = self.slot.line();
        line.queue.handle_won(self.place);
        line.stay.handle_won(now);
        line.grant = Arc::downgrade(grant);
        (line.in_round, line.met, line.first) = (false, None, Pause::None);
        line.queue.take_sharing()
    }

    /// It has won one of several permits: there may be more, and whoever is next asks at once.
    pub(in crate::engine) fn win_permit(self) {
        let mut line = self.slot.line();
        (line.in_round, line.met, line.first) = (false, None, Pause::None);
        drop(line);
    }

    /// Its round is lost, and it goes on at `next`. Those behind who wait in vain, by what it has met, are answered.
    pub(in crate::engine) fn lose(&self, met: Arc<Met>, next: Timestamp, traffic: Traffic) {
        let in_vain = {
            let mut line = self.slot.line();
            let Line { queue, in_round, met: last, first, stay, .. } = &mut *line;
            if met.lost.found_held() {
                stay.handle_left();
            }
            *in_round = false;
            *first = Pause::UntilFree(next);
            let in_vain = queue.take_out(|waiter| {
                let request = &mut waiter.request;
                if request.is_in_time(&self.engine, &met) {
                    return false;
                }
                request.handle_met(&met);
                waiter.in_vain =
                    request.acquisition.handle_shared_round(met.lost, traffic, next, met.at);
                waiter.in_vain.is_some()
            });
            // Whether it is too late depends on what was asked for, and says nothing to those who come.
            if met.lost.loss != RoundLoss::TooLate {
                *last = Some(met);
            }
            in_vain
        };
        for waiter in in_vain {
            self.engine.answer(waiter, |request, in_vain| {
                if let Some(give_up) = in_vain {
                    request.give_up(&self.engine, give_up);
                }
            });
        }
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        if self.has_won {
            return;
        }
        let Self { engine, slot, place, .. } = self;
        if !engine.is_served() {
            // Nobody is left who could be the next.
            engine.abandon_lines();
            return;
        }
        slot.set_asks(false);
        let left = {
            let mut line = slot.line();
            if line.queue.handle_over(*place) {
                (line.in_round, line.turn) = (false, None);
            }
            let is_idle = line.queue.is_idle();
            if is_idle {
                // Whoever comes next has not waited, and what was found by now is of no use to it.
                line.met = None;
            }
            is_idle.then(|| slot.on_nodes().leave()).flatten()
        };
        // It may be dropped by a panic, and a second one would end the process.
        shielded(|| {
            if let Some((client, ticket)) = left {
                engine.leave_line(slot.target(), client, ticket);
            }
            engine.next_head(slot);
        });
    }
}

impl Engine {
    /// A head whose rounds take too long for what it has asked for stands in line again, behind all others: nobody holds
    /// the resource, and a round may do for them. It is returned where nobody else stands there.
    pub(in crate::engine) fn stand_back(self: &Arc<Self>, mut request: Request) -> Option<Request> {
        let Some(head) = request.head.take() else { return Some(request) };
        let slot = Arc::clone(&head.slot);
        let wakeup = {
            let mut line = slot.line();
            let at = request.at();
            let waiter = Box::new(Waiter { request, timer: None, shares: false, in_vain: None });
            match line.queue.stand_back(head.place, waiter) {
                Ok(place) => at.map_or(Wakeup::Silent, |at| {
                    let timed = Timed::Waiter(Arc::downgrade(&slot), place);
                    let (key, wakeup) = self.schedule(timed, None, at, Duration::ZERO);
                    if let Some(waiter) = line.queue.get_mut(place) {
                        waiter.timer = Some(key);
                    }
                    wakeup
                }),
                Err(waiter) => {
                    let Waiter { mut request, .. } = *waiter;
                    request.head = Some(head);
                    return Some(request);
                }
            }
        };
        // Without the lock, as the head is dropped: that lets in who is next.
        self.wake(wakeup);
        drop(head);
        None
    }

    /// One who asks beside the line has found all permits taken: where nobody stands there, it asks for all who come.
    pub(in crate::engine) fn find_place(self: &Arc<Self>, request: &mut Request, lost: LostRound) {
        if lost.loss == RoundLoss::Contended && request.asked.wait_policy != WaitPolicy::OneRound {
            let slot = Arc::clone(&request.resource);
            self.ask_for_all(request, &mut slot.line());
        }
    }

    fn ask_for_all(self: &Arc<Self>, request: &mut Request, line: &mut Line) {
        if request.is_beside_line()
            && !self.is_closed()
            && !request.is_given_up()
            && let Some(place) = request.reserved.take_if(|place| line.queue.ask_at(*place))
        {
            request.head = Some(Head::new(self, &request.resource, place));
        }
    }

    /// One who asked beside the line, and goes on, stands in it where it came, or asks for all who stand there: then it is
    /// returned. So is who asks once.
    pub(in crate::engine) fn stand_behind(
        self: &Arc<Self>,
        mut request: Request,
    ) -> Option<Request> {
        if !request.is_beside_line() || request.asked.wait_policy == WaitPolicy::OneRound {
            return Some(request);
        }
        let slot = Arc::clone(&request.resource);
        let wakeup = {
            let mut line = slot.line();
            self.ask_for_all(&mut request, &mut line);
            // Asked under the lock: whoever closes, or leaves, looks through the line afterwards.
            if request.head.is_some() || self.is_closed() || request.is_given_up() {
                return Some(request);
            }
            let Some(place) = request.reserved.take() else { return Some(request) };
            let at = request.at();
            let waiter = Waiter { request, timer: None, shares: false, in_vain: None };
            line.queue.stand_at(place, Box::new(waiter));
            at.map_or(Wakeup::Silent, |at| {
                let timed = Timed::Waiter(Arc::downgrade(&slot), place);
                let (key, wakeup) = self.schedule(timed, None, at, Duration::ZERO);
                if let Some(waiter) = line.queue.get_mut(place) {
                    waiter.timer = Some(key);
                }
                wakeup
            })
        };
        // Without the lock, as above.
        self.wake(wakeup);
        // The head may have gone in between, and have found nobody.
        self.next_head(&slot);
        None
    }

    /// Starts who is next to ask the nodes for this resource, if anybody is.
    pub(in crate::engine) fn next_head(self: &Arc<Self>, slot: &Arc<ResourceSlot>) {
        let mut starting = Starting { slot, ended: true };
        loop {
            let (place, waiter, first) = {
                let mut line = slot.line();
                if starting.ended && line.starting {
                    // Whoever is at it sees what has changed.
                    return;
                }
                let next = line.queue.next_to_ask();
                line.starting = next.is_some();
                starting.ended = next.is_none();
                let Some((place, waiter)) = next else { return };
                (place, waiter, line.first)
            };
            let Waiter { mut request, timer, .. } = *waiter;
            if let Some(timer) = timer {
                self.cancel(timer);
            }
            request.head = Some(Head::new(self, slot, place));
            shielded(|| request.begin(self, first));
        }
    }
}

/// Somebody starts heads. When that comes to a bad end, the next one goes on with it.
struct Starting<'a> {
    slot: &'a ResourceSlot,
    ended: bool,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.slot.line().starting = false;
        }
    }
}
