//! What a server, or the client library, tells on a connection without having been asked.
//!
//! It decides what each kind of such a message means. It is called by the task that reads the connection, and must
//! return at once. A message may be lost or made up like any other: no vote and no deadline may rest on one.

use redis::{PushInfo, PushKind};

use super::signs::Down;

/// Takes one message of the connection whose end `down` says.
pub(super) fn handle(push: &PushInfo, down: &Down) {
    match push.kind {
        // From the library: the connection is closed. Without this it would be noticed at the next command.
        PushKind::Disconnection => {
            down.trip("the server closed the connection, or the network did");
        }
        // Messages and confirmations of channels, and keys that have changed. Nothing is subscribed to and nothing is
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
        let down = Down::default();
        for kind in [
            PushKind::Message,
            PushKind::Subscribe,
            PushKind::SUnsubscribe,
            PushKind::Invalidate,
            PushKind::Other("disconnection".to_owned()),
        ] {
            handle(&PushInfo { kind, data: Vec::new() }, &down);
            assert!(!down.is_down());
        }
        handle(&PushInfo { kind: PushKind::Disconnection, data: Vec::new() }, &down);
        assert!(down.is_down());
    }
}
