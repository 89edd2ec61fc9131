//! Claims of servers, and what nodes tell of freed keys.

use futures::executor::block_on;

use super::*;
use crate::{
    node::{MemoryNode, Node},
    protocol::{ClientId, Command, Mark, Owner, Reply},
    runtime::Task,
};

/// A time that is set by hand.
#[derive(Debug, Default)]
struct Clock(Lock<Duration>);

impl Clock {
    fn pass(&self, time: Duration) {
        *self.0.lock() += time;
    }
}

impl Runtime for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::from_origin(*self.0.lock())
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _: Timestamp) -> Task {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: Task) {}

    fn random(&self) -> [u8; 16] {
        [0; 16]
    }
}

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

fn context(id: usize, clock: &Arc<Clock>, fleet: &Arc<Fleet>) -> NodeContext {
    let settings = NodeSettings {
        connect_timeout: Duration::from_secs(1),
        node_timeout: NODE_TIMEOUT,
        allow_eviction: false,
        skips_quarantine: false,
        classic: false,
        counter_retention: Duration::from_secs(3600),
        fleet: Arc::from("default/3"),
        key_prefix: Vec::new(),
        client: ClientId::new([u8::try_from(id).unwrap(); 8]),
    };
    let runtime = Arc::clone(clock) as Arc<dyn Runtime>;
    NodeContext::new(NodeId::new(id), runtime, Arc::clone(fleet), Arc::new(settings))
}

#[test]
fn a_claim_keeps_other_nodes_out_until_the_rounds_of_its_connection_are_over() {
    let clock = Arc::new(Clock::default());
    let fleet = Arc::new(Fleet::default());
    let (one, two) = (context(0, &clock, &fleet), context(1, &clock, &fleet));
    let (a, b) = (Arc::from("a:1"), Arc::from("b:1"));
    let first = one.claim(&a, "server").unwrap();
    assert_eq!(two.claim(&b, "server").unwrap_err(), a);
    // The node itself comes back at once. That its last claim ends does not end this one.
    drop(first);
    let next = one.claim(&a, "server").unwrap();
    clock.pass(NODE_TIMEOUT);
    assert_eq!(two.claim(&b, "server").unwrap_err(), a);
    drop(next);
    clock.pass(NODE_TIMEOUT - Duration::from_millis(1));
    assert_eq!(two.claim(&b, "server").unwrap_err(), a, "a round may have counted its vote");
    clock.pass(Duration::from_millis(1));
    let moved = two.claim(&b, "server").unwrap();
    assert_eq!(one.claim(&a, "server").unwrap_err(), b);
    assert_eq!(fleet.claims().held.len(), 1, "what is over is forgotten");
    drop(moved);
}

/// The keys that are gone, and on which node.
type Freed = Arc<Lock<Vec<(usize, Resource)>>>;

/// A fleet, what its nodes have said, and a node in memory in its third place.
fn listening() -> (Arc<Fleet>, Freed, MemoryNode) {
    let (fleet, node) = (Arc::new(Fleet::default()), MemoryNode::new());
    let freed = Freed::default();
    let (heard, looked_at) = (Arc::clone(&freed), node.clone());
    fleet.on_freed(move |id, resource| {
        // It would hang here if it were told under the node's lock.
        assert!(!looked_at.keys().contains(&resource.as_bytes().to_vec()));
        heard.lock().push((id.index(), resource.clone()));
    });
    node.start(context(2, &Arc::default(), &fleet));
    (fleet, freed, node)
}

fn acquire(node: &MemoryNode, resource: &Resource, owner: Owner) {
    let (resource, mark) = (resource.clone(), Mark::default());
    let ttl = Duration::from_secs(60);
    let acquire = Command::Acquire {
        resource,
        owner,
        ttl,
        hint: None,
        count: 1,
        mark,
        note: None,
        stand: None,
    };
    assert_eq!(block_on(node.call(acquire)), Ok(Reply::Granted(None)));
}

fn release(resource: &Resource, owner: Owner) -> Command {
    Command::Release { resource: resource.clone(), owner, keep: None }
}

#[test]
fn a_node_in_memory_tells_that_a_release_has_deleted_a_key() {
    let (_fleet, freed, node) = listening();
    let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([1; 16]));
    acquire(&node, &resource, owner);
    let other = Owner::from_random([2; 16]);
    block_on(node.call(release(&resource, other))).unwrap();
    assert!(freed.lock().is_empty(), "the key is still there");
    block_on(node.call(release(&resource, owner))).unwrap();
    block_on(node.call(release(&resource, owner))).unwrap();
    assert_eq!(*freed.lock(), [(2, resource)], "once, for the one that has deleted it");
}

#[test]
fn a_release_that_was_executed_late_is_told_then() {
    let (_fleet, freed, node) = listening();
    let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([1; 16]));
    acquire(&node, &resource, owner);
    node.pause();
    let mut call = node.call(release(&resource, owner));
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.as_mut().poll(&mut nobody).is_pending());
    assert!(freed.lock().is_empty());
    node.resume();
    assert_eq!(*freed.lock(), [(2, resource)]);
}

#[test]
fn a_listener_that_panics_or_is_missing_costs_the_release_nothing() {
    let deaf = Arc::new(Fleet::default());
    let (_fleet, freed, node) = listening();
    let panicky = Arc::new(Fleet::default());
    panicky.on_freed(|_, _| panic!("a listener"));
    for fleet in [&deaf, &panicky] {
        node.start(context(0, &Arc::default(), fleet));
    }
    let (resource, owner) = (Resource::new("r").unwrap(), Owner::from_random([1; 16]));
    acquire(&node, &resource, owner);
    assert_eq!(block_on(node.call(release(&resource, owner))), Ok(Reply::Granted(None)));
    assert_eq!(freed.lock().len(), 1);
}
