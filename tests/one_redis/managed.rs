//! Goal: what `docs/deploying.md` says of services that take commands away.
//!
//! Method: a server on which those commands are unknown, by `rename-command`, as such services do it. It is no such
//! service: what they change beside that is not seen here.

use quorlock::{Redlock, node::NodeState};
use quorlock_harness::Server;
use tempfile::TempDir;

use super::{SECOND, SOON, TTL};

/// What ElastiCache's page on restricted commands lists.
const ELASTICACHE: [&str; 10] = [
    "bgrewriteaof",
    "bgsave",
    "config",
    "debug",
    "migrate",
    "replicaof",
    "save",
    "slaveof",
    "shutdown",
    "sync",
];

/// What the page of Memorystore for Redis lists.
const MEMORYSTORE: [&str; 14] = [
    "acl",
    "bgrewriteaof",
    "bgsave",
    "client",
    "cluster",
    "command",
    "config",
    "debug",
    "lastsave",
    "migrate",
    "monitor",
    "object",
    "shutdown",
    "replicaof",
];

fn without(commands: &[&str]) -> (Server, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("commands.conf");
    let lines = commands.iter().map(|command| format!("rename-command {command} \"\"\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let server = Server::builder().arg("include", file.to_str().unwrap()).start();
    (server, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_elasticache_takes_away_is_not_needed() {
    let (server, _dir) = without(&ELASTICACHE);
    let builder = Redlock::builder().node(server.url()).ttl(TTL).max_ttl(TTL);
    let redlock = builder.connect_timeout(10 * SECOND).connect().await.unwrap();
    let lease = redlock.acquire("r").wait(SOON).await.unwrap();
    lease.extend().await.unwrap();
    lease.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_client_tracking_only_classic_mode_works() {
    let (server, _dir) = without(&MEMORYSTORE);
    let builder = || Redlock::builder().node(server.url()).connect_timeout(10 * SECOND);
    let refused = builder().connect().await.unwrap_err();
    let text = quorlock_harness::chain(&refused);
    println!("{text}");
    assert!(text.to_lowercase().contains("client"), "the command is named: {text}");
    let redlock = builder().classic().connect().await.unwrap();
    assert_eq!(redlock.nodes()[0].state, NodeState::Ready);
    redlock.acquire("r").wait(SOON).await.unwrap().release().await.unwrap();
}
