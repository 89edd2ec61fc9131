//! The leader of a queue: who asks the nodes for all who wait there.
//!
//! It decides who asks next, and that each who waits behind is asked whether it goes on by what the leader's round has found.
//! There is one leader at a time, and the next begins when it ends.

use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::{Asks, Client, GrantId, QueueId, Waiter, all_gone, gone};
use crate::{
    acquisition::GiveUp,
    queue::{Place, Station},
    time::Timestamp,
    timers::Wakeup,
};

/// For how long a resource that was waited for here is taken for one that will be waited for again.
const LATELY: Duration = Duration::from_secs(1);

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

impl<G, W: Asks<M>, M: Clone> Client<G, W, M> {
    /// A round of the leader begins; says whether it is to ask for several tokens, one for each lease that is likely to follow.
    /// A resource that nobody waits for is asked for as ever: it costs no more tokens than leases.
    pub fn begin_round(&mut self, id: QueueId, now: Timestamp) -> bool {
        let Some(waiting) = self.queues.get_mut(id.0) else { return false };
        (waiting.in_round, waiting.turn) = (true, None);
        let lately = |at: Timestamp| now.saturating_since(at) < LATELY;
        !waiting.queue.is_empty() || waiting.waited_for.is_some_and(lately)
    }

    /// The leader waits for this turn among all acquires.
    pub fn handle_turn_waited_for(&mut self, id: QueueId, place: Place, turn: u64) {
        if let Some(waiting) = self.queues.get_mut(id.0)
            && waiting.queue.station() == Station::Asked(place)
            && !waiting.in_round
        {
            waiting.turn = Some((place, turn));
        }
    }

    /// It has its turn.
    pub fn handle_turn(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.turn = None;
        }
    }

    /// The leader has won. Those who wanted to know what its round finds are returned: the resource is held here.
    pub fn handle_won(
        &mut self,
        id: QueueId,
        place: Place,
        grant: GrantId,
        now: Timestamp,
    ) -> Vec<W> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Vec::new() };
        waiting.queue.handle_won(place);
        waiting.stay.handle_won(now);
        waiting.held = Some(grant);
        (waiting.in_round, waiting.met, waiting.first) = (false, None, Pause::None);
        all_gone(&mut self.timers, id, waiting.queue.take_sharing())
    }

    /// It has won one of several permits: there may be more, and whoever is next asks at once.
    pub fn handle_won_permit(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            (waiting.in_round, waiting.met, waiting.first) = (false, None, Pause::None);
        }
    }

    /// Its round is lost, and it goes on at `next`. Those behind who wait in vain, by what it has met, are returned with what
    /// they are told. `keeps` says whether it is told to those who come later,
    /// too.
    pub fn handle_lost(
        &mut self,
        id: QueueId,
        met: M,
        (found_held, keeps): (bool, bool),
        next: Timestamp,
        mut in_vain: impl FnMut(&mut W) -> Option<GiveUp>,
    ) -> Vec<(W, GiveUp)> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Vec::new() };
        if found_held {
            waiting.stay.handle_left();
        }
        waiting.in_round = false;
        waiting.first = Pause::UntilFree(next);
        let out = waiting.queue.take_out(|waiter| {
            waiter.in_vain = in_vain(&mut waiter.request);
            waiter.in_vain.is_some()
        });
        // Whether it is too late depends on what was asked for, and says nothing to those who come.
        if keeps {
            waiting.met = Some((met, found_held));
        }
        let told: Vec<_> = out.iter().filter_map(|waiter| waiter.in_vain).collect();
        all_gone(&mut self.timers, id, out).into_iter().zip(told).collect()
    }

    /// The leader has gone. False says that it was not this one.
    pub fn handle_over(&mut self, id: QueueId, place: Place) -> bool {
        let Some(waiting) = self.queues.get_mut(id.0) else { return false };
        let is_this = waiting.queue.handle_over(place);
        if is_this {
            (waiting.in_round, waiting.turn) = (false, None);
        }
        is_this
    }

    /// Whether nobody asks, holds or waits. Whoever comes next has not waited, and what was found by then is of no use to it.
    pub fn is_idle(&mut self, id: QueueId) -> bool {
        let Some(waiting) = self.queues.get_mut(id.0) else { return true };
        let is_idle = waiting.queue.is_idle();
        if is_idle {
            waiting.met = None;
        }
        is_idle
    }

    /// The next leader leaves the resource to others until then.
    pub fn rest_until(&mut self, id: QueueId, until: Timestamp) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.first = Pause::Rest(until);
        }
    }

    /// A leader whose rounds take too long for what it has asked for stands in line again, behind all others: nobody holds the
    /// resource, and a round may do for them.
    ///
    /// # Errors
    ///
    /// The request, where nobody else stands there.
    pub fn stand_back(&mut self, id: QueueId, place: Place, request: W) -> Result<Wakeup, W> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Err(request) };
        match waiting.queue.stand_back(place, Box::new(Waiter::new(request))) {
            Ok(place) => Ok(self.look_at(id, place)),
            Err(waiter) => Err(waiter.request),
        }
    }

    /// Whether one who has asked beside the queue under this place asks for all from now on.
    pub fn ask_at(&mut self, id: QueueId, place: Place) -> bool {
        self.queues.get_mut(id.0).is_some_and(|waiting| waiting.queue.ask_at(place))
    }

    /// One who has asked beside the queue stands in line where it came.
    ///
    /// # Errors
    ///
    /// The request, where there is no such queue.
    pub fn stand_at(&mut self, id: QueueId, place: Place, request: W) -> Result<Wakeup, W> {
        let Some(waiting) = self.queues.get_mut(id.0) else { return Err(request) };
        waiting.queue.stand_at(place, Box::new(Waiter::new(request)));
        Ok(self.look_at(id, place))
    }

    /// Who asks the nodes from now on, and what it does first. Only one caller at a time starts leaders, and calls this
    /// until there is none. `begins` says that it is its first call, which finds nobody where another caller is at it.
    pub fn next_leader(&mut self, id: QueueId, begins: bool) -> Option<(Place, W, Pause)> {
        let waiting = self.queues.get_mut(id.0)?;
        if begins && waiting.starting {
            // Whoever is at it sees what has changed.
            return None;
        }
        let next = waiting.queue.next_to_ask();
        waiting.starting = next.is_some();
        let (place, waiter) = next?;
        let first = waiting.first;
        let request = gone(&mut self.timers, id, *waiter);
        Some((place, request, first))
    }

    /// Whoever started leaders has come to a bad end: the next one goes on with it.
    pub fn handle_not_started(&mut self, id: QueueId) {
        if let Some(waiting) = self.queues.get_mut(id.0) {
            waiting.starting = false;
        }
    }
}
