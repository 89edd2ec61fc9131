//! What a driver has to do, in the order in which it was decided.
//!
//! It decides their order: a request that is answered comes before the next one that asks. Of several threads that carry out
//! events at the same time, one may be done before another.

use super::{AskId, Asks, Client, GrantId};
use crate::{
    acquisition::{GiveUp, TurnedAway},
    command::NodeId,
    concurrency::Turn,
    line::Ticket,
    target::Target,
    time::Timestamp,
    timers::Wakeup,
};

/// What a driver has to do.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event<W, R> {
    /// Whoever sees to the timers has to be woken, or to be started.
    Wake(Wakeup),
    /// A request that asks goes on: [`Client::go_on`] is to be called.
    GoOn(AskId),
    /// A round begins for this request, which counts among all until the turn is given back.
    Begin(AskId, W, Turn),
    /// This release has its turn, or has waited for it up to its deadline.
    Release(R, Result<Turn, TurnedAway>),
    /// The nodes are to be looked at, up to this time; then [`Client::handle_looked`] is to be called, with that.
    Look(AskId, Timestamp),
    /// This request is answered, with what it is told. So many waited for a turn then.
    GiveUp(W, GiveUp, usize),
    /// This request has nobody left who waits for it. It is dropped without the lock.
    Gone(W),
    /// The place with this ticket in the lines for this target is given up, on this node or on all.
    Leave(Target, Ticket, Option<NodeId>),
    /// The place in the lines for this target is gone: [`Client::handle_place_gone`] is to be called.
    PlaceGone(Target),
    /// This grant is kept as nobody's no longer.
    GiveBack(GrantId),
}

impl<G, W, M, R> Client<G, W, M, R> {
    /// What has to be done next. It is called until there is nothing left, by each thread behind what it has had decided.
    pub fn poll_event(&mut self) -> Option<Event<W, R>> {
        self.events.pop_front()
    }

    /// Whether there is something to do.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Has the timers seen to.
    pub(super) fn wake(&mut self, wakeup: Wakeup) {
        if wakeup != Wakeup::Silent {
            self.events.push_back(Event::Wake(wakeup));
        }
    }
}

impl<G, W: Asks<M>, M: Clone, R> Client<G, W, M, R> {
    /// One who asks does so no more, and is answered, before the next one asks: it may have something to undo on the nodes.
    pub(super) fn give_up(&mut self, id: AskId, request: Option<W>, told: Option<GiveUp>) {
        let before = self.events.len();
        let kept = self.end_asking(id);
        let crowd = self.acquires.waiting();
        if let Some(request) = request.or(kept) {
            let event = match told {
                Some(told) => Event::GiveUp(request, told, crowd),
                None => Event::Gone(request),
            };
            self.events.insert(before, event);
        }
    }
}
