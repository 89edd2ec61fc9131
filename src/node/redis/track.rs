//! Has a server report what becomes of another program's key.
//!
//! It decides nothing: where a report does not come, a poll sees it.

use futures::future::join;
use redis::Value;

use super::{codec, session::Session};
use crate::protocol::{LineHint, Resource};

/// Makes the server report when another program's key is gone or changed. Where it does not, the poll sees it.
pub(super) async fn track(session: &Session, resource: &Resource) {
    let lines = session.lines();
    if !lines.tracked().add(resource) {
        return;
    }
    // The server tracks what the command after the first one reads. If another thread sends one in between, the server
    // reports keys that nobody asked for.
    let (caching, read) = join(
        session.send(codec::track_next),
        session.send(|command| codec::first_byte(resource, command)),
    )
    .await;
    // A value may be empty; only `PTTL` says that the key is gone.
    let left = |command: &mut _| codec::remaining(resource, command);
    let is_gone = matches!(&read, Ok(Value::BulkString(byte)) if byte.is_empty())
        && matches!(session.send(left).await, Ok(Value::Int(-2)));
    let is_tracked = caching.is_ok() && read.is_ok() && !is_gone;
    if !is_tracked {
        lines.tracked().remove(resource);
    }
    if is_gone {
        lines.watcher().line(resource, LineHint::Next);
    }
}
