//! Ranges at a rate at which counters run ahead of every clock.
//!
//! Goal: whatever the hint is worth by then, ranges rise and no token is given twice; and as long as the hint follows the
//! counters, nodes agree at once, also those that have missed some. Method: one client after the other takes 64 tokens as
//! fast as nodes in memory give them, with a clock that stands still.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::FutureExt as _;
use quorlock::{
    node::{MemoryNode, Node as _},
    protocol::{Admission, AdmissionPolicy, Join, TokenRange, Verdict},
};

use super::*;

/// In microseconds, after every clock that there is.
const WALL: u64 = 4_000_000_000_000_000;

struct Hot {
    nodes: Vec<MemoryNode>,
    wall_us: Arc<AtomicU64>,
    admission: Admission,
    mark: EpochMark,
    last: u64,
    rounds: u64,
    confirms: usize,
}

impl Hot {
    fn new() -> Self {
        let wall_us = Arc::new(AtomicU64::new(WALL));
        let node = || {
            let wall_us = Arc::clone(&wall_us);
            let now = move || Duration::from_micros(wall_us.load(Ordering::Relaxed));
            MemoryNode::with_clock(move || Timestamp::from_origin(now()))
        };
        let nodes: Vec<MemoryNode> = (0..3).map(|_| node()).collect();
        let look = nodes[0].join(Join::look(Duration::ZERO)).now_or_never().unwrap();
        let (mark, policy) = (look.unwrap().mark(), AdmissionPolicy::Quarantine);
        let admission = Admission::new(Quorum::of(3), policy, TTL, Duration::ZERO);
        Self { nodes, wall_us, admission, mark, last: 0, rounds: 0, confirms: 0 }
    }

    /// Another client takes some tokens, with a clock of its own.
    fn other(&mut self, hint: u64) {
        self.take(hint);
    }

    fn next(&mut self) {
        let wall_us = self.wall_us.load(Ordering::Relaxed);
        let hint = self.admission.hint(wall_us, TokenRange::MOST);
        self.take(hint);
        if hint < self.last {
            self.admission.handle_counter(self.last, wall_us);
        }
    }

    fn take(&mut self, hint: u64) {
        self.rounds += 1;
        let mut owner = [0; 16];
        owner[..8].copy_from_slice(&self.rounds.to_be_bytes());
        let mut spec = RoundSpec::new(resource(), Owner::from_random(owner), TTL);
        (spec.hint, spec.count) = (Some(hint), TokenRange::MOST);
        spec.marks = vec![self.mark; 3].into();
        let mut round = Round::acquire(Quorum::of(3), spec, start());
        loop {
            // The first comes first, so that one which is behind is among the quorum.
            let commands = drain(&mut round);
            if commands.is_empty() {
                break;
            }
            for (node, command) in commands {
                self.confirms += usize::from(matches!(command, Command::Confirm { .. }));
                let answer = self.nodes[node.index()].call(command).now_or_never().unwrap();
                round.handle_reply(node, answer.map_err(|error| error.failure()), at(1));
            }
        }
        assert_eq!(round.verdict(), Verdict::Won);
        let tokens = round.tokens().unwrap();
        assert_eq!(tokens.left(), TokenRange::MOST);
        assert!(tokens.first().get() > self.last, "{tokens:?} after {}", self.last);
        self.last = tokens.last().get();
        let owner = round.spec().owner;
        for node in &self.nodes {
            let command = Command::Release { target: resource().into(), owner, keep: None };
            let _down = node.call(command).now_or_never().unwrap();
        }
    }

    /// One node misses some rounds. Returns how often a node had to confirm after that.
    fn miss(&mut self, node: usize) -> usize {
        self.nodes[node].disconnect();
        (0..5).for_each(|_| self.next());
        self.nodes[node].reconnect();
        let before = self.confirms;
        (0..5).for_each(|_| self.next());
        self.confirms - before
    }

    /// How far counters are ahead of the clock.
    fn ahead(&self) -> Duration {
        let ahead = self.last - self.wall_us.load(Ordering::Relaxed);
        Duration::from_micros(ahead)
    }
}

#[test]
fn counters_that_run_ahead_of_the_clock_are_followed_and_nodes_agree_at_once() {
    let mut hot = Hot::new();
    (0..20_000).for_each(|_| hot.next());
    assert!(hot.ahead() > Duration::from_secs(1), "{:?}", hot.ahead());
    assert_eq!(hot.miss(0), 0, "the hint is above what the others have counted");
    // A client whose clock is ahead: this one has seen none of its tokens before it has won itself.
    hot.other(WALL + 25_000_000);
    hot.next();
    assert_eq!(hot.last, WALL + 25_000_000 + TokenRange::MOST, "on from there");
    assert_eq!((hot.miss(0), hot.confirms), (0, 0));
}

#[test]
fn counters_far_ahead_of_the_clock_are_not_followed_and_rise_all_the_same() {
    let mut hot = Hot::new();
    hot.other(WALL + 59_990_000);
    (0..2_000).for_each(|_| hot.next());
    let minute = Duration::from_secs(60);
    assert!(hot.ahead() > minute, "beyond what a node lets a hint be: {:?}", hot.ahead());
    assert_eq!(hot.confirms, 0, "nodes that are alike agree without a hint");
    assert_eq!(hot.miss(0), 1, "one that is behind confirms, and is not behind any more");
    // The clock comes after them, and the hint with it.
    hot.wall_us.fetch_add(40_000_000, Ordering::Relaxed);
    hot.next();
    assert_eq!(hot.miss(0), 0);
    hot.wall_us.fetch_add(40_000_000, Ordering::Relaxed);
    hot.next();
    assert_eq!(hot.last, WALL + 80_000_000, "by the clock again");
}
