//! Facts of nodes: of those in memory, of one that says nothing, and of real servers by way of their session's own status.

use std::{sync::Arc, time::Duration};

use futures::executor::block_on;
use quorlock::{
    Redlock,
    inspect::{Finding, FleetError, ForceError, Ill, Severity},
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeSpec, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Serves},
    runtime::TokioRuntime,
};
#[cfg(feature = "tls-rustls-ring")]
use quorlock_harness::TestCa;
#[cfg(feature = "redis")]
use quorlock_harness::{Cluster, Proxy, Server, admit, connected};

use super::{MS, SECOND, connect, nodes};

fn ills(findings: &[Finding]) -> Vec<(Ill, Option<usize>)> {
    findings.iter().map(|found| (found.ill, found.node.map(|node| node.index()))).collect()
}

#[test]
fn nodes_in_memory_are_fit_until_one_is_killed() {
    let nodes = nodes(5);
    let redlock = connect(&nodes);
    let inspection = block_on(redlock.inspect(10 * MS));
    assert_eq!(inspection.findings(), []);
    assert_eq!((inspection.nodes.len(), inspection.needed), (5, 3));
    nodes[3].kill();
    assert_eq!(
        ills(&block_on(redlock.inspect(Duration::ZERO)).findings()),
        [(Ill::NotReached, Some(3))]
    );
    nodes[3].restart();
    let findings = block_on(redlock.inspect(Duration::ZERO)).findings();
    assert_eq!(ills(&findings), [(Ill::Quarantined, Some(3))]);
    assert_eq!(findings[0].severity, Severity::Warning);
}

/// It works on a handle that is closed, and on one whose first connections are being made.
#[test]
fn a_handle_in_any_state_is_looked_at() {
    let nodes = nodes(3);
    let redlock = Redlock::builder().nodes(&nodes).build().unwrap();
    assert_eq!(block_on(redlock.inspect(Duration::ZERO)).findings(), []);
    block_on(redlock.close()).unwrap();
    assert_eq!(block_on(redlock.inspect(Duration::ZERO)).findings(), []);
}

#[test]
fn settings_that_give_something_up_are_found() {
    let danger =
        Redlock::builder().nodes(nodes(3)).danger_skip_quarantine().danger_allow_eviction();
    let findings = block_on(block_on(danger.connect()).unwrap().inspect(Duration::ZERO)).findings();
    assert_eq!(ills(&findings), [(Ill::DangerSetting, None), (Ill::DangerSetting, None)]);
    let even = connect(&nodes(4));
    let findings = block_on(even.inspect(Duration::ZERO)).findings();
    assert_eq!(ills(&findings), [(Ill::EvenNumber, None)]);
    assert_eq!(findings[0].severity, Severity::Note);
}

/// A node of a user's that implements none of this.
#[derive(Debug)]
struct Silent(MemoryNode);

impl Node for Silent {
    fn start(&self, context: NodeContext) {
        self.0.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        self.0.call(command)
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.0.join(join)
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.0.admit(epoch, floor, serves)
    }

    fn status(&self) -> NodeStatus {
        self.0.status()
    }
}

#[test]
fn a_node_that_does_not_say_what_it_is_is_a_note() {
    let specs = nodes(3).into_iter().map(|node| NodeSpec::new(Arc::new(Silent(node))));
    let redlock = block_on(Redlock::builder().nodes(specs).connect()).unwrap();
    let findings = block_on(redlock.inspect(Duration::ZERO)).findings();
    assert_eq!(findings.len(), 3, "{findings:#?}");
    assert!(findings.iter().all(|found| found.severity == Severity::Note), "{findings:#?}");
    assert!(block_on(redlock.resources("*").next_page()).is_err());
}

/// A server is asked in the way in which its session speaks with it, whatever that is.
#[cfg(feature = "tls-rustls-ring")]
#[test]
fn servers_behind_tls_and_sockets_and_a_prefix_are_asked() {
    let ca = TestCa::new();
    let cluster = Cluster::start_with(3, |node, builder| {
        if node == 2 { builder.unix_socket(true) } else { builder.tls(&ca) }
    });
    let urls = [cluster[0].tls_url(), cluster[1].tls_url(), cluster[2].unix_url()];
    let builder = || {
        let builder = Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
        builder.nodes(&urls).key_prefix("app:").tls_ca(ca.ca_pem())
    };
    admit(builder());
    let inspection = block_on(block_on(builder().connect()).unwrap().inspect(300 * MS));
    assert_eq!(inspection.findings(), []);
    let seen = inspection.nodes.iter().map(|node| node.server.as_ref().unwrap());
    let seen: Vec<_> = seen.map(|server| (server.encrypted, server.local)).collect();
    assert_eq!(seen, [(true, true), (true, true), (false, true)]);
    for node in &inspection.nodes {
        assert!(node.round_trips().unwrap().count >= 2, "{node:#?}");
        let server = node.server.as_ref().unwrap();
        assert_eq!(server.append_only, Some(false));
        // Of these every user of a plain server may ask.
        assert!(server.append_fsync.is_some() && server.save.is_some(), "{server:#?}");
        assert!(node.clock().is_some(), "{node:#?}");
    }
}

/// As behind a balancer, or a service that has put another server behind the address and kept the connection.
#[cfg(feature = "redis")]
#[test]
fn two_servers_behind_one_address_are_found() {
    let (cluster, other) = (Cluster::start(3), Server::start());
    let proxy = Proxy::start(cluster[1].port());
    let urls = [cluster[0].url(), proxy.url(), cluster[2].url()];
    let builder = || {
        let builder = Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND);
        builder.nodes(&urls)
    };
    admit(builder());
    let redlock = connected(builder());
    assert_eq!(block_on(redlock.inspect(MS)).findings(), []);
    proxy.retarget(other.port());
    let findings = block_on(redlock.inspect(MS)).findings();
    assert_eq!(ills(&findings), [(Ill::DifferentServers, Some(1))]);
}

#[test]
fn when_the_runtime_has_ended_that_is_said() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redlock = runtime.block_on(async {
        let builder = Redlock::builder().nodes(nodes(3)).runtime(TokioRuntime::current().unwrap());
        builder.connect().await.unwrap()
    });
    drop(runtime);
    let findings = block_on(redlock.inspect(10 * SECOND)).findings();
    assert!(
        findings.iter().any(|found| found.cause.contains("runtime has ended")),
        "{findings:#?}"
    );
    let error = block_on(redlock.resources("*").next_page()).unwrap_err();
    assert!(matches!(error, FleetError::RuntimeEnded), "{error}");
    let error = block_on(redlock.force_release("r")).unwrap_err();
    assert!(matches!(error, ForceError::RuntimeEnded), "{error}");
}

#[test]
fn blocking_forms_answer_elsewhere_and_never_stop_the_thread_that_answers() {
    let redlock = connect(&nodes(3));
    let lease = redlock.acquire("r").ttl(SECOND).blocking().unwrap();
    assert_eq!(redlock.blocking_inspect(Duration::ZERO).unwrap().findings(), []);
    assert_eq!(redlock.resources("*").blocking_next_page().unwrap().unwrap().len(), 1);
    assert_eq!(redlock.blocking_lines("*").unwrap().lines, []);
    assert_eq!(redlock.blocking_force_release("r").unwrap().was.owner, Some(lease.owner()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let builder = Redlock::builder().nodes(nodes(3)).runtime(TokioRuntime::current().unwrap());
        let here = builder.connect().await.unwrap();
        assert!(here.blocking_inspect(Duration::ZERO).is_err());
        let error = here.resources("*").blocking_next_page().unwrap_err();
        assert!(matches!(error, FleetError::WouldDeadlock), "{error}");
        let error = here.blocking_lines("*").unwrap_err();
        assert!(matches!(error, FleetError::WouldDeadlock), "{error}");
        let error = here.blocking_force_release("r").unwrap_err();
        assert!(matches!(error, ForceError::WouldDeadlock), "{error}");
    });
}

/// So that they can be spawned.
#[test]
fn what_is_awaited_may_go_to_another_thread() {
    fn sends<T: Send>(_: &T) {}
    let redlock = connect(&nodes(1));
    sends(&redlock.inspect(Duration::ZERO));
    sends(&redlock.force_release("r"));
    sends(&redlock.resources("*").next_page());
    sends(&redlock.lines("*"));
}
