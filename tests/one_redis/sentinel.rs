//! Goal: the failover of a real Sentinel, which decides by itself, is one of `failover.rs`.
//!
//! Method: one Sentinel watches the pair; the master is killed, and the address leads to the server that Sentinel
//! names, as a proxy or a name in DNS that follows it does. Sentinel is a mode of the same program as the servers.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use quorlock_harness::redis;
use tempfile::TempDir;

use super::{
    MS, Pair, SECOND, SOON, TTL, client,
    pair::follow,
    soon, token,
    workers::{hold, one_at_a_time},
};

/// One Sentinel that watches a master under the name `pair`. It is killed when dropped.
struct Sentinel {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    fn watch(master: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let config = dir.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nlogfile sentinel.log\n\
             sentinel monitor pair 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds pair 1000\nsentinel failover-timeout pair 10000\n",
            dir.path().display(),
        );
        std::fs::write(&config, text).unwrap();
        Self { process: spawn(&config), port, _dir: dir }
    }

    fn ask<T: redis::FromRedisValue>(&self, what: &[&str]) -> Option<T> {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        let mut connection = client.get_connection_with_timeout(SECOND).ok()?;
        redis::cmd("SENTINEL").arg(what).query(&mut connection).ok()
    }

    /// The port of the master, as Sentinel has it.
    fn master(&self) -> Option<u16> {
        let address: (String, String) = self.ask(&["GET-MASTER-ADDR-BY-NAME", "pair"])?;
        address.1.parse().ok()
    }

    fn knows_replicas(&self) -> usize {
        self.ask::<Vec<redis::Value>>(&["REPLICAS", "pair"]).map_or(0, |replicas| replicas.len())
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(config: &Path) -> Child {
    let chosen = std::env::var_os("REDIS_SERVER_BIN").filter(|path| !path.is_empty());
    let programs = chosen.map_or_else(
        || vec!["redis-server".into(), "valkey-server".into()],
        |program| vec![program],
    );
    let start = |program| {
        let mut command = Command::new(program);
        command.arg(config).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    programs.into_iter().find_map(|program| start(program).ok()).expect("a server to start")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinel_gives_one_holder() {
    let pair = Pair::start();
    follow(&pair.replica, pair.master.port());
    let sentinel = Sentinel::watch(pair.master.port());
    soon("Sentinel knows the replica", || sentinel.knows_replicas() == 1).await;
    let (a, b) = (client(&pair).await, client(&pair).await);
    let held = a.acquire("sentinel").await.unwrap();
    let before = token(&held);
    let failed = Instant::now();
    pair.master.kill();
    // No server answers until Sentinel has promoted the replica, and none votes for a while after that: one call waits
    // through both.
    let asking = tokio::spawn(async move {
        let lease = b.acquire("sentinel").wait(SOON).wait_through_outages().await.unwrap();
        hold(1, &lease, 10 * MS).await
    });
    let first = tokio::spawn(async move { hold(0, &held, SOON).await });
    soon("Sentinel has promoted the replica", || sentinel.master() == Some(pair.replica.port()))
        .await;
    let promoted = failed.elapsed();
    pair.lead_to(&pair.replica);
    let (first, second) = (first.await.unwrap(), asking.await.unwrap());
    one_at_a_time(&[first.clone(), second.clone()]);
    assert!(second.token > before);
    assert!(first.until - failed <= TTL);
    println!("promoted after {promoted:?}, the next holder after {:?}", second.from - failed);
}
