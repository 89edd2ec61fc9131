//! Semaphores: what they can be made of, what is refused, and what a permit is.

use std::{future::IntoFuture, sync::Arc};

use quorlock::{
    Ability, AcquireError, AcquireFuture, Holder, Permit, PermitAcquire, Redlock, Semaphore, Slot,
    Unsupported,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeSpec, NodeState, NodeStatus},
    protocol::{Command, Join, Marker},
};

use super::{fleet, future, plain, sent};

const _: () = {
    plain::<(Semaphore, Permit, PermitAcquire)>();
    future::<AcquireFuture<Slot>>();
};

/// A node of a user's that knows nothing of slots.
#[derive(Debug)]
struct Plain(MemoryNode);

impl Node for Plain {
    fn start(&self, context: NodeContext) {
        self.0.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        self.0.call(command)
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.0.join(join)
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(Arc::from("plain"), NodeState::Ready)
    }
}

#[tokio::test]
async fn what_cannot_be_a_semaphore_is_refused_before_anything_is_sent() {
    let redlock = Redlock::connect(fleet()).await.unwrap();
    let refused = |name: &str, permits| redlock.semaphore(name, permits).unwrap_err().to_string();
    assert_eq!(
        refused("s", 0),
        "invalid resource; nothing was sent: the number of permits is 0; ask for 1 to 256"
    );
    assert_eq!(
        refused("s", 257),
        "invalid resource; nothing was sent: the number of permits is 257; ask for 1 to 256"
    );
    assert_eq!(
        refused("", 1),
        "invalid resource; nothing was sent: its name is empty; check for a variable that was never set"
    );
    assert!(refused("quorlock:s", 1).contains("quorlock:"), "{}", refused("quorlock:s", 1));
    assert!(refused(&"x".repeat(65_535), 1).contains("65536"));
    assert_eq!(redlock.semaphore("s", 256).unwrap().permits(), 256);

    let classic = Redlock::builder().nodes(fleet()).classic().connect().await.unwrap();
    let error = classic.semaphore("s", 1).unwrap_err();
    let lacking = Unsupported::Classic { ability: Ability::Slots };
    assert!(matches!(&error, AcquireError::Unsupported(reason) if *reason == lacking));
    assert_eq!(
        error.to_string(),
        "the nodes cannot grant this kind of lease; nothing was sent: in classic mode a node cannot pick a free \
         permit; leave out Builder::classic"
    );

    let node = NodeSpec::new(Arc::new(Plain(MemoryNode::new())));
    let own = Redlock::builder().nodes([node]).connect().await.unwrap();
    let error = own.semaphore("s", 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the nodes cannot grant this kind of lease; nothing was sent: node 0 (plain) cannot pick a free permit; see \
         Node::picks_slots"
    );
}

#[tokio::test]
async fn a_permit_is_a_lease_with_a_prefix_a_token_and_a_holder() {
    let nodes = fleet();
    let builder = Redlock::builder().nodes(&nodes).key_prefix("app:").label("me");
    let redlock = builder.connect().await.unwrap();
    let semaphore = redlock.semaphore("s", 2).unwrap();
    let permit = tokio::spawn(sent(semaphore.acquire().into_future())).await.unwrap().unwrap();
    let slot = permit.slot();
    assert_eq!(permit.resource().as_bytes(), format!("app:s/{slot}").as_bytes());
    assert!(permit.token().is_ok() && permit.check().is_ok());
    let Holder::Held(by) = redlock.holder(format!("s/{slot}")).await.unwrap() else { panic!() };
    assert_eq!(*by.value, *permit.owner().to_string().as_bytes());
    assert_eq!(by.token, permit.token().ok());
    assert_eq!(by.label.map(|label| label.to_string()), Some("me".to_owned()));
    permit.extend().await.unwrap();
    let other = semaphore.try_acquire().await.unwrap();
    let busy = semaphore.try_acquire().await.unwrap_err();
    assert!(matches!(busy, AcquireError::Contended { resource: None, .. }), "{busy:?}");
    let lease = other.into_lease();
    lease.release().await.unwrap();
    let again = tokio::task::spawn_blocking(move || semaphore.acquire().blocking()).await;
    again.unwrap().unwrap().release().await.unwrap();
    permit.release().await.unwrap();
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
}
