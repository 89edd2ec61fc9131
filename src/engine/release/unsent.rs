//! Releases that have been asked for and not been sent: they wait for their turn, or for their task to begin.
//!
//! It decides when they are sent at the latest: before this process asks the nodes for anything that they are in the way
//! of. Without that a process could be told that its own lease holds what it has released. Each is sent once, by its task
//! or by whoever comes before that.

use std::{
    future::Future,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use tokio::sync::oneshot;

use super::{Counted, Engine, Outcomes, Released};
use crate::{
    engine::{
        resources::ResourceSlot,
        turns::{Line, Turn},
    },
    error::ReleaseError,
    lock::Lock,
    protocol::{FencingToken, ReleaseOrder, Timestamp, TurnedAway},
    shield::shielded,
    telemetry::Caller,
};

/// A release that somebody waits for, before its round.
pub(super) struct AskedRelease {
    pub(super) released: Released,
    pub(super) on_its_way: OnItsWay,
    pub(super) token: Option<FencingToken>,
    pub(super) caller: Caller,
    pub(super) orders: Vec<ReleaseOrder>,
    pub(super) started: Timestamp,
    /// Until whoever waits for it has been told.
    pub(super) answer: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    /// Of the shutdown that has ended the lease.
    pub(super) report: Option<Arc<Outcomes>>,
    pub(super) counted: Counted,
}

/// Counts a release as unsent until it is dropped.
pub(super) struct OnItsWay(Arc<ResourceSlot>);

impl OnItsWay {
    pub(super) fn new(slot: Arc<ResourceSlot>) -> Self {
        slot.count_unsent();
        Self(slot)
    }

    pub(super) const fn slot(&self) -> &Arc<ResourceSlot> {
        &self.0
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.discount_unsent();
    }
}

/// One of them, until it is taken to be sent.
pub(in crate::engine) struct Unsent(Lock<Option<AskedRelease>>);

impl Unsent {
    /// Whoever asks here for what it is in the way of finds it from now on.
    pub(super) fn new(asked: AskedRelease) -> Arc<Self> {
        let slot = Arc::clone(asked.on_its_way.slot());
        let unsent = Arc::new(Self(Lock::new(Some(asked))));
        slot.handle_unsent(&unsent);
        unsent
    }

    fn take(&self) -> Option<AskedRelease> {
        self.0.lock().take()
    }

    /// Begins; or, when its time is up in line, says so to whoever waits for it, and goes on waiting for its turn.
    pub(super) fn begin(self: Arc<Self>, engine: &Arc<Engine>, turn: Result<Turn, TurnedAway>) {
        if let Ok(turn) = turn {
            let engine = Arc::clone(engine);
            let of_task = Arc::clone(&engine);
            engine.spawn_uncounted(async move {
                // Where it has been sent before, the turn is given back.
                if let Some(asked) = self.take() {
                    of_task.release_round(asked, Some(turn)).await;
                }
            });
            return;
        }
        let answer = self.0.lock().as_mut().and_then(|asked| asked.answer.take());
        if let Some(answer) = answer.filter(|answer| !answer.is_closed()) {
            let _ = answer.send(Err(ReleaseError::Unconfirmed {
                released: 0,
                needed: engine.quorum.needed(),
                nodes: engine.not_asked(),
            }));
        }
        let engine_of_start = Arc::clone(engine);
        let start = Box::new(move |turn: Result<Turn, TurnedAway>| {
            if let Ok(turn) = turn {
                self.begin(&engine_of_start, Ok(turn));
            }
        });
        engine.wait_for_turn(Line::Releases, None, start);
    }
}

impl Engine {
    /// Sends what has been given back here and would be in the way of whoever asks the nodes now, however many wait for
    /// their turn before it. To be called by a task of the engine.
    pub(in crate::engine) fn send_unsent(self: &Arc<Self>, slot: &Arc<ResourceSlot>) {
        for asked in slot.unsent_in_the_way().iter().filter_map(|unsent| unsent.take()) {
            // It runs a subscriber of the user's: a panic of that is none of the acquire's.
            shielded(|| {
                let mut rest = Box::pin(Arc::clone(self).release_round(asked, None));
                if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
                    self.spawn_uncounted(rest);
                }
            });
        }
    }
}

/// Those of one line.
#[derive(Default)]
pub(in crate::engine) struct UnsentHere(Lock<Vec<Weak<Unsent>>>);

impl UnsentHere {
    pub(in crate::engine) fn add(&self, unsent: &Arc<Unsent>) {
        let mut all = self.0.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(unsent));
    }

    /// All of them. Whoever takes them sends them.
    pub(in crate::engine) fn take(&self) -> Vec<Arc<Unsent>> {
        let all = std::mem::take(&mut *self.0.lock());
        all.iter().filter_map(Weak::upgrade).collect()
    }
}
