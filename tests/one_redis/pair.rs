//! A master and its replica behind one address, as Sentinel with a proxy, or a managed Redis, shows them.
//!
//! The address is all that clients know. It promotes, kills and turns only what the test says.

use quorlock_harness::{Proxy, Server, eventually, redis};

use super::SOON;

/// Two servers, the one that the address leads to, and the way on which they replicate.
pub(super) struct Pair {
    pub(super) master: Server,
    pub(super) replica: Server,
    address: Proxy,
    /// From the replica to the master.
    replication: Proxy,
}

impl Pair {
    /// The replica follows, and the address leads to the master.
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same, with more settings of both.
    pub(super) fn start_with(settings: &[(&str, &str)]) -> Self {
        let server = || {
            let builder = Server::builder().arg("repl-diskless-sync-delay", "0");
            let set = |builder: quorlock_harness::ServerBuilder, (name, value): &(&str, &str)| {
                builder.arg(name, value)
            };
            settings.iter().fold(builder, set).start()
        };
        let (master, replica) = (server(), server());
        let (address, replication) = (Proxy::start(master.port()), Proxy::start(master.port()));
        let pair = Self { master, replica, address, replication };
        follow(&pair.replica, pair.replication.port());
        pair
    }

    /// What clients are configured with.
    pub(super) fn url(&self) -> String {
        self.address.url()
    }

    /// The address as it stands in events.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.address.port())
    }

    /// The replica hears of nothing from now on.
    pub(super) fn cut_replication(&self) {
        self.replication.blackhole(true);
    }

    /// New connections lead to this server from now on, and those that are open stay where they are.
    pub(super) fn lead_to(&self, server: &Server) {
        self.address.retarget(server.port());
    }

    /// What Sentinel does once the master is gone: the replica becomes a master, and the address leads to it.
    pub(super) fn promote(&self) {
        promote(&self.replica);
        self.lead_to(&self.replica);
    }

    /// The master dies with all it had, and the replica takes its place.
    pub(super) fn fail_over(&self) {
        self.master.kill();
        self.promote();
    }

    /// Closes the connections of all clients, as the end of a master does.
    pub(super) fn close_connections(&self) {
        self.address.cut();
        self.address.heal();
    }
}

/// Has a server replicate what answers at a port, and waits until it does.
pub(super) fn follow(server: &Server, port: u16) {
    server.run(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
    eventually("the replica follows", SOON, || {
        replication_of(server).contains("master_link_status:up")
    });
}

pub(super) fn promote(server: &Server) {
    server.run(&["REPLICAOF", "NO", "ONE"]);
    assert!(replication_of(server).contains("role:master"));
}

pub(super) fn replication_of(server: &Server) -> String {
    redis::from_redis_value(server.run(&["INFO", "replication"])).unwrap()
}
