//! Goal: an acquire of several fencing tokens raises the counter of a server by so many, whatever way through the script
//! it takes, and that of a node in memory in the same way.
//!
//! Method: the real scripts by EVAL on a real server. Step by step by hand; and at random beside a node in memory that is
//! sent the same commands, where every answer has to be the same.

use std::time::Duration;

use quorlock::{
    Owner, Resource,
    node::{MemoryNode, Node as _},
    protocol::{Command, FencingToken, Join, Reply, TokenRange},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    scripts::{Ask, Node, RESOURCE},
    texts::CONFIRM,
};

const MAX: u64 = (1 << 53) - 1;

/// Where a hint is not above all of the range, the counter goes on from where it was, and leaves room for all of it.
#[test]
fn a_counter_goes_up_by_the_count_or_to_the_hint_where_that_is_more() {
    let node = Node::admitted();
    let hint = node.now_us();
    let ask = |above: u64, count| Ask { hint: hint + above, count, ..Ask::of("a") };
    for (above, count, counter) in
        [(0, 64, 0), (1, 64, 64), (127, 64, 128), (192, 64, 192), (192, 2, 194), (195, 1, 195)]
    {
        assert_eq!(node.granted(ask(above, count)), hint + counter, "{count} up to {above}");
        assert_eq!(node.counter(), Some(hint + counter));
        assert!(node.marked("high_water") >= hint + counter, "no token is above the mark");
        node.expire();
    }
}

#[test]
fn a_range_begins_above_the_floor_and_above_what_others_have_not_written() {
    let node = Node::admitted();
    node.mark(&[("floor", "5000"), ("next_floor", "5000"), ("high_water", "6000")]);
    // The head allows a hint of 5064 for 64 tokens, and none below it: the counter may be in the older generation.
    let ask = |hint, owner| Ask { hint, count: 64, ..Ask::of(owner) };
    assert_eq!(node.granted(ask(5063, "a")), 5064);
    node.expire();
    assert_eq!(node.granted(ask(5128, "b")), 5128);
    node.expire();
    node.write_counter("9999999999999999");
    assert_eq!(node.granted(ask(0, "c")), 6064, "it counts on from the mark");
    assert!(node.marked("high_water") >= 6064, "not below the end of the range");
}

#[test]
fn a_range_that_reaches_beyond_the_end_is_refused_and_leaves_no_key() {
    let node = Node::admitted();
    node.set_counter(MAX - 64);
    let ask = |count| Ask { count, ..Ask::of("a") };
    for _ in 0..2 {
        assert_eq!(node.code(ask(65)), -4);
        assert_eq!((node.server.get(RESOURCE), node.counter()), (None, Some(MAX - 64)));
    }
    assert_eq!(node.granted(ask(64)), MAX);
}

/// A confirm that comes late finds the key of another holder, and the counter above its token.
#[test]
fn a_confirm_raises_the_counter_to_the_end_of_the_range() {
    let node = Node::admitted();
    assert_eq!(node.granted(Ask { count: 5, ..Ask::of("a") }), 5);
    assert!(node.confirmed(CONFIRM, "a", 9));
    node.expire();
    assert_eq!(node.granted(Ask { count: 3, ..Ask::of("b") }), 12, "nine and three");
    assert!(!node.confirmed(CONFIRM, "b", 11));
    assert!(!node.confirmed(CONFIRM, "a", 13), "the key is somebody else's");
}

/// What a majority says of its counters is above the end of every range, whichever of them made the vote.
#[test]
fn a_node_that_has_forgotten_goes_on_above_the_end_of_every_range() {
    // Counters above what is written ahead of hints, so that the mark is as high as the counter and no higher; and hints far
    // behind, as of a broken clock, so that counters are all that keeps tokens in order.
    let base = 40_000_000;
    let nodes = [(); 3].map(|()| Node::admitted());
    nodes.iter().for_each(|node| node.set_counter(base));
    let ask = |owner| Ask { hint: 7, count: 64, ..Ask::of(owner) };
    let first = [nodes[0].granted(ask("a")), nodes[1].granted(ask("a"))];
    assert_eq!(first, [base + 64; 2], "a quorum for 64 tokens");
    nodes[0].expire();
    let behind = [nodes[0].granted(ask("b")), nodes[2].granted(ask("b"))];
    assert_eq!(behind, [base + 128, base + 64]);
    assert!(nodes[2].confirmed(CONFIRM, "b", base + 128), "and for the next 64");
    // The node at which both votes were cast restarts empty. The others are sealed, and say what they know.
    nodes[0].server.flush();
    let epoch = nodes[0].join("0").epoch;
    let sealed = [1, 2].map(|node: usize| nodes[node].join("0").high_water);
    assert_eq!(sealed, [base + 64, base + 128], "the ends of the ranges that they voted for");
    assert!(nodes[0].admit_above(&epoch, &sealed[1].to_string(), "0"));
    let etag = nodes[0].join("0").etag;
    nodes[2].expire();
    let next = [nodes[0].granted(Ask { etag: &etag, ..ask("c") }), nodes[2].granted(ask("c"))];
    assert_eq!(next, [base + 192; 2], "64 more, all above what was won before");
}

/// A server and a node in memory that are sent the same.
struct Pair {
    server: Node,
    memory: MemoryNode,
    began: u64,
}

fn owner(number: u8) -> Owner {
    Owner::from_random([number; 16])
}

impl Pair {
    fn new() -> Self {
        let server = Node::admitted();
        let began = server.now_us();
        Self { server, memory: MemoryNode::new(), began }
    }

    fn tell(
        &self,
        command: impl FnOnce(Resource, quorlock::protocol::EpochMark) -> Command,
    ) -> Reply {
        let look = self.memory.join(Join::look(Duration::ZERO));
        let mark = futures::executor::block_on(look).unwrap().mark();
        let command = command(Resource::new(RESOURCE).unwrap(), mark);
        futures::executor::block_on(self.memory.call(command)).unwrap()
    }

    /// The counter with which both grant it; none where both deny it.
    fn acquire(&self, number: u8, hint: u64, count: u64) -> Option<u64> {
        let owner = owner(number);
        let free = self.server.server.get(RESOURCE).is_none();
        let name = owner.to_string();
        let ask = Ask { hint, count, ..Ask::of(&name) };
        let server = if free {
            Some(self.server.granted(ask))
        } else {
            self.server.granted_nothing(ask);
            None
        };
        let ttl = Duration::from_secs(10);
        let hint = Some(hint);
        let memory = self.tell(|resource, mark| Command::Acquire {
            target: resource.into(),
            owner,
            ttl,
            hint,
            count,
            first: 0,
            mark,
            note: None,
            stand: None,
        });
        let memory = match memory {
            Reply::Granted(granted) => granted.token.map(FencingToken::get),
            Reply::Denied(_) => None,
        };
        assert_eq!(server, memory, "{count} up to {hint:?}");
        server
    }

    fn confirm(&self, number: u8, token: u64) -> bool {
        let owner = owner(number);
        let server = self.server.confirmed(CONFIRM, &owner.to_string(), token);
        let memory = self.tell(|resource, mark| Command::Confirm {
            target: resource.into(),
            owner,
            token: FencingToken::new(token),
            mark,
        });
        assert_eq!(server, matches!(memory, Reply::Granted(_)), "{token}");
        server
    }

    fn expire(&self) {
        self.server.expire();
        self.memory.set(RESOURCE, "", Some(Duration::ZERO));
    }

    /// The server begins another generation of counters, of which the node in memory has only one.
    fn rotate(&self) {
        self.server.mark(&[("rotated_at", "1")]);
        assert!(self.server.join("0").ready);
    }
}

/// Hints near the counter, so that all ways through the script are taken, and counts of every size.
#[test]
fn a_server_and_a_node_in_memory_count_the_same_ranges() {
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..4 {
        let pair = Pair::new();
        let (mut counter, mut holder, mut ranges) = (pair.began, None, Vec::new());
        for number in 1..120u8 {
            let count = *[1, 1, 2, 63, 64].get(rng.random_range(0..5)).unwrap();
            let hint = (counter + rng.random_range(0..140)).saturating_sub(60);
            if let Some(raised) = pair.acquire(number, hint, count) {
                assert!(ranges.is_empty() || raised >= counter + count);
                assert!(pair.server.marked("high_water") >= raised);
                ranges.push(TokenRange::ending_at(FencingToken::new(raised), count));
                (counter, holder) = (raised, Some(number));
                // Only now, since a counter that is not used for two generations is dropped, and its floor is higher.
                if rng.random_bool(0.2) {
                    pair.rotate();
                }
            }
            let Some(held_by) = holder else { continue };
            if rng.random_bool(0.3) {
                let token = counter + rng.random_range(0..3) - 1;
                let by = if rng.random_bool(0.8) { held_by } else { number.wrapping_add(1) };
                if pair.confirm(by, token) {
                    assert!(pair.server.marked("high_water") >= token);
                    counter = token;
                }
            }
            if rng.random_bool(0.8) {
                pair.expire();
                holder = None;
            }
        }
        let rising = |pair: &[TokenRange]| pair[0].last() < pair[1].first();
        assert!(ranges.len() > 80 && ranges.windows(2).all(rising), "{ranges:?}");
    }
}
