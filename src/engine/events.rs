//! What the client has decided, carried out.
//!
//! It decides nothing. Each thread carries out what there is behind what it has had decided, so that none depends on another's
//! progress. None of it is done under the lock, and each by itself: most of it is code of a user.

use std::{
    sync::Arc,
    thread::{self, ThreadId},
};

use super::{Counted, Engine, Request, Turn, Unsent, client::Client};
use crate::{
    protocol::{self, AskId, Event, NodeId, TurnedAway},
    shield::shielded,
};

type Decided = Event<Box<Request>, Arc<Unsent>>;

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
            Event::Begin(ask, request, turn) => self.begin_round(ask, request, turn),
            Event::Release(release, turn) => self.begin_release(release, turn),
            Event::Look(ask, until) => {
                let engine = Arc::clone(self);
                self.spawn_uncounted(async move {
                    engine.look_ended(until).await;
                    engine.decide(|client| client.handle_looked(ask, until));
                });
            }
            Event::GiveUp(request, told, crowd) => request.give_up(self, told, crowd),
            Event::Gone(request) => drop(request),
            Event::Leave(target, ticket, node) => {
                let all = || (0..self.nodes.len()).map(NodeId::new).collect();
                let nodes = node.map_or_else(all, |node| vec![node]);
                self.leave_lines(&target, ticket, nodes);
            }
            Event::PlaceGone(target) => {
                let now = self.now();
                self.client.lock().handle_place_gone(&target, now);
            }
            Event::GiveBack(kept) => self.give_back_kept(kept),
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

    fn begin_release(
        self: &Arc<Self>,
        release: Arc<Unsent>,
        turn: Result<protocol::Turn, TurnedAway>,
    ) {
        match turn {
            Ok(turn) => release.begin(self, Turn::release(self, turn)),
            Err(_) => release.handle_late(self),
        }
    }
}
