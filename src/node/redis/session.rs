//! A link whose server is known: its identity, its clock, and how its errors read.
//!
//! It decides whether a reply may be believed: one that shows a clock that jumped is an error.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{Cmd, ErrorKind, RedisError, Value};

use super::{link::Link, script::Script};
use crate::{
    node::{ClockOffset, NodeError},
    protocol::{NodeClock, Timestamp},
    runtime::Runtime,
};

/// An acquire that arrives this much later than its round lasts is refused by the node: beyond what the
/// reading of its clock may be wrong by.
const LATE: Duration = Duration::from_millis(100);

/// A checked connection to a known process.
pub(super) struct Session {
    link: Link,
    run_id: String,
    runtime: Arc<dyn Runtime>,
    clock: Arc<Mutex<NodeClock>>,
    node_timeout: Duration,
}

impl Session {
    pub(super) const fn new(
        link: Link,
        run_id: String,
        runtime: Arc<dyn Runtime>,
        clock: Arc<Mutex<NodeClock>>,
        node_timeout: Duration,
    ) -> Self {
        Self { link, run_id, runtime, clock, node_timeout }
    }

    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, NodeError> {
        self.link.send(command).await
    }

    /// `EVALSHA`, and `EVAL` where the server does not have the script: it forgets all of them in a
    /// restart.
    pub(super) async fn run(&self, script: &Script<'_>) -> Result<Value, NodeError> {
        let answer = match self.link.send(&script.evalsha()).await {
            Err(NodeError::Rejected { code, .. }) if &*code == "NOSCRIPT" => {
                self.link.send(&script.eval()).await
            }
            answer => answer,
        };
        answer.map_err(half_done)
    }

    /// Runs a script whose answer is an array with the node's clock in the second place.
    pub(super) async fn vote(&self, script: Script<'_>) -> Result<Vec<Value>, NodeError> {
        let sent = self.runtime.now();
        let Value::Array(answer) = self.run(&script).await? else {
            return Err(NodeError::Unexpected { message: Arc::from("no array") });
        };
        if let Some(Value::Int(node_us)) = answer.get(1)
            && let Ok(node_us) = u64::try_from(*node_us)
            && node_us > 0
            && !self.clock().handle_reading(sent, self.runtime.now(), node_us)
        {
            return Err(NodeError::ClockJumped);
        }
        Ok(answer)
    }

    /// How the node's clock stands to ours.
    pub(super) fn clock_offset(&self) -> Option<ClockOffset> {
        let node_us = self.clock().at(self.runtime.now())?;
        Some(ClockOffset::between(node_us, self.runtime.wall_us()))
    }

    /// The node's time at which a command sent now has become useless, in microseconds.
    pub(super) fn latest(&self) -> Option<u64> {
        let until: Timestamp =
            self.runtime.now().saturating_add(self.node_timeout).saturating_add(LATE);
        self.clock().at(until)
    }

    fn clock(&self) -> std::sync::MutexGuard<'_, NodeClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error from within a script may come after its first write.
fn half_done(error: NodeError) -> NodeError {
    match error {
        NodeError::Rejected { code, message, .. } => {
            let before_any_write =
                ["NOSCRIPT", "NOPERM", "OOM", "READONLY", "MISCONF", "LOADING", "BUSY"];
            NodeError::Rejected { sent: !before_any_write.contains(&&*code), code, message }
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
