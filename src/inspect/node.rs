//! What is found of one node.
//!
//! It decides from facts alone, and names what follows for locks, since a value by itself says nothing to whoever is woken by
//! it at night.

use std::time::Duration;

use super::{
    Finding, Ill, Inspection, NodeFacts, Severity,
    offset::{OFFSET, own_clock_off, signed},
    refusal::{not_asked, refused},
};
use crate::{
    node::{LineState, NodeState, Refusal, ServerFacts},
    text::rounded,
};

/// By this much it makes tokens go wrong: no hint takes them further ahead of a node's clock.
const FAR_OFF: Duration = Duration::from_secs(60);
/// In millionths: no clock that is seen to by NTP gains or loses more.
const DRIFTS: f64 = 1000.0;
/// Beside nodes that answer much faster, a node is slow from this on.
const SLOW: Duration = Duration::from_millis(25);
/// This many times as slow as the others.
const SLOWER: u32 = 10;

pub(super) fn findings(inspection: &Inspection, node: &NodeFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    match &node.server {
        Ok(server) => {
            found.extend(kind(inspection, node, server));
            found.extend(rights(server));
            found.extend(memory(inspection, server));
            found.extend(disk(inspection, server));
            found.extend(speed(inspection, node, server));
            found.extend(clock(inspection, node));
            found.extend(keys(inspection, server));
            found.extend(network(inspection, node, server));
            found.extend(lost(node, server));
        }
        Err(error) => found.push(not_asked(error)),
    }
    let is_found = |ill| found.iter().any(|found: &Finding| found.ill == ill);
    // Of a node whose replies come too late nobody knows yet whether it may vote: that is why.
    let too_slow = node.status.state == NodeState::Connecting && is_found(Ill::Slow);
    let standing = standing(inspection, node).filter(|found| !too_slow && !is_found(found.ill));
    found.extend(standing);
    found
}

/// What kind of server it is, and whether it is one of its own.
fn kind(inspection: &Inspection, node: &NodeFacts, server: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut error = |ill, cause: String, remedy: &str| {
        found.push(Finding::new(Severity::Error, ill, cause, remedy));
    };
    let oldest = if inspection.settings.classic { (6, 0) } else { (6, 2) };
    if server.speaks.is_some_and(|speaks| speaks < oldest) {
        let version = server.version.as_deref().unwrap_or("an old version");
        let remedy = "upgrade it to Redis 6.2 (6.0 in classic mode) or Valkey";
        error(Ill::TooOld, format!("it is {version}, which is too old, and does not vote"), remedy);
    }
    if server.role.as_deref().is_some_and(|role| role != "master") {
        let cause = "it is a replica, which takes no writes and may lack what its master granted, and does not vote";
        error(
            Ill::Replica,
            cause.into(),
            "configure an independent master (`REPLICAOF NO ONE` makes it one, in quarantine)",
        );
    }
    if server.cluster == Some(true) || server.mode.as_deref() == Some("cluster") {
        let cause =
            "it is part of a Redis Cluster, which moves keys to other servers, and does not vote";
        error(Ill::Cluster, cause.into(), "configure independent masters (`cluster-enabled no`)");
    }
    let same = inspection.nodes.iter().take(node.node.index()).find(|other| {
        other
            .server
            .as_ref()
            .is_ok_and(|other| other.run_id.is_some() && other.run_id == server.run_id)
    });
    if let Some(other) = same {
        let cause = format!(
            "it is the same server as {} ({}), so that one vote would count twice",
            other.node, other.status.address
        );
        error(Ill::SameServer, cause, "configure each server once");
    }
    if let (Some(here), Some(there), NodeState::Ready) =
        (&server.run_id, &node.status.identity, &node.status.state)
        && here != there
    {
        let cause = "two connections to its address lead to different servers, so that a vote may be asked of one and \
                     counted on the other";
        error(
            Ill::DifferentServers,
            cause.into(),
            "have one server behind each address, without a proxy or a balancer",
        );
    }
    if server.replicas.is_some_and(|replicas| replicas > 0) {
        let severity = if inspection.nodes.len() == 1 { Severity::Note } else { Severity::Warning };
        let follows = if inspection.settings.classic {
            "one that is promoted has not all locks, and two may hold one resource"
        } else {
            "one that is promoted waits the quarantine"
        };
        let cause = format!("it has {} replica(s): {follows}", server.replicas.unwrap_or(0));
        let remedy = "switch replication and failover off for these nodes: the quorum is what bears the loss of one";
        found.push(Finding::new(severity, Ill::HasReplicas, cause, remedy));
    }
    found
}

fn rights(server: &ServerFacts) -> Option<Finding> {
    let (first, rest) = server.missing_rights.split_first()?;
    let plus = rest.iter().fold(format!("+{first}"), |all, right| format!("{all} +{right}"));
    let cause = "its user may not run all commands that locks take, and it does not vote";
    let remedy = format!("ACL SETUSER <user> {plus}");
    Some(Finding::new(Severity::Error, Ill::MissingRight, cause, remedy))
}

fn memory(inspection: &Inspection, server: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let limit = server.max_memory.filter(|limit| *limit > 0);
    if let Some(policy) = server.eviction.as_deref().filter(|policy| *policy != "noeviction") {
        let remedy = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration";
        let (severity, cause) = match (limit, inspection.settings.allow_eviction) {
            (Some(_), false) => {
                (Severity::Error, "it may evict locks that are held, and does not vote")
            }
            (Some(_), true) => {
                (Severity::Warning, "it may evict locks that are held, and votes all the same")
            }
            (None, _) => (Severity::Note, "it would evict locks if it were given a maxmemory"),
        };
        let cause = format!("{cause} (maxmemory-policy {policy})");
        found.push(Finding::new(severity, Ill::MayEvict, cause, remedy));
    }
    if let (Some(limit), Some(used)) = (limit, server.used_memory) {
        let full = used >= limit;
        if full || u128::from(used) * 10 >= u128::from(limit) * 9 {
            let severity = if full { Severity::Error } else { Severity::Warning };
            let evicts = server.eviction.as_deref().is_some_and(|policy| policy != "noeviction");
            let then = if evicts { "evicts keys" } else { "refuses writes" };
            let follows = if full { format!("it {then}") } else { format!("soon it {then}") };
            let cause = format!("its memory is used up ({used} of {limit} bytes): {follows}");
            let remedy = "raise its maxmemory, or see what else fills it; docs/operating.md says what locks take";
            found.push(Finding::new(severity, Ill::MemoryFull, cause, remedy));
        }
    }
    found
}

fn disk(inspection: &Inspection, server: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if inspection.settings.classic {
        let remedy = "set `appendonly yes` and `appendfsync always`, or keep a node that went down unreachable for longer \
                      than the longest ttl (docs/operating.md, Classic mode); or leave classic mode";
        let fsync = server.append_fsync.as_deref();
        let said = match (server.append_only, fsync) {
            (Some(false), _) => Some((
                Severity::Error,
                "it keeps nothing over a restart (appendonly no)".to_owned(),
            )),
            (Some(true), Some(fsync)) if fsync != "always" => Some((
                Severity::Warning,
                format!("it loses the last writes in a crash (appendfsync {fsync})"),
            )),
            _ => None,
        };
        if let Some((severity, cause)) = said {
            let cause = format!(
                "{cause}, which classic mode does not notice: if it comes back within a ttl, two may hold one resource"
            );
            found.push(Finding::new(severity, Ill::NotPersistent, cause, remedy));
        }
    }
    if let Some(why) = &server.not_written {
        let cause = format!("{why}: it may refuse every write (MISCONF)");
        let remedy =
            "free its disk; where nothing has to be kept, switch snapshots off with `save \"\"`";
        found.push(Finding::new(Severity::Error, Ill::NotWritten, cause, remedy));
    }
    found
}

fn speed(inspection: &Inspection, node: &NodeFacts, server: &ServerFacts) -> Option<Finding> {
    let remedy = "see to its load, to slow commands of others on it (SLOWLOG GET), and to the network; or raise node_timeout";
    let limit = inspection.settings.node_timeout;
    let slow = |severity, cause: String| Some(Finding::new(severity, Ill::Slow, cause, remedy));
    if server.unanswered > 0 {
        let cause =
            format!("{} of its replies did not come within the connect timeout", server.unanswered);
        return slow(Severity::Error, cause);
    }
    let trips = node.round_trips()?;
    // A process that is woken late reads replies late, and a server on the same machine answers late: neither is the node's.
    let own = inspection.woken_late() * 2;
    let [quarter, median] = [trips.quarter, trips.median].map(|trip| trip.saturating_sub(own));
    let shown = rounded(trips.median);
    if median >= limit {
        let cause = format!(
            "its replies take {shown:?}, longer than node_timeout ({limit:?}), so that its votes come too late"
        );
        return slow(Severity::Error, cause);
    }
    let others = inspection.nodes.iter().filter(|other| other.node != node.node);
    let mut others: Vec<Duration> =
        others.filter_map(|other| Some(other.round_trips()?.median)).collect();
    others.sort_unstable();
    let typical = others.get(others.len() / 2).copied();
    // A few looks that met something else say nothing: three of four are as slow.
    let much_slower = typical.is_some_and(|typical| median >= typical * SLOWER) && quarter >= SLOW;
    if median * 2 < limit && !much_slower {
        return None;
    }
    let beside = match typical {
        Some(typical) if much_slower => format!("those of the others {:?}", rounded(typical)),
        _ => format!("node_timeout is {limit:?}"),
    };
    slow(Severity::Warning, format!("its replies take {shown:?}, and {beside}"))
}

fn clock(inspection: &Inspection, node: &NodeFacts) -> Vec<Finding> {
    let Some(clock) = node.clock() else { return Vec::new() };
    let mut found = Vec::new();
    // Where most agree with each other and not with us, each is compared with them.
    let ours = own_clock_off(inspection).map_or(0, |(ours, _)| ours);
    let off = signed(clock.offset) - ours;
    let off_by = Duration::from_micros(u64::try_from(off.unsigned_abs()).unwrap_or(u64::MAX));
    if off_by >= OFFSET + clock.uncertainty {
        let severity = if off_by >= FAR_OFF { Severity::Error } else { Severity::Warning };
        let sense = if off > 0 { "ahead" } else { "behind" };
        let cause = format!(
            "its clock is {:.3} s {sense}: no lease is the worse for it, but tokens that begin anew after a majority was lost \
             may be smaller than those of before",
            off_by.as_secs_f64()
        );
        found.push(Finding::new(severity, Ill::ClockOff, cause, "have its clock set by NTP"));
    }
    let Some(rate) = clock.rate else { return found };
    let allowed = f64::from(inspection.settings.drift_per_mille) * 1000.0;
    let drifts = |severity, cause| {
        Finding::new(
            severity,
            Ill::ClockDrifts,
            cause,
            "see to what sets its clock, and to its machine: a virtual one may be starved or have been moved",
        )
    };
    match rate.sure() {
        None => found.push(drifts(
            Severity::Error,
            "its clock has jumped while it was looked at, or does not run evenly: its keys may expire early or late".to_owned(),
        )),
        Some(sure) if sure.abs() >= DRIFTS => {
            let severity = if sure.abs() >= allowed { Severity::Error } else { Severity::Warning };
            let (verb, follows) = if sure > 0.0 { ("gains", "early") } else { ("loses", "late") };
            let cause = format!(
                "its clock {verb} {:.1} ms each second, so that keys expire {follows} there; leases allow for {:.1} ms",
                sure.abs() / 1000.0,
                allowed / 1000.0
            );
            found.push(drifts(severity, cause));
        }
        Some(_) => {}
    }
    found
}

fn keys(inspection: &Inspection, server: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut databases: Vec<i64> = inspection
        .nodes
        .iter()
        .filter_map(|node| Some(node.server.as_ref().ok()?.database))
        .collect();
    databases.sort_unstable();
    // The one that most use; of several, the first.
    let count = |of: i64| databases.iter().filter(|database| **database == of).count();
    let usual = databases.iter().rev().copied().max_by_key(|database| count(*database));
    if let Some(usual) = usual.filter(|usual| *usual != server.database) {
        let cause = format!(
            "its database is {}, and {usual} that of others: a process whose URL names another one has another lock",
            server.database
        );
        let remedy = "let the URLs of all nodes in all processes name the same database; where it is meant, all processes have to name it so";
        found.push(Finding::new(Severity::Warning, Ill::DatabaseDiffers, cause, remedy));
    }
    if server.throwaway == Some(true) {
        let cause = "it says that it may be thrown away: any client with danger_skip_quarantine has it vote for everybody \
                     after a restart, with leases missing";
        let remedy = "DEL quorlock:throwaway, unless it is for development";
        found.push(Finding::new(Severity::Warning, Ill::DangerKey, cause, remedy));
    }
    // What a node of others was told says nothing of this fleet.
    let marker = server.marker.as_ref().filter(|marker| {
        marker.members.as_ref().is_none_or(|members| *members == inspection.members)
    });
    let told = marker.and_then(|marker| marker.max_ttl);
    let ours = inspection.settings.max_ttl;
    if let Some(told) = told.filter(|told| *told > ours && !inspection.settings.classic) {
        let cause = format!(
            "it was told of leases of {told:?}, and max_ttl is {ours:?} here: its quarantine is the longer one"
        );
        let remedy =
            "set max_ttl alike in every process, or lower it: quorlock fleet max-ttl DURATION";
        found.push(Finding::new(Severity::Warning, Ill::MaxTtlDiffers, cause, remedy));
    }
    found
}

fn network(inspection: &Inspection, node: &NodeFacts, server: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if let (LineState::Off { reason }, false) = (&node.status.line, inspection.settings.classic) {
        let cause = format!("whoever waits is not woken by it, and asks again and again: {reason}");
        let remedy = "give its user the rights of those who wait (docs/operating.md, Rights)";
        found.push(Finding::new(Severity::Note, Ill::NoLine, cause, remedy));
    }
    if !server.encrypted && !server.local {
        let cause = "what is sent to it can be read on the way, the password among it";
        let remedy = "write rediss:// where the network is not trusted";
        found.push(Finding::new(Severity::Note, Ill::NotEncrypted, cause, remedy));
    }
    found
}

/// Its connection broke while it was looked at: it is away, or it is there again.
fn lost(node: &NodeFacts, server: &ServerFacts) -> Option<Finding> {
    let why = server.lost.as_ref()?;
    let (severity, now) = match node.status.state {
        NodeState::Ready => (Severity::Warning, "it is there again"),
        // What it waits for or is refused for is told beside it.
        NodeState::Quarantined { .. } | NodeState::Refused(_) => return None,
        _ => (Severity::Error, "it is not reached any more"),
    };
    Some(Finding::new(
        severity,
        Ill::NotReached,
        format!("it went away while it was looked at, and {now}: {why}"),
        "see whether the server was restarted, and what is between it and this machine",
    ))
}

/// Whether another node has turned out to be the same server.
fn is_twice(inspection: &Inspection, node: &NodeFacts) -> bool {
    let run_id = |node: &NodeFacts| node.server.as_ref().ok()?.run_id.clone();
    let others = inspection.nodes.iter().filter(|other| other.node != node.node);
    run_id(node).is_some() && others.map(run_id).any(|other| other == run_id(node))
}

/// Whether it could be asked to the end.
fn is_there(node: &NodeFacts) -> bool {
    node.server.as_ref().is_ok_and(|server| server.lost.is_none())
}

/// Why it does not vote, if it does not.
fn standing(inspection: &Inspection, node: &NodeFacts) -> Option<Finding> {
    match &node.status.state {
        NodeState::Ready => None,
        // Which of both is refused is chance; the later one is told.
        NodeState::Refused(Refusal::SameServer { .. }) if is_twice(inspection, node) => None,
        NodeState::Refused(refusal) => {
            let mut found = refused(refusal);
            // Without a quorum the list may be the wrong one, and the handle is refused.
            if found.ill == Ill::OtherMembers && inspection.has_quorum() {
                found.severity = Severity::Warning;
            }
            Some(found)
        }
        NodeState::Quarantined { remaining } => {
            let (cause, remedy) = if remaining.is_zero() {
                (
                    "its quarantine is over, and it is held back until enough of the others can be asked".to_owned(),
                    "bring the other nodes back; with strict_admission an operator has to admit it (docs/operating.md)",
                )
            } else {
                (
                    format!(
                        "it may have forgotten leases, and does not vote for about {} s more",
                        remaining.as_secs() + 1
                    ),
                    "wait; where it did not restart and is not new, see why it lost its data or its clock jumped",
                )
            };
            Some(Finding::new(Severity::Warning, Ill::Quarantined, cause, remedy))
        }
        // Why it is not reached has been said where it could not be asked either.
        NodeState::Down { .. } | NodeState::Connecting if !is_there(node) => None,
        NodeState::Down { reason } => Some(Finding::new(
            Severity::Error,
            Ill::NotVoting,
            format!("it answers, and does not vote: {reason}"),
            "see to that; it is tried again by itself",
        )),
        NodeState::Connecting => {
            let (ill, limit) = (Ill::NotVoting, inspection.settings.node_timeout);
            let cause = format!(
                "it answers, and does not vote yet: it is looked at still (node_timeout is {limit:?})"
            );
            let remedy = "look again; where that lasts, see to its round trips";
            Some(Finding::new(Severity::Warning, ill, cause, remedy))
        }
    }
}
