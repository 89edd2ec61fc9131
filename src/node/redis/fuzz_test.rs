//! Goal: whatever a server, a proxy or another program writes, its reader ends, does not panic, and takes nothing for
//! something else than it is.
//!
//! Method: every reader here reads random values, drawn from the words of the protocol and from anything else. Accepted
//! values read the same when they are written again. `PROPTEST_CASES` says how many of each kind; URLs and settings are
//! tried in `tests/api`, variables of the environment in `builder/env.rs`.

use std::sync::{Arc, Mutex};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use redis::{PushInfo, PushKind, Value, VerbatimFormat};

use super::{
    address::Address,
    codec::{self, Answer, Looked},
    facts,
    liveness::Down,
    marker::Head,
    push::{self, Exchanges, Listener, Tracked},
};
use crate::{
    node::{Fleet, ServerFacts, Watcher},
    protocol::{ClientId, FencingToken, LineHint, NodeId, Note, Reply, Resource, Slots, Target},
};

const CLIENT: ClientId = ClientId::new([0xa0; 8]);

/// Words of scripts and servers, so that more than a reader's first check is reached.
const WORDS: [&str; 34] = [
    "77.1/abc/0/00000000",
    " ",
    "0000000000000200",
    "9007199254740991",
    "9007199254740992",
    "9999999999999999",
    "18446744073709551615",
    "-1",
    "0",
    "1",
    "7",
    "p",
    "r",
    "k",
    "o",
    "n",
    "s",
    "w",
    "a0a0a0a0a0a0a0a0",
    "~",
    "!",
    "003",
    "web-1",
    "shared by readers, see quorlock.",
    "quorlock:slots:",
    "quorlock:wake:",
    "quorlock:",
    "redis_version:",
    "valkey_version:",
    "server_name:valkey",
    "run_id:",
    "role:master",
    "\r\n",
    ":",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let word = proptest::sample::select(WORDS.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    let part = prop_oneof![6 => word, 2 => vec(any::<u8>(), 0..20), 1 => vec(b'0'..=b'9', 14..18)];
    vec(part, 0..8).prop_map(|parts| parts.concat())
}

fn text() -> impl Strategy<Value = String> {
    bytes().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn number() -> impl Strategy<Value = i64> {
    let near = |around: i64| (-3_i64..4).prop_map(move |by| around.saturating_add(by));
    prop_oneof![4 => -7_i64..9, 2 => near(1_795_170_000_123_456), 1 => near(1 << 53), 1 => near(i64::MAX), 1 => any::<i64>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => number().prop_map(Value::Int),
        6 => bytes().prop_map(Value::BulkString),
        1 => Just(Value::Nil),
        1 => Just(Value::Okay),
        1 => text().prop_map(Value::SimpleString),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => text().prop_map(|text| Value::VerbatimString { format: VerbatimFormat::Text, text }),
    ];
    leaf.prop_recursive(3, 40, 12, |inner| {
        prop_oneof![
            8 => vec(inner.clone(), 0..13).prop_map(Value::Array),
            1 => vec(inner.clone(), 0..4).prop_map(Value::Set),
            1 => vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

/// An answer that begins like one of a script.
fn answer() -> impl Strategy<Value = Value> {
    let told = (number(), number(), vec(value(), 0..11));
    let told = told.prop_map(|(code, clock, rest)| {
        Value::Array([vec![Value::Int(code), Value::Int(clock)], rest].concat())
    });
    prop_oneof![4 => told, 1 => value()]
}

#[track_caller]
fn holds<S: Strategy>(of: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: Clone,
{
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(3_000), failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(of, test) {
        panic!("{error}");
    }
}

/// The number that a grant tells is a token, and stands in the answer.
fn is_true(reply: &Reply, answer: &Value, asked: u64) -> Result<(), TestCaseError> {
    if let Reply::Granted(granted) = reply {
        let token = granted.token.map_or(asked, FencingToken::get);
        let told = i64::try_from(token).map(Value::Int).expect("a token");
        let is_told = matches!(answer, Value::Array(told_all) if told_all.contains(&told));
        prop_assert!(token == asked || is_told, "{reply:?} from {answer:?}");
        let yes = Some(&Value::Int(1));
        let says_yes = matches!(answer, Value::Array(told) if told.first() == yes);
        prop_assert!(says_yes || matches!(answer, Value::Int(clock) if *clock > 0), "{answer:?}");
    }
    Ok(())
}

#[test]
fn no_answer_of_a_script_is_taken_for_another_one() {
    let slots = Slots::new(b"", "s", 3).expect("a semaphore");
    let one = Target::from(Resource::new("r").expect("a name"));
    let any = Target::from(slots.clone());
    holds(&answer(), |reply| {
        let read = || Answer::read(reply.clone()).map(|(answer, _)| answer);
        let Ok(first) = read() else { return Ok(()) };
        if let Ok(acquired) = codec::acquired(read().expect("as before"), (&one, 0), 77) {
            is_true(&acquired.reply, &reply, 77)?;
            if let Some(head) = acquired.head.as_deref().and_then(Head::read) {
                prop_assert!(
                    acquired.head.as_deref().is_some_and(|text| text.starts_with(head.etag()))
                );
            }
        }
        if let Ok(picked) = codec::acquired(read().expect("as before"), (&any, 1), 77) {
            is_true(&picked.reply, &reply, 77)?;
            if let Reply::Granted(granted) = picked.reply {
                prop_assert!(
                    granted.slot.is_some_and(|slot| slots.slot(slot).is_some()),
                    "{reply:?}"
                );
            }
        }
        if let Ok(confirmed) = codec::confirmed(&first, FencingToken::new(9)) {
            is_true(&confirmed, &reply, 9)?;
        }
        for restored in [codec::restored(&first), codec::proclaimed(&first)].into_iter().flatten() {
            is_true(&restored, &reply, 0)?;
        }
        for lengths in [vec![1], vec![1, 2], vec![3, 1, 1]] {
            let count = lengths.len();
            if let Ok(all) = codec::extended(&first, lengths.into_iter()) {
                prop_assert_eq!(all.len(), count);
            }
        }
        let _ = codec::told_holder(&first);
        let _ = codec::admitted(&first);
        if let Ok(Looked::Marker(marker)) = codec::looked(&first) {
            let mark = marker.mark();
            if let Some(head) = marker.head_for(mark) {
                let text = head.text().to_vec();
                prop_assert!(marker.raised(&text).is_none_or(|raised| raised.mark() == mark));
            }
            prop_assert_eq!(marker.marker().mark(), mark);
        }
        Ok(())
    });
}

#[test]
fn a_value_of_any_type_is_a_denial_or_nothing() {
    holds(&(value(), value()), |(one, other)| {
        let _ = codec::acquired_classic(&one);
        let denial = codec::denial(Some(one.clone()), Some(&other));
        // By itself, or with the note of its holder.
        let told = match &one {
            Value::Array(told) => told.first(),
            one => Some(one),
        };
        let is_told =
            |holder: &[u8]| matches!(told, Some(Value::BulkString(text)) if text == holder);
        prop_assert!(denial.holder.is_none_or(|holder| is_told(&holder)));
        let _ = codec::released(&one);
        let _ = facts::setting(&one);
        let _ = facts::marker(&one);
        let _ = facts::time(&one);
        Ok(())
    });
}

#[test]
fn a_head_allows_no_hint_that_no_script_counts_to() {
    let most = FencingToken::MAX.get();
    for high_water in [most, most + 1, u64::MAX] {
        let head = Head::read(format!("etag {high_water:016} {:016}", 0).as_bytes()).unwrap();
        assert!(head.allows(most, 1) && !head.allows(most + 1, 1), "{high_water}");
    }
}

#[test]
fn a_note_and_a_head_read_as_they_were_written() {
    holds(&bytes(), |text| {
        if let Some(note) = Note::read(&text) {
            prop_assert_eq!(note.to_bytes(), text.clone());
            prop_assert_eq!(Note::read(&note.to_bytes()), Some(note));
        }
        if let Some(head) = Head::read(&text) {
            prop_assert_eq!(head.text(), &text[..]);
            prop_assert!(text.starts_with(head.etag()));
            prop_assert!(!head.allows(u64::MAX, u64::MAX));
        }
        Ok(())
    });
}

#[test]
fn what_info_says_is_read_or_unknown() {
    let line = (
        proptest::sample::select(vec![
            "redis_version",
            "valkey_version",
            "server_name",
            "run_id",
            "redis_mode",
            "server_mode",
            "role",
            "cluster_enabled",
            "maxmemory",
            "maxmemory_policy",
            "aof_last_write_status",
        ]),
        text(),
    );
    let line = line.prop_map(|(name, value)| format!("{name}:{value}\r\n"));
    holds(&vec(prop_oneof![4 => line, 1 => text()], 0..12), |lines| {
        let info = lines.concat();
        let mut facts = ServerFacts::default();
        facts::add_info(&mut facts, &info);
        for (name, fact) in [("role", &facts.role), ("maxmemory_policy", &facts.eviction)] {
            let told = [name, ":"].concat();
            let is_told = |fact: &Arc<str>| info.contains(&told) && info.contains(&**fact);
            prop_assert!(fact.as_ref().is_none_or(is_told));
        }
        Ok(())
    });
}

/// What a listener has told.
type Told = Arc<Mutex<Vec<(Resource, LineHint)>>>;

/// A message as the scripts write it, or nearly.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let letter = proptest::sample::select(b"nswkx".to_vec());
    let number = prop_oneof![
        proptest::sample::select(vec![&b"a0a0a0a0a0a0a0a0"[..], b"0000000000000200"])
            .prop_map(<[u8]>::to_vec),
        vec(any::<u8>(), 0..20)
    ];
    let parts = (letter, number, bytes());
    parts.prop_map(|(letter, number, rest)| [vec![letter], number, rest].concat())
}

fn listener() -> (Listener, Arc<Fleet>, Told) {
    let fleet = Arc::new(Fleet::default());
    let told = Told::default();
    let heard = Arc::clone(&told);
    fleet.on_line(move |_, resource, hint| {
        heard.lock().expect("no panic").push((resource.clone(), hint))
    });
    let listener = Listener {
        down: Arc::new(Down::default()),
        exchanges: Arc::new(Exchanges::default()),
        tracked: Arc::new(Tracked::default()),
        watcher: Watcher::new(NodeId::new(0), CLIENT, &fleet),
    };
    (listener, fleet, told)
}

#[test]
fn what_is_told_without_being_asked_is_a_hint_of_this_client_or_nothing() {
    let (listener, _fleet, told) = listener();
    let own = Value::BulkString(push::channel(CLIENT).into_bytes());
    let kinds = vec![
        PushKind::Invalidate,
        PushKind::PMessage,
        PushKind::Subscribe,
        PushKind::Other("x".to_owned()),
    ];
    let kind = prop_oneof![Just(PushKind::Message), proptest::sample::select(kinds)];
    let text = prop_oneof![3 => message(), 1 => bytes()];
    let message = (kind, any::<bool>(), vec(value(), 0..3), text);
    // How many of each have been told.
    let counts = Mutex::new([0; 4]);
    holds(&message, |(kind, is_own, data, text)| {
        let data = if is_own { vec![own.clone(), Value::BulkString(text)] } else { data };
        listener.handle(&PushInfo { kind: kind.clone(), data: data.clone() });
        let told = std::mem::take(&mut *told.lock().expect("no panic"));
        prop_assert!(told.is_empty() || kind == PushKind::Message && data.first() == Some(&own));
        for (resource, hint) in told {
            // The name of a resource stands at the end of its message.
            let Some(Value::BulkString(text)) = data.get(1) else {
                return Err(TestCaseError::fail("no text"));
            };
            prop_assert!(
                text.ends_with(resource.as_bytes()) && text.len() > resource.as_bytes().len()
            );
            let letter = text.first().copied();
            let (which, is_as_told) = match hint {
                LineHint::Next => (0, letter == Some(b'n')),
                LineHint::StandBy { head } => (1, text.get(1..17) == Some(&head.to_hex()[..])),
                LineHint::Wanted => (2, letter == Some(b'w')),
                LineHint::KeepsOut { .. } => (3, letter == Some(b'k')),
                LineHint::Alone => return Err(TestCaseError::fail("nobody says that")),
            };
            prop_assert!(is_as_told);
            counts.lock().expect("no panic")[which] += 1;
        }
        Ok(())
    });
    let counts = counts.into_inner().expect("no panic");
    assert!(counts.iter().all(|count| *count > 0), "told of each kind: {counts:?}");
}

#[test]
fn an_address_is_named_in_its_error_and_without_its_password() {
    let part = proptest::sample::select(vec![
        "redis",
        "rediss",
        "redis+unix",
        "unix",
        "://",
        ":",
        "//",
        "/",
        "@",
        "user",
        "host",
        "127.0.0.1",
        "[::1]",
        "6379",
        "0",
        "65536",
        "?",
        "protocol=resp3",
        "pass=hunter2xyz",
        "db=1",
        "#insecure",
        "%2C",
        "%",
        "hunter2xyz",
        " ",
        "é",
    ]);
    let url = vec(prop_oneof![8 => part.prop_map(str::to_owned), 1 => text()], 0..9);
    holds(&url.prop_map(|parts| parts.concat()), |url| {
        if let Err(error) = Address::check(&url) {
            let said = error.to_string();
            prop_assert!(!said.is_empty());
            // Everything before an `@` may be a password; a host of the same name is no secret.
            if let Some((before, host)) = url.rsplit_once('@')
                && !host.contains("hunter2xyz")
                && let Some((_, secret)) = before.rsplit_once(':')
                && secret == "hunter2xyz"
            {
                prop_assert!(!said.contains("hunter2xyz"), "{url:?}: {said}");
            }
        }
        Ok(())
    });
}
