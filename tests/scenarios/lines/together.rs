//! The scripts for several resources beside `NodeLine`: random acquires and releases of two resources, of either alone and of
//! both at once, each of them done to a server and to two lines in memory. They must answer the same, have the same clients
//! in the same order, and tell the same.

use std::collections::HashMap;

use quorlock::protocol::{ClientId, LineHint, LineNews, NodeLine, Stand, Ticket, Timestamp};
use quorlock_harness::{
    Server, WallClock,
    redis::{Value, from_redis_value},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IteratorRandom};

use super::{A, B, C, Ear, Says, owner};
use crate::{
    MARKER, MS, SECOND,
    scripts::{ETAG, Node},
    texts::{ACQUIRE, ACQUIRE_SET, RELEASE, RELEASE_SET},
};

pub(super) const NAMES: [&str; 2] = ["r", "s"];
pub(super) const LINES: [&str; 2] = ["quorlock:line:r", "quorlock:line:s"];
const ALL: [&str; 3] = [A, B, C];

/// This one is not connected.
const DEAF: &str = B;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// Whether others wait, where that is told.
    Granted(Option<bool>),
    /// How many wait before the client in the longest of the lines.
    Held(i64),
    /// Who is the first, and for which of them.
    Behind(String, i64),
}

#[derive(Default)]
struct Memory {
    lines: [NodeLine; 2],
    holders: [Option<&'static str>; 2],
    /// The places of sets that had the other resource in their way, with their tickets.
    stuck: [HashMap<ClientId, Ticket>; 2],
    told: Vec<(ClientId, String)>,
}

fn client(name: &str) -> ClientId {
    ClientId::from_hex(name.as_bytes()).unwrap()
}

impl Memory {
    fn of<T>(&mut self, at: usize, look: impl FnOnce(&mut NodeLine, &mut LineNews<'_>) -> T) -> T {
        let hears = |id| id != client(DEAF);
        let (stuck, other) = (&self.stuck[at], self.holders[1 - at]);
        let is_stuck = |id, ticket| other.is_some() && stuck.get(&id) == Some(&ticket);
        let mut news = LineNews::new(&hears).knowing(&is_stuck);
        let seen = look(&mut self.lines[at], &mut news);
        let resource = NAMES[at];
        self.told.extend(news.into_told().into_iter().filter_map(|(id, hint)| {
            let message = match hint {
                LineHint::Next => format!("n{resource}"),
                LineHint::StandBy { head } => format!("s{head}{resource}"),
                // That of a grant is in the answer.
                LineHint::Wanted => format!("w{resource}"),
                _ => return None,
            };
            Some((id, message))
        }));
        seen
    }

    fn acquire(
        &mut self,
        of: &[usize],
        name: &'static str,
        says: Says<'_>,
        now: Timestamp,
    ) -> Answer {
        let stand = (!says.client.is_empty()).then(|| Stand {
            client: client(says.client),
            ticket: says.ticket.parse().ok().map(Ticket::new),
            skip: ClientId::from_hex(says.skip.as_bytes()),
        });
        let free = self.holders.map(|holder| holder.is_none());
        let entered: Vec<_> = of
            .iter()
            .map(|at| self.of(*at, |line, news| line.enter(stand, free[*at], now, news)))
            .collect();
        let all = || of.iter().copied().zip(&entered);
        let behind = all().zip(1..).find_map(|((_, one), place)| Some((one.first?, place)));
        let is_held = of.iter().any(|at| !free[*at]);
        if is_held || behind.is_some() {
            let before = all()
                .map(|(at, entered)| self.of(at, |line, news| line.deny(entered, now, news)))
                .max()
                .flatten();
            if let ([0, 1], Some(Stand { client, ticket: Some(ticket), .. })) = (of, stand) {
                let in_the_way = [0, 1].into_iter().filter(|at| self.holders[1 - at].is_some());
                for at in in_the_way.collect::<Vec<_>>() {
                    self.stuck[at].insert(client, ticket);
                }
            }
            return match behind.filter(|_| !is_held) {
                Some((first, place)) => Answer::Behind(first.to_string(), place),
                None => Answer::Held(before.map_or(-1, i64::from)),
            };
        }
        let mut waiting = None;
        for (at, entered) in all() {
            self.holders[at] = Some(name);
            let had_line = stand.is_some() || !self.lines[at].is_empty(now);
            let count = if says.several { 64 } else { 1 };
            let told = self.told.len();
            self.of(at, |line, news| line.grant(entered, count, 10 * SECOND, now, news));
            self.told.truncate(told);
            let others = self.lines[at].waiting().count() > 0;
            waiting = waiting.max(had_line.then_some(others));
        }
        Answer::Granted(waiting)
    }

    fn release(&mut self, of: &[usize], name: &str, now: Timestamp) -> i64 {
        let mut answer = 1;
        for at in of {
            match self.holders[*at] {
                Some(holder) if holder == name => {
                    self.holders[*at] = None;
                    self.of(*at, |line, news| line.release(now, news));
                }
                Some(_) => answer = 2,
                None => answer = if answer == 2 { 2 } else { 0 },
            }
        }
        answer
    }
}

pub(super) fn acquire(node: &Node, of: &[usize], name: &str, says: Says<'_>) -> Answer {
    let head =
        format!("{ETAG} {:016} {:016}", node.marked("high_water"), node.marked("next_floor"));
    let (hint, owner) = (format!("{:016}", node.now_us()), owner(name));
    let count = if says.several { "-64" } else { "-1" };
    let (size, keys) = (of.len().to_string(), (3 + 2 * of.len()).to_string());
    let mut args = vec!["EVAL", if of.len() > 1 { ACQUIRE_SET } else { ACQUIRE }, &keys];
    args.extend([MARKER, "quorlock:counters", "quorlock:older"]);
    args.extend(of.iter().map(|at| NAMES[*at]).chain(of.iter().map(|at| LINES[*at])));
    args.extend([&*head, &owner, "10000", &hint, "0", count]);
    if of.len() > 1 {
        args.extend([&*size, ""]);
    } else if !says.client.is_empty() {
        args.push("");
    }
    if !says.client.is_empty() {
        args.extend([says.client, says.ticket, says.skip]);
    }
    let Value::Array(answer) = node.server.run(&args) else { panic!("it was asked to count") };
    let text = |value: &Value| from_redis_value::<String>(value.clone()).unwrap();
    match &answer[..] {
        [Value::Int(1), _, _, _, Value::Int(others @ -1..=1), Value::Int(1)] => {
            Answer::Granted((*others >= 0).then_some(*others == 1))
        }
        [Value::Int(0), _, Value::Int(-2), Value::Nil, Value::Int(which), first, _, _] => {
            assert_eq!(*which == 0, of.len() == 1, "of several it says which");
            Answer::Behind(text(first), 1.max(*which))
        }
        [Value::Int(0), _, _, _, _] => Answer::Held(-1),
        [Value::Int(0), _, _, _, _, Value::Nil, Value::Int(before), Value::Int(0)] => {
            Answer::Held(*before)
        }
        other => panic!("{other:?}"),
    }
}

fn release(node: &Node, of: &[usize], name: &str) -> Value {
    let (size, keys) = (of.len().to_string(), (2 * of.len()).to_string());
    let owner = owner(name);
    let mut args = vec!["EVAL", if of.len() > 1 { RELEASE_SET } else { RELEASE }, &keys];
    args.extend(of.iter().map(|at| NAMES[*at]).chain(of.iter().map(|at| LINES[*at])));
    args.push(&owner);
    if of.len() > 1 {
        args.push(&size);
    }
    node.server.run(&args)
}

/// Those who wait in a line on the server.
fn waiting(node: &Node, line: &str) -> Vec<String> {
    let all: Vec<String> = from_redis_value(node.server.run(&["ZRANGE", line, "0", "-1"])).unwrap();
    all.into_iter().filter(|name| !name.starts_with('!')).collect()
}

/// A place in line is passed by one who asks once for as long as what is in its way stands, and no longer.
#[test]
fn a_set_keeps_out_who_asks_once_from_the_moment_on_at_which_it_can_go_on() {
    let node = Node::admitted();
    let _ears = ALL.map(|name| Ear::of(&node, name));
    let both = Says::stands(B, "200");
    let asks = |says| acquire(&node, &[0], C, says);
    let behind = || Answer::Behind(B.to_owned(), 1);
    assert_eq!(acquire(&node, &[1], A, Says::default()), Answer::Granted(None));
    assert_eq!(acquire(&node, &[0, 1], B, both), Answer::Held(0));
    for says in [Says::default(), Says::named(C)] {
        assert_eq!(asks(says), Answer::Granted(Some(true)));
        assert_eq!(release(&node, &[0], C), Value::Int(1));
    }
    assert_eq!(asks(Says::stands(C, "300")), behind(), "it waits, and so does not overtake");
    assert_eq!(release(&node, &[1], A), Value::Int(1));
    for says in [Says::default(), Says::named(C)] {
        assert_eq!(asks(says), behind(), "nothing is in its way any more");
    }
    assert_eq!(
        acquire(&node, &[1], A, Says { skip: B, ..Says::stands(A, "400") }),
        Answer::Granted(Some(false))
    );
    node.server.run(&["ZADD", LINES[0], "100", B]);
    assert_eq!(asks(Says::default()), behind(), "that is another place of the same client");
    // What others have put there says nothing.
    for put in ["200 0 ", "200 999 s", "x", "200 0 s s"] {
        node.server.run(&["ZADD", LINES[0], "200", B]);
        node.server.set("quorlock:stuck:bbbbbbbbbbbbbbbbr", put, None);
        assert_eq!(asks(Says::default()), behind(), "{put}");
    }
    node.server.del("quorlock:stuck:bbbbbbbbbbbbbbbbr");
    node.server.run(&["LPUSH", "quorlock:stuck:bbbbbbbbbbbbbbbbr", "x"]);
    assert_eq!(asks(Says::default()), behind());
}

#[test]
fn sets_in_the_lines_in_memory_do_what_the_scripts_do() {
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(seed);
        // Nothing ends by itself on either side, however long a step takes.
        let clock = WallClock::standing_at(4_102_444_800_000_000);
        let node = Node::admitted_on(clock.give_to(Server::builder()).start());
        let mut memory = Memory::default();
        let ears = ALL.map(|name| (name != DEAF).then(|| Ear::of(&node, name)));
        let mut grants = [0; 2];
        for step in 0..250 {
            let now = Timestamp::from_origin(MS * step);
            let name = ALL.into_iter().choose(&mut rng).unwrap();
            let of: &[usize] = [&[0][..], &[1], &[0, 1]][rng.random_range(0..3)];
            let what = format!("seed {seed}, step {step}: {name} {of:?}");
            let holder = of.iter().find_map(|at| memory.holders[*at]);
            if let Some(holder) = holder.filter(|_| rng.random_bool(0.4)) {
                let expected = memory.release(of, holder, now);
                assert_eq!(release(&node, of, holder), Value::Int(expected), "{what}");
            } else {
                let ticket = rng.random_range(1..6u64).to_string();
                let kind = rng.random_range(0..6);
                let skip = ALL.into_iter().choose(&mut rng).unwrap();
                let says = Says {
                    client: if kind == 0 { "" } else { name },
                    ticket: if kind <= 1 { "" } else { &ticket },
                    skip: if kind == 5 { skip } else { "" },
                    several: rng.random_bool(0.3),
                };
                let expected = memory.acquire(of, name, says, now);
                assert_eq!(acquire(&node, of, name, says), expected, "{what}: {says:?}");
                grants[of.len() - 1] += u32::from(matches!(expected, Answer::Granted(_)));
            }
            for (at, line) in LINES.into_iter().enumerate() {
                let expected: Vec<String> =
                    memory.lines[at].waiting().map(|id| id.to_string()).collect();
                assert_eq!(waiting(&node, line), expected, "{what}: {line}");
            }
        }
        assert!(grants.iter().all(|grants| *grants > 5), "too few to prove anything: {grants:?}");
        for (name, ear) in ALL.into_iter().zip(ears) {
            let Some(ear) = ear else { continue };
            for (_, message) in memory.told.iter().filter(|(id, _)| *id == client(name)) {
                ear.hears(message);
            }
            ear.hears_nothing();
        }
    }
}
