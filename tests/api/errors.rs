//! Errors as text: each is one line that says what to do about it, and none shows a password.

use std::{error::Error, sync::Arc, time::Duration};

#[cfg(feature = "redis")]
use quorlock::ConfigError;
use quorlock::{
    AcquireError, Builder, ConnectError, Redlock, ReleaseError,
    node::{MemoryNode, Node, NodeError, Refusal},
};

use super::fleet;

/// Every error is one line: it starts in lower case, ends without a full stop, and repeats no source.
fn assert_style(error: &(dyn Error + 'static)) {
    let text = error.to_string();
    let first = text.chars().next().expect("an empty message");
    assert!(!first.is_uppercase(), "{text}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    if let Some(source) = error.source() {
        assert!(!text.contains(&source.to_string()), "{text} repeats its source");
        assert_style(source);
    }
}

/// The text of an error, in which the addresses of nodes in memory are replaced by their places.
fn shown(error: &(dyn Error + 'static), nodes: &[MemoryNode]) -> String {
    assert_style(error);
    nodes.iter().enumerate().fold(error.to_string(), |text, (index, node)| {
        text.replace(&*node.status().address, &format!("memory:{index}"))
    })
}

/// What nothing can be said about: a duration that was measured.
fn without_waited(text: &str) -> String {
    let (before, rest) = text.split_once("waited=`").expect(text);
    let (_, after) = rest.split_once('`').expect(text);
    format!("{before}waited=`_`{after}")
}

#[tokio::test]
async fn busy_and_broken_are_two_things() {
    let nodes = fleet();
    let redlock = Redlock::connect(&nodes).await.unwrap();
    for node in &nodes[..2] {
        node.set("r", "another program", None);
    }
    let busy = redlock.try_acquire("r").await.unwrap_err();
    assert!(busy.is_contended() && busy.is_busy());
    assert_eq!(
        without_waited(&shown(&busy, &nodes)),
        "the resource is held by somebody else, waited=`_`, \
         node 0 (memory:0): held by `another program`; \
         node 1 (memory:1): held by `another program`; node 2 (memory:2): not waited for"
    );
    let reports = busy.nodes().unwrap();
    assert_eq!((reports.denials().count(), reports.failures().count()), (2, 0));
    assert!(matches!(busy, AcquireError::Contended { retry_after: None, .. }));

    nodes.iter().take(2).for_each(MemoryNode::kill);
    let broken = redlock.try_acquire("r").await.unwrap_err();
    assert!(!broken.is_contended() && !broken.is_busy());
    assert_eq!(
        shown(&broken, &nodes),
        "too few nodes answered for a quorum, granted=0, needed=2, \
         node 0 (memory:0): not connected, reason=`the node has been killed`; \
         node 1 (memory:1): not connected, reason=`the node has been killed`; \
         node 2 (memory:2): not waited for"
    );
    let reports = broken.nodes().unwrap();
    assert_eq!((reports.denials().count(), reports.failures().count()), (0, 2));
    assert_eq!(reports.iter().map(|report| report.node.index()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[tokio::test]
async fn a_contended_error_says_when_to_try_again() {
    let nodes = fleet();
    let redlock = Redlock::connect(&nodes).await.unwrap();
    let lease = redlock.acquire("r").ttl(Duration::from_secs(30)).await.unwrap();
    let busy = redlock.try_acquire("r").await.unwrap_err();
    let AcquireError::Contended { retry_after: Some(retry_after), .. } = busy else {
        panic!("{busy:?}")
    };
    assert!(retry_after > Duration::from_secs(20) && retry_after <= Duration::from_secs(30));
    let holder = lease.owner().to_string();
    assert!(busy.to_string().contains(&format!("held by `{holder}` for ")), "{busy}");
}

#[tokio::test]
async fn acquire_errors_that_send_nothing() {
    let nodes = fleet();
    let redlock = Redlock::connect(&nodes).await.unwrap();
    let empty = redlock.acquire("").await.unwrap_err();
    assert_eq!(shown(&empty, &nodes), "the resource cannot be locked");
    let source = empty.source().unwrap().to_string();
    assert_eq!(source, "a resource needs a name of at least one byte");
    let long = redlock.acquire(vec![b'x'; 65_537]).await.unwrap_err();
    assert_eq!(
        long.source().unwrap().to_string(),
        "a resource may have at most 65536 bytes, lock a digest of it instead, bytes=65537"
    );
    let ttl = redlock.acquire("r").ttl(Duration::from_millis(9)).await.unwrap_err();
    assert_eq!(
        shown(&ttl, &nodes),
        "the ttl must be between 10ms and 30s and leave more than the minimum validity, \
         ttl=`9ms`, min_validity=`0ns`"
    );
    let greedy = redlock.acquire("r").min_validity(Duration::from_secs(10)).await.unwrap_err();
    assert!(matches!(greedy, AcquireError::Ttl { .. }), "{greedy:?}");
    assert_style(&greedy);
    redlock.close().await.unwrap();
    let closed = redlock.acquire("r").await.unwrap_err();
    assert_eq!(shown(&closed, &nodes), "the redlock has been closed");
    for error in [empty, long, ttl, greedy, closed] {
        assert!(!error.is_busy() && !error.is_contended() && error.nodes().is_none(), "{error:?}");
    }
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
    let crowded = AcquireError::Crowded { waited: Duration::from_millis(20), waiting: 7 };
    assert_eq!(
        shown(&crowded, &[]),
        "more acquires are under way in this process than the nodes answer, waited=`20ms`, waiting=7"
    );
    assert!(crowded.is_busy() && !crowded.is_contended() && crowded.nodes().is_none());
    let ended = AcquireError::RuntimeEnded;
    assert_eq!(shown(&ended, &[]), "the runtime ended before the answer");
    let blocked = "it would block the thread that has to answer it, await it instead";
    assert_eq!(shown(&AcquireError::WouldDeadlock, &[]), blocked);
    assert_eq!(shown(&ReleaseError::WouldDeadlock, &[]), blocked);
    assert_eq!(shown(&ConnectError::WouldDeadlock, &[]), blocked);
}

#[tokio::test]
async fn release_errors() {
    let nodes = fleet();
    let builder = Redlock::builder().nodes(&nodes).danger_skip_quarantine();
    let redlock = builder.connect().await.unwrap();
    let lease = redlock.acquire("r").await.unwrap();
    // Empty, as after a restart: the key is gone everywhere.
    nodes.iter().for_each(MemoryNode::restart);
    let gone = lease.release().await.unwrap_err();
    assert!(matches!(gone, ReleaseError::AlreadyEnded { released: 0, .. }), "{gone:?}");
    assert_eq!(
        shown(&gone, &nodes),
        "the lease had already ended on too many nodes, released=0, node 0 (memory:0): held; \
         node 1 (memory:1): held; node 2 (memory:2): not waited for"
    );
    let lease = redlock.acquire("r").await.unwrap();
    nodes.iter().skip(1).for_each(MemoryNode::kill);
    let unknown = lease.release().await.unwrap_err();
    assert_eq!(
        shown(&unknown, &nodes),
        "too few nodes confirmed the release, released=1, needed=2, node 0 (memory:0): granted; \
         node 1 (memory:1): not connected, reason=`the node has been killed`; \
         node 2 (memory:2): not connected, reason=`the node has been killed`"
    );
    assert_eq!(shown(&ReleaseError::RuntimeEnded, &[]), "the runtime ended before the answer");
}

#[tokio::test]
async fn connect_and_close_errors() {
    let nodes = fleet();
    nodes.iter().skip(1).for_each(MemoryNode::kill);
    let few = Redlock::connect(&nodes).await.unwrap_err();
    assert_eq!(
        shown(&few, &nodes),
        "too few nodes could be reached, ready=1, needed=2, node 0 (memory:0): ready; \
         node 1 (memory:1): down, reason=`the node has been killed`; \
         node 2 (memory:2): down, reason=`the node has been killed`"
    );
    nodes.iter().for_each(MemoryNode::restart);
    let builder = Redlock::builder()
        .nodes(&nodes)
        .danger_skip_quarantine()
        .close_timeout(Duration::from_millis(1));
    let redlock = builder.connect().await.unwrap();
    let lease = redlock.acquire("r").await.unwrap();
    nodes[0].pause();
    drop(lease);
    let cut_off = redlock.close().await.unwrap_err();
    assert_eq!(
        shown(&cut_off, &nodes),
        "releases are still under way after close_timeout, what is left on the nodes expires after the ttl, \
         unfinished=1"
    );
}

#[test]
fn configuration_errors() {
    let build = |builder: Builder| builder.build().unwrap_err();
    let node = MemoryNode::new();
    let cases = [
        (
            build(Redlock::builder()),
            "no nodes are configured, name one, or better three or five, independent masters",
        ),
        (
            build(Redlock::builder().nodes(&fleet()[..2])),
            "two nodes are less available than one, since both are needed: name three, or one",
        ),
        (
            build(Redlock::builder().nodes((0..33).map(|_| MemoryNode::new()))),
            "at most 32 nodes can be configured, five are plenty, nodes=33",
        ),
        (
            build(Redlock::builder().nodes([&node, &MemoryNode::new(), &node])),
            "nodes 0 and 2 are one server, address=`memory:0`",
        ),
        (
            build(Redlock::builder().node(&node).ttl(Duration::ZERO)),
            "ttl must be between 10ms and 30s, value=`0ns`",
        ),
        (
            build(Redlock::builder().node(&node).node_timeout(Duration::MAX)),
            "node_timeout must be between 1ms and 60s, value=`18446744073709551615.999999999s`",
        ),
        (
            build(Redlock::builder().node(&node).key_prefix("quorlock:\n")),
            "the key prefix begins with `quorlock:`, which is kept for the nodes' own keys, choose \
             another, prefix=`quorlock:\\n`",
        ),
        (
            build(Redlock::builder().node(&node).drift(0, Duration::ZERO)),
            "drift per mille must be between 1 and 500, value=`0`",
        ),
        (
            build(Redlock::builder().node(&node).min_validity(Duration::from_secs(10))),
            "the ttl leaves nothing after drift and minimum validity, ttl=`10s`, drift=`102ms`, \
             min_validity=`10s`",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(shown(&error, std::slice::from_ref(&node)), expected);
        let connect = ConnectError::from(error);
        assert_eq!(shown(&connect, &[]), "the configuration cannot be used");
    }
    Redlock::builder().nodes(&fleet()[..2]).danger_allow_two_nodes().build().unwrap();
}

#[test]
#[cfg(feature = "redis")]
fn no_error_and_no_debug_output_shows_a_password() {
    let urls = [
        "redis://user:secret@",
        "redis://user:secret@host:port",
        "redis://:secret@host:99999",
        "redis://:secret@host/name",
        "http://user:secret@host",
        "redis//user:secret@host",
        "secret",
    ];
    for url in urls {
        let builder = Redlock::builder().node(url);
        assert!(!format!("{builder:?}").contains("secret"), "{builder:?}");
        let error = builder.build().expect_err(url);
        let ConfigError::Address { wrong } = &error else { panic!("{error:?}") };
        assert_eq!(wrong.iter().map(|wrong| wrong.index).collect::<Vec<_>>(), [0], "{error:?}");
        assert_style(&error);
    }
}

#[test]
fn node_errors_and_refusals() {
    let text = || Arc::<str>::from("text");
    let errors = [
        (NodeError::NotConnected { reason: text() }, false, "not connected, reason=`text`"),
        (NodeError::TimedOut, true, "no reply within the node timeout"),
        (
            NodeError::ConnectionLost { reason: text() },
            true,
            "the connection broke before the reply, reason=`text`",
        ),
        (
            NodeError::Rejected { sent: false, code: Arc::from("OOM"), message: text() },
            false,
            "the server refused the command, it is out of memory: raise its maxmemory, \
             code=`OOM`, message=`text`",
        ),
        (
            NodeError::Rejected { sent: false, code: Arc::from("ERR"), message: text() },
            false,
            "the server refused the command, code=`ERR`, message=`text`",
        ),
        (
            NodeError::MarkerUnreadable { cause: Box::new(NodeError::TimedOut) },
            false,
            "its marker cannot be read or set, so that it does not vote, \
             cause=`no reply within the node timeout`",
        ),
        (
            NodeError::Panicked { sent: true, message: text() },
            true,
            "the node panicked, message=`text`",
        ),
        (
            NodeError::Unexpected { message: text() },
            true,
            "the reply was not understood, message=`text`",
        ),
        (
            NodeError::Refused(Refusal::Replica),
            false,
            "refused: it is a replica, configure an independent master",
        ),
    ];
    for (error, sent, expected) in errors {
        assert_eq!((shown(&error, &[]).as_str(), error.sent()), (expected, sent));
    }
    let refusals = [
        Refusal::SameServer { other: text() },
        Refusal::SeveralAddresses { addresses: 2 },
        Refusal::Replica,
        Refusal::MayEvict { policy: text() },
        Refusal::MissingRight { command: text(), message: text() },
        Refusal::WrongCredentials { message: text() },
        Refusal::TooOld { version: text() },
        Refusal::Unidentified,
    ];
    refusals.iter().for_each(|refusal| assert_style(refusal));
}
