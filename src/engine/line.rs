//! The line of a resource in this process: who comes to it, who leaves it, and whose time is up.
//!
//! It carries out what `protocol::Client` decides. Whoever is told anything is told without the lock, since a waker may do
//! anything.

use std::sync::Arc;

use super::{Engine, Grant, Met, Request, resources::ResourceSlot};
use crate::protocol::{
    Acquisition, Asks, Came, GrantId, Late, NextLease, Place, QueueId, Timestamp, TurnedAway,
    WaitPolicy,
};

impl Asks<Arc<Met>> for Box<Request> {
    fn acquisition(&mut self) -> &mut Acquisition {
        &mut self.acquisition
    }

    fn turn_deadline(&self) -> Option<Timestamp> {
        self.acquisition.turn_deadline()
    }

    fn says_at(&self) -> Option<Timestamp> {
        self.says_at
    }

    fn next(&self, steady: Timestamp) -> NextLease {
        let keeps_until = self.asked.hold_at_least.map(|least| steady.saturating_add(least));
        self.asked.next(keeps_until)
    }

    fn handle_known(&mut self, met: &Arc<Met>) {
        self.handle_met(met);
        self.acquisition.handle_known(met.lost, met.at);
    }

    fn handle_met(&mut self, met: &Arc<Met>) {
        self.note_met(met);
    }

    fn is_in_time(&self, met: &Arc<Met>) -> bool {
        met.would_do_for(&self.asked)
    }

    fn asks_once(&self) -> bool {
        self.asked.wait_policy == WaitPolicy::OneRound
    }

    fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }
}

/// A place in a line, as whoever awaits the answer has it.
pub(super) struct Standing {
    pub(super) engine: Arc<Engine>,
    pub(super) slot: Arc<ResourceSlot>,
    pub(super) place: Place,
}

/// Where somebody stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// How many requests of this process come before it.
    pub(crate) here: usize,
    /// How many other clients do, as last seen on the nodes.
    pub(crate) elsewhere: Option<u32>,
}

impl Standing {
    /// How many come before it, and who holds the resource as last seen; `None` where it does not stand in line.
    pub(super) fn look(&self) -> Option<(Ahead, Option<String>)> {
        if !self.engine.is_served() {
            return None;
        }
        let (ahead, holder, met) = {
            let client = self.engine.client.lock();
            let queue = self.slot.queue();
            let (here, met) = client.ahead(queue, self.place)?;
            let holder = client.holder(queue).and_then(|grant| client.data(grant));
            let ahead = Ahead { here, elsewhere: client.rank(queue) };
            (ahead, holder.map(|kept| kept.owner), met.cloned())
        };
        let holder = match holder {
            Some(owner) => Some(owner.to_string()),
            None => met.and_then(|met| met.holder()),
        };
        Some((ahead, holder))
    }

    /// Leaves the line, from wherever in it.
    pub(super) fn leave(&self) {
        let Self { engine, slot, place } = self;
        // In a process that was forked, whoever has the lock may have it for ever.
        let Some(mut client) = engine.client.lock_here() else { return };
        let request = client.leave(slot.queue(), *place);
        let follows = client.has_events();
        drop(client);
        // What waited is dropped behind the lock, and before whoever is next asks: it may have something to undo.
        drop(request);
        if follows && engine.is_served() {
            engine.carry_out();
        }
    }
}

impl Engine {
    /// Somebody comes, and takes its place, or begins at once; `None` says that it has been answered.
    pub(in crate::engine) fn join(
        self: &Arc<Self>,
        slot: &Arc<ResourceSlot>,
        mut request: Box<Request>,
        now: Timestamp,
    ) -> Option<Standing> {
        // Read before anything is taken: it is code of the user's, which may panic.
        let steady = self.steady();
        let mut over = None;
        loop {
            let came = self.client.lock().join(slot.queue(), over, request, now);
            let place = match came {
                Came::Begins(place, ask, asks, turn) => {
                    self.begin_round(ask, asks, turn);
                    place
                }
                Came::Waits(place) => place,
                Came::Takes(kept, taking) => {
                    let kept = {
                        let mut client = self.client.lock();
                        client.data_mut(kept).and_then(|kept| kept.kept.take())
                    };
                    request = match kept {
                        // Where it would not do, it has been given back.
                        Some(grant) => grant.resume(self, taking, steady, now)?,
                        None => taking,
                    };
                    continue;
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
                    continue;
                }
                Came::Told(met, mut refused) => {
                    refused.handle_known(&met);
                    refused.turned_away(self, TurnedAway::Late);
                    return None;
                }
                Came::Closed(refused) => {
                    refused.turned_away(self, TurnedAway::Closed);
                    return None;
                }
            };
            self.carry_out();
            return Some(Standing { engine: Arc::clone(self), slot: Arc::clone(slot), place });
        }
    }

    /// The time has come for one who waits, or will have within a moment.
    pub(in crate::engine) fn handle_waiter_due(
        self: &Arc<Self>,
        queue: QueueId,
        place: Place,
        now: Timestamp,
    ) {
        let late = self.decide(|client| {
            client.handle_waiter_due(queue, place, now, |request, held, (here, elsewhere)| {
                let ahead = Ahead { here, elsewhere };
                request.says_for_whom(held.map(|kept| kept.owner), ahead, now)
            })
        });
        match late {
            Late::Nothing | Late::Waits(None) => {}
            Late::Waits(Some(said)) => said.tell(self, now),
            Late::InVain(request, told, holder) => {
                let holder = holder.and_then(|grant| self.grant(grant));
                let held = holder.and_then(|grant| Some((grant.owner(), grant.left().ok()?)));
                match held {
                    Some((owner, left)) => request.held_here(self, owner, left),
                    None => request.give_up_now(self, told),
                }
            }
        }
    }

    /// Nobody runs the engine any more: whoever waits learns that by being dropped. In a process that was forked no
    /// lock is waited for, since that has only one of the threads.
    pub(super) fn abandon_lines(&self) {
        let all = self.client.lock_here().map(|mut client| {
            let waiting = client.take_all_waiting();
            (waiting, client.take_all_between_rounds())
        });
        drop(all);
    }

    /// One whose time was up when a grant might have been handed on to it, or that wanted to know what a round finds.
    pub(super) fn refuse_late(&self, request: Box<Request>, grant: &Grant) {
        request.held_here(self, grant.owner(), grant.left().unwrap_or_default());
    }

    /// A grant of this process, where anybody has it still.
    pub(super) fn grant(&self, id: GrantId) -> Option<Arc<Grant>> {
        let client = self.client.lock();
        client.data(id)?.grant.upgrade()
    }
}
