//! A holder that renews while its resource is taken from it: a key that it sets again is deleted again, and a lease
//! that cannot be ended is not called ended.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use quorlock::{
    Builder, Redlock,
    inspect::{ForceError, Forced},
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeSpec, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Resource, Serves, Sighting},
    runtime::Runtime as _,
};
use quorlock_harness::SimRuntime;

use super::SECOND;

/// A node on which the holder sets its key again just behind each release, so many times.
#[derive(Clone, Debug)]
struct SetsAgain(MemoryNode, Arc<AtomicUsize>);

impl Node for SetsAgain {
    fn start(&self, context: NodeContext) {
        self.0.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        let owner = match &command {
            Command::Release { owner, .. } => Some(owner.to_string()),
            _ => None,
        };
        let (node, times) = (self.0.clone(), Arc::clone(&self.1));
        let reply = self.0.call(command);
        Box::pin(async move {
            let reply = reply.await;
            let again = |left: usize| left.checked_sub(1);
            if let Some(owner) = owner
                && times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, again).is_ok()
            {
                node.set("r", owner, Some(60 * SECOND));
            }
            reply
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.0.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.0.admit(epoch, floor, serves)
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        self.0.holder(resource, fenced)
    }

    fn status(&self) -> NodeStatus {
        self.0.status()
    }
}

const OWNER: &str = "07070707070747078707070707070707";

/// What comes of it where each node sets the key again so many times, in virtual time; and what is left on the nodes.
fn force(times: usize, set: fn(Builder) -> Builder) -> (Result<Forced, ForceError>, Vec<bool>) {
    let runtime = SimRuntime::new(1);
    let clock = |runtime: &SimRuntime| {
        let runtime = runtime.clone();
        move || runtime.now()
    };
    let nodes: Vec<_> = (0..3).map(|_| MemoryNode::with_clock(clock(&runtime))).collect();
    nodes.iter().for_each(|node| node.set("r", OWNER, Some(60 * SECOND)));
    let specs = nodes.iter().map(|node| {
        NodeSpec::new(Arc::new(SetsAgain(node.clone(), Arc::new(AtomicUsize::new(times)))))
    });
    let builder = set(Redlock::builder().nodes(specs).runtime(runtime.clone()));
    let operator = runtime.block_on(async move { builder.connect().await }).unwrap();
    let forced = runtime.block_on(async move { operator.force_release("r").await });
    (forced, nodes.iter().map(|node| node.get("r").is_some()).collect())
}

#[test]
fn a_key_that_is_set_again_is_deleted_again() {
    for set in [|builder: Builder| builder, Builder::classic] {
        let (forced, left) = force(2, set);
        let forced = forced.unwrap();
        assert_eq!(forced.was.value.as_ref(), OWNER.as_bytes());
        assert!(forced.next.is_none(), "{forced}");
        assert_eq!(left, [false; 3], "{forced}");
    }
}

#[test]
fn a_holder_that_cannot_be_ended_is_not_called_ended() {
    for set in [|builder: Builder| builder, Builder::classic] {
        let error = force(usize::MAX, set).0.unwrap_err();
        assert!(matches!(&error, ForceError::SetAgain { was } if was.owner.is_some()), "{error}");
        assert!(error.to_string().contains("may go on"), "{error}");
    }
}
