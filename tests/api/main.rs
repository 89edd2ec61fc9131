//! The public face: auto traits of every type and future, the text of every error, and the defaults.
//!
//! Goal: a change that a user would notice does not go unnoticed. Method: the auto traits are asserted at
//! compile time; in `errors` they are built, or provoked with nodes in memory, and compared as text.
#![cfg(feature = "tokio")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod borrowed;
mod debug;
mod errors;
mod inputs;
mod semaphore;
mod settings;
#[cfg(feature = "redis")]
mod urls;

use std::{error::Error, future::IntoFuture, sync::Arc, time::Duration};

use quorlock::{
    Acquire, AcquireError, AcquireFuture, Builder, CloseError, ConfigError, ConnectError, Lease,
    NodeOutcome, NodeReport, NodeStates, Redlock, Release, ReleaseError, Reports,
    node::{
        Claim, MemoryNode, Node, NodeContext, NodeError, NodeSpec, NodeState, NodeStatus, Refusal,
    },
    protocol::{
        Command, Denial, Drift, NodeId, Owner, Quorum, Reply, Resource, ResourceError, Round,
        RoundLoss, RoundSpec, Timestamp, Verdict,
    },
    runtime::{CurrentRuntimeError, Runtime, TokioRuntime},
};

const fn plain<T: Send + Sync + Unpin + 'static>() {}
const fn error<T: Error + Send + Sync + Unpin + Clone + 'static>() {}
const fn future<T: Future + Send + Sync + Unpin + 'static>() {}
const fn object<T: Send + Sync + std::fmt::Debug + ?Sized + 'static>() {}

const _: () = {
    plain::<Redlock>();
    plain::<Builder>();
    plain::<Acquire>();
    plain::<Lease>();
    future::<AcquireFuture>();
    future::<Release>();
    error::<AcquireError>();
    error::<ReleaseError>();
    error::<ConnectError>();
    error::<ConfigError>();
    error::<CloseError>();
    error::<CurrentRuntimeError>();
    error::<quorlock::SettingsError>();
    plain::<(quorlock::Settings, quorlock::WrongVariable)>();
    error::<ResourceError>();
    error::<NodeError>();
    error::<Refusal>();
    plain::<(NodeOutcome, NodeReport, NodeStates, Reports)>();
    plain::<(Claim, MemoryNode, NodeContext, NodeSpec, NodeState, NodeStatus)>();
    plain::<(Command, Denial, Drift, RoundLoss, NodeId, Owner, Quorum, Reply, Resource)>();
    plain::<(Round, RoundSpec, Timestamp, Verdict, TokioRuntime)>();
    object::<dyn Node>();
    object::<dyn Runtime>();
};

#[cfg(feature = "redis")]
const _: () = {
    error::<quorlock::AddressError>();
    plain::<(quorlock::WrongAddress, quorlock::UrlPart, quorlock::Credentials)>();
};

#[cfg(feature = "inspect")]
const _: () = {
    use quorlock::{inspect, node};

    error::<inspect::ForceError>();
    error::<inspect::FleetError>();
    plain::<(inspect::Inspection, inspect::NodeFacts, inspect::InspectedSettings)>();
    plain::<(inspect::Finding, inspect::Ill, inspect::Severity, inspect::Forced)>();
    plain::<(inspect::ClockFacts, inspect::ClockRate, inspect::RoundTrips)>();
    plain::<(inspect::Resources, inspect::Listed)>();
    plain::<(node::ServerFacts, node::MarkerFacts, node::ClockSample)>();
    plain::<(node::Scan, node::Page<Box<[u8]>>, node::NodeLine)>();
};

const fn sent<T: Send + 'static>(value: T) -> T {
    value
}

fn fleet() -> [MemoryNode; 3] {
    std::array::from_fn(|_| MemoryNode::new())
}

#[tokio::test]
async fn every_future_can_be_spawned() {
    let nodes = fleet();
    let connect = sent(Redlock::connect(nodes));
    let redlock = tokio::spawn(connect).await.unwrap().unwrap();
    let lease = tokio::spawn(redlock.acquire("r").into_future()).await.unwrap().unwrap();
    tokio::spawn(lease.release()).await.unwrap().unwrap();

    let run = sent(redlock.acquire("r").run(async |lease| lease.resource().to_string()));
    assert_eq!(tokio::spawn(run).await.unwrap().unwrap(), "r");

    let held = Arc::new(tokio::sync::Mutex::new(0));
    let moved = Arc::clone(&held);
    let run = redlock.acquire("r").run(async move |lease: &Lease| {
        tokio::task::yield_now().await;
        *moved.lock().await += 1;
        lease.validity()
    });
    assert!(tokio::spawn(run).await.unwrap().unwrap() > Duration::from_secs(9));
    assert_eq!(*held.lock().await, 1);

    let election = redlock.election("scheduler");
    let moved = Arc::clone(&held);
    let leads = tokio::spawn(async move {
        let work = async move |leadership: &quorlock::Leadership| {
            *moved.lock().await += 1;
            tokio::task::yield_now().await;
            Ok::<_, &'static str>(leadership.term())
        };
        election.lead(work).await
    });
    leads.await.unwrap().unwrap();
    let election = redlock.election("scheduler");
    let campaigns = tokio::spawn(async move {
        let leadership = election.campaign().await.unwrap();
        leadership.proclaim("a").await.unwrap();
        let mut observer = election.observe();
        drop(observer.changed().await.unwrap().to_string());
        leadership.resign().await.unwrap();
    });
    campaigns.await.unwrap();

    let closing = redlock.clone();
    tokio::spawn(async move { closing.close().await }).await.unwrap().unwrap();
}

/// The owner that `{:?}` of a holder shows can be found in the log, as with `{}`.
#[test]
fn a_holder_is_readable_in_debug_too() {
    let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    let redlock = Redlock::blocking_connect(&nodes).unwrap();
    let lease = redlock.acquire("r").blocking().unwrap();
    let certain = format!("{:?}", redlock.blocking_holder("r").unwrap());
    let value = format!("value: \"{}\"", lease.owner());
    assert!(certain.contains(&value), "{certain}");
    // An acquire is over with the first two.
    while nodes[2].get("r").is_none() {
        std::thread::yield_now();
    }
    nodes[0].kill();
    nodes[1].kill();
    let unclear = format!("{:?}", redlock.blocking_holder("r").unwrap());
    assert!(unclear.contains(&format!("value: Some(\"{}\")", lease.owner())), "{unclear}");
}

#[tokio::test]
async fn the_defaults_are_what_the_builder_says() {
    let nodes = fleet();
    let redlock = Redlock::connect(&nodes).await.unwrap();
    let lease = redlock.acquire("r").await.unwrap();
    assert_eq!(lease.ttl(), Duration::from_secs(10));
    assert_eq!(lease.resource().as_bytes(), b"r");
    let validity = lease.validity();
    // ttl - drift, less what has passed.
    assert!(validity <= Duration::from_millis(9_898), "{validity:?}");
    assert!(validity > Duration::from_millis(8_000), "{validity:?}");
    let owner = lease.owner().to_hex().to_vec();
    assert!(nodes.iter().all(|node| node.get("r").is_none_or(|value| value == owner)));
    lease.release().await.unwrap();
    let debug = format!("{:?} {:?}", redlock, redlock.try_acquire("r"));
    assert!(debug.contains("OneRound") && debug.contains("node_timeout: 100ms"), "{debug}");
    assert!(debug.contains("counter_retention: 3600s"), "{debug}");
}
