//! What a driver has to do, in the order in which it was decided.
//!
//! It decides their order: a request that is answered comes before the next one that asks. Of several threads that carry out
//! events at the same time, one may be done before another.

use alloc::boxed::Box;
use core::time::Duration;

use super::{AskId, Asks, Client, Fails, GrantId, ReleaseId, Released, RenewalId};
use crate::{
    acquisition::GiveUp,
    command::NodeId,
    fencing::FencingToken,
    lifecycle::{ExtendOutcome, LeaseAction},
    owner::Owner,
    target::Target,
    time::Timestamp,
    timers::Wakeup,
};

/// What a driver has to do.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event<W, R, E> {
    /// Whoever sees to the timers and calls has to be woken, or to be started.
    Wake(Wakeup),
    /// A request that asks goes on: [`Client::go_on`] is to be called.
    GoOn(AskId),
    /// Somebody waits for a turn, and there is one: [`Client::let_in`] is to be called.
    LetIn,
    /// A round begins: [`Client::begin_round`] is to be called.
    Begin(AskId),
    /// The nodes are to be looked at, up to this time; then [`Client::handle_looked`] is to be called, with that.
    Look(AskId, Timestamp),
    /// This request is answered, with what it is told. So many waited for a turn then.
    GiveUp(W, GiveUp, usize),
    /// This request has nobody left who waits for it. It is dropped without the lock.
    Gone(W),
    /// This request is answered: it has this grant. Whether that counts as held, [`Client::count`] says.
    Won {
        /// The request.
        request: W,
        /// What it has.
        grant: GrantId,
        /// When that was known.
        at: Timestamp,
        /// How long its round took.
        took: Duration,
        /// The counter that it was won with, where that is above all that nodes were asked for.
        counter: Option<FencingToken>,
    },
    /// This request is answered: this grant holds what it asks for.
    HeldHere(W, GrantId),
    /// What has become of a grant is told to its holder.
    Tell(GrantId, LeaseAction),
    /// This grant is kept as nobody's no longer. Where it has been taken since, it may have to be extended.
    GiveBack(GrantId, bool),
    /// An extension has ended.
    Extended {
        /// Of what.
        grant: GrantId,
        /// Which one.
        by: RenewalId,
        /// How.
        outcome: ExtendOutcome,
        /// What is told of it to the holder.
        action: Option<LeaseAction>,
    },
    /// A release is decided.
    Released(R, Box<Released<E>>),
    /// A release has waited for its turn up to its deadline: that is told, and it goes on waiting.
    ReleaseLate(ReleaseId),
    /// A release was not confirmed by this node, and will be sent again.
    ReleaseQueued(NodeId, Box<Target>, Owner),
    /// A release is sent no more to this node.
    ReleaseGivenUp(NodeId, Box<Target>, Owner),
    /// The place in the lines for this target is gone: [`Client::handle_place_gone`] is to be called.
    PlaceGone(Target),
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// What has to be done next. It is called until there is nothing left, by each thread behind what it has had decided.
    pub fn poll_event(&mut self) -> Option<Event<W, R, E>> {
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

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
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
