//! What gives something back, or lets others in, and has not been sent: it waits for its turn, or for its task to begin.
//!
//! It decides when that is sent at the latest: before this process asks the nodes for anything that is kept from it without
//! that. Otherwise a process could be told that its own lease holds what it has released. Each is sent once, by its task or
//! by whoever comes before that.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use tokio::sync::oneshot;

use super::{
    Counted, Engine,
    footprint::Released,
    held::Outcomes,
    resources::ResourceSlot,
    turns::{Lane, Turn},
};
use crate::{
    error::ReleaseError,
    lock::Lock,
    protocol::{FencingToken, ReleaseOrder, Timestamp, TurnedAway},
    runtime::Task,
    shield::shielded,
    telemetry::Caller,
};

/// A release that somebody waits for, before its round.
pub(super) struct AskedRelease {
    pub(super) released: Released,
    pub(super) slot: Arc<ResourceSlot>,
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

/// Counts something as unsent until it is dropped.
struct OnItsWay(Arc<ResourceSlot>);

impl OnItsWay {
    fn new(slot: Arc<ResourceSlot>) -> Self {
        slot.count_unsent();
        Self(slot)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.discount_unsent();
    }
}

/// One of them, until it is taken to be sent.
pub(super) struct Unsent(Lock<Option<(Waiting, OnItsWay)>>);

/// What is to be sent.
enum Waiting {
    Release(AskedRelease),
    /// With the first poll.
    Task(Task),
}

impl Unsent {
    /// Whoever asks here for what is kept from it finds it from now on.
    fn new(waiting: Waiting, slot: Arc<ResourceSlot>) -> Arc<Self> {
        let on_its_way = OnItsWay::new(Arc::clone(&slot));
        let unsent = Arc::new(Self(Lock::new(Some((waiting, on_its_way)))));
        slot.handle_unsent(&unsent);
        unsent
    }

    pub(super) fn release(asked: AskedRelease) -> Arc<Self> {
        let slot = Arc::clone(&asked.slot);
        Self::new(Waiting::Release(asked), slot)
    }

    /// What is to be sent, unless it has been before.
    fn take(&self) -> Option<Waiting> {
        // What counts it is dropped behind the lock.
        let taken = self.0.lock().take();
        taken.map(|(waiting, _)| waiting)
    }

    /// Begins; or, when its time is up in line, says so to whoever waits for it, and goes on waiting for its turn.
    pub(super) fn begin(self: Arc<Self>, engine: &Arc<Engine>, turn: Result<Turn, TurnedAway>) {
        if let Ok(turn) = turn {
            let engine = Arc::clone(engine);
            let of_task = Arc::clone(&engine);
            engine.spawn_uncounted(async move {
                // Where it has been sent before, the turn is given back.
                if let Some(Waiting::Release(asked)) = self.take() {
                    of_task.release_round(asked, Some(turn)).await;
                }
            });
            return;
        }
        let answer = match self.0.lock().as_mut() {
            Some((Waiting::Release(asked), _)) => {
                asked.answer.take().map(|answer| (answer, asked.released.target.clone()))
            }
            _ => None,
        };
        if let Some((answer, target)) = answer.filter(|(answer, _)| !answer.is_closed()) {
            let _ = answer.send(Err(ReleaseError::Unconfirmed {
                target: Some(target),
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
        engine.wait_for_turn(Lane::Releases, None, start);
    }
}

impl Engine {
    /// Sends whatever somebody who asks the nodes now would be denied without, however many wait for their turn before it. To
    /// be called by a task of the engine.
    pub(super) fn send_unsent(self: &Arc<Self>, slot: &Arc<ResourceSlot>) {
        for unsent in slot.unsent_in_the_way() {
            // It runs a subscriber of the user's: a panic of that is none of the acquire's.
            shielded(|| {
                let mut rest: Task = match unsent.take() {
                    Some(Waiting::Release(asked)) => {
                        Box::pin(Arc::clone(self).release_round(asked, None))
                    }
                    Some(Waiting::Task(task)) => task,
                    None => return,
                };
                if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
                    self.spawn_uncounted(rest);
                }
            });
        }
    }

    /// Begins a task that lets others have a resource with what its first poll sends.
    pub(super) fn spawn_to_let_in(&self, slot: &Arc<ResourceSlot>, task: Task) {
        let unsent = Unsent::new(Waiting::Task(task), Arc::clone(slot));
        self.spawn_uncounted(async move {
            if let Some(Waiting::Task(task)) = unsent.take() {
                task.await;
            }
        });
    }
}

/// Those of one line.
#[derive(Default)]
pub(super) struct UnsentHere(Lock<Vec<Weak<Unsent>>>);

impl UnsentHere {
    pub(super) fn add(&self, unsent: &Arc<Unsent>) {
        let mut all = self.0.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(unsent));
    }

    /// The first of them, so many at most. Whoever takes them sends them.
    pub(super) fn take(&self, most: usize) -> Vec<Arc<Unsent>> {
        let mut all = self.0.lock();
        let taken = most.min(all.len());
        all.drain(..taken).filter_map(|unsent| unsent.upgrade()).collect()
    }
}
