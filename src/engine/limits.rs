//! The time limits of commands under way: one task sees to all of them.
//!
//! It decides nothing. A timer of the runtime's for each fan-out would be made, started and taken back although nearly
//! all are answered long before; here that is one entry, and no look at the clock. It must never end a limit early.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::future::select;
use tokio::sync::Notify;

use super::AFTER_PANIC;
use crate::{
    lock::Lock,
    protocol::Timestamp,
    runtime::Runtime,
    shield::{persist, shielded},
};

/// All limits of one engine.
pub(super) struct Limits {
    runtime: Arc<dyn Runtime>,
    /// The entries are looked at this often at least, while there are any. Few limits are shorter, so that hardly any
    /// comes before the next look.
    look_every: Duration,
    state: Lock<State>,
    /// How often limits have passed: while this stays, nobody need look for one's own.
    passed: AtomicU64,
    /// Wakes the task that looks, because a limit comes before the next look.
    wake: Arc<Notify>,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Key, Waker>,
    /// Tells those for the same time apart.
    number: u64,
    /// A task looks after them.
    attended: bool,
    /// When it looks next; the origin while it looks.
    next_look: Timestamp,
}

type Key = (Timestamp, u64);

impl Limits {
    pub(super) fn new(runtime: Arc<dyn Runtime>, look_every: Duration) -> Arc<Self> {
        let (state, passed) = (Lock::default(), AtomicU64::new(0));
        Arc::new(Self { runtime, look_every, state, passed, wake: Arc::default() })
    }

    /// Lets the task end, whose engine has.
    pub(super) fn wake_up(&self) {
        self.wake.notify_one();
    }

    fn register(self: &Arc<Self>, at: Timestamp, waker: Waker) -> Key {
        let (key, attended, is_sooner) = {
            let mut state = self.state.lock();
            state.number = state.number.wrapping_add(1);
            let key = (at, state.number);
            state.waiting.insert(key, waker);
            let is_sooner = at < state.next_look;
            state.next_look = state.next_look.min(at);
            (key, std::mem::replace(&mut state.attended, true), is_sooner)
        };
        if !attended {
            let attending = Attending { limits: Arc::downgrade(self), ended: false };
            let wake = Arc::clone(&self.wake);
            let task = async move {
                let limits = &attending.limits;
                persist(|| attend(limits, &wake), || pause(limits)).await;
                attending.end();
            };
            shielded(|| self.runtime.spawn(Box::pin(task)));
        } else if is_sooner {
            self.wake_up();
        }
        key
    }

    /// Tells those whose time is up, and says when to look again; `None` where there is nothing left to look after.
    fn look(&self) -> Option<Timestamp> {
        let now = self.runtime.now();
        let mut due = Vec::new();
        let next = {
            let mut state = self.state.lock();
            while let Some(first) = state.waiting.first_entry()
                && first.key().0 <= now
            {
                due.push(first.remove());
            }
            let first = state.waiting.first_key_value().map(|((at, _), _)| *at);
            let next = first.map(|first| first.min(now.saturating_add(self.look_every)));
            state.attended = next.is_some();
            state.next_look = next.unwrap_or(Timestamp::ORIGIN);
            next
        };
        if !due.is_empty() {
            self.passed.fetch_add(1, Ordering::AcqRel);
        }
        // Without the lock: a waker may do anything.
        due.into_iter().for_each(|waker| shielded(|| waker.wake()));
        next
    }
}

/// Looks after the limits while there are any. It does not keep the engine alive.
async fn attend(limits: &Weak<Limits>, wake: &Notify) {
    loop {
        let sleep = {
            let Some(limits) = limits.upgrade() else { return };
            let Some(next) = limits.look() else { return };
            limits.runtime.sleep_until(next)
        };
        select(std::pin::pin!(wake.notified()), sleep).await;
    }
}

async fn pause(limits: &Weak<Limits>) {
    let sleep = limits.upgrade().map(|limits| {
        let runtime = &limits.runtime;
        runtime.sleep_until(runtime.now().saturating_add(AFTER_PANIC))
    });
    if let Some(sleep) = sleep {
        sleep.await;
    }
}

/// The task that looks. When it ends in any other way than by having nothing left to do, as when the runtime drops it,
/// the next limit starts another.
struct Attending {
    limits: Weak<Limits>,
    ended: bool,
}

impl Attending {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        if !self.ended
            && let Some(limits) = self.limits.upgrade()
        {
            limits.state.lock().attended = false;
        }
    }
}

/// One limit. It begins to be looked after when it is first polled.
pub(super) struct Limit {
    at: Timestamp,
    registered: Option<Registered>,
}

struct Registered {
    limits: Arc<Limits>,
    key: Key,
    waker: Waker,
    /// What `passed` was before.
    passed: u64,
}

impl Limit {
    pub(super) const fn new(at: Timestamp) -> Self {
        Self { at, registered: None }
    }

    /// Whether it has passed.
    pub(super) fn poll(&mut self, limits: &Arc<Limits>, cx: &Context<'_>) -> Poll<()> {
        let Some(registered) = &mut self.registered else {
            let (limits, waker) = (Arc::clone(limits), cx.waker().clone());
            let passed = limits.passed.load(Ordering::Acquire);
            let key = limits.register(self.at, waker.clone());
            self.registered = Some(Registered { limits, key, waker, passed });
            return Poll::Pending;
        };
        let passed = limits.passed.load(Ordering::Acquire);
        let same_waker = registered.waker.will_wake(cx.waker());
        if passed == registered.passed && same_waker {
            return Poll::Pending;
        }
        let mut state = limits.state.lock();
        let Some(waker) = state.waiting.get_mut(&registered.key) else { return Poll::Ready(()) };
        registered.passed = passed;
        if !same_waker {
            let old = std::mem::replace(waker, cx.waker().clone());
            drop(state);
            drop(old);
            registered.waker = cx.waker().clone();
        }
        Poll::Pending
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some(Registered { limits, key, .. }) = self.registered.take() {
            // Dropped without the lock: it is code of the user's where the runtime is.
            let waker = limits.state.lock().waiting.remove(&key);
            drop(waker);
        }
    }
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // None where somebody has the lock: in a forked process that may be for ever.
        let waiting = self.state.try_lock().map(|state| state.waiting.len());
        f.debug_struct("Limits").field("waiting", &waiting).finish_non_exhaustive()
    }
}
