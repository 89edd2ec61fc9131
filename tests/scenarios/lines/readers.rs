//! The same with readers: random acquires of those who write and those who read, releases and leaves, each of them done to
//! the scripts and to `NodeLine`. They must let in the same, have the same clients in the same order, and tell the same.

use std::time::Duration;

use quorlock::protocol::{
    ClientId, LineHint, LineNews, NodeLine, ReadAccess, Stand, Ticket, Timestamp,
};
use quorlock_harness::redis::{Value, from_redis_value};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IteratorRandom};

use super::{Answer, Ear, LINE, Says, acquire, owner, release, standing};
use crate::{
    MARKER, MS,
    scripts::{ETAG, IDENTITY, Node, RESOURCE},
    texts::{ACQUIRE_READ, EXTEND_LOWERED, LEAVE, RELEASE_READ},
};

pub(super) const READERS: &str = "quorlock:readers:r";

const D: &str = "dddddddddddddddd";
const ALL: [&str; 4] = [super::A, super::B, super::C, D];
/// Of the four this one is not connected.
const DEAF: &str = D;

/// What a read is answered.
fn read(node: &Node, name: &str, says: Says<'_>) -> Answer {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let hint = format!("{:016}", node.now_us());
    let own = [MARKER, "quorlock:counters", "quorlock:older", RESOURCE, READERS, LINE];
    let owner = owner(name);
    let mut args = vec!["EVAL", ACQUIRE_READ, "6"];
    args.extend(own);
    args.extend([&*head, &owner, "10000", &hint, "0", "-1"]);
    if !says.client.is_empty() {
        args.extend(["", says.client, says.ticket, says.skip]);
    }
    let Value::Array(answer) = node.server.run(&args) else { panic!("no answer") };
    match &answer[..] {
        [Value::Int(1), _, _, _, Value::Int(-1), Value::Int(1)] => {
            Answer::Granted { waiting: None }
        }
        [Value::Int(0), _, left, holder, Value::Int(0), line @ ..] => match (left, holder, line) {
            (_, _, [Value::Nil, Value::Int(before), Value::Int(0)]) => {
                Answer::Held { before: *before, foreign: false }
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

/// The line of production in memory, and who has the key beside it.
#[derive(Default)]
struct Memory {
    line: NodeLine,
    writer: Option<&'static str>,
    readers: Vec<&'static str>,
    told: Vec<(ClientId, String)>,
}

fn client(name: &str) -> ClientId {
    ClientId::from_hex(name.as_bytes()).unwrap()
}

fn hears(id: ClientId) -> bool {
    client(DEAF) != id
}

fn stand(says: Says<'_>) -> Option<Stand> {
    (!says.client.is_empty()).then(|| Stand {
        client: client(says.client),
        ticket: says.ticket.parse().ok().map(Ticket::new),
        skip: ClientId::from_hex(says.skip.as_bytes()),
    })
}

impl Memory {
    fn access(&self) -> ReadAccess {
        match (self.writer, self.readers.is_empty()) {
            (Some(_), _) => ReadAccess::Held,
            (None, false) => ReadAccess::Shared,
            (None, true) => ReadAccess::Free,
        }
    }

    fn tell(&mut self, told: Vec<(ClientId, LineHint)>) {
        self.told.extend(told.into_iter().filter_map(|(id, hint)| {
            let message = match hint {
                LineHint::Next => format!("n{RESOURCE}"),
                LineHint::StandBy { head } => format!("s{head}{RESOURCE}"),
                LineHint::Wanted => format!("w{RESOURCE}"),
                LineHint::KeepsOut { ticket } => format!("k{:016}{RESOURCE}", ticket.get()),
                _ => return None,
            };
            Some((id, message))
        }));
    }

    fn write(&mut self, name: &'static str, says: Says<'_>, now: Timestamp) -> Answer {
        let stand = stand(says);
        let mut news = LineNews::new(&hears);
        let is_free = self.access() == ReadAccess::Free;
        let entered = self.line.enter(stand, is_free, now, &mut news);
        let answer = if let Some(first) = entered.first {
            self.line.deny(&entered, now, &mut news);
            Answer::Behind(first.to_string())
        } else if !is_free {
            let before = self.line.deny(&entered, now, &mut news).map_or(-1, i64::from);
            Answer::Held { before, foreign: false }
        } else {
            self.writer = Some(name);
            // What is said of others is compared where there are no readers.
            let mut answer = LineNews::new(&hears);
            self.line.grant(&entered, 1, Duration::from_secs(10), now, &mut answer);
            Answer::Granted { waiting: None }
        };
        self.tell(news.into_told());
        answer
    }

    fn read(&mut self, name: &'static str, says: Says<'_>, now: Timestamp) -> Answer {
        let (stand, access) = (stand(says), self.access());
        let mut news = LineNews::new(&hears);
        let entered = self.line.enter_to_read(stand, access, now, &mut news);
        let answer = if access == ReadAccess::Held || entered.first.is_some() {
            let before = self.line.deny(&entered, now, &mut news).map_or(-1, i64::from);
            match (access, entered.first) {
                (ReadAccess::Free, Some(first)) => Answer::Behind(first.to_string()),
                _ => Answer::Held { before, foreign: false },
            }
        } else {
            self.readers.retain(|other| *other != name);
            self.readers.push(name);
            self.line.grant(&entered, 1, Duration::from_secs(10), now, &mut news);
            Answer::Granted { waiting: None }
        };
        self.tell(news.into_told());
        answer
    }

    fn free(&mut self, now: Timestamp) {
        let mut news = LineNews::new(&hears);
        self.line.release(now, &mut news);
        self.tell(news.into_told());
    }
}

/// Without what is said of others to a writer, or by a node where nobody has a line.
fn alike(answer: Answer) -> Answer {
    match answer {
        Answer::Granted { .. } => Answer::Granted { waiting: None },
        Answer::Plain => Answer::Held { before: -1, foreign: false },
        other => other,
    }
}

#[test]
fn a_line_in_memory_does_what_the_scripts_do_with_readers() {
    for seed in 0..6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let (node, mut memory) = (Node::admitted(), Memory::default());
        let ears = ALL.map(|name| (name != DEAF).then(|| Ear::of(&node, name)));
        let (mut reads, mut writes, mut shared, mut lowered) = (0, 0, 0, 0);
        for step in 0..500 {
            // No line lives for as long as it is silent here.
            let now = Timestamp::from_origin(MS * step);
            let name = ALL.into_iter().choose(&mut rng).unwrap();
            let ticket = rng.random_range(1..6u64);
            let text = ticket.to_string();
            let kind = rng.random_range(0..16);
            let what = if kind >= 12 && memory.writer.is_some() {
                // It goes on as a reader.
                let writer = memory.writer.take().unwrap();
                let own = [MARKER, "quorlock:counters", "quorlock:older", RESOURCE, READERS, LINE];
                let by = owner(writer);
                let run =
                    [&["EVAL", EXTEND_LOWERED, "6"][..], &own, &[IDENTITY, &by, "10000"]].concat();
                let Value::Array(answer) = node.server.run(&run) else { panic!("no answer") };
                assert_eq!(answer[2], Value::Int(1), "seed {seed}, step {step}");
                memory.readers.push(writer);
                let mut news = LineNews::new(&hears);
                memory.line.lower(now, &mut news);
                memory.tell(news.into_told());
                lowered += 1;
                format!("{writer} reads on")
            } else if kind <= 3 && memory.writer.is_some() {
                let writer = memory.writer.take().unwrap();
                release(&node, writer);
                memory.free(now);
                format!("release by {writer}")
            } else if kind <= 3 && !memory.readers.is_empty() {
                let at = rng.random_range(0..memory.readers.len());
                let reader = memory.readers.remove(at);
                let keys = [RESOURCE, READERS, LINE];
                let by = owner(reader);
                let run = [&["EVAL", RELEASE_READ, "3"][..], &keys, &[&by]].concat();
                assert_eq!(node.server.run(&run), Value::Int(1));
                if memory.readers.is_empty() {
                    memory.free(now);
                }
                format!("{reader} has read")
            } else if kind == 4 {
                node.server.run(&["EVAL", LEAVE, "2", RESOURCE, LINE, name, &text]);
                let is_open = memory.access() != ReadAccess::Held;
                let mut news = LineNews::new(&hears);
                memory.line.leave(client(name), Ticket::new(ticket), is_open, now, &mut news);
                memory.tell(news.into_told());
                format!("{name} leaves with {ticket}")
            } else {
                let says = Says {
                    client: if kind == 5 { "" } else { name },
                    ticket: if kind <= 6 { "" } else { &text },
                    skip: if kind == 7 { ALL.into_iter().choose(&mut rng).unwrap() } else { "" },
                    several: false,
                };
                let (expected, answer) = if rng.random_bool(0.6) {
                    (memory.read(name, says, now), read(&node, name, says))
                } else {
                    (memory.write(name, says, now), acquire(&node, name, says))
                };
                let is_granted = matches!(answer, Answer::Granted { .. });
                reads += u32::from(is_granted && memory.writer.is_none());
                writes += u32::from(is_granted && memory.writer.is_some());
                shared += u32::from(memory.readers.len() > 1);
                assert_eq!(alike(answer), alike(expected), "seed {seed}, step {step}: {says:?}");
                format!("{name} says {says:?}")
            };
            let stands = standing(&node);
            let stands: Vec<&str> =
                stands.iter().map(|name| name.trim_start_matches('~')).collect();
            let waiting: Vec<String> = memory.line.waiting().map(|id| id.to_string()).collect();
            assert_eq!(stands, waiting, "seed {seed}, step {step}: {what}");
        }
        assert!(reads > 20 && writes > 10 && shared > 20, "{reads} {writes} {shared}");
        assert!(lowered > 3, "{lowered}");
        for (name, ear) in ALL.into_iter().zip(ears) {
            let told = memory.told.iter().filter(|(id, _)| *id == client(name));
            let Some(ear) = ear else { continue };
            for (_, message) in told {
                ear.hears(message);
            }
            ear.hears_nothing();
        }
    }
}
