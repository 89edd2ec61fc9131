//! What is found of one node.
//!
//! It decides from facts alone, and names what follows for locks, since a value by itself says nothing to whoever is woken by
//! it at night.

use super::{
    Finding, Ill, Inspection, NodeFacts, Severity,
    pace::{clock, speed},
    refusal::{not_asked, refused},
};
use crate::node::{LineState, NodeState, Refusal, ServerFacts};

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
            let remedy = "raise its maxmemory, or see what else fills it; docs/deploying.md says what locks take";
            found.push(Finding::new(severity, Ill::MemoryFull, cause, remedy));
        }
    }
    found
}

fn disk(inspection: &Inspection, server: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if inspection.settings.classic {
        let remedy = "set `appendonly yes` and `appendfsync always`, or keep a node that went down unreachable for longer \
                      than the longest ttl (docs/deploying.md, Classic mode); or leave classic mode";
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
        let remedy = "give its user the rights of those who wait (docs/deploying.md, Rights)";
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
                    "bring the other nodes back; with strict_admission an operator has to admit it (docs/deploying.md)",
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
