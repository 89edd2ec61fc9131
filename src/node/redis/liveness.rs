//! The signs of life of one connection: what is unanswered on it, for how long nothing has been answered, and its end.
//!
//! It decides when a connection is given up for its silence, and how many commands may be unanswered. It sends nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::SetOnce;

use crate::{lock::Lock, node::NodeError, protocol::Timestamp, runtime::Runtime};

/// After at least this many timeouts, with no reply in between, a connection is given up: neither TCP keepalive nor
/// the kernel sees a server that is stopped.
const TIMEOUTS_IN_A_ROW: u32 = 3;

/// The timeouts must also span this long, and two node timeouts: commands sent together are late together, and say no
/// more than one of them.
const SILENCE: Duration = Duration::from_secs(1);

/// The most acquires that may be unanswered on one connection.
const MOST_ACQUIRES: usize = 4096;

/// The most of all other commands. They have room of their own, so that a burst of acquires never keeps a held lease
/// from being renewed or released.
const MOST_OTHERS: usize = 8192;

/// The room in the queue of a connection. A command never waits for room there: while waiting it could be overtaken by
/// the release that undoes it.
pub(super) const MOST_UNANSWERED: usize = MOST_ACQUIRES + MOST_OTHERS;

/// Tells the supervisor and other callers that a connection has ended, and why.
#[derive(Default)]
pub(super) struct Down(SetOnce<Arc<str>>);

impl Down {
    pub(super) fn trip(&self, reason: &str) {
        // The first reason stays: what follows from it says less.
        let _ = self.0.set(Arc::from(reason));
    }

    pub(super) fn is_down(&self) -> bool {
        self.0.initialized()
    }

    /// Ends when the connection has ended.
    pub(super) async fn wait(&self) -> Arc<str> {
        Arc::clone(self.0.wait().await)
    }
}

/// The limit that a command counts against.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Room {
    /// That of the acquires.
    Acquires,
    /// Everything else: what keeps leases, ends them, or looks at a node.
    Others,
}

/// What is known of a connection's life.
pub(super) struct Liveness {
    pub(super) down: Arc<Down>,
    runtime: Arc<dyn Runtime>,
    /// How long the timeouts must span.
    silence: Duration,
    /// Timeouts since the last reply.
    timeouts: AtomicU32,
    /// The time of the first of them.
    first: Lock<Timestamp>,
    acquires: AtomicUsize,
    others: AtomicUsize,
}

impl Liveness {
    pub(super) fn new(down: Arc<Down>, runtime: Arc<dyn Runtime>, node_timeout: Duration) -> Self {
        Self {
            down,
            runtime,
            silence: SILENCE.max(node_timeout.saturating_mul(TIMEOUTS_IN_A_ROW - 1)),
            timeouts: AtomicU32::new(0),
            first: Lock::new(Timestamp::ORIGIN),
            acquires: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
        }
    }

    pub(super) fn begin(liveness: &Arc<Self>, room: Room) -> Result<Unanswered, NodeError> {
        let (count, most) = liveness.room(room);
        // Counted before it is compared, so that of two at once only one takes the last place.
        if count.fetch_add(1, Ordering::AcqRel) >= most {
            count.fetch_sub(1, Ordering::AcqRel);
            // Once nothing more is sent, nothing times out any more.
            liveness.give_up_if_silent(liveness.runtime.now());
            return Err(NodeError::Overloaded);
        }
        Ok(Unanswered { liveness: Arc::clone(liveness), room })
    }

    const fn room(&self, room: Room) -> (&AtomicUsize, usize) {
        match room {
            Room::Acquires => (&self.acquires, MOST_ACQUIRES),
            Room::Others => (&self.others, MOST_OTHERS),
        }
    }

    /// A command got no reply while its caller waited.
    pub(super) fn timed_out(&self) {
        let now = self.runtime.now();
        // The first since the last reply begins the silence.
        if self.timeouts.fetch_add(1, Ordering::AcqRel) == 0 {
            *self.first.lock() = now;
        }
        self.give_up_if_silent(now);
    }

    fn give_up_if_silent(&self, now: Timestamp) {
        let first = *self.first.lock();
        if self.timeouts.load(Ordering::Acquire) >= TIMEOUTS_IN_A_ROW
            && now.saturating_since(first) >= self.silence
        {
            self.down.trip("several commands in a row got no reply within the node timeout");
        }
    }
}

/// A command without a reply yet.
pub(super) struct Unanswered {
    liveness: Arc<Liveness>,
    room: Room,
}

impl Unanswered {
    /// Its caller has stopped waiting.
    pub(super) fn timed_out(&self) {
        self.liveness.timed_out();
    }

    /// Its reply has come, or the connection has said that it is dead.
    pub(super) fn answered(self) {
        self.liveness.timeouts.store(0, Ordering::Relaxed);
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.liveness.room(self.room).0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[path = "liveness_test.rs"]
mod tests;
