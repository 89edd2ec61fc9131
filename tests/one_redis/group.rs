//! A master and its replica that three Sentinels watch, which tell clients and each other where the master is.
//!
//! Sentinel is a mode of the same program as the servers. The Sentinels are a user of their own on both servers, so that
//! they can be cut off from one that clients still reach.

use std::{
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    time::Duration,
};

use quorlock_harness::{Server, eventually, redis};
use tempfile::TempDir;

use super::{SECOND, SOON, pair::replication_of};

/// What the master is called.
const NAME: &str = "main";

pub(super) struct Group {
    pub(super) servers: [Server; 2],
    pub(super) sentinels: Vec<Sentinel>,
}

impl Group {
    /// The first server is the master, and all Sentinels know the other one and each other.
    pub(super) fn start() -> Self {
        let server = || {
            let builder = Server::builder().password("secret").arg("masterauth", "secret");
            builder.arg("repl-diskless-sync-delay", "0").start()
        };
        let servers = [server(), server()];
        servers.iter().for_each(let_sentinels_in);
        follow(&servers[1], &servers[0]);
        let sentinels: Vec<Sentinel> =
            (0..3).map(|_| Sentinel::watch(servers[0].port(), 2)).collect();
        for sentinel in &sentinels {
            eventually("the Sentinels know all", SOON, || {
                let known: usize = sentinel.number("num-other-sentinels");
                known == 2 && sentinel.number("num-slaves") == 1
            });
        }
        Self { servers, sentinels }
    }

    pub(super) fn url(&self) -> String {
        self.url_by(self.sentinels.iter().map(Sentinel::port))
    }

    /// The same, with the Sentinels at other ports.
    pub(super) fn url_by(&self, ports: impl Iterator<Item = u16>) -> String {
        let places: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://:secret@{}/{NAME}", places.join(","))
    }

    /// The place of the master in `servers`, as most Sentinels name it.
    pub(super) fn master(&self) -> Option<usize> {
        let is = |port: u16| {
            let names = |sentinel: &&Sentinel| sentinel.master() == Some(port);
            self.sentinels.iter().filter(names).count() >= 2
        };
        self.servers.iter().position(|server| is(server.port()))
    }

    /// Waits until the server is a replica of the other one.
    pub(super) fn let_follow(&self, server: usize) {
        let_sentinels_in(&self.servers[server]);
        follow(&self.servers[server], &self.servers[1 - server]);
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.answers()) {
            eventually("the Sentinels see the replica", SOON, || sentinel.sees_replica());
        }
    }
}

/// They cannot use the server any more, and all others can.
pub(super) fn cut_off_sentinels(server: &Server) {
    server.run(&["ACL", "DELUSER", "sentinel"]);
}

pub(super) fn let_sentinels_in(server: &Server) {
    let rights = ["on", ">watch", "~*", "&*", "+@all"];
    server.run(&[&["ACL", "SETUSER", "sentinel"], &rights[..]].concat());
}

fn follow(server: &Server, master: &Server) {
    server.run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("it follows", SOON, || replication_of(server).contains("master_link_status:up"));
}

/// One Sentinel. It is killed when dropped.
pub(super) struct Sentinel {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    /// Watches a master, whose end so many must see.
    pub(super) fn watch(master: u16, quorum: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let config = dir.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nlogfile sentinel.log\n\
             sentinel monitor {NAME} 127.0.0.1 {master} {quorum}\n\
             sentinel auth-user {NAME} sentinel\nsentinel auth-pass {NAME} watch\n\
             sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 2000\n",
            dir.path().display(),
        );
        std::fs::write(&config, text).unwrap();
        let chosen = std::env::var_os("REDIS_SERVER_BIN").filter(|path| !path.is_empty());
        let programs = chosen.map_or_else(
            || vec!["redis-server".into(), "valkey-server".into()],
            |program| vec![program],
        );
        let start = |program| {
            let mut command = Command::new(program);
            command.arg(&config).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn()
        };
        let process = programs.into_iter().find_map(|program| start(program).ok());
        let sentinel = Self { process: process.expect("a server to start"), port, _dir: dir };
        eventually("a Sentinel answers", SOON, || sentinel.answers());
        sentinel
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL, for good.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The port of the master, as this one has it.
    pub(super) fn master(&self) -> Option<u16> {
        self.fields()?.get("port")?.parse().ok()
    }

    pub(super) fn run(&self, command: &[&str]) {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let (name, args) = command.split_first().unwrap();
        redis::cmd(name).arg(args).exec(&mut connection).unwrap();
    }

    fn answers(&self) -> bool {
        self.fields().is_some()
    }

    fn number(&self, field: &str) -> usize {
        self.fields().and_then(|fields| fields.get(field)?.parse().ok()).unwrap_or(0)
    }

    fn sees_replica(&self) -> bool {
        let replicas: Option<Vec<std::collections::HashMap<String, String>>> =
            self.ask(&["REPLICAS", NAME]);
        let is_well = |fields: &std::collections::HashMap<String, String>| {
            fields.get("flags").is_some_and(|flags| flags == "slave")
                && fields.get("master-link-status").is_some_and(|link| link == "ok")
        };
        replicas.is_some_and(|replicas| replicas.iter().all(is_well))
    }

    fn fields(&self) -> Option<std::collections::HashMap<String, String>> {
        self.ask(&["MASTER", NAME])
    }

    fn ask<T: redis::FromRedisValue>(&self, what: &[&str]) -> Option<T> {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        let mut connection = client.get_connection_with_timeout(SECOND).ok()?;
        connection.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        redis::cmd("SENTINEL").arg(what).query(&mut connection).ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
    }
}
