//! What gives something back, or lets others in, and has not been sent: it waits for its turn, or for its task to begin.
//!
//! It decides when that is sent at the latest: before this process asks the nodes for anything that is kept from it without
//! that. Otherwise a process could be told that its own lease holds what it has released. Each is sent once, by its task or
//! by whoever comes before that.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::sync::oneshot;

use super::{
    Counted, Engine, footprint::Released, held::Outcomes, resources::ResourceSlot, turn::Turn,
};
use crate::{
    error::ReleaseError,
    lock::Lock,
    protocol::{FencingToken, QueueId, ReleaseOrder, Slots, Timestamp},
    runtime::Task,
    shield::shielded,
    telemetry::Caller,
};

/// So many are sent at once for one who asks: all permits of a semaphore.
const MOST_AT_ONCE: usize = Slots::MOST;

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

/// What has not been sent, by the queue of what it gives back.
#[derive(Debug, Default)]
pub(super) struct AllUnsent {
    by_queue: Lock<HashMap<QueueId, Vec<Weak<Unsent>>>>,
    /// How many there are.
    count: AtomicUsize,
}

/// Counts something as unsent until it is dropped.
struct OnItsWay(Arc<Engine>);

impl OnItsWay {
    fn new(engine: &Arc<Engine>) -> Self {
        engine.unsent.count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(engine))
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.unsent.count.fetch_sub(1, Ordering::Relaxed);
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
    fn new(engine: &Arc<Engine>, waiting: Waiting, slot: &ResourceSlot) -> Arc<Self> {
        let on_its_way = OnItsWay::new(engine);
        let unsent = Arc::new(Self(Lock::new(Some((waiting, on_its_way)))));
        engine.unsent.add(slot.queue(), &unsent);
        unsent
    }

    pub(super) fn release(engine: &Arc<Engine>, asked: AskedRelease) -> Arc<Self> {
        let slot = Arc::clone(&asked.slot);
        Self::new(engine, Waiting::Release(asked), &slot)
    }

    /// What is to be sent, unless it has been before.
    fn take(&self) -> Option<Waiting> {
        // What counts it is dropped behind the lock.
        let taken = self.0.lock().take();
        taken.map(|(waiting, _)| waiting)
    }

    /// Begins.
    pub(super) fn begin(self: Arc<Self>, engine: &Arc<Engine>, turn: Turn) {
        let of_task = Arc::clone(engine);
        engine.spawn_uncounted(async move {
            // Where it has been sent before, the turn is given back.
            if let Some(Waiting::Release(asked)) = self.take() {
                of_task.release_round(asked, Some(turn)).await;
            }
        });
    }

    /// Its time is up in line: says so to whoever waits for it, and goes on waiting for its turn.
    pub(super) fn handle_late(self: Arc<Self>, engine: &Arc<Engine>) {
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
        // No clock is read, which is code of the user's: what it says makes no difference to one without a deadline.
        self.wait(engine, None, Timestamp::ORIGIN);
    }

    /// Waits for its turn, up to the deadline.
    pub(super) fn wait(
        self: Arc<Self>,
        engine: &Arc<Engine>,
        deadline: Option<Timestamp>,
        now: Timestamp,
    ) {
        let begins = engine.decide(|client| client.want_release(self, deadline, now));
        if let Some((unsent, turn)) = begins {
            unsent.begin(engine, Turn::release(engine, turn));
        }
    }
}

impl Engine {
    /// Sends whatever somebody who asks the nodes now would be denied without, however many wait for their turn before it. To
    /// be called by a task of the engine.
    pub(super) fn send_unsent(self: &Arc<Self>, slot: &Arc<ResourceSlot>) {
        // Nearly always there are none. What has been given back before this was asked for is counted by now.
        if self.unsent.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let queues = self.client.lock().in_the_way_of(slot.queue());
        for unsent in self.unsent.take(queues) {
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
    pub(super) fn spawn_to_let_in(self: &Arc<Self>, slot: &Arc<ResourceSlot>, task: Task) {
        let unsent = Unsent::new(self, Waiting::Task(task), slot);
        self.spawn_uncounted(async move {
            if let Some(Waiting::Task(task)) = unsent.take() {
                task.await;
            }
        });
    }
}

impl AllUnsent {
    fn add(&self, queue: QueueId, unsent: &Arc<Unsent>) {
        let mut by_queue = self.by_queue.lock();
        // Looked through only when it has doubled, it costs each of them little.
        if by_queue.len() == by_queue.capacity() {
            by_queue.retain(|_, all| all.iter().any(|one| one.strong_count() > 0));
        }
        let all = by_queue.entry(queue).or_default();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(unsent));
    }

    /// The first of them, in the order of the queues, so many at most: of thousands of readers they would take the room of
    /// renewals. Whoever takes them sends them.
    fn take(&self, queues: Vec<QueueId>) -> Vec<Arc<Unsent>> {
        let mut by_queue = self.by_queue.lock();
        let mut taken = Vec::new();
        for queue in queues {
            let Some(all) = by_queue.get_mut(&queue) else { continue };
            let most = MOST_AT_ONCE.saturating_sub(taken.len()).min(all.len());
            taken.extend(all.drain(..most).filter_map(|unsent| unsent.upgrade()));
            if all.is_empty() {
                by_queue.remove(&queue);
            }
        }
        taken
    }
}
