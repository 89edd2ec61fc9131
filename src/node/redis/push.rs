//! What a server, or the client library, tells on a connection without having been asked.
//!
//! It decides what each kind of such a message means. It is called by the task that reads the connection, and must
//! return at once. A message keeps its place among the replies of its connection; it may take a vote away, and no vote
//! and no deadline may rest on one.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use super::signs::Down;

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

/// Takes one message of the connection whose end `down` says.
pub(super) fn handle(push: &PushInfo, down: &Down, exchanges: &Exchanges) {
    match push.kind {
        // From the library: the connection is closed. Without this it would be noticed at the next command.
        PushKind::Disconnection => {
            down.trip("the server closed the connection, or the network did");
        }
        // No key is tracked (`check` says so to the server), but it tells all the same when it drops all of them.
        PushKind::Invalidate if push.data == [Value::Nil] => exchanges.add(),
        // Messages and confirmations of channels, and keys that have changed. Nothing is subscribed to and no key is
        // tracked, so these are not meant for us.
        PushKind::Message
        | PushKind::PMessage
        | PushKind::SMessage
        | PushKind::Subscribe
        | PushKind::PSubscribe
        | PushKind::SSubscribe
        | PushKind::Unsubscribe
        | PushKind::PUnsubscribe
        | PushKind::SUnsubscribe
        | PushKind::Invalidate => {}
        // Of a later server, or a later library.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_the_connection_ends_it() {
        let (down, exchanges) = (Down::default(), Exchanges::default());
        for kind in [
            PushKind::Message,
            PushKind::Subscribe,
            PushKind::SUnsubscribe,
            PushKind::Invalidate,
            PushKind::Other("disconnection".to_owned()),
        ] {
            handle(&PushInfo { kind, data: Vec::new() }, &down, &exchanges);
            assert!(!down.is_down());
        }
        handle(&PushInfo { kind: PushKind::Disconnection, data: Vec::new() }, &down, &exchanges);
        assert!(down.is_down());
        assert_eq!(exchanges.count(), 0);
    }

    #[test]
    fn only_the_loss_of_all_keys_is_an_exchange() {
        let (down, exchanges) = (Down::default(), Exchanges::default());
        let key = Value::Array(vec![Value::BulkString(b"r".to_vec())]);
        handle(&PushInfo { kind: PushKind::Invalidate, data: vec![key] }, &down, &exchanges);
        assert_eq!(exchanges.count(), 0);
        handle(&PushInfo { kind: PushKind::Invalidate, data: vec![Value::Nil] }, &down, &exchanges);
        assert_eq!(exchanges.count(), 1);
        assert!(!down.is_down());
    }
}
