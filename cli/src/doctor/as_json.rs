//! What was seen and found, as JSON. Times are seconds, sizes bytes, rates millionths.

use std::time::{SystemTime, UNIX_EPOCH};

use quorlock::{
    inspect::{Finding, Inspection, NodeFacts, Severity},
    node::{ClockOffset, LineState, NodeState, ServerFacts},
    protocol::Members,
};
use serde_json::{Value, json};

pub(crate) fn of(inspection: &Inspection, findings: &[Finding]) -> Value {
    let worst = findings.iter().map(|finding| finding.severity).max();
    json!({
        "fit": worst.is_none_or(|worst| worst < Severity::Warning),
        "worst": worst.map(Severity::name),
        "needed": inspection.needed,
        "classic": inspection.settings.classic,
        "woken_late": inspection.woken_late().as_secs_f64(),
        "findings": findings.iter().map(finding).collect::<Vec<Value>>(),
        "nodes": inspection.nodes.iter().map(node).collect::<Vec<Value>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.name(),
        "ill": finding.ill.name(),
        "node": finding.node.map(|node| node.index()),
        "address": finding.address.as_deref(),
        "cause": finding.cause,
        "remedy": finding.remedy,
    })
}

/// The word for programs, and why the node is refused or down.
pub(crate) fn state(state: &NodeState) -> (&'static str, Option<String>) {
    match state {
        NodeState::Ready => ("votes", None),
        NodeState::Connecting => ("connecting", None),
        NodeState::Quarantined { .. } => ("quarantine", None),
        NodeState::Refused(refusal) => ("refused", Some(refusal.to_string())),
        NodeState::Down { reason } => ("down", Some(reason.to_string())),
        _ => ("unknown", None),
    }
}

/// Seconds since 1970.
pub(crate) fn at(time: Option<SystemTime>) -> Option<f64> {
    Some(time?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

fn node(node: &NodeFacts) -> Value {
    let (state, why) = state(&node.status.state);
    let quarantine = match &node.status.state {
        NodeState::Quarantined { remaining } => Some(remaining.as_secs_f64()),
        _ => None,
    };
    let round_trip = node.round_trips().map(|trips| {
        json!({
            "least": trips.least.as_secs_f64(),
            "quarter": trips.quarter.as_secs_f64(),
            "median": trips.median.as_secs_f64(),
            "worst": trips.worst.as_secs_f64(),
            "count": trips.count,
        })
    });
    let clock = node.clock().map(|clock| {
        let offset = match clock.offset {
            ClockOffset::Ahead(off) => off.as_secs_f64(),
            ClockOffset::Behind(off) => -off.as_secs_f64(),
        };
        json!({
            "offset": offset,
            "uncertainty": clock.uncertainty.as_secs_f64(),
            "rate_least": clock.rate.map(|rate| rate.least),
            "rate_most": clock.rate.map(|rate| rate.most),
        })
    });
    json!({
        "node": node.node.index(),
        "address": &*node.status.address,
        "state": state,
        "why": why,
        "quarantine": quarantine,
        "line": node.status.line == LineState::On,
        "round_trip": round_trip,
        "clock": clock,
        "server": node.server.as_ref().ok().map(server),
        "error": node.server.as_ref().err().map(ToString::to_string),
    })
}

fn server(server: &ServerFacts) -> Value {
    let marker = server.marker.as_ref().map(|marker| {
        let members = marker.members.as_ref();
        json!({
            "state": marker.state.as_deref(),
            "epoch": marker.epoch,
            "fleet": members.map(Members::fleet),
            "members": members.map(|members| members.nodes().collect::<Vec<&str>>()),
            "since": at(marker.since),
            "max_ttl": marker.max_ttl.map(|ttl| ttl.as_secs_f64()),
        })
    });
    json!({
        "version": server.version.as_deref(),
        "run_id": server.run_id.as_deref(),
        "mode": server.mode.as_deref(),
        "role": server.role.as_deref(),
        "replicas": server.replicas,
        "cluster": server.cluster,
        "max_memory": server.max_memory,
        "eviction": server.eviction.as_deref(),
        "used_memory": server.used_memory,
        "append_only": server.append_only,
        "append_fsync": server.append_fsync.as_deref(),
        "save": server.save.as_deref(),
        "not_written": server.not_written.as_deref(),
        "database": server.database,
        "encrypted": server.encrypted,
        "local": server.local,
        "missing_rights": server.missing_rights.iter().map(|right| &**right).collect::<Vec<&str>>(),
        "throwaway": server.throwaway,
        "marker": marker,
        "unanswered": server.unanswered,
        "lost": server.lost.as_deref(),
    })
}
