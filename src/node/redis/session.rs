//! A link whose server is known: which process and database it is, its clock, and how its errors read.
//!
//! It decides whether a reply may be believed: one that shows a clock that jumped is an error.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Cmd, ErrorKind, RedisError, Value};

use super::{
    link::{Link, Room},
    marker::CachedMarker,
    script::Script,
};
use crate::{
    node::{ClockOffset, NodeError},
    protocol::{NodeClock, Timestamp, lateness::LATE},
    runtime::Runtime,
};

/// What stands behind a connection.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) run_id: String,
    /// The number of the database. Two that are swapped keep their keys, and so their markers.
    pub(super) database: i64,
    /// The fleet that the node is configured for.
    pub(super) fleet: Arc<str>,
}

/// A checked connection to a known process.
pub(super) struct Session {
    link: Link,
    process: Process,
    runtime: Arc<dyn Runtime>,
    clock: Arc<Mutex<NodeClock>>,
    node_timeout: Duration,
    /// What its marker said when it was last read on this connection.
    known: Mutex<Option<Arc<CachedMarker>>>,
}

/// What a script that votes has answered.
pub(super) enum Answer {
    /// Granted, exactly as asked.
    AsAsked,
    /// Whatever else, in so many values.
    Told(Vec<Value>),
}

impl Answer {
    /// The values; none where it was granted as asked.
    pub(super) fn told(&self) -> &[Value] {
        match self {
            Self::AsAsked => &[],
            Self::Told(values) => values,
        }
    }
}

impl Session {
    pub(super) fn new(
        link: Link,
        process: Process,
        runtime: Arc<dyn Runtime>,
        clock: Arc<Mutex<NodeClock>>,
        node_timeout: Duration,
    ) -> Self {
        Self { link, process, runtime, clock, node_timeout, known: Mutex::default() }
    }

    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    pub(super) const fn process(&self) -> &Process {
        &self.process
    }

    /// Sends a plain command, which counts as an acquire, or as a part of one.
    pub(super) async fn send(&self, command: Cmd) -> Result<Value, NodeError> {
        self.link.send(Room::Acquires, command).await
    }

    /// `EVALSHA`, and `EVAL` where the server does not have the script: it forgets all of them in a
    /// restart.
    pub(super) async fn run(&self, script: &Script<'_>) -> Result<Value, NodeError> {
        let answer = match self.link.send(script.room(), script.evalsha()).await {
            Err(NodeError::Rejected { code, .. }) if &*code == "NOSCRIPT" => {
                self.link.send(script.room(), script.eval()).await
            }
            answer => answer,
        };
        answer.map_err(half_done)
    }

    /// Runs a script that answers with an array that has the node's clock in the second place, or with that
    /// clock alone. `sent` is our steady time, read before. The answer does not count where the clock was seen to
    /// jump since it was asked for, by this reply or by another one: it may be from before the jump.
    pub(super) async fn vote(
        &self,
        script: Script<'_>,
        sent: Timestamp,
    ) -> Result<Answer, NodeError> {
        let series = self.clock().series();
        let (answer, clock) = match self.run(&script).await? {
            Value::Array(told) => {
                let clock = told.get(1).cloned();
                (Answer::Told(told), clock)
            }
            clock @ Value::Int(_) => (Answer::AsAsked, Some(clock)),
            _ => return Err(NodeError::Unexpected { message: Arc::from("no array") }),
        };
        if let Some(Value::Int(node_us)) = clock
            && let Ok(node_us) = u64::try_from(node_us)
            && node_us > 0
        {
            // A jump begins a new series.
            let _ = self.clock().handle_reading(sent, self.now(), node_us);
        }
        if self.clock().series() == series { Ok(answer) } else { Err(NodeError::ClockJumped) }
    }

    /// Our steady time: one that may run ahead would make all nodes look as if they had jumped.
    pub(super) fn now(&self) -> Timestamp {
        self.runtime.steady()
    }

    /// What the marker said when it was last read.
    pub(super) fn known(&self) -> Option<Arc<CachedMarker>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The marker has been read.
    pub(super) fn learn(&self, known: Arc<CachedMarker>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    /// The node has told of its head.
    pub(super) fn raise(&self, head: &[u8]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(raised) = known.as_ref().and_then(|known| known.raised(head)) {
            *known = Some(Arc::new(raised));
        }
    }

    /// The era in which the node was last seen ready on this connection.
    pub(super) fn era(&self) -> Option<u64> {
        self.known()?.era()
    }

    /// Less than a million.
    pub(super) fn nonce(&self) -> u32 {
        let [a, b, c, d, ..] = self.runtime.random();
        u32::from_be_bytes([a, b, c, d]) % 1_000_000
    }

    /// How the node's clock stands to ours.
    pub(super) fn clock_offset(&self) -> Option<ClockOffset> {
        let node_us = self.clock().at(self.now())?;
        Some(ClockOffset::between(node_us, self.runtime.wall_us()))
    }

    /// The node's time at which a command sent at `now` has become useless, in microseconds.
    pub(super) fn latest(&self, now: Timestamp) -> Option<u64> {
        let until = now.saturating_add(self.node_timeout).saturating_add(LATE);
        self.clock().at_most(until)
    }

    /// The same for a command that has also become useless at `until`, by the time that leases are counted in.
    pub(super) fn latest_until(&self, now: Timestamp, until: Timestamp) -> Option<u64> {
        let left = until.saturating_since(self.runtime.now());
        let limit = self.node_timeout.saturating_add(LATE).min(left);
        self.clock().at_most(now.saturating_add(limit))
    }

    fn clock(&self) -> MutexGuard<'_, NodeClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error from within a script may come after its first write.
fn half_done(error: NodeError) -> NodeError {
    match error {
        NodeError::Rejected { code, message, .. } => {
            // The first thing that a script does is to read the marker, which may be of another type.
            let before_any_write =
                ["NOSCRIPT", "WRONGTYPE", "OOM", "READONLY", "MISCONF", "LOADING", "BUSY"];
            let refused = &*code == "NOPERM" && !message.contains("script");
            let sent = !before_any_write.contains(&&*code) && !refused;
            NodeError::Rejected { sent, code, message }
        }
        other => other,
    }
}

/// What an error of the client library says about the command: certainly not executed, or unknown.
pub(super) fn classify(error: &RedisError) -> NodeError {
    let text = || Arc::<str>::from(error.to_string());
    let rejected = |code: &str| NodeError::Rejected {
        sent: false,
        code: Arc::from(code),
        message: Arc::from(error.detail().unwrap_or_default()),
    };
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => rejected(error.code().unwrap_or("ERR")),
        ErrorKind::AuthenticationFailed => rejected("WRONGPASS"),
        ErrorKind::Io => NodeError::ConnectionLost { reason: text() },
        _ => NodeError::Unexpected { message: text() },
    }
}
