//! Messages that a server, or the client library, sends on a connection unasked.
//!
//! It decides what each kind of message means. The task that reads the connection calls it, so it must return at once.
//! A message keeps its place among the replies of its connection. It may take a vote away, but no vote and no deadline
//! may rest on it. Anybody may have sent what comes by a channel.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use super::{liveness::Down, script::WAKE};
use crate::{
    lock::Lock,
    node::Watcher,
    protocol::{ClientId, LineHint, Resource, Ticket},
};

/// How many keys of other programs are tracked on one connection. A waiter for another one sees its end at its next
/// poll.
const MOST_TRACKED: usize = 1024;

/// How often a server has said, on one connection, that all its data was dropped or exchanged.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    count: AtomicU64,
    changed: Notify,
}

impl Exchanges {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// Ends when there has been one more. For one waiter only.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// The keys whose change the server is to report on one connection, once each.
#[derive(Debug, Default)]
pub(super) struct Tracked(Lock<HashSet<Resource>>);

impl Tracked {
    /// Whether the server has to be told to track it: it was not tracked yet, and there is room for one more.
    pub(super) fn add(&self, resource: &Resource) -> bool {
        let mut tracked = self.0.lock();
        tracked.len() < MOST_TRACKED && tracked.insert(resource.clone())
    }

    /// Whether it was tracked, which ends here.
    pub(super) fn remove(&self, resource: &Resource) -> bool {
        self.0.lock().remove(resource)
    }
}

/// Hears what is told on one connection.
pub(super) struct Listener {
    /// Says when the connection has ended.
    pub(super) down: Arc<Down>,
    pub(super) exchanges: Arc<Exchanges>,
    pub(super) tracked: Arc<Tracked>,
    /// Hears of lines.
    pub(super) watcher: Watcher,
}

/// The channel on which a client is told of lines.
pub(super) fn channel(client: ClientId) -> String {
    format!("{WAKE}{client}")
}

impl Listener {
    /// Takes one message.
    pub(super) fn handle(&self, push: &PushInfo) {
        match push.kind {
            // From the library: the connection is closed. Without this it would be noticed at the next command.
            PushKind::Disconnection => {
                self.down.trip("the server closed the connection, or the network did");
            }
            // `check` makes the server report when it drops all its keys.
            PushKind::Invalidate if push.data == [Value::Nil] => self.exchanges.add(),
            PushKind::Invalidate => self.handle_changed(&push.data),
            PushKind::Message => self.handle_message(&push.data),
            // Confirmations, and messages of channels that nothing here subscribes to.
            PushKind::PMessage
            | PushKind::SMessage
            | PushKind::Subscribe
            | PushKind::PSubscribe
            | PushKind::SSubscribe
            | PushKind::Unsubscribe
            | PushKind::PUnsubscribe
            | PushKind::SUnsubscribe => {}
            // Of a later server, or a later library.
            _ => {}
        }
    }

    /// A tracked key is gone or changed.
    fn handle_changed(&self, data: &[Value]) {
        let [Value::Array(keys)] = data else { return };
        for key in keys {
            let Value::BulkString(key) = key else { continue };
            if let Ok(resource) = Resource::new(key)
                && self.tracked.remove(&resource)
            {
                self.watcher.line(&resource, LineHint::Next);
            }
        }
    }

    fn handle_message(&self, data: &[Value]) {
        let [Value::BulkString(channel), Value::BulkString(message)] = data else { return };
        let client = channel.strip_prefix(WAKE.as_bytes()).and_then(ClientId::from_hex);
        if client != Some(self.watcher.client()) {
            return;
        }
        if let Some((resource, hint)) = read(message) {
            self.watcher.line(&resource, hint);
        }
    }
}

/// In sixteen digits.
fn read_ticket(digits: &[u8]) -> Option<Ticket> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number)?;
    digits.parse().ok().map(Ticket::new)
}

/// Reads a message of the scripts: a letter, then the first client in the line or this client's own ticket there where
/// the letter says so, then the resource.
fn read(message: &[u8]) -> Option<(Resource, LineHint)> {
    let (letter, rest) = message.split_first()?;
    let (hint, name) = match letter {
        b'n' => (LineHint::Next, rest),
        b's' => {
            let (head, name) = rest.split_at_checked(16)?;
            (LineHint::StandBy { head: ClientId::from_hex(head)? }, name)
        }
        b'w' => (LineHint::Wanted, rest),
        b'k' => {
            let (ticket, name) = rest.split_at_checked(16)?;
            (LineHint::KeepsOut { ticket: read_ticket(ticket)? }, name)
        }
        _ => return None,
    };
    // A name that is too long is refused.
    Some((Resource::of_message(name).ok()?, hint))
}

#[cfg(test)]
#[path = "push_test.rs"]
mod tests;
