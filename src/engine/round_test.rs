//! How many fencing tokens the nodes are asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::executor::block_on;

use super::*;
use crate::{
    config::Config,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeStatus},
    protocol::{Command, Floor, Join, Marker},
    runtime::TokioRuntime,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A node that says for itself whether it counts ranges, and notes for how many it was asked last.
#[derive(Debug)]
struct Asked {
    memory: MemoryNode,
    counts: Counts,
    last: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Counts {
    Ranges,
    /// It takes no notice of the count.
    One,
    Panics,
}

impl Node for Asked {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, mut command: Command) -> NodeCall {
        if let Command::Acquire { count, .. } = &mut command {
            self.last.store(*count, Ordering::Relaxed);
            if self.counts != Counts::Ranges {
                *count = 1;
            }
        }
        self.memory.call(command)
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.memory.join(join)
    }

    fn admit(&self, era: u64, floor: Floor) -> NodeFuture<bool> {
        self.memory.admit(era, floor)
    }

    fn counts_ranges(&self) -> bool {
        assert_ne!(self.counts, Counts::Panics, "scripted");
        self.counts == Counts::Ranges
    }

    fn status(&self) -> NodeStatus {
        self.memory.status()
    }
}

/// For how many tokens each node is asked, where a round wants 64.
fn asked(counts: [Counts; 3]) -> [u64; 3] {
    let last = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let node = |(counts, last): (Counts, &Arc<AtomicU64>)| {
        let (memory, last) = (MemoryNode::new(), Arc::clone(last));
        Arc::new(Asked { memory, counts, last }) as Arc<dyn Node>
    };
    let nodes = counts.into_iter().zip(&last).map(node).collect();
    let config = Config { ttl: MINUTE, max_ttl: MINUTE, ..Config::default() };
    let engine = Engine::start(config, nodes, Arc::new(TokioRuntime::dedicated().unwrap()));
    block_on(engine.tried(engine.now().saturating_add(MINUTE)));
    let spec = AcquireSpec {
        resource: Resource::new("r").unwrap(),
        ttl: MINUTE,
        min_validity: Duration::ZERO,
        wait_policy: WaitPolicy::For(MINUTE),
        through_outages: false,
        renewal: RenewalPolicy::default(),
        caller: Caller::default(),
        hold_at_least: None,
    };
    let first = block_on(engine.acquire(spec.clone())).unwrap();
    // The round of one who waits behind another wants enough for more of them.
    let second = engine.acquire(spec);
    drop(first);
    drop(block_on(second).unwrap());
    last.map(|last| last.load(Ordering::Relaxed))
}

#[test]
fn several_tokens_are_asked_for_where_all_nodes_count_them_and_one_where_any_does_not() {
    assert_eq!(asked([Counts::Ranges; 3]), [64; 3]);
    for odd in [Counts::One, Counts::Panics] {
        assert_eq!(asked([Counts::Ranges, odd, Counts::Ranges]), [1; 3], "{odd:?}");
    }
    assert_eq!(asked([Counts::One; 3]), [1; 3]);
}
