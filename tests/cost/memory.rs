//! What each operation allocates, and how often the engine is woken for it: nodes in memory, virtual time, one thread.
//!
//! Each run counts the same, but for what a newer compiler or dependency does otherwise: hence a tenth.

use std::time::Duration;

use quorlock::{Redlock, node::MemoryNode};

use super::{
    Figure, NODES, Operation, SECOND, as_written,
    counted::{Counted, Counts},
};

/// For each operation, or each turn, or each ten minutes.
struct Written {
    allocations: f64,
    bytes: f64,
    tasks: f64,
    polls: f64,
    timers: f64,
}

/// Two clients of nodes in memory.
pub(crate) struct World {
    runtime: Counted,
    pub(crate) nodes: [MemoryNode; NODES],
    redlock: Redlock,
    other: Redlock,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = Counted::new();
        let node = || {
            let sim = runtime.sim.clone();
            MemoryNode::with_clock(move || quorlock::runtime::Runtime::now(&sim))
        };
        let nodes: [MemoryNode; NODES] = std::array::from_fn(|_| node());
        let client = || Redlock::builder().nodes(&nodes).runtime(runtime.clone()).build().unwrap();
        let (redlock, other) = (client(), client());
        runtime.sim.pass(SECOND);
        Self { runtime, nodes, redlock, other }
    }

    fn counted(&self, work: impl FnOnce(&Self)) -> Counts {
        let before = self.runtime.counts();
        work(self);
        self.runtime.counts() - before
    }

    /// So many operations, one after the other, and what they leave in the background.
    pub(crate) fn operate(&self, operation: Operation, times: u64) {
        let (redlock, other) = (self.redlock.clone(), self.other.clone());
        self.runtime.finish(async move {
            for _ in 0..times {
                operation.run(&redlock, &other).await;
            }
        });
    }

    /// Tasks that ask for one resource over and over, each through a handle.
    fn compete(&self, handles: &[&Redlock], turns: u64) {
        let tasks = handles.iter().map(|redlock| {
            let redlock = Redlock::clone(redlock);
            async move {
                for _ in 0..turns {
                    redlock.acquire("hot").await.unwrap().release().await.unwrap();
                }
            }
        });
        let (count, (told, ended)) = (handles.len(), std::sync::mpsc::channel());
        for task in tasks {
            let told = told.clone();
            quorlock::runtime::Runtime::spawn(
                &self.runtime,
                Box::pin(async move {
                    task.await;
                    told.send(()).unwrap();
                }),
            );
        }
        for _ in 0..count {
            while ended.try_recv().is_err() {
                assert!(self.runtime.sim.step(), "everything waits");
            }
        }
    }
}

#[track_caller]
fn compared(what: &str, counts: Counts, times: u64, written: &Written) {
    #[allow(clippy::cast_precision_loss, reason = "they are small")]
    let figure = |name, count: u64, written| Figure {
        name,
        is: count as f64 / times as f64,
        written,
        percent: 10.0,
    };
    let figures = [
        figure("allocations", counts.allocations, written.allocations),
        figure("bytes", counts.bytes, written.bytes),
        figure("tasks", counts.tasks, written.tasks),
        figure("polls", counts.polls, written.polls),
        figure("timers", counts.timers, written.timers),
    ];
    as_written(what, &figures);
}

#[track_caller]
fn operations(operation: Operation, written: &Written) {
    const TIMES: u64 = 500;
    let world = World::new();
    // Tables have grown by then.
    world.operate(operation, TIMES);
    let counts = world.counted(|world| world.operate(operation, TIMES));
    compared(&format!("{operation:?}"), counts, TIMES, written);
}

macro_rules! costs {
    ($($name:ident: $operation:ident $written:expr;)+) => {$(
        #[test]
        fn $name() {
            let [allocations, bytes, tasks, polls, timers] = $written;
            operations(Operation::$operation, &Written { allocations, bytes, tasks, polls, timers });
        }
    )+};
}

costs! {
    a_lease_costs_what_is_written: Lease [104.0, 13_872.0, 0.002, 4.0, 0.0];
    an_extension_costs_what_is_written: Extended [152.0, 20_437.0, 0.002, 6.0, 0.0];
    a_set_costs_what_is_written: Set [160.0, 15_754.0, 0.002, 4.0, 0.0];
    a_permit_costs_what_is_written: Permit [171.0, 17_666.0, 0.002, 4.0, 0.0];
    a_reader_costs_what_is_written: Read [106.0, 14_502.0, 0.002, 4.0, 0.0];
    a_refusal_costs_what_is_written: Refused [182.0, 23_567.0, 0.002, 6.0, 0.0];
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

#[test]
fn a_turn_within_a_process_costs_what_is_written() {
    const TURNS: u64 = 400;
    let world = World::new();
    let tasks = [&world.redlock; 4];
    world.compete(&tasks, TURNS / 4);
    let counts = world.counted(|world| world.compete(&tasks, TURNS / 4));
    let [allocations, bytes, tasks, polls, timers] = [12.12, 1_592.0, 0.01, 1.05, 0.0];
    let written = Written { allocations, bytes, tasks, polls, timers };
    compared("a turn of four tasks", counts, TURNS, &written);
}

#[test]
fn a_turn_between_clients_costs_what_is_written() {
    const TURNS: u64 = 400;
    let world = World::new();
    let tasks = [&world.redlock, &world.other];
    world.compete(&tasks, TURNS / 2);
    let counts = world.counted(|world| world.compete(&tasks, TURNS / 2));
    let [allocations, bytes, tasks, polls, timers] = [218.37, 26_661.0, 0.005, 4.58, 0.0];
    let written = Written { allocations, bytes, tasks, polls, timers };
    compared("a turn of two clients", counts, TURNS, &written);
}

#[test]
fn ten_minutes_of_a_lease_that_is_held_cost_what_is_written() {
    let world = World::new();
    let redlock = world.redlock.clone();
    let (holds, held) = std::sync::mpsc::channel();
    world.runtime.finish(async move {
        holds.send(redlock.acquire("held").await.unwrap()).unwrap();
    });
    let lease = held.recv().unwrap();
    world.runtime.sim.pass(60 * SECOND);
    let counts = world.counted(|world| world.runtime.sim.pass(TEN_MINUTES));
    lease.check().unwrap();
    let [allocations, bytes, tasks, polls, timers] = [64_755.0, 5_730_197.0, 0.0, 1_688.0, 1_568.0];
    let written = Written { allocations, bytes, tasks, polls, timers };
    compared("ten minutes of a lease", counts, 1, &written);
}

#[test]
fn ten_minutes_without_a_lease_cost_what_is_written() {
    let world = World::new();
    world.operate(Operation::Lease, 10);
    world.runtime.sim.pass(60 * SECOND);
    let counts = world.counted(|world| world.runtime.sim.pass(TEN_MINUTES));
    let [allocations, bytes, tasks, polls, timers] = [56_076.0, 4_611_174.0, 0.0, 422.0, 302.0];
    let written = Written { allocations, bytes, tasks, polls, timers };
    compared("ten minutes without a lease", counts, 1, &written);
}
