//! What is under way: messages of connections that keep their order, and what is due later.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    time::Duration,
};

use quorlock_core::{Command, Failure, LineHint, Owner, Reply};
use rand::{Rng, rngs::StdRng};

/// The place of a client in the world.
pub(crate) type Who = usize;

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A command reaches a node.
    Arrives {
        who: Who,
        node: usize,
        life: u64,
        owner: Owner,
        command: Command,
    },
    /// An answer reaches a client.
    Answered {
        who: Who,
        node: usize,
        life: u64,
        owner: Owner,
        reply: Result<Reply, Failure>,
    },
    /// What a node tells reaches a client.
    Told {
        who: Who,
        node: usize,
        life: u64,
        hint: LineHint,
    },
    /// No answer has come in time.
    TimedOut {
        who: Who,
        owner: Owner,
    },
    /// A client looks whether its next round is due.
    Looks {
        who: Who,
    },
    /// A client wants the resource, or has had it for long enough.
    Wants {
        who: Who,
    },
    Releases {
        who: Who,
        owner: Owner,
    },
    /// A connection is there again.
    Connected {
        who: Who,
        node: usize,
        life: u64,
    },
    /// Something goes wrong.
    Fault(Fault),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    KillWaiter,
    KillAny,
    StopWaiter,
    StopAny,
    Flush,
    Disconnect,
    Restart,
    SetBack(usize),
    Returns(usize),
}

#[derive(Debug)]
struct Due {
    at: Duration,
    number: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// All that is due.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    due: BinaryHeap<Reverse<Due>>,
    number: u64,
}

impl Agenda {
    pub(crate) fn put(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.due.push(Reverse(Due { at, number: self.number, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(Duration, Event)> {
        self.due.pop().map(|Reverse(due)| (due.at, due.event))
    }
}

/// The connection of one client to one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) is_up: bool,
    /// Counts the connections: what was under way on one is not on the next.
    pub(crate) life: u64,
    /// By how much each message is later than those of others.
    pub(crate) far: Duration,
    there: Duration,
    back: Duration,
}

impl Link {
    pub(crate) const NEW: Self = Self {
        is_up: true,
        life: 0,
        far: Duration::ZERO,
        there: Duration::ZERO,
        back: Duration::ZERO,
    };

    /// When a message arrives at the node that is sent now.
    pub(crate) fn sends(&mut self, now: Duration, rng: &mut StdRng) -> Duration {
        self.there = (now + self.far + latency(rng)).max(self.there + Duration::from_nanos(1));
        self.there
    }

    /// When a message arrives at the client that is sent now.
    pub(crate) fn answers(&mut self, now: Duration, rng: &mut StdRng) -> Duration {
        self.back = (now + self.far + latency(rng)).max(self.back + Duration::from_nanos(1));
        self.back
    }
}

/// One way: 0.05 ms, and 0.04 ms by an exponential distribution.
fn latency(rng: &mut StdRng) -> Duration {
    let uniform: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
    Duration::from_nanos(50_000 + (40_000.0 * -uniform.ln()) as u64)
}
