//! One connection that has been checked, and the moment at which it stops being usable.
//!
//! It decides when a connection is given up: when it is known to be dead, or after several timeouts in a
//! row. It never replaces itself; that is the supervisor's work.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use redis::{Cmd, Value, aio::MultiplexedConnection};
use tokio::sync::Notify;

use super::session;
use crate::node::NodeError;

/// After this many timeouts in a row, with no reply in between, a connection is given up: neither TCP
/// keepalive nor the kernel sees a server that is stopped.
const TIMEOUTS_IN_A_ROW: u32 = 3;

/// The most commands that may be unanswered on one connection, and the room for them in its queue. A command
/// never waits for room there: one that did could be overtaken by the release that undoes it.
pub(super) const MOST_UNANSWERED: usize = 4096;

/// Says that a connection has ended, to whoever asks and to the supervisor.
#[derive(Default)]
pub(super) struct Down {
    down: AtomicBool,
    reason: Mutex<Option<Arc<str>>>,
    notify: Notify,
}

impl Down {
    pub(super) fn trip(&self, reason: &str) {
        if !self.down.swap(true, Ordering::AcqRel) {
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::from(reason));
            self.notify.notify_one();
        }
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire)
    }

    /// Ends when the connection has ended. For one waiter only.
    pub(super) async fn wait(&self) -> Arc<str> {
        while !self.is_down() {
            self.notify.notified().await;
        }
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reason.unwrap_or_else(|| Arc::from("the connection has ended"))
    }
}

/// A connection in use.
pub(super) struct Link {
    connection: MultiplexedConnection,
    down: Arc<Down>,
    timeouts: AtomicU32,
    unanswered: AtomicUsize,
}

impl Link {
    pub(super) const fn new(connection: MultiplexedConnection, down: Arc<Down>) -> Self {
        Self { connection, down, timeouts: AtomicU32::new(0), unanswered: AtomicUsize::new(0) }
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.is_down()
    }

    /// Ends it, because what stands behind it must not be used any more.
    pub(super) fn give_up(&self, reason: &str) {
        self.down.trip(reason);
    }

    pub(super) async fn ended(&self) -> Arc<str> {
        self.down.wait().await
    }

    /// Sends one command, once, and waits for its reply. A caller whose time is up drops the future, which
    /// counts as a timeout.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, NodeError> {
        let unanswered = Unanswered::begin(self)?;
        let mut connection = self.connection.clone();
        let result = connection.send_packed_command(command).await;
        unanswered.answered();
        // A raw reply carries the server's errors as values.
        result.and_then(Value::extract_error).map_err(|error| {
            let error = session::classify(&error);
            match &error {
                NodeError::ConnectionLost { reason } => self.down.trip(reason),
                // The connection stays when a master becomes a replica. A new one is checked.
                NodeError::Rejected { code, .. } if &**code == "READONLY" => {
                    self.down.trip("it has become a replica");
                }
                _ => {}
            }
            error
        })
    }
}

/// A command without a reply yet.
struct Unanswered<'a> {
    link: &'a Link,
}

impl<'a> Unanswered<'a> {
    fn begin(link: &'a Link) -> Result<Self, NodeError> {
        if link.unanswered.fetch_add(1, Ordering::AcqRel) >= MOST_UNANSWERED {
            link.unanswered.fetch_sub(1, Ordering::AcqRel);
            return Err(NodeError::Overloaded);
        }
        Ok(Self { link })
    }

    fn answered(self) {
        self.link.unanswered.fetch_sub(1, Ordering::AcqRel);
        self.link.timeouts.store(0, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.link.unanswered.fetch_sub(1, Ordering::AcqRel);
        let timeouts = self.link.timeouts.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if timeouts >= TIMEOUTS_IN_A_ROW {
            self.link.down.trip("several commands in a row got no reply within the node timeout");
        }
    }
}
