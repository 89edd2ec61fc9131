//! Errors as text: each is one line that says the cause, what is left and what to do, and none shows a password.
//!
//! `tests/messages` has the whole text of each as a user meets it, on real servers.

use std::{error::Error, sync::Arc, time::Duration};

#[cfg(feature = "redis")]
use quorlock::ConfigError;
use quorlock::{
    AcquireError, Builder, CloseError, ConnectError, ExtendError, LeaseLost, NodeOutcome,
    NodeReport, NodeStates, ProclaimError, Redlock, ReleaseError, Reports, RunError,
    node::{MemoryNode, Node, NodeError, NodeState, Refusal},
    protocol::{Denial, LossReason, NodeId, Resource, ResourceError, Target},
};

use super::fleet;

/// Every error is one line: it starts in lower case or with a number, and ends without a full stop. And all of it is in
/// the text: a source would be lost where the error alone is printed, or be printed twice.
fn assert_style(error: &(dyn Error + 'static)) {
    let text = error.to_string();
    let first = text.chars().next().expect("an empty message");
    assert!(!first.is_uppercase(), "{text}");
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(format!("{error:?}"), text);
    assert!(!format!("{error:#?}").contains("secret"), "{error:#?}");
    assert!(error.source().is_none(), "{text} has a source");
    assert_eq!(disagreeing(&text), None, "{text}");
}

/// Of a text in which one is called several: what stands there.
fn disagreeing(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let is_many = |word: &str| match word.trim_end_matches([',', ';', ':', '.', ')']) {
        "are" | "were" => true,
        word => word.ends_with('s') && !["is", "was"].contains(&word),
    };
    let wrong = words.windows(2).find(|pair| pair[0] == "1" && is_many(pair[1]));
    wrong.map(|pair| pair.join(" "))
}

#[test]
fn one_is_told_from_several() {
    assert_eq!(disagreeing("at 1 nodes; so"), Some("1 nodes;".to_owned()));
    assert_eq!(disagreeing("1 are not"), Some("1 are".to_owned()));
    assert_eq!(disagreeing("of 1 node, 21 nodes, 1 is"), None);
    let nodes = || -> NodeStates {
        [(text("a:6379"), NodeState::Refused(Refusal::Replica))].into_iter().collect()
    };
    for many in [1, 2] {
        let node = if many == 1 { "1 node" } else { "2 nodes" };
        let (released, gone, working) = (many, many, many);
        for error in [
            &ConnectError::NoQuorum { ready: 0, needed: many, nodes: nodes() } as &dyn Error,
            &ConnectError::NotAllNodes { ready: 0, needed: many, nodes: nodes() },
            &CloseError::Unfinished { unfinished: many },
            &CloseError::Unreleased { released, gone, unconfirmed: many, working },
            &ProclaimError::Unconfirmed { told: 0, needed: many },
            &AcquireError::Resource(ResourceError::Permits { permits: many, max: 256 }),
        ] {
            assert_style(error);
            println!("{error}");
        }
        let unheard = ProclaimError::Unconfirmed { told: 0, needed: many }.to_string();
        assert!(unheard.contains(node), "{unheard}");
    }
    assert!(
        ConnectError::Refused { nodes: nodes() }
            .to_string()
            .starts_with("1 of 1 node cannot vote as configured")
    );
}

/// The text of an error, in which the addresses of nodes in memory are replaced by their places.
fn shown(error: &(dyn Error + 'static), nodes: &[MemoryNode]) -> String {
    assert_style(error);
    nodes.iter().enumerate().fold(error.to_string(), |text, (index, node)| {
        text.replace(&*node.status().address, &format!("memory:{index}"))
    })
}

/// The text without a measured duration, which stands between these two.
fn without_waited(text: &str, before: &str, after: &str) -> String {
    let (head, rest) = text.split_once(before).expect(text);
    let (_, tail) = rest.split_once(after).expect(text);
    format!("{head}{before}_{after}{tail}")
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
        without_waited(&shown(&busy, &nodes), "free within ", "; "),
        "the resource `r` is held by another client; it did not become free within _; nothing of this attempt \
         stays on the nodes; wait longer or try again: nodes 0, 1 (memory:0, memory:1): held by \
         `another program`, no expiry known; node 2 (memory:2): granted"
    );
    let reports = busy.nodes().unwrap();
    assert_eq!((reports.denials().count(), reports.failures().count()), (2, 0));
    assert!(matches!(busy, AcquireError::Contended { expires_in: None, .. }));

    nodes.iter().take(2).for_each(MemoryNode::kill);
    let broken = redlock.try_acquire("r").await.unwrap_err();
    assert!(!broken.is_contended() && !broken.is_busy());
    assert_eq!(
        shown(&broken, &nodes),
        "the resource `r` was not acquired: no quorum (0 of 2 needed nodes granted); partial locks are being \
         released; fix the nodes that failed, since retrying alone does not help: nodes 0, 1 (memory:0, \
         memory:1): not connected: the node has been killed; node 2 (memory:2): not asked"
    );
    let reports = broken.nodes().unwrap();
    assert_eq!((reports.denials().count(), reports.failures().count()), (0, 2));
    assert_eq!(reports.iter().map(|report| report.node.index()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[tokio::test]
async fn a_contended_error_says_when_to_try_again() {
    let nodes = fleet();
    let builder = Redlock::builder().nodes(&nodes).max_ttl(Duration::from_secs(30));
    let redlock = builder.connect().await.unwrap();
    let lease = redlock.acquire("r").ttl(Duration::from_secs(30)).await.unwrap();
    let busy = redlock.try_acquire("r").await.unwrap_err();
    let AcquireError::Contended { expires_in: Some(expires_in), .. } = busy else {
        panic!("{busy:?}")
    };
    assert!(expires_in > Duration::from_secs(20) && expires_in <= Duration::from_secs(30));
    let holder = lease.owner().to_string();
    assert!(
        busy.to_string().contains(&format!("`{holder}`, holds the resource `r` for ")),
        "{busy}"
    );
}

#[tokio::test]
async fn acquire_errors_that_send_nothing() {
    let nodes = fleet();
    let redlock = Redlock::connect(&nodes).await.unwrap();
    let empty = redlock.acquire("").await.unwrap_err();
    assert_eq!(
        shown(&empty, &nodes),
        "invalid resource; nothing was sent: its name is empty; check for a variable that was never set"
    );
    let long = redlock.acquire(vec![b'x'; 65_537]).await.unwrap_err();
    assert_eq!(
        shown(&long, &nodes),
        "invalid resource; nothing was sent: its key has 65537 bytes, at most 65536 are allowed; lock a digest of it \
         instead"
    );
    let ttl = redlock.acquire("r").ttl(Duration::from_millis(9)).await.unwrap_err();
    assert_eq!(
        shown(&ttl, &nodes),
        "the resource `r` was not acquired: the ttl of 9ms is below the minimum of 10ms; nothing was sent"
    );
    let greedy = redlock.acquire("r").min_validity(Duration::from_secs(10)).await.unwrap_err();
    assert!(matches!(greedy, AcquireError::Ttl { .. }), "{greedy:?}");
    assert_eq!(
        shown(&greedy, &nodes),
        "the resource `r` was not acquired: the ttl of 10s, less the allowance for clocks, does not exceed the \
         minimum validity of 10s; ask for a ttl above 10.102s, or for less validity; nothing was sent"
    );
    let eternal = redlock.acquire("r").ttl(Duration::from_secs(60)).await.unwrap_err();
    let max_ttl = Redlock::builder().node(&nodes[0]).ttl(Duration::MAX).build().unwrap_err();
    let max_ttl = shown(&max_ttl, &nodes).replace("18446744073709551615.999999999s", "60s");
    let expected = format!("the resource `r` was not acquired: {max_ttl}; nothing was sent");
    assert_eq!(shown(&eternal, &nodes), expected);
    assert!(max_ttl.contains("renewed") && max_ttl.contains("raise max_ttl"), "{max_ttl}");
    redlock.close().await.unwrap();
    let closed = redlock.acquire("r").await.unwrap_err();
    assert_eq!(
        shown(&closed, &nodes),
        "this Redlock is closed, perhaps through a clone; nothing stays on the nodes; acquire before closing, or \
         connect a new one"
    );
    for error in [empty, long, ttl, greedy, eternal, closed] {
        assert!(!error.is_busy() && !error.is_contended() && error.nodes().is_none(), "{error:?}");
        assert_eq!(error.suggested_pause(), None, "{error:?}");
    }
    assert!(nodes.iter().all(|node| node.keys().is_empty()));
    let target = || Resource::new("r").ok().map(Target::from);
    let waited = Duration::from_millis(20);
    let one = AcquireError::Crowded { target: target(), waited, waiting: 1 };
    assert!(shown(&one, &[]).contains(" after 20ms with 1 other waiting; "), "{one}");
    let crowded = AcquireError::Crowded { target: target(), waited, waiting: 7 };
    assert_eq!(
        shown(&crowded, &[]),
        "the resource `r` was not acquired: too many acquires are in flight in this process; timed out after 20ms \
         with 7 others waiting; nothing stays on the nodes; the state of the resource is unknown; wait longer, start \
         fewer at once, or find what slows the nodes"
    );
    assert!(crowded.is_busy() && !crowded.is_contended() && crowded.nodes().is_none());
    let ended = AcquireError::RuntimeEnded;
    assert_eq!(
        shown(&ended, &[]),
        "the runtime ended before the answer, or this process was forked; what was set expires \
         after the ttl and any lock-delay; keep the runtime alive, and connect in the process that acquires"
    );
    let blocked = |left: &str| {
        format!(
            "blocking here would stop the thread that has to answer it; {left}; await it instead, \
             or block another thread"
        )
    };
    assert_eq!(shown(&AcquireError::WouldDeadlock, &[]), blocked("nothing was sent"));
    let goes_on = blocked("the release goes on in the background");
    assert_eq!(shown(&ReleaseError::WouldDeadlock, &[]), goes_on);
    assert_eq!(shown(&ConnectError::WouldDeadlock, &[]), blocked("nothing was connected"));
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
        "the lease on the resource `r` had ended before its release: released on 0 nodes; on too many nodes its key was \
         gone, or another client's key was there; nothing of it stays on the nodes; check whether the work overlapped with another holder's; \
         use a longer ttl or renewal: nodes 0, 1 (memory:0, memory:1): its key is gone; \
         node 2 (memory:2): no answer yet"
    );
    let lease = redlock.acquire("r").await.unwrap();
    nodes.iter().for_each(|node| node.set("r", "another program", None));
    let taken = lease.release().await.unwrap_err().to_string();
    assert!(taken.contains("): held by another client; ") && !taken.contains("is gone"), "{taken}");
    nodes.iter().for_each(MemoryNode::restart);
    let lease = redlock.acquire("r").await.unwrap();
    nodes.iter().skip(1).for_each(MemoryNode::kill);
    let unknown = lease.release().await.unwrap_err();
    assert_eq!(
        shown(&unknown, &nodes),
        "the release of the lease on the resource `r` is unconfirmed: 1 of 2 needed nodes confirmed it; it goes on in \
         the background; keys out of reach expire after the ttl and any lock-delay; nothing needs to be done; other \
         clients may have to wait until then: node 0 (memory:0): released; nodes 1, 2 (memory:1, memory:2): not \
         connected: \
         the node has been killed"
    );
    assert_eq!(
        shown(&ReleaseError::RuntimeEnded, &[]),
        "the runtime ended before the release was answered, or this process was forked and the \
         lease is its parent's; the key expires after the ttl and any lock-delay; keep the runtime alive, and release \
         in the process that acquired"
    );
}

#[tokio::test]
async fn connect_and_close_errors() {
    let nodes = fleet();
    nodes.iter().skip(1).for_each(MemoryNode::kill);
    let few = Redlock::connect(&nodes).await.unwrap_err();
    assert_eq!(
        shown(&few, &nodes),
        "no quorum: 1 node usable in time, 2 needed; nothing was locked; fix the nodes that are not ready, or their \
         addresses; or use Builder::build, which does not wait for nodes: node 0 (memory:0): ready; nodes 1, 2 \
         (memory:1, memory:2): down, the node has been killed"
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
    let said = |unfinished: &str| {
        format!(
            "close_timeout passed with {unfinished} unfinished (releases or rounds); pending work goes on while the \
             process lives; keys left on the nodes expire after the ttl and any lock-delay; close earlier, or raise \
             close_timeout"
        )
    };
    // The last answer to the acquire may not have been read either.
    let told = [said("1 operation"), said("2 operations")];
    assert!(told.contains(&shown(&cut_off, &nodes)), "{cut_off}");
}

#[test]
fn configuration_errors() {
    let build = |builder: Builder| builder.build().unwrap_err();
    let node = MemoryNode::new();
    let cases = [
        (
            build(Redlock::builder()),
            "no nodes are configured; name one, or better three or five, independent masters",
        ),
        (
            build(Redlock::builder().nodes(&fleet()[..2])),
            "two nodes are less available than one, since both are needed; name three, or one \
             (Builder::danger_allow_two_nodes accepts two)",
        ),
        (
            build(Redlock::builder().nodes((0..33).map(|_| MemoryNode::new()))),
            "33 nodes are configured, at most 32 are allowed; five are plenty",
        ),
        (
            build(Redlock::builder().nodes([&node, &MemoryNode::new(), &node])),
            "nodes 0 and 2 are one server, memory:0, whose vote would count twice; name each server once, whatever \
             the database",
        ),
        (
            build(Redlock::builder().node(&node).ttl(Duration::ZERO)),
            "ttl is 0ns and must be between 10ms and 10s",
        ),
        (
            build(Redlock::builder().node(&node).node_timeout(Duration::MAX)),
            "node_timeout is 18446744073709551615.999999999s and must be between 1ms and 60s",
        ),
        (
            build(Redlock::builder().node(&node).key_prefix("quorlock:\n")),
            "the key prefix `quorlock:\\n` begins with `quorlock:`, which is reserved for the nodes' own keys; choose another",
        ),
        (
            build(Redlock::builder().node(&node).drift(0, Duration::ZERO)),
            "drift per mille is 0 and must be between 1 and 500",
        ),
        (
            build(Redlock::builder().node(&node).min_validity(Duration::from_secs(10))),
            "the ttl of 10s, less 102ms for clocks, does not exceed the minimum validity of 10s; ask for a longer \
             ttl, or for less validity",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(shown(&error, std::slice::from_ref(&node)), expected);
        let connect = ConnectError::from(error);
        let text = "invalid configuration; nothing was connected: ";
        assert_eq!(shown(&connect, std::slice::from_ref(&node)), format!("{text}{expected}"));
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
        (NodeError::NotConnected { reason: text() }, false, "not connected: text"),
        (NodeError::TimedOut, true, "no reply within the node timeout"),
        (
            NodeError::ConnectionLost { reason: text() },
            true,
            "the connection broke before the reply: text",
        ),
        (
            NodeError::Rejected { sent: false, code: Arc::from("OOM"), message: text() },
            false,
            "the server refused the command; it is out of memory; raise its maxmemory: OOM \
             text",
        ),
        (
            NodeError::Rejected { sent: false, code: Arc::from("ERR"), message: text() },
            false,
            "the server refused the command: ERR text",
        ),
        (
            NodeError::MarkerUnreadable { cause: Box::new(NodeError::TimedOut) },
            false,
            "its marker cannot be read or set, so it does not vote: no reply within the node \
             timeout",
        ),
        (
            NodeError::CounterImplausible,
            true,
            "its fencing counter is more than a day ahead of this client's clock and of other nodes; check the wall \
             clocks of the clients; docs/deploying.md says more",
        ),
        (NodeError::Panicked { sent: true, message: text() }, true, "the node panicked: text"),
        (
            NodeError::Unexpected { message: text() },
            true,
            "the reply was not understood; check that this is a Redis or Valkey server without a proxy that changes \
             replies: text",
        ),
        (
            NodeError::Refused(Refusal::Replica),
            false,
            "refused: it is a replica, which takes no writes; configure an independent master",
        ),
    ];
    for (error, sent, expected) in errors {
        assert_eq!((shown(&error, &[]).as_str(), error.sent()), (expected, sent));
    }
    let members = || quorlock::protocol::Members::new("default", ["a"]);
    let refusals = [
        Refusal::SameServer { other: text() },
        Refusal::SeveralAddresses { addresses: 2 },
        Refusal::Replica,
        Refusal::MayEvict { policy: text() },
        Refusal::MissingRight { command: text(), message: text() },
        Refusal::WrongCredentials { message: text() },
        Refusal::PasswordMissing { message: text() },
        Refusal::NoSuchDatabase { database: 99, message: text() },
        Refusal::Sentinel,
        Refusal::ProtectedMode { message: text() },
        Refusal::MissingCommand { command: text(), message: text() },
        Refusal::NotRedis { message: text() },
        Refusal::NotThrowaway,
        Refusal::Cluster,
        Refusal::OtherMembers {
            other: members(),
            configured: members(),
            age: None,
            belongs: quorlock::protocol::Belongs::Claim,
        },
        Refusal::TooOld { version: text() },
        Refusal::Unidentified,
    ];
    refusals.iter().for_each(|refusal| assert_style(refusal));
}

#[test]
fn a_test_can_make_the_errors_that_a_service_answers_with() {
    const SECOND: Duration = Duration::from_secs(1);
    let pause = |error: AcquireError| {
        assert_style(&error);
        error.suggested_pause().map(|pause| pause.as_secs_f64())
    };
    let ms = Duration::from_millis;
    for (expires_in, suggested) in [
        (None, 1.0),
        (Some(Duration::ZERO), 1.0),
        (Some(ms(1)), 1.0),
        (Some(ms(2_001)), 3.0),
        (Some(3 * SECOND), 3.0),
        // It may be released at any moment.
        (Some(25 * 86_400 * SECOND), 10.0),
        (Some(Duration::MAX), 10.0),
    ] {
        let error = AcquireError::contended(expires_in);
        assert!(error.is_contended() && error.nodes().is_some());
        assert_eq!(pause(error), Some(suggested), "{expires_in:?}");
    }
    for (remaining, suggested) in
        [(Duration::ZERO, 1.0), (ms(11_200), 12.0), (11 * SECOND, 11.0), (Duration::MAX, 3600.0)]
    {
        let error = AcquireError::quarantined(remaining);
        assert!(!error.is_busy(), "nobody holds it");
        assert_eq!(pause(error), Some(suggested), "{remaining:?}");
    }
    assert_eq!(pause(AcquireError::no_quorum()), Some(5.0));
    let (waited, ttl, elapsed, min_validity) = (SECOND, SECOND, SECOND, ms(200));
    assert_eq!(pause(AcquireError::Crowded { target: None, waited, waiting: 1 }), Some(1.0));
    assert_eq!(
        pause(AcquireError::TooLate { target: None, ttl, elapsed, min_validity }),
        Some(1.0)
    );
    assert_eq!(pause(AcquireError::RuntimeEnded), None);
    assert_eq!(pause(AcquireError::WouldDeadlock), None);
    // With reports, and the others that name nodes.
    let said = NodeOutcome::Denied(Denial::new(None, Some(SECOND)));
    let nodes: Reports = [NodeReport::new(NodeId::new(1), "b:6379", said)].into_iter().collect();
    assert_eq!(nodes.to_string(), "node 1 (b:6379): held by another client for 1s");
    let states: NodeStates = [(text("a:6379"), NodeState::Connecting)].into_iter().collect();
    assert_style(&ConnectError::Refused { nodes: states });
    // Nodes that are well are not blamed for a process that was stopped.
    let renewal = LeaseLost::new(LossReason::RenewalFailed);
    assert!(shown(&renewal, &[]).contains("renewals, or this process stood still"), "{renewal}");
    let lost = RunError::from(LeaseLost::new(LossReason::Gone));
    assert_eq!(
        shown(&lost, &[]),
        "the lease is lost: too many nodes no longer have its key; keys left on the nodes expire or are being \
         released; another client may hold the resource now; stop the work, and acquire anew"
    );
    assert_eq!(shown(&ExtendError::from(LeaseLost::new(LossReason::Gone)), &[]), lost.to_string());
    let (validity, nodes) = (ms(1_234), Reports::default());
    for error in [
        ExtendError::InDoubt { target: None, validity, nodes },
        ExtendError::MaxHold { target: None, validity },
    ] {
        assert!(shown(&error, &[]).contains("as valid as before, for 1.23s more"), "{error}");
    }
    let ended = ExtendError::RuntimeEnded { target: None, validity };
    assert!(
        shown(&ended, &[]).contains("for 1.23s more, and is not renewed here any more"),
        "{ended}"
    );
}

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

#[tokio::test]
async fn a_quarantine_is_an_answer_of_its_own_and_no_outage() {
    let nodes = fleet();
    let second = Duration::from_secs(1);
    let builder = Redlock::builder().nodes(&nodes).ttl(second).max_ttl(second);
    let redlock = builder.connect().await.unwrap();
    redlock.acquire("r").await.unwrap().release().await.unwrap();
    nodes.iter().take(2).for_each(MemoryNode::restart);
    // It cannot end in time, and is waited for all the same: others may have seen the nodes for longer.
    let early = redlock.acquire("r").wait(second / 2).await.unwrap_err();
    let AcquireError::Quarantined { waited, remaining, nodes: reports, .. } = &early else {
        panic!("{early:?}")
    };
    assert!(*waited >= second / 4 && !remaining.is_zero(), "{early:?}");
    assert_eq!(reports.failures().count(), 2, "{early:?}");
    assert_eq!(early.suggested_pause().map(|pause| pause.as_secs()), Some(1), "{early:?}");
    assert!(!early.is_busy() && !early.is_contended());
    let at_once = redlock.try_acquire("r").await.unwrap_err();
    assert!(matches!(at_once, AcquireError::Quarantined { .. }), "{at_once:?}");
    // And where it can, it is waited for.
    redlock.acquire("r").wait(10 * second).await.unwrap().release().await.unwrap();
    // A node that is down as well is another matter: then a quorum is not only a matter of time.
    nodes[2].kill();
    nodes[1].kill();
    let outage = redlock.try_acquire("r").await.unwrap_err();
    assert!(matches!(outage, AcquireError::NoQuorum { granted: 0, needed: 2, .. }), "{outage:?}");
}
