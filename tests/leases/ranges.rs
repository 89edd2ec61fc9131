//! Goal: several tokens are asked for where all nodes count them, and one at a time where any does not; the next holder
//! has the larger token.
//!
//! Method: threads that take one resource from each other, on nodes in memory that note for how many tokens they are asked.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use quorlock::{
    Ability, AcquireError, Redlock, Unsupported,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeSpec, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Serves},
};

use crate::fixture::SECOND;

const THREADS: usize = 4;
const EACH: usize = 100;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Counts {
    Ranges,
    /// It takes no notice of the count, and says so.
    One,
    /// It panics when it is asked whether it counts.
    Panics,
}

/// A node that notes for how many tokens it was asked at the most.
#[derive(Debug)]
struct Asked {
    memory: MemoryNode,
    counts: Counts,
    most: Arc<AtomicU64>,
}

impl Node for Asked {
    fn start(&self, context: NodeContext) {
        self.memory.start(context);
    }

    fn call(&self, mut command: Command) -> NodeCall {
        if let Command::Acquire { count, .. } = &mut command {
            self.most.fetch_max(*count, Ordering::Relaxed);
            if self.counts != Counts::Ranges {
                *count = 1;
            }
        }
        self.memory.call(command)
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.memory.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.memory.admit(epoch, floor, serves)
    }

    fn counts_ranges(&self) -> bool {
        assert_ne!(self.counts, Counts::Panics, "scripted");
        self.counts == Counts::Ranges
    }

    fn status(&self) -> NodeStatus {
        self.memory.status()
    }
}

/// For how many tokens the nodes were asked at the most, and the tokens in the order of the leases.
fn contend(counts: [Counts; 3]) -> (u64, Vec<u64>) {
    let most = Arc::new(AtomicU64::new(0));
    let nodes = counts.map(|counts| {
        let most = Arc::clone(&most);
        NodeSpec::new(Arc::new(Asked { memory: MemoryNode::new(), counts, most }))
    });
    let redlock = Redlock::blocking_connect(nodes).unwrap();
    let tokens = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let lease = redlock.acquire("r").wait(60 * SECOND).blocking().unwrap();
                    tokens.lock().unwrap().push(lease.token().unwrap().get());
                    lease.blocking_release().unwrap();
                }
            });
        }
    });
    (most.load(Ordering::Relaxed), tokens.into_inner().unwrap())
}

#[test]
fn several_tokens_are_asked_for_where_all_nodes_count_them_and_one_where_any_does_not() {
    let one = |odd| [Counts::Ranges, odd, Counts::Ranges];
    let cases = [
        ([Counts::Ranges; 3], 64),
        (one(Counts::One), 1),
        (one(Counts::Panics), 1),
        ([Counts::One; 3], 1),
    ];
    for (counts, asked) in cases {
        let (most, tokens) = contend(counts);
        assert_eq!(most, asked, "{counts:?}");
        assert_eq!(tokens.len(), THREADS * EACH);
        let falls = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
        assert_eq!(falls, None, "{counts:?}: the later grant has the larger one");
    }
}

#[test]
fn several_resources_at_once_are_refused_where_a_node_takes_one_at_a_time() {
    let sound = || NodeSpec::new(Arc::new(MemoryNode::new()));
    let most = Arc::new(AtomicU64::new(0));
    let odd = Asked { memory: MemoryNode::new(), counts: Counts::Ranges, most: Arc::clone(&most) };
    let redlock =
        Redlock::blocking_connect([sound(), NodeSpec::new(Arc::new(odd)), sound()]).unwrap();
    let refused = redlock.acquire_all(["a", "b"]).blocking().unwrap_err();
    let AcquireError::Unsupported(Unsupported::Node { node, ability: Ability::Sets, .. }) = refused
    else {
        panic!("{refused}")
    };
    assert_eq!((node.index(), most.load(Ordering::Relaxed)), (1, 0), "nothing was sent");
    drop(redlock.acquire_all(["a", "a"]).blocking().unwrap());
}
