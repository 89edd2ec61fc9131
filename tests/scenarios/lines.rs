//! Goal: the line on a node lets in its first waiter, wakes the next, and is no more than advice: nothing that stands
//! in its place fails a command, or makes one slow.
//!
//! Method: the scripts, run by hand on a real server, with clients that hear or do not. The line of a node in memory does the
//! same over random commands (`src/node/alike_test`).

mod others;
mod read_answers;
mod releases;
mod several;
mod slots;
mod together;
mod together_answers;

use std::{sync::mpsc, thread};

use quorlock_harness::redis::{self, Value, from_redis_value};

use super::{
    MARKER, MS, SOON,
    scripts::{ETAG, Node, RESOURCE},
    texts::{ACQUIRE, LEAVE, RELEASE},
};

const LINE: &str = "quorlock:line:r";
const READERS: &str = "quorlock:readers:r";

/// Clients, in the order of their names.
const A: &str = "aaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbb";
const C: &str = "cccccccccccccccc";

/// What an acquire says of the line.
#[derive(Clone, Copy, Debug, Default)]
struct Says<'a> {
    client: &'a str,
    ticket: &'a str,
    skip: &'a str,
    /// Whether it wants more than one token.
    several: bool,
}

impl<'a> Says<'a> {
    fn stands(client: &'a str, ticket: &'a str) -> Self {
        Self { client, ticket, ..Self::default() }
    }

    fn named(client: &'a str) -> Self {
        Self { client, ..Self::default() }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Answer {
    Granted {
        /// Whether others wait.
        waiting: Option<bool>,
    },
    Held {
        before: i64,
        foreign: bool,
    },
    Behind(String),
    /// The answer of a node without a line.
    Plain,
}

fn owner(client: &str) -> String {
    client.repeat(2)
}

/// An acquire by a client, whose owner is its name twice.
fn acquire(node: &Node, name: &str, says: Says<'_>) -> Answer {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let hint = format!("{:016}", node.now_us());
    let count = if says.several { "-64" } else { "-1" };
    let own = [MARKER, "quorlock:counters", "quorlock:older", RESOURCE, LINE];
    let owner = owner(name);
    let mut args = vec!["EVAL", ACQUIRE, "5"];
    args.extend(own);
    args.extend([&*head, &owner, "10000", &hint, "0", count]);
    if !says.client.is_empty() {
        args.extend(["", says.client, says.ticket, says.skip]);
    }
    let answer = match node.server.run(&args) {
        Value::Array(answer) => answer,
        Value::Int(_) => return Answer::Granted { waiting: None },
        other => panic!("{other:?}"),
    };
    match &answer[..] {
        [Value::Int(1), _, _, _, Value::Int(others @ -1..=1), Value::Int(1)] => {
            Answer::Granted { waiting: (*others >= 0).then_some(*others == 1) }
        }
        [Value::Int(0), _, left, holder, Value::Int(0), line @ ..] => match (left, holder, line) {
            (_, _, [Value::Nil, Value::Int(before), Value::Int(foreign)]) => {
                Answer::Held { before: *before, foreign: *foreign == 1 }
            }
            (Value::Int(-2), Value::Nil, [first, _, Value::Int(0)]) => {
                Answer::Behind(from_redis_value(first.clone()).unwrap())
            }
            (_, _, []) => Answer::Plain,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn release(node: &Node, name: &str) {
    let released = node.server.run(&["EVAL", RELEASE, "2", RESOURCE, LINE, &owner(name)]);
    assert_eq!(released, Value::Int(1));
}

fn standing(node: &Node) -> Vec<String> {
    from_redis_value(node.server.run(&["ZRANGE", LINE, "0", "-1"])).unwrap()
}

/// A client that is connected, and hears its wakes, for as long as this lives.
struct Ear {
    heard: mpsc::Receiver<String>,
    url: String,
    channel: String,
}

impl Ear {
    fn of(node: &Node, client: &str) -> Self {
        let url = node.server.url();
        let channel = format!("quorlock:wake:{client}");
        let (send, heard) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let told = (url.clone(), channel.clone());
        thread::spawn(move || {
            let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
            let mut channels = connection.as_pubsub();
            channels.subscribe(channel).unwrap();
            channels.set_read_timeout(Some(50 * MS)).unwrap();
            ready.send(()).unwrap();
            // Until the test does not listen any more, or the server is gone.
            loop {
                match channels.get_message() {
                    Ok(message) => {
                        if send.send(message.get_payload().unwrap()).is_err() {
                            return;
                        }
                    }
                    Err(error) if error.is_timeout() => {}
                    Err(_) => return,
                }
            }
        });
        is_ready.recv().unwrap();
        Self { heard, url: told.0, channel: told.1 }
    }

    #[track_caller]
    fn hears(&self, message: &str) {
        assert_eq!(self.heard.recv_timeout(SOON).unwrap(), message);
    }

    #[track_caller]
    fn hears_nothing(&self) {
        // What was published before comes before this.
        let mut connection =
            redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap();
        redis::cmd("PUBLISH").arg(&self.channel).arg(".").exec(&mut connection).unwrap();
        self.hears(".");
    }
}

const ALONE: Answer = Answer::Granted { waiting: None };
const LAST: Answer = Answer::Granted { waiting: Some(false) };
const OTHERS: Answer = Answer::Granted { waiting: Some(true) };

#[test]
fn where_nobody_stands_an_acquire_is_answered_as_without_a_line() {
    let node = Node::admitted();
    assert_eq!(acquire(&node, A, Says::default()), ALONE);
    let held = Answer::Held { before: -1, foreign: false };
    assert_eq!(acquire(&node, B, Says::default()), held);
    release(&node, A);
    assert_eq!(acquire(&node, B, Says::named(B)), LAST);
    assert_eq!(standing(&node), [""; 0], "who only says its name leaves nothing");
}

#[test]
fn who_is_first_is_let_in_and_nobody_overtakes() {
    let node = Node::admitted();
    let (a, b, _c) = (Ear::of(&node, A), Ear::of(&node, B), Ear::of(&node, C));
    assert_eq!(acquire(&node, C, Says::default()), ALONE);
    let held = |before| Answer::Held { before, foreign: false };
    assert_eq!(acquire(&node, B, Says::stands(B, "200")), held(0));
    assert_eq!(acquire(&node, A, Says::stands(A, "100")), held(0), "its ticket is the earlier one");
    assert_eq!(acquire(&node, B, Says::stands(B, "200")), held(1));
    release(&node, C);
    a.hears("nr");
    b.hears(&format!("s{A}r"));
    let behind = || Answer::Behind(A.to_owned());
    for says in [Says::default(), Says::named(C), Says::stands(B, "200"), Says::stands(C, "300")] {
        assert_eq!(acquire(&node, C, says), behind());
    }
    assert_eq!(acquire(&node, A, Says::stands(A, "100")), OTHERS);
    assert_eq!(standing(&node), [B, C]);
    release(&node, A);
    assert_eq!(acquire(&node, B, Says::stands(B, "200")), OTHERS);
    assert_eq!(standing(&node), [C]);
}

#[test]
fn of_two_with_one_ticket_the_smaller_name_comes_first() {
    let node = Node::admitted();
    let _ears = [A, B].map(|client| Ear::of(&node, client));
    assert_eq!(acquire(&node, C, Says::default()), ALONE);
    for (client, before) in [(B, 0), (A, 0), (B, 1)] {
        let held = Answer::Held { before, foreign: false };
        assert_eq!(acquire(&node, client, Says::stands(client, "100")), held);
    }
    release(&node, C);
    assert_eq!(acquire(&node, B, Says::stands(B, "100")), Answer::Behind(A.to_owned()));
    assert_eq!(acquire(&node, A, Says::stands(A, "100")), OTHERS);
}

#[test]
fn whoever_is_not_heard_of_is_forgotten_and_the_next_is_woken_at_once() {
    let node = Node::admitted();
    let (b, c) = (Ear::of(&node, B), Ear::of(&node, C));
    assert_eq!(acquire(&node, "d", Says::default()), ALONE);
    for (client, ticket) in [(A, "100"), (B, "200"), ("0000000000000000", "300"), (C, "400")] {
        acquire(&node, client, Says::stands(client, ticket));
    }
    release(&node, "d");
    b.hears("nr");
    c.hears(&format!("s{B}r"));
    assert_eq!(standing(&node), [B, C]);
}

#[test]
fn who_finds_the_key_expired_and_is_not_first_wakes_the_first() {
    let node = Node::admitted();
    let (a, b) = (Ear::of(&node, A), Ear::of(&node, B));
    assert_eq!(acquire(&node, C, Says::default()), ALONE);
    acquire(&node, A, Says::stands(A, "100"));
    acquire(&node, B, Says::stands(B, "200"));
    node.expire();
    assert_eq!(acquire(&node, B, Says::stands(B, "200")), Answer::Behind(A.to_owned()));
    a.hears("nr");
    b.hears_nothing();
    assert_eq!(acquire(&node, C, Says::stands(C, "300")), Answer::Behind(A.to_owned()));
    a.hears_nothing();
    assert_eq!(acquire(&node, C, Says::stands(C, "300")), Answer::Behind(A.to_owned()));
    a.hears("nr");
    b.hears(&format!("s{A}r"));
}

#[test]
fn who_comes_anew_wakes_nobody_who_has_been_woken_but_those_who_have_missed_a_poll() {
    let node = Node::admitted();
    let (a, b) = (Ear::of(&node, A), Ear::of(&node, B));
    assert_eq!(acquire(&node, C, Says::default()), ALONE);
    for (client, ticket) in [(A, "100"), (B, "200")] {
        acquire(&node, client, Says::stands(client, ticket));
    }
    release(&node, C);
    a.hears("nr");
    b.hears(&format!("s{A}r"));
    let anew = [Says::default(), Says::named(C), Says::stands(C, "300")];
    for says in anew {
        assert_eq!(acquire(&node, C, says), Answer::Behind(A.to_owned()));
    }
    a.hears_nothing();
    b.hears_nothing();
    for says in anew {
        node.server.run(&["ZREM", LINE, C]);
        // Everybody polls within 1.5 s, and has then 2.5 s left at the least.
        node.server.run(&["PEXPIRE", LINE, "2399"]);
        assert_eq!(acquire(&node, C, says), Answer::Behind(A.to_owned()));
        a.hears("nr");
        b.hears(&format!("s{A}r"));
    }
    node.server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    node.server.run(&["ZREM", LINE, C]);
    node.server.run(&["PEXPIRE", LINE, "2399"]);
    assert_eq!(
        acquire(&node, C, Says::default()),
        Answer::Granted { waiting: Some(false) },
        "all have gone"
    );
}

#[test]
fn a_first_one_that_is_named_as_missing_is_dropped_and_comes_back_to_its_place() {
    let node = Node::admitted();
    let _ears = [A, B, C].map(|client| Ear::of(&node, client));
    for (client, ticket) in [(A, "100"), (B, "200"), (C, "300")] {
        node.server.run(&["ZADD", LINE, ticket, client]);
    }
    let named = |skip| Says { skip, ..Says::stands(C, "300") };
    assert_eq!(acquire(&node, C, named(B)), Answer::Behind(A.to_owned()), "it is not the first");
    assert_eq!(standing(&node), [A, B, C]);
    assert_eq!(acquire(&node, C, named(A)), Answer::Behind(B.to_owned()));
    assert_eq!(standing(&node), [B, C]);
    assert_eq!(acquire(&node, A, Says::stands(A, "100")), OTHERS);
}

#[test]
fn who_leaves_makes_room_for_the_next_and_takes_no_other_place_away() {
    let node = Node::admitted();
    let (b, c) = (Ear::of(&node, B), Ear::of(&node, C));
    for (client, ticket) in [(A, "100"), (B, "1795170000123456"), (C, "1795170000123457")] {
        node.server.run(&["ZADD", LINE, ticket, client]);
    }
    let leave = |client: &str, ticket: &str| {
        let left = node.server.run(&["EVAL", LEAVE, "2", RESOURCE, LINE, client, ticket]);
        assert_eq!(left, Value::Int(1));
    };
    leave(A, "99");
    leave("dddddddddddddddd", "100");
    assert_eq!(standing(&node), [A, B, C], "a place that was taken since");
    leave(A, "100");
    b.hears("nr");
    c.hears(&format!("s{B}r"));
    assert_eq!(acquire(&node, B, Says::stands(B, "1795170000123456")), OTHERS);
    leave(C, "1795170000123457");
    assert_eq!(standing(&node), [""; 0]);
    c.hears_nothing();
    for put in [&["SET", LINE, "x"][..], &["LPUSH", LINE, "x"]] {
        node.server.del(LINE);
        node.server.run(put);
        leave(A, "100");
    }
}

#[test]
fn a_holder_of_several_tokens_hears_of_those_who_come() {
    let node = Node::admitted();
    let a = Ear::of(&node, A);
    assert_eq!(acquire(&node, A, Says { several: true, ..Says::named(A) }), LAST);
    assert_eq!(standing(&node), [format!("!{A}")]);
    let ttl: i64 = from_redis_value(node.server.run(&["PTTL", LINE])).unwrap();
    assert!(ttl > 9_000, "as long as the key: {ttl} ms");
    let held = |before| Answer::Held { before, foreign: false };
    assert_eq!(acquire(&node, B, Says::named(B)), held(-1));
    assert_eq!(acquire(&node, B, Says::default()), held(-1));
    a.hears_nothing();
    assert_eq!(acquire(&node, B, Says::stands(B, "200")), held(0));
    a.hears("wr");
    assert_eq!(acquire(&node, C, Says::stands(C, "300")), held(1));
    a.hears("wr");
    assert_eq!(acquire(&node, C, Says::stands(C, "300")), held(1));
    a.hears_nothing();
    let ttl: i64 = from_redis_value(node.server.run(&["PTTL", LINE])).unwrap();
    assert!(ttl > 8_000, "those who come do not cut its life: {ttl} ms");
    release(&node, A);
    assert_eq!(standing(&node), [""; 0], "nobody but the holder has heard");
}

#[test]
fn a_line_lives_for_some_seconds_after_the_last_one_has_stood_in_it() {
    let node = Node::admitted();
    node.server.set(RESOURCE, "them", None);
    assert_eq!(
        acquire(&node, A, Says::stands(A, "100")),
        Answer::Held { before: 0, foreign: true },
        "it is not one of ours who has it"
    );
    let ttl: i64 = from_redis_value(node.server.run(&["PTTL", LINE])).unwrap();
    assert!((3_000..=4_000).contains(&ttl), "{ttl} ms");
}
