//! The line of a resource in this process: requests that come, leave, or run out of time.
//!
//! It carries out what `protocol::Client` decides. It tells a waiter anything only without the lock, since a waker may
//! do anything.

use std::{iter, mem, sync::Arc, time::Duration};

use super::{Engine, Grant, Met, Request, resources::ResourceSlot};
use crate::{
    node::NodeError,
    protocol::{
        Acquisition, Answer, Asks, Came, GrantId, Late, Moment, NextLease, Owner, Place, QueueId,
        RoundAsked, Timestamp, TurnedAway, WaitPolicy, Wanted,
    },
    shield::shielded,
};

impl Asks<NodeError> for Box<Request> {
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
        let RoundAsked { ttl, lock_delay, min_validity, alone, renewal, linger, .. } =
            self.asked.round;
        let hold = self.asked.round.hold_at_least;
        NextLease {
            wanted: Wanted { ttl, lock_delay, min_validity, alone },
            renewal,
            keeps_until: hold.map(|least| steady.saturating_add(least)),
            linger,
        }
    }

    fn handle_known(&mut self, met: &Arc<Met>) {
        self.handle_met(met);
        self.acquisition.handle_known(met.lost, met.at);
    }

    fn handle_met(&mut self, met: &Arc<Met>) {
        self.note_met(met);
    }

    fn is_in_time(&self, met: &Arc<Met>) -> bool {
        met.would_do_for(self.asked.round.ttl, self.asked.round.min_validity)
    }

    fn asks_once(&self) -> bool {
        self.asked.wait_policy == WaitPolicy::OneRound
    }

    fn adopts(&self) -> bool {
        self.asked.round.from.is_some()
    }

    fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }
}

/// A place in a line, held by the future that awaits the answer.
pub(super) struct Standing {
    pub(super) engine: Arc<Engine>,
    pub(super) slot: Arc<ResourceSlot>,
    pub(super) place: Place,
}

/// How many requests are ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Requests of this process.
    pub(crate) here: usize,
    /// Other clients, as last seen on the nodes.
    pub(crate) elsewhere: Option<u32>,
}

impl Standing {
    /// How many are ahead, and the holder as last seen; `None` if it does not stand in line.
    pub(super) fn look(&self) -> Option<(Ahead, Option<String>)> {
        if !self.engine.is_served() {
            return None;
        }
        let (ahead, holder, met) = {
            let client = self.engine.client.lock();
            let queue = self.slot.queue();
            let (here, met) = client.ahead(queue, self.place)?;
            let holder = client.holder(queue).and_then(|grant| client.keys(grant));
            let ahead = Ahead { here, elsewhere: client.rank(queue) };
            (ahead, holder.map(|(_, owner)| owner), met.cloned())
        };
        let holder = match holder {
            Some(owner) => Some(owner.to_string()),
            None => met.and_then(|met| self.engine.reports(&met.said).holder()),
        };
        Some((ahead, holder))
    }

    /// Leaves the line, from wherever in it.
    pub(super) fn leave(&self) {
        let Self { engine, slot, place } = self;
        // In a forked child the lock may be held for ever.
        let Some(mut client) = engine.client.lock_here() else { return };
        let request = client.leave(slot.queue(), *place);
        let follows = client.has_events();
        drop(client);
        // Dropped outside the lock, and before the next waiter asks: it may have something to undo.
        drop(request);
        if follows && engine.is_served() {
            engine.carry_out();
        }
    }
}

impl Engine {
    /// Adds a request, which takes its place or begins at once. `None`: it has been answered.
    pub(in crate::engine) fn join(
        self: &Arc<Self>,
        slot: &Arc<ResourceSlot>,
        mut request: Box<Request>,
        now: Timestamp,
    ) -> Option<Standing> {
        // Read before anything is taken: the clock is user code and may panic.
        let at = Moment { now, ..self.moment() };
        let mut over = None;
        loop {
            let came = self.client.lock().join(slot.queue(), over, request, now);
            let place = match came {
                Came::Begins(place, ask) => {
                    self.client.lock().begin_later(ask);
                    place
                }
                Came::Waits(place) => place,
                Came::Takes(kept, taking) => {
                    let kept = {
                        let mut client = self.client.lock();
                        client.data_mut(kept).and_then(|kept| kept.kept.take())
                    };
                    request = match kept {
                        // A grant that would not do has been given back.
                        Some(grant) => grant.resume(self, taking, &at)?,
                        None => taking,
                    };
                    continue;
                }
                Came::Held(held, refused) => {
                    if let Some((owner, left)) = self.left_here(held, now) {
                        refused.held_here(self, owner, left);
                        return None;
                    }
                    // The held grant's time is up: this request may ask, or may in a moment if the caller is just
                    // ending that grant.
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

    /// A waiter's time has come, or will have within a moment.
    pub(in crate::engine) fn handle_waiter_due(
        self: &Arc<Self>,
        queue: QueueId,
        place: Place,
        now: Timestamp,
    ) {
        let late = self.decide(|client| {
            client.handle_waiter_due(queue, place, now, |request, held, (here, elsewhere)| {
                request.says_for_whom(held, Ahead { here, elsewhere }, now)
            })
        });
        match late {
            Late::Nothing | Late::Waits(None) => {}
            Late::Waits(Some(said)) => said.tell(self, now),
            Late::InVain(request, told, holder) => {
                let held = holder.and_then(|grant| self.left_here(grant, now));
                match held {
                    Some((owner, left)) => request.held_here(self, owner, left),
                    None => request.give_up_now(self, told),
                }
            }
        }
    }

    /// No task runs the engine any more: waiters are dropped, which tells them, and commands to be sent fail. In a
    /// forked child no lock is waited for, since only one thread exists there.
    pub(super) fn abandon(&self) {
        // The clock is user code and may panic.
        let (mut at, is_served) = (Moment::default(), self.is_served());
        if is_served {
            shielded(|| at = self.moment());
        }
        let all = self.client.lock_here().map(|mut client| {
            // In the same step, so that no thread in between takes the timers for seen to.
            client.abandon_timers();
            let all = (client.take_all(), client.take_all_releases());
            while let Some(transmit) = client.poll_transmit() {
                let failed = (transmit.call, Answer::Failed(NodeError::Overloaded));
                client.handle_answers([failed], &at, &mut |_, _| {});
            }
            // Nothing carries out the pending events, either.
            let decided: Vec<_> = if is_served {
                Vec::new()
            } else {
                let decided = iter::from_fn(|| client.poll_event()).collect();
                // Nor starts the task that one of them asked for.
                client.abandon_timers();
                decided
            };
            let extending: Vec<_> =
                client.all_data_mut().map(|it| mem::take(&mut it.extending)).collect();
            (all, decided, extending)
        });
        drop(all);
    }

    /// Answers a request whose time was up when a grant might have been handed on to it, or that asked for one round
    /// only.
    pub(super) fn refuse_late(&self, request: Box<Request>, grant: GrantId) {
        let owner = self.client.lock().keys(grant).map(|(_, owner)| owner);
        let left = self.left_here(grant, self.now()).map(|(_, left)| left);
        match owner {
            Some(owner) => request.held_here(self, owner, left.unwrap_or_default()),
            None => request.turned_away(self, TurnedAway::Late),
        }
    }

    /// The owner of a grant of this process, and the time left. A grant that has just been won may have no holder yet.
    fn left_here(&self, id: GrantId, now: Timestamp) -> Option<(Owner, Duration)> {
        if let Some(grant) = self.grant(id) {
            return Some((grant.owner(), grant.left().ok()?));
        }
        let client = self.client.lock();
        let left = client.leases(id)?.left(None, now).ok()?;
        Some((client.keys(id)?.1, left))
    }

    /// A grant of this process, if it is still referred to.
    pub(super) fn grant(&self, id: GrantId) -> Option<Arc<Grant>> {
        let client = self.client.lock();
        client.data(id)?.grant.upgrade()
    }
}
