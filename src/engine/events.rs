//! What the client has decided, carried out.
//!
//! It decides nothing. A thread that has had something decided carries out whatever there is, in the order in which it was
//! decided. Most of it is code of a user: none is run under the lock, and one that blocks keeps nothing else waiting that other
//! threads may carry out.

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

/// This thread carries out what there is.
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

/// So deep inside of itself one thread carries events out. What is started may come back, and must not pile up; but where it
/// waits for something, that has to be done.
const DEPTH: usize = 4;

impl Engine {
    /// Has something decided, and carries out what follows.
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
                // It is carried out further out.
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

    /// What is to be done next. It counts from the step on in which it is taken, so that closing waits for it, and for nothing
    /// where nothing is left.
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
                    // It is not in anybody's hands yet.
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
        // It is code of the user's, which may panic: then nobody would go on with this one.
        shielded(|| now = Some(self.now()));
        let mut client = self.client.lock();
        match now {
            Some(now) => client.go_on(ask, now),
            None => client.handle_not_gone_on(ask),
        }
    }
}
