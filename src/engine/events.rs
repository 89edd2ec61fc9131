//! Carries out what the client has decided.
//!
//! It decides nothing. A thread that causes a decision carries out all pending events, in the order of the decisions.
//! Most events run user code: never under the lock, and code that blocks holds up no event that another thread may
//! carry out.

use std::{
    sync::Arc,
    thread::{self, ThreadId},
};

use super::{Counted, Engine, Request, client::Client, release::Releasing};
use crate::{
    node::NodeError,
    protocol::{AskId, Event, LeaseAction},
    shield::shielded,
};

type Decided = Event<Box<Request>, Releasing, NodeError>;

/// Marks this thread as carrying out events.
struct CarryingOut<'a> {
    engine: &'a Engine,
    thread: ThreadId,
}

impl Drop for CarryingOut<'_> {
    fn drop(&mut self) {
        let mut all = self.engine.carrying_out.lock();
        if let Some(last) = all.iter().rposition(|thread| *thread == self.thread) {
            all.swap_remove(last);
        }
    }
}

/// How deep `carry_out` nests on one thread. User code may come back here, and must not pile up; but if it waits for an
/// event, that must be carried out.
const DEPTH: usize = 4;

impl Engine {
    /// Makes a decision, and carries out what follows.
    pub(super) fn decide<T>(self: &Arc<Self>, decide: impl FnOnce(&mut Client) -> T) -> T {
        let (decided, follows) = {
            let mut client = self.client.lock();
            let decided = decide(&mut client);
            (decided, client.has_events())
        };
        if follows {
            self.carry_out();
        }
        decided
    }

    /// Carries out what has been decided.
    pub(super) fn carry_out(self: &Arc<Self>) {
        let thread = thread::current().id();
        {
            let mut all = self.carrying_out.lock();
            if all.iter().filter(|other| **other == thread).count() >= DEPTH {
                // An outer call on this thread carries it out.
                return;
            }
            all.push(thread);
        }
        let _carrying = CarryingOut { engine: self, thread };
        while let Some((event, _counted)) = self.take_event() {
            shielded(|| self.carry_out_one(event));
        }
        self.tell_settled();
    }

    /// Takes the next event. It counts as under way from that step on, so that closing waits for each event, and for
    /// nothing if none is left.
    fn take_event(self: &Arc<Self>) -> Option<(Decided, Counted)> {
        let mut client = self.client.lock();
        client.poll_event().map(|event| (event, self.count()))
    }

    fn carry_out_one(self: &Arc<Self>, event: Decided) {
        match event {
            Event::Wake(wakeup) => self.wake(wakeup),
            Event::GoOn(ask) => self.go_on(ask),
            Event::LetIn => {
                let at = self.moment();
                self.decide(|client| client.let_in(&at));
            }
            Event::Begin(ask) => self.client.lock().begin_later(ask),
            Event::Look(ask, until) => {
                let engine = Arc::clone(self);
                self.spawn_uncounted(async move {
                    engine.look_ended(until).await;
                    engine.decide(|client| client.handle_looked(ask, until));
                });
            }
            Event::GiveUp(request, told, crowd) => request.give_up(self, told, crowd),
            Event::Gone(request) => drop(request),
            Event::Won { request, grant, at, took, counter } => {
                self.won(request, grant, at, (took, counter));
            }
            Event::HeldHere(request, grant) => self.refuse_late(request, grant),
            Event::Tell(grant, action) => {
                match self.grant(grant) {
                    Some(grant) => grant.tell(action),
                    // No holder has it yet.
                    None if matches!(action, LeaseAction::Lose(_)) => {
                        self.decide(|client| client.handle_grant_over(grant));
                    }
                    None => {}
                }
            }
            Event::GiveBack(grant, extend) => self.give_back_kept(grant, extend),
            Event::Extended { grant, by, outcome, action } => {
                self.extended(grant, by, outcome, action);
            }
            Event::Released(releasing, released) => self.released(releasing, &released),
            Event::ReleaseLate(release) => self.release_late(release),
            Event::ReleaseQueued(node, target, owner) => self.tell_queued(node, &target, owner),
            Event::ReleaseGivenUp(node, target, owner) => self.tell_given_up(node, &target, owner),
            Event::PlaceGone(target) => {
                let now = self.now();
                self.client.lock().handle_place_gone(&target, now);
            }
        }
    }

    fn go_on(&self, ask: AskId) {
        let mut now = None;
        // The clock is user code and may panic: then nothing would go on with this request.
        shielded(|| now = Some(self.now()));
        let mut client = self.client.lock();
        match now {
            Some(now) => client.go_on(ask, now),
            None => client.handle_not_gone_on(ask),
        }
    }
}
