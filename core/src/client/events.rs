//! What the driver has to do, in the order in which it was decided.
//!
//! It decides their order: the answer to a request comes before the next request asks. Where several threads carry out
//! events at once, a later one may be done first.

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

/// What the driver has to do.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Event<W, R, E> {
    /// Wake or start the driver's task.
    Wake(Wakeup),
    /// An asking request goes on: call [`Client::go_on`].
    GoOn(AskId),
    /// A request waits for a turn and there is one: call [`Client::let_in`].
    LetIn,
    /// A round begins: call [`Client::begin_round`].
    Begin(AskId),
    /// Look at the nodes until this time; then call [`Client::handle_looked`] with it.
    Look(AskId, Timestamp),
    /// Answer this request with this; so many waited for a turn then.
    GiveUp(W, GiveUp, usize),
    /// Nobody waits for this request any more: drop it without the lock.
    Gone(W),
    /// Answer this request: it has this grant. [`Client::count`] says whether that counts as held.
    Won {
        /// The request.
        request: W,
        /// Its grant.
        grant: GrantId,
        /// When that was known.
        at: Timestamp,
        /// How long its round took.
        took: Duration,
        /// The counter that it was won with, if above all that the nodes were asked for.
        counter: Option<FencingToken>,
    },
    /// Answer this request: this grant holds what it asks for.
    HeldHere(W, GrantId),
    /// Tell the holder of a grant what became of it.
    Tell(GrantId, LeaseAction),
    /// Give back this grant: it is no longer kept. If it was taken since, it may have to be extended instead.
    GiveBack(GrantId, bool),
    /// An extension has ended.
    Extended {
        /// The grant.
        grant: GrantId,
        /// Its id.
        by: RenewalId,
        /// Its outcome.
        outcome: ExtendOutcome,
        /// What to tell the holder.
        action: Option<LeaseAction>,
    },
    /// A release is decided.
    Released(R, Box<Released<E>>),
    /// A release has waited for its turn up to its deadline: tell that; it goes on waiting.
    ReleaseLate(ReleaseId),
    /// This node did not confirm a release, which will be sent again.
    ReleaseQueued(NodeId, Box<Target>, Owner),
    /// A release is no longer sent to this node.
    ReleaseGivenUp(NodeId, Box<Target>, Owner),
    /// The place in the lines for this target is gone: call [`Client::handle_place_gone`].
    PlaceGone(Target),
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// The next thing to do. Each thread drains it after its own inputs.
    pub fn poll_event(&mut self) -> Option<Event<W, R, E>> {
        self.events.pop_front()
    }

    /// Whether there is something to do.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Wakes the driver's task.
    pub(super) fn wake(&mut self, wakeup: Wakeup) {
        if wakeup != Wakeup::Silent {
            self.events.push_back(Event::Wake(wakeup));
        }
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Ends an asking request, and answers it before the next one asks: it may have something to undo on the nodes.
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
