//! The leader of a line: who speaks to the nodes for all who wait behind it.
//!
//! It says of each who waits behind whether a round of its own would have been in time, and has what its `Acquisition` decides. There is one leader at a time, and the next begins when it
//! ends, in whatever way: its guard is dropped with its request. Leaders are started in a loop and not by each other: a
//! runtime that refuses every task would otherwise end a thousand of them inside each other.

use std::sync::Arc;

use crate::{
    engine::{Engine, Grant, Met, Request, client::Client, resources::ResourceSlot},
    protocol::{LostRound, Place, RoundLoss, Timestamp, Traffic, WaitPolicy},
    shield::shielded,
};

/// Who has it asks the nodes for a resource. Dropping it makes room for the next.
pub(in crate::engine) struct QueueLeader {
    engine: Arc<Engine>,
    slot: Arc<ResourceSlot>,
    place: Place,
    has_won: bool,
}

impl QueueLeader {
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
        self.engine.client.lock().begin_round(self.slot.queue(), now)
    }

    /// It has won. Those who wanted to know what its round finds are told that the resource is held here.
    pub(in crate::engine) fn win(mut self, grant: &Grant, now: Timestamp) -> Vec<Request> {
        self.has_won = true;
        self.slot.set_asks(false);
        let mut client = self.engine.client.lock();
        client.handle_won(self.slot.queue(), self.place, grant.id(), now)
    }

    /// It has won one of several permits: there may be more, and whoever is next asks at once.
    pub(in crate::engine) fn win_permit(self) {
        self.engine.client.lock().handle_won_permit(self.slot.queue());
    }

    /// Its round is lost, and it goes on at `next`. Those behind who wait in vain, by what it has met, are answered.
    pub(in crate::engine) fn lose(&self, met: &Arc<Met>, next: Timestamp, traffic: Traffic) {
        let Self { engine, slot, .. } = self;
        let says = (met.lost.found_held(), met.lost.loss != RoundLoss::TooLate);
        let in_vain = |request: &mut Request| {
            if request.is_in_time(engine, met) {
                return None;
            }
            request.handle_met(met);
            request.acquisition.handle_shared_round(met.lost, traffic, next, met.at)
        };
        let in_vain = {
            let mut client = engine.client.lock();
            client.handle_lost(slot.queue(), Arc::clone(met), says, next, in_vain)
        };
        in_vain.into_iter().for_each(|(request, give_up)| request.give_up(engine, give_up));
    }
}

impl Drop for QueueLeader {
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
            let mut client = engine.client.lock();
            client.handle_over(slot.queue(), *place);
            // Under the lock: nobody comes meanwhile who would stand on the nodes with what is left here.
            client.is_idle(slot.queue()).then(|| slot.on_nodes().leave()).flatten()
        };
        // It may be dropped by a panic, and a second one would end the process.
        shielded(|| {
            if let Some((client, ticket)) = left {
                engine.leave_line(slot.target(), client, ticket);
            }
            engine.next_leader(slot);
        });
    }
}

impl Engine {
    /// A leader whose rounds take too long for what it has asked for stands in line again, behind all others: nobody holds
    /// the resource, and a round may do for them. It is returned where nobody else stands there.
    pub(in crate::engine) fn stand_back(self: &Arc<Self>, mut request: Request) -> Option<Request> {
        let Some(leader) = request.leader.take() else { return Some(request) };
        let stood = self.client.lock().stand_back(leader.slot.queue(), leader.place, request);
        match stood {
            Ok(wakeup) => {
                // Without the lock, as the leader is dropped: that lets in who is next.
                self.wake(wakeup);
                drop(leader);
                None
            }
            Err(mut request) => {
                request.leader = Some(leader);
                Some(request)
            }
        }
    }

    /// One who asks beside the line has found all permits taken: where nobody stands there, it asks for all who come.
    pub(in crate::engine) fn find_place(self: &Arc<Self>, request: &mut Request, lost: LostRound) {
        if lost.loss == RoundLoss::Contended && request.asked.wait_policy != WaitPolicy::OneRound {
            let leader = self.ask_for_all(request, &mut self.client.lock());
            request.leader = request.leader.take().or_else(|| self.leader(request, leader));
        }
    }

    fn ask_for_all(&self, request: &mut Request, client: &mut Client) -> Option<Place> {
        let may_ask = request.is_beside_line() && !self.is_closed() && !request.is_given_up();
        let queue = request.resource.queue();
        request.reserved.take_if(|place| may_ask && client.ask_at(queue, *place))
    }

    fn leader(self: &Arc<Self>, request: &Request, place: Option<Place>) -> Option<QueueLeader> {
        place.map(|place| QueueLeader::new(self, &request.resource, place))
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
        let stood = {
            let mut client = self.client.lock();
            let place = self.ask_for_all(&mut request, &mut client);
            // Asked under the lock: whoever closes, or leaves, looks through the line afterwards.
            if place.is_some() || self.is_closed() || request.is_given_up() {
                drop(client);
                request.leader = self.leader(&request, place);
                return Some(request);
            }
            let Some(place) = request.reserved.take() else { return Some(request) };
            client.stand_at(slot.queue(), place, request)
        };
        let wakeup = match stood {
            Ok(wakeup) => wakeup,
            Err(request) => return Some(request),
        };
        // Without the lock, as above.
        self.wake(wakeup);
        // The leader may have gone in between, and have found nobody.
        self.next_leader(&slot);
        None
    }

    /// Starts who is next to ask the nodes for this resource, if anybody is.
    pub(in crate::engine) fn next_leader(self: &Arc<Self>, slot: &Arc<ResourceSlot>) {
        let mut starting = Starting { engine: self, slot, ended: true };
        loop {
            let next = self.client.lock().next_leader(slot.queue(), starting.ended);
            starting.ended = next.is_none();
            let Some((place, mut request, first)) = next else { return };
            request.leader = Some(QueueLeader::new(self, slot, place));
            shielded(|| request.begin(self, first));
        }
    }
}

/// Somebody starts leaders. When that comes to a bad end, the next one goes on with it.
struct Starting<'a> {
    engine: &'a Engine,
    slot: &'a ResourceSlot,
    ended: bool,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.engine.client.lock().handle_not_started(self.slot.queue());
        }
    }
}
