//! What the server of a node shows: a rule for each thing that may be found.
//!
//! Each rule looks at facts alone, and its cause names what follows for locks: a value by itself says nothing to an operator
//! who is woken by it. The order of the list is that of the findings.

use super::{
    Finding, Ill, Severity,
    pace::{clock_drifts, clock_off, slow},
    seen::{Found, Seen, found},
};
use crate::node::{LineState, NodeState, ServerFacts};

struct Rule {
    ill: Ill,
    find: fn(&Seen<'_>) -> Option<Found>,
    remedy: &'static str,
}

const fn rule(ill: Ill, find: fn(&Seen<'_>) -> Option<Found>, remedy: &'static str) -> Rule {
    Rule { ill, find, remedy }
}

#[rustfmt::skip]
const RULES: [Rule; 19] = [
    rule(Ill::TooOld, too_old, "upgrade it to Redis 6.2 (6.0 in classic mode) or Valkey"),
    rule(Ill::Replica, replica, "configure an independent master (`REPLICAOF NO ONE` makes it one, in quarantine)"),
    rule(Ill::Cluster, cluster, "configure independent masters (`cluster-enabled no`)"),
    rule(Ill::SameServer, same_server, "configure each server once"),
    rule(Ill::DifferentServers, different_servers, "have one server behind each address, without a proxy or a balancer"),
    rule(Ill::HasReplicas, has_replicas, "switch replication and failover off for these nodes; the quorum already bears the loss of one"),
    rule(Ill::MissingRight, missing_right, "ACL SETUSER <user>"),
    rule(Ill::MayEvict, may_evict, "CONFIG SET maxmemory-policy noeviction, and the same in its configuration"),
    rule(Ill::MemoryFull, memory_full, "raise its maxmemory, or find what else fills it; docs/deploying.md says what locks take"),
    rule(Ill::NotPersistent, not_persistent, "set `appendonly yes` and `appendfsync always`; or keep a node that went down unreachable for longer than the longest ttl (docs/deploying.md, Classic mode); or leave classic mode"),
    rule(Ill::NotWritten, not_written, "free its disk; where nothing has to be kept, switch snapshots off with `save \"\"`"),
    rule(Ill::Slow, slow, "check its load, slow commands of others on it (SLOWLOG GET), and the network; or raise node_timeout"),
    rule(Ill::ClockOff, clock_off, "set its clock by NTP"),
    rule(Ill::ClockDrifts, clock_drifts, "check what sets its clock, and its machine; a virtual machine may be starved, or was moved"),
    rule(Ill::DatabaseDiffers, database_differs, "name the same database in the URLs of all nodes in all processes; if it is intended, all processes must name it so"),
    rule(Ill::DangerKey, danger_key, "DEL quorlock:throwaway, unless it is for development"),
    rule(Ill::MaxTtlDiffers, max_ttl_differs, "set max_ttl alike in every process, or lower it: quorlock fleet max-ttl DURATION"),
    rule(Ill::NoLine, no_line, "grant its user the rights of waiters (docs/deploying.md, Rights)"),
    rule(Ill::NotEncrypted, not_encrypted, "write rediss:// where the network is not trusted"),
];

/// Of a server whose connection broke while it was looked at.
const LOST: Rule = rule(
    Ill::NotReached,
    lost,
    "check whether the server restarted, and the network between it and this machine",
);

pub(super) fn findings(seen: &Seen<'_>) -> Vec<Finding> {
    let rules = RULES.iter().chain([&LOST]);
    let found = rules.filter_map(|rule| Some((rule, (rule.find)(seen)?)));
    let finding = |(rule, Found(severity, cause, rest)): (&Rule, Found)| {
        Finding::new(severity, rule.ill, cause, format!("{}{rest}", rule.remedy))
    };
    found.map(finding).collect()
}

fn too_old(seen: &Seen<'_>) -> Option<Found> {
    let oldest = if seen.inspection.settings.classic { (6, 0) } else { (6, 2) };
    seen.server.speaks.filter(|speaks| *speaks < oldest)?;
    let version = seen.server.version.as_deref().unwrap_or("an old version");
    found(Severity::Error, format!("it is {version}, which is too old, so it does not vote"))
}

fn replica(seen: &Seen<'_>) -> Option<Found> {
    seen.server.role.as_deref().filter(|role| *role != "master")?;
    let cause =
        "it is a replica; it takes no writes, may lack what its master granted, and does not vote";
    found(Severity::Error, cause)
}

fn cluster(seen: &Seen<'_>) -> Option<Found> {
    let is_part =
        seen.server.cluster == Some(true) || seen.server.mode.as_deref() == Some("cluster");
    let cause =
        "it is part of a Redis Cluster, which moves keys to other servers, so it does not vote";
    is_part.then(|| found(Severity::Error, cause)).flatten()
}

fn same_server(Seen { inspection, node, server }: &Seen<'_>) -> Option<Found> {
    let here = server.run_id.as_ref()?;
    let mut before = inspection.nodes.iter().take(node.node.index());
    let same = before.find(|other| {
        other.server.as_ref().is_ok_and(|other| other.run_id.as_ref() == Some(here))
    })?;
    let cause = format!(
        "it is the same server as {} ({}), so one vote would count twice",
        same.node, same.status.address
    );
    found(Severity::Error, cause)
}

fn different_servers(Seen { node, server, .. }: &Seen<'_>) -> Option<Found> {
    let (here, there) = (server.run_id.as_ref()?, node.status.identity.as_ref()?);
    let differs = node.status.state == NodeState::Ready && here != there;
    let cause = "two connections to its address lead to different servers; a vote may be asked of one and counted on \
                 the other";
    differs.then(|| found(Severity::Error, cause)).flatten()
}

fn has_replicas(Seen { inspection, server, .. }: &Seen<'_>) -> Option<Found> {
    let replicas = server.replicas.filter(|replicas| *replicas > 0)?;
    let severity = if inspection.nodes.len() == 1 { Severity::Note } else { Severity::Warning };
    let follows = if inspection.settings.classic {
        "a promoted one lacks some locks, and two clients may hold one resource"
    } else {
        "a promoted one waits out the quarantine first"
    };
    found(severity, format!("it has {replicas} replica(s): {follows}"))
}

fn missing_right(seen: &Seen<'_>) -> Option<Found> {
    let rights = &seen.server.missing_rights;
    let rest: String = rights.iter().map(|right| format!(" +{right}")).collect();
    let cause = "the ACL user lacks commands that locking needs, so this node does not vote";
    (!rights.is_empty()).then(|| Found(Severity::Error, cause.to_owned(), rest))
}

/// The most memory that it may use, where it has such a limit.
fn limit(server: &ServerFacts) -> Option<u64> {
    server.max_memory.filter(|limit| *limit > 0)
}

fn evicts(server: &ServerFacts) -> Option<&str> {
    server.eviction.as_deref().filter(|policy| *policy != "noeviction")
}

fn may_evict(Seen { inspection, server, .. }: &Seen<'_>) -> Option<Found> {
    let policy = evicts(server)?;
    let (severity, cause) = match (limit(server), inspection.settings.allow_eviction) {
        (Some(_), false) => (Severity::Error, "it may evict held locks, so it does not vote"),
        (Some(_), true) => (Severity::Warning, "it may evict held locks, and votes all the same"),
        (None, _) => (Severity::Note, "it would evict locks if it had a maxmemory"),
    };
    found(severity, format!("{cause} (maxmemory-policy {policy})"))
}

fn memory_full(Seen { server, .. }: &Seen<'_>) -> Option<Found> {
    let (limit, used) = (limit(server)?, server.used_memory?);
    let full = used >= limit;
    if !full && u128::from(used) * 10 < u128::from(limit) * 9 {
        return None;
    }
    let severity = if full { Severity::Error } else { Severity::Warning };
    let then = if evicts(server).is_some() { "evicts keys" } else { "refuses writes" };
    let follows = if full { format!("it {then}") } else { format!("soon it {then}") };
    found(severity, format!("its memory is used up ({used} of {limit} bytes): {follows}"))
}

/// In classic mode nobody notices a restart.
fn not_persistent(Seen { inspection, server, .. }: &Seen<'_>) -> Option<Found> {
    let (severity, cause) = match (server.append_only?, server.append_fsync.as_deref()) {
        _ if !inspection.settings.classic => return None,
        (false, _) => {
            (Severity::Error, "it keeps nothing across a restart (appendonly no)".to_owned())
        }
        (true, Some(fsync)) if fsync != "always" => (
            Severity::Warning,
            format!("it loses the last writes in a crash (appendfsync {fsync})"),
        ),
        _ => return None,
    };
    let cause = format!(
        "{cause}; classic mode does not notice; if it comes back within a ttl, two clients may hold one resource"
    );
    found(severity, cause)
}

fn not_written(seen: &Seen<'_>) -> Option<Found> {
    let why = seen.server.not_written.as_ref()?;
    found(Severity::Error, format!("{why}: it may refuse every write (MISCONF)"))
}

fn database_differs(Seen { inspection, server, .. }: &Seen<'_>) -> Option<Found> {
    let servers = inspection.nodes.iter().filter_map(|node| node.server.as_ref().ok());
    let mut databases: Vec<i64> = servers.map(|server| server.database).collect();
    databases.sort_unstable();
    // The one that most use; of several, the first.
    let count = |of: i64| databases.iter().filter(|database| **database == of).count();
    let usual = databases.iter().rev().copied().max_by_key(|database| count(*database))?;
    let cause = format!(
        "its database is {}, other nodes use {usual}; a process whose URL names another database has another lock",
        server.database
    );
    (usual != server.database).then(|| found(Severity::Warning, cause)).flatten()
}

fn danger_key(seen: &Seen<'_>) -> Option<Found> {
    seen.server.throwaway.filter(|is_said| *is_said)?;
    let cause = "it is marked as throwaway; any client with danger_skip_quarantine lets it vote for everybody after a \
                 restart, with leases missing";
    found(Severity::Warning, cause)
}

fn max_ttl_differs(Seen { inspection, server, .. }: &Seen<'_>) -> Option<Found> {
    let marker = server.marker.as_ref()?;
    // What a node of others was told says nothing of this fleet.
    let is_ours =
        marker.members.as_ref().is_none_or(|record| inspection.members.served_by(record).is_some());
    let (told, ours) = (marker.max_ttl?, inspection.settings.max_ttl);
    if !is_ours || told <= ours || inspection.settings.classic {
        return None;
    }
    let cause = format!(
        "it was told of leases of {told:?}, but max_ttl here is {ours:?}; its quarantine follows the longer one"
    );
    found(Severity::Warning, cause)
}

fn no_line(Seen { inspection, node, .. }: &Seen<'_>) -> Option<Found> {
    let LineState::Off { reason } = &node.status.line else { return None };
    let cause = format!("it wakes no waiters, so they poll it: {reason}");
    (!inspection.settings.classic).then(|| found(Severity::Note, cause)).flatten()
}

fn not_encrypted(seen: &Seen<'_>) -> Option<Found> {
    let is_open = !seen.server.encrypted && !seen.server.local;
    let cause = "its connection is not encrypted; the traffic, including the password, can be read on the way";
    is_open.then(|| found(Severity::Note, cause)).flatten()
}

/// It is away, or it is there again.
fn lost(Seen { node, server, .. }: &Seen<'_>) -> Option<Found> {
    let why = server.lost.as_ref()?;
    let (severity, now) = match node.status.state {
        NodeState::Ready => (Severity::Warning, "it is back"),
        // What it waits for or is refused for is told beside it.
        NodeState::Quarantined { .. } | NodeState::Refused(_) => return None,
        _ => (Severity::Error, "it cannot be reached"),
    };
    found(severity, format!("its connection broke during the inspection; {now}: {why}"))
}
