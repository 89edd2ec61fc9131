//! What a list of nodes can be made of.

#[cfg(feature = "redis")]
use std::borrow::Cow;
use std::sync::Arc;

#[cfg(feature = "redis")]
use quorlock::node::NodeSpec;
use quorlock::{
    Builder, Redlock,
    node::{MemoryNode, Node},
};

/// The addresses of the nodes, in their order.
#[cfg(feature = "redis")]
fn addresses(builder: Builder) -> Vec<String> {
    let redlock = builder.build().unwrap();
    redlock.nodes().iter().map(|node| node.address.to_string()).collect()
}

/// The same of a list of URLs that is passed as it is.
#[cfg(feature = "redis")]
fn of<I>(urls: I) -> Vec<String>
where
    I: IntoIterator,
    I::Item: Into<NodeSpec>,
{
    addresses(Redlock::builder().nodes(urls))
}

#[cfg(feature = "redis")]
#[test]
fn urls_come_as_text_of_any_kind() {
    const URLS: [&str; 3] = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
    let expected = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
    let slice: &[&str] = &URLS;
    let strings: Vec<String> = URLS.iter().map(ToString::to_string).collect();
    let cows: Vec<Cow<'_, str>> = URLS.iter().map(|url| Cow::Borrowed(*url)).collect();
    let boxes: Vec<Box<str>> = URLS.iter().map(|url| Box::from(*url)).collect();
    let arcs: Vec<Arc<str>> = URLS.iter().map(|url| Arc::from(*url)).collect();
    assert_eq!(of(URLS), expected);
    assert_eq!(of(&URLS), expected);
    assert_eq!(of(slice), expected);
    assert_eq!(of(slice.iter().copied()), expected);
    assert_eq!(of(strings.as_slice()), expected);
    assert_eq!(of(&strings), expected);
    assert_eq!(of(strings), expected);
    assert_eq!(of((1..=3).map(|port| format!("redis://127.0.0.1:{port}"))), expected);
    assert_eq!((of(&cows), of(&boxes), of(&arcs)), (of(cows), of(boxes), of(arcs)));
    assert_eq!(
        of("redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3".split(',')),
        expected
    );
}

#[cfg(feature = "url")]
#[test]
fn urls_come_parsed() {
    let urls: Vec<url::Url> = (1..=3)
        .map(|port| format!("redis://:p%40ss@127.0.0.1:{port}/2").parse().unwrap())
        .collect();
    let expected = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
    assert_eq!(of(&urls), expected);
    assert_eq!(of(urls), expected);
}

#[tokio::test]
async fn nodes_come_by_value_by_reference_and_shared() {
    let memory = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    let own: Arc<MemoryNode> = Arc::new(memory[0].clone());
    let any: Vec<Arc<dyn Node>> =
        memory.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Node>).collect();
    let mixed = Redlock::builder().node(&own).node(Arc::clone(&any[1])).node(&memory[2]);
    let lists: [Builder; 6] = [
        Redlock::builder().nodes(&any),
        Redlock::builder().nodes(any),
        Redlock::builder().nodes(memory.clone().map(Arc::new)),
        Redlock::builder().nodes(&memory),
        Redlock::builder().nodes(memory.clone()),
        mixed.clone(),
    ];
    // All are the same nodes: a holder by one list keeps the resource from the others.
    let holder = mixed.connect().await.unwrap();
    let _lease = holder.acquire("r").await.unwrap();
    for list in lists {
        let other = list.connect().await.unwrap();
        assert!(other.try_acquire("r").await.unwrap_err().is_contended());
    }
}

/// Nodes that are held back until an operator admits them can be reached all the same.
#[test]
fn nodes_that_are_held_back_are_waited_for_no_longer_with_outages_than_without() {
    use std::time::{Duration, Instant};

    use quorlock::node::NodeState;

    const TTL: Duration = Duration::from_millis(200);
    let nodes = [(); 3].map(|()| MemoryNode::new());
    nodes.iter().for_each(MemoryNode::restart);
    let builder = || Redlock::builder().nodes(&nodes).ttl(TTL).max_ttl(TTL).strict_admission();
    let _first = builder().build().unwrap();
    let limit = Duration::from_secs(60);
    // The first client has told the nodes of its wait once a newcomer finds it over.
    quorlock_harness::eventually("their quarantine is over for every client", limit, || {
        let newcomer = builder().build().unwrap();
        quorlock_harness::eventually("it has looked at the nodes", limit, || {
            newcomer.nodes().iter().all(|node| node.state != NodeState::Connecting)
        });
        let over = NodeState::Quarantined { remaining: Duration::ZERO };
        newcomer.nodes().iter().all(|node| node.state == over)
    });
    let began = Instant::now();
    let second = builder().wait(limit).wait_through_outages();
    drop(second.blocking_connect().unwrap());
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
}
