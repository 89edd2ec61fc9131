//! Every kind of message, and messages that others may have sent.

use super::*;
use crate::{
    node::Fleet,
    protocol::{NodeId, Slots},
};

const CLIENT: ClientId = ClientId::new([0xab; 8]);

/// What a listener has told.
#[derive(Default)]
struct Heard {
    listener: Option<Listener>,
    fleet: Arc<Fleet>,
    hints: Arc<Lock<Vec<(Resource, LineHint)>>>,
}

impl Heard {
    fn new() -> Self {
        let mut heard = Self::default();
        let hints = Arc::clone(&heard.hints);
        heard.fleet.on_line(move |_, resource, hint| hints.lock().push((resource.clone(), hint)));
        heard.listener = Some(Listener {
            down: Arc::default(),
            exchanges: Arc::default(),
            tracked: Arc::default(),
            watcher: Watcher::new(NodeId::new(0), CLIENT, &heard.fleet),
        });
        heard
    }

    fn listener(&self) -> &Listener {
        self.listener.as_ref().unwrap()
    }

    fn tell(&self, kind: PushKind, data: Vec<Value>) {
        self.listener().handle(&PushInfo { kind, data });
    }

    fn message(&self, channel: &[u8], message: &[u8]) {
        let data = [channel, message].map(|bytes| Value::BulkString(bytes.to_vec()));
        self.tell(PushKind::Message, data.to_vec());
    }

    fn hints(&self) -> Vec<(Resource, LineHint)> {
        std::mem::take(&mut *self.hints.lock())
    }
}

fn resource(name: &[u8]) -> Resource {
    Resource::new(name).unwrap()
}

#[test]
fn only_the_end_of_the_connection_ends_it() {
    let heard = Heard::new();
    for kind in [
        PushKind::Message,
        PushKind::Subscribe,
        PushKind::SUnsubscribe,
        PushKind::Invalidate,
        PushKind::Other("disconnection".to_owned()),
    ] {
        heard.tell(kind, Vec::new());
        assert!(!heard.listener().down.is_down());
    }
    heard.tell(PushKind::Disconnection, Vec::new());
    assert!(heard.listener().down.is_down());
    assert_eq!(heard.listener().exchanges.count(), 0);
}

#[test]
fn only_the_loss_of_all_keys_is_an_exchange() {
    let heard = Heard::new();
    let key = Value::Array(vec![Value::BulkString(b"r".to_vec())]);
    heard.tell(PushKind::Invalidate, vec![key]);
    assert_eq!(heard.listener().exchanges.count(), 0);
    heard.tell(PushKind::Invalidate, vec![Value::Nil]);
    assert_eq!(heard.listener().exchanges.count(), 1);
    assert!(!heard.listener().down.is_down());
}

#[test]
fn what_the_scripts_say_on_the_channel_of_this_client_is_told() {
    let heard = Heard::new();
    let mine = channel(CLIENT);
    assert_eq!(mine, "quorlock:wake:abababababababab");
    let head = ClientId::new([1; 8]);
    for (message, hint) in [
        (&b"nr\xff"[..], LineHint::Next),
        (b"s0101010101010101r\xff", LineHint::StandBy { head }),
        (b"wr\xff", LineHint::Wanted),
        (b"k0000000000000077r\xff", LineHint::KeepsOut { ticket: Ticket::new(77) }),
        (b"k9999999999999999r\xff", LineHint::KeepsOut { ticket: Ticket::MAX }),
    ] {
        heard.message(mine.as_bytes(), message);
        assert_eq!(heard.hints(), [(resource(b"r\xff"), hint)]);
    }
    heard.message(mine.as_bytes(), b"nquorlock:slots:s");
    let slots = Slots::new(b"", "s", 2).unwrap();
    assert_eq!(heard.hints(), [(slots.line().clone(), LineHint::Next)]);
}

#[test]
fn whatever_else_is_said_there_is_nothing() {
    let heard = Heard::new();
    let mine = channel(CLIENT);
    let long = [b"n".as_slice(), &vec![b'x'; Resource::MAX_BYTES + 1]].concat();
    for message in [
        &b""[..],
        b"n",
        b"w",
        b"x",
        b"xr",
        b"s",
        b"sr",
        b"s0101010101010101",
        b"s01010101010101ABr",
        b"k",
        b"k000000000000007",
        b"k0000000000000077",
        b"k000000000000-077r",
        b"k+000000000000077r",
        b"\xff\xff",
        b"nquorlock:node",
        b"nquorlock:slots:",
        b"nquorlock:slots:quorlock:node",
        &long,
    ] {
        heard.message(mine.as_bytes(), message);
    }
    for channel in [&b""[..], b"quorlock:wake:", b"quorlock:wake:0101010101010101", b"r"] {
        heard.message(channel, b"nr");
    }
    let text = || Value::BulkString(b"nr".to_vec());
    let mine = || Value::BulkString(mine.clone().into_bytes());
    for data in [vec![], vec![mine()], vec![mine(), text(), text()], vec![mine(), Value::Nil]] {
        heard.tell(PushKind::Message, data);
    }
    heard.tell(PushKind::PMessage, vec![mine(), text()]);
    assert_eq!(heard.hints(), []);
}

#[test]
fn a_key_is_told_of_once_where_it_was_tracked() {
    let heard = Heard::new();
    let gone = |names: &[&[u8]]| {
        let keys = names.iter().map(|name| Value::BulkString(name.to_vec())).collect();
        heard.tell(PushKind::Invalidate, vec![Value::Array(keys)]);
        heard.hints()
    };
    assert_eq!(gone(&[b"r"]), [], "nobody asked for it");
    let tracked = &heard.listener().tracked;
    assert!(tracked.add(&resource(b"r")) && !tracked.add(&resource(b"r")));
    assert_eq!(gone(&[b"", b"other", b"r", b"quorlock:node"]), [(resource(b"r"), LineHint::Next)]);
    assert_eq!(gone(&[b"r"]), [], "it is not tracked any more");
    assert!((0..MOST_TRACKED).all(|n| tracked.add(&resource(n.to_string().as_bytes()))));
    assert!(!tracked.add(&resource(b"one more")));
    heard.tell(PushKind::Invalidate, vec![Value::Int(1)]);
    heard.tell(PushKind::Invalidate, vec![Value::Array(vec![Value::Nil])]);
    assert_eq!(heard.hints(), []);
}
