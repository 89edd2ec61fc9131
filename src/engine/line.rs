//! The line of a resource in this process: who waits for it here, who of them asks the nodes, and who gets it next.
//!
//! It carries out what `protocol::Client` decides. Only the leader of a line has a task and speaks to the nodes; whoever
//! waits behind it is an entry, with one among the timers for its deadline. Whoever is told anything is told without the
//! lock, since a waker may do anything. A leader that ends in whatever way, by a panic too, makes room for the next.

mod join;
mod late;
mod leader;

use std::sync::Arc;

pub(super) use self::leader::QueueLeader;
use super::{Engine, Grant, Met, Request, resources::ResourceSlot};
use crate::protocol::{Acquisition, Asks, GiveUp, GrantId, Left, NextLease, Place, Timestamp};

impl Asks<Arc<Met>> for Request {
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
        let elsewhere = self.slot.on_nodes().rank();
        let (here, holder, met) = {
            let client = self.engine.client.lock();
            let queue = self.slot.queue();
            let (here, met) = client.ahead(queue, self.place)?;
            let holder = client.holder(queue).and_then(|grant| client.data(grant));
            (here, holder.map(|kept| kept.owner), met.cloned())
        };
        let holder = match holder {
            Some(owner) => Some(owner.to_string()),
            None => met.and_then(|met| met.holder()),
        };
        Some((Ahead { here, elsewhere }, holder))
    }

    /// Leaves the line, from wherever in it.
    pub(super) fn leave(&self) {
        let Self { engine, slot, place } = self;
        // In a process that was forked, whoever has the lock may have it for ever.
        let Some(mut client) = engine.client.lock_here() else { return };
        let Left { request, turn } = client.leave(slot.queue(), *place);
        drop(client);
        // What waited is dropped behind the lock.
        drop(request);
        if let Some(turn) = turn {
            engine.leave_turns(turn);
        }
    }
}

impl Engine {
    /// Turns away all who wait for any resource. Whoever comes from now on sees that it is closed.
    pub(super) fn close_lines(&self) {
        let all = self.client.lock().take_all_waiting();
        all.into_iter().for_each(|request| request.give_up(self, GiveUp::Closed));
    }

    /// Nobody runs the engine any more: whoever waits learns that by being dropped. In a process that was forked no
    /// lock is waited for, since that has only one of the threads.
    pub(super) fn abandon_lines(&self) {
        let all = self.client.lock_here().map(|mut client| client.take_all_waiting());
        drop(all);
    }

    /// Those who wanted to know what a round finds are told that it was won here.
    pub(super) fn refuse_held_here(&self, all: Vec<Request>, grant: &Grant) {
        let left = grant.left().unwrap_or_default();
        all.into_iter().for_each(|request| request.held_here(self, grant.owner(), left));
    }

    /// One whose time was up when a grant might have been handed on to it.
    pub(super) fn refuse_late(&self, request: Request, grant: &Grant) {
        request.held_here(self, grant.owner(), grant.left().unwrap_or_default());
    }

    /// A grant of this process, where anybody has it still.
    pub(super) fn grant(&self, id: GrantId) -> Option<Arc<Grant>> {
        let client = self.client.lock();
        client.data(id)?.grant.upgrade()
    }
}

impl ResourceSlot {
    /// Notes for which turn the leader waits, so that it leaves that line too when its caller goes away.
    pub(super) fn handle_turn_waited_for(&self, place: Place, turn: u64) {
        self.client().handle_turn_waited_for(self.queue(), place, turn);
    }
}
