//! Why a node that answers is not allowed to vote.
//!
//! The one decision here is which of them refuse the whole handle, and not this node alone.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    protocol::{Belongs, Members},
    text,
};

/// Why a node that answers is not allowed to vote. Nothing is left on it; it is checked again from time
/// to time, so no restart of the client is needed once it is fixed.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// It is the same process as another configured node: one vote would count twice. Configure each
    /// server once.
    #[error("it is the same server as the node {other}; configure each server once")]
    SameServer {
        /// The address of the node that is the same.
        other: Arc<str>,
    },
    /// Its name leads to several IPv4 addresses, which may be several servers: two processes might then lock on
    /// two of them, and count both as this node. Name one server, or its address.
    #[error(
        "its name leads to {addresses} addresses, which may be several servers; name one server or its address"
    )]
    SeveralAddresses {
        /// How many there are.
        addresses: usize,
    },
    /// It is a replica, which takes no writes and may be behind. Configure its master, or a server without
    /// replication.
    #[error("it is a replica, which takes no writes; configure an independent master")]
    Replica,
    /// It may evict keys that have a ttl, that is, locks. Set `maxmemory-policy noeviction`, or call
    /// `danger_allow_eviction`.
    #[error(
        "it may evict locks (maxmemory-policy {policy}); set `maxmemory-policy noeviction` (danger_allow_eviction \
         accepts it)"
    )]
    MayEvict {
        /// Its `maxmemory-policy`.
        policy: Arc<str>,
    },
    /// The user that the URL names lacks an ACL right. Grant it; `docs/deploying.md`, "Rights", lists all of them.
    #[error("its ACL user lacks a right ({message}); grant +{command}")]
    MissingRight {
        /// The command that may not be run.
        command: Arc<str>,
        /// What the server said.
        message: Arc<str>,
    },
    /// The server rejected the user name or the password. Correct the URL, or what `Builder::credentials` gives.
    #[error(
        "it rejected the user name or the password ({}); correct them in the URL (percent-encode special characters) \
         or in Builder::credentials",
        .message.trim_end_matches('.')
    )]
    WrongCredentials {
        /// What the server said.
        message: Arc<str>,
    },
    /// The server wants a password, and the URL has none. Put it into the URL.
    #[error(
        "it needs a password, and the URL has none; write redis://:password@host:port or \
         redis://user:password@host:port"
    )]
    PasswordMissing {
        /// What the server said.
        message: Arc<str>,
    },
    /// It is older than Redis 6.2, or than 6.0 in classic mode. Upgrade it.
    #[error("it is too old ({version}); Redis 6.2 (6.0 in classic mode) or Valkey is needed")]
    TooOld {
        /// What it says of itself.
        version: Arc<str>,
    },
    /// It is part of a Redis Cluster, which moves keys to other servers. Configure an independent master.
    #[error(
        "it is part of a Redis Cluster, which moves keys to other servers; configure independent masters \
         (`cluster-enabled no`)"
    )]
    Cluster,
    /// It is in use with another list of nodes, or a fleet of another name, so that quorums would not meet. Give every process
    /// the same list, and each fleet a database of its own. Where the names are of one server, name it behind the URL
    /// (`#redis-3:6379`). Where the other fleet is gone, `quorlock fleet claim` takes the node; `docs/deploying.md` says how to
    /// change a list.
    #[error(
        "other processes {}, as a node of the fleet `{}`, whose nodes are {}; the lists differ: {}; give every process the same nodes, and each server the same \
         name everywhere (#NAME behind its URL); if those other processes are gone for good, run `quorlock fleet claim`",
        .age.map_or_else(
            || "are about to use it".to_owned(),
            |age| format!("have used it for {}", text::coarse(age))
        ),
        other.fleet(),
        other.nodes().collect::<Vec<_>>().join(", "),
        configured.difference(other)
    )]
    OtherMembers {
        /// The nodes with which it is used.
        other: Members,
        /// Those of this process.
        configured: Members,
        /// For how long, by its clock, it has been one of them; `None` where a process means to, and no node was let in yet.
        age: Option<Duration>,
        /// Whether it is one of them, or is about to be.
        belongs: Belongs,
    },
    /// The fleet has left the list of this process for another one. What this process held is over by then. Give it the
    /// present nodes.
    #[error(
        "the fleet `{}` has other nodes by now, {}: {}; give this process the present nodes",
        now.fleet(),
        now.nodes_after().map_or_else(
            || now.nodes().collect::<Vec<_>>().join(", "),
            |after| after.collect::<Vec<_>>().join(", ")
        ),
        configured.difference(now)
    )]
    MembersChanged {
        /// The present nodes, or both lists where the change is under way.
        now: Members,
        /// Those of this process.
        configured: Members,
    },
    /// The server has no such database. Correct the number at the end of the URL, or raise `databases` in the server's
    /// configuration.
    #[error("it has no database {database} ({message}); correct the number at the end of the URL")]
    NoSuchDatabase {
        /// The number that the URL names.
        database: i64,
        /// What the server said.
        message: Arc<str>,
    },
    /// It is a Sentinel, which keeps no keys. Configure independent masters, or one master by all its Sentinels:
    /// `redis+sentinel://host,host,host/master`.
    #[error(
        "it is a Sentinel, which keeps no keys; configure independent masters, or one by its Sentinels \
         (redis+sentinel://host,host,host/master)"
    )]
    Sentinel,
    /// It is in protected mode: it has no password and takes no connection from other machines. Set a password
    /// (`requirepass`, or an ACL user), or bind it to an address that only its clients can reach and set
    /// `protected-mode no`.
    #[error(
        "it is in protected mode and takes no connection from another machine; set a password on it: {message}"
    )]
    ProtectedMode {
        /// What the server said.
        message: Arc<str>,
    },
    /// It does not know a command that this crate needs: it has been renamed or switched off, or this is no Redis or
    /// Valkey server. Switch it on, or use another server.
    #[error(
        "it does not know the command {command}; enable it, or use a Redis or Valkey server that has it: {message}"
    )]
    MissingCommand {
        /// The command.
        command: Arc<str>,
        /// What the server said.
        message: Arc<str>,
    },
    /// The server at that port does not speak the protocol of Redis. Correct the port; a port for TLS wants `rediss://`.
    #[error(
        "its port does not answer as a Redis server; correct the port, or write rediss:// for a port with TLS: \
         {message}"
    )]
    NotRedis {
        /// What was seen.
        message: Arc<str>,
    },
    /// It speaks no TLS, or its certificate or ours was not accepted. Correct the scheme or the port, give the authority by
    /// `tls_ca` and a certificate by `tls_identity`, or renew the certificate.
    #[error(
        "TLS with it failed; check its certificate, tls_ca and tls_identity, or write redis:// for a port without \
         TLS, message=`{message}`"
    )]
    Tls {
        /// What the TLS library said.
        message: Arc<str>,
    },
    /// `danger_skip_quarantine` lets a node that may have forgotten leases vote for everybody, and nothing says that this
    /// server may be thrown away: it is not on this machine. Leave that setting out, so that a new node waits its
    /// quarantine; or, if it really is for development, mark the server: `SET quorlock:throwaway yes`.
    #[error(
        "danger_skip_quarantine is not accepted for a server on another machine; leave it out; if nothing depends on \
         this server, run `SET quorlock:throwaway yes` on it"
    )]
    NotThrowaway,
    /// `INFO` has no `run_id`, so a restart, or the same server twice, could not be told. Use Redis or
    /// Valkey without a proxy in between.
    #[error("its INFO has no run_id; use a Redis or Valkey server without a proxy")]
    Unidentified,
}

impl Refusal {
    /// Whether it says that the list of nodes, or a setting, is wrong, and so refuses the whole handle. Any other is about
    /// this one node, without which the others may be a quorum.
    pub(crate) const fn is_of_handle(&self) -> bool {
        match self {
            Self::SameServer { .. }
            | Self::OtherMembers { .. }
            | Self::MembersChanged { .. }
            | Self::NotThrowaway => true,
            Self::SeveralAddresses { .. }
            | Self::Replica
            | Self::MayEvict { .. }
            | Self::MissingRight { .. }
            | Self::WrongCredentials { .. }
            | Self::PasswordMissing { .. }
            | Self::TooOld { .. }
            | Self::Cluster
            | Self::NoSuchDatabase { .. }
            | Self::Sentinel
            | Self::ProtectedMode { .. }
            | Self::MissingCommand { .. }
            | Self::NotRedis { .. }
            | Self::Tls { .. }
            | Self::Unidentified => false,
        }
    }
}

debug_is_text! { enum Refusal {
    SameServer { other },
    SeveralAddresses { addresses },
    Replica,
    MayEvict { policy },
    MissingRight { command, message },
    WrongCredentials { message },
    PasswordMissing { message },
    TooOld { version },
    Cluster,
    OtherMembers { other, configured, age, belongs },
    MembersChanged { now, configured },
    NoSuchDatabase { database, message },
    Sentinel,
    ProtectedMode { message },
    MissingCommand { command, message },
    NotRedis { message },
    Tls { message },
    NotThrowaway,
    Unidentified,
} }
