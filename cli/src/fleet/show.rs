//! `quorlock fleet show`: whose each node is, and whether that is the list that is configured.
//!
//! It decides which status says what. It must never mean to use a node, nor raise the longest ttl: it changes nothing.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::Args;
use quorlock::{
    inspect::{Inspection, NodeFacts},
    node::{MarkerFacts, NodeState, Refusal},
    protocol::{Members, Relation},
};
use serde_json::{Value, json};

use super::connected::{Connected, connected};
use crate::{
    args::{Form, Nodes},
    connect::built,
    doctor::{as_json, table},
    exit::{Failure, Status},
    output::{BAD, DOUBTFUL, GOOD, json, line, styled},
    shown::plain,
};

/// Shows which nodes belong together, as each node says: status 0 where a quorum belongs to the list that is configured, 1 where no
/// quorum was let in for it yet, 2 where a node belongs to another list, 69 where too few nodes answer.
#[derive(Args, Clone, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

/// What the nodes are told of `max_ttl`: a look must not prolong their quarantines.
const SHORT: Duration = Duration::from_secs(1);

/// What the nodes together say of the list that is configured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Agrees,
    Nobodys,
    Differs,
    TooFew,
}

pub(crate) async fn show(asked: Show) -> Result<ExitCode, Failure> {
    let builder = asked.nodes.builder()?;
    let short = builder.clone().ttl(SHORT).max_ttl(SHORT).lock_delay(Duration::ZERO);
    // Another setting may not allow for so short a ttl.
    let redlock = built(short).or_else(|_| built(builder))?;
    redlock.look_only();
    let inspection = redlock.inspect(Duration::ZERO).await;
    if inspection.settings.classic {
        let text = "in classic mode a node keeps no list of nodes; leave classic mode out";
        return Err(Failure::new(Status::Usage, text));
    }
    let verdict = verdict(&inspection);
    if asked.form.json {
        json(&as_object(&inspection, verdict));
    } else {
        tell(&inspection, verdict);
    }
    let status = match verdict {
        Verdict::Agrees => Status::Done,
        Verdict::Nobodys => Status::No,
        Verdict::Differs => Status::Bad,
        Verdict::TooFew => Status::Broken,
    };
    Ok(status.into())
}

pub(super) fn marker(node: &NodeFacts) -> Option<&MarkerFacts> {
    node.server.as_ref().ok()?.marker.as_ref()
}

/// The other list that the node belongs to, or is about to.
pub(super) fn of_others<'a>(inspection: &Inspection, node: &'a NodeFacts) -> Option<&'a Members> {
    match &node.status.state {
        NodeState::Refused(Refusal::OtherMembers { other, .. }) => Some(other),
        _ => marker(node)?
            .members
            .as_ref()
            .filter(|record| inspection.members.served_by(record).is_none()),
    }
}

/// The list that means to use a node which belongs to nobody yet, unless that is over.
fn meant(node: &NodeFacts) -> Option<&Members> {
    let marker = marker(node).filter(|marker| marker.members.is_none())?;
    // The node's clock decides; ours is near enough to show it by.
    let is_over = marker.meant_until.is_some_and(|until| until < SystemTime::now());
    marker.meant.as_ref().filter(|_| !is_over)
}

fn verdict(inspection: &Inspection) -> Verdict {
    let nodes = &inspection.nodes;
    let is_ours = |node: &&NodeFacts| {
        let record = marker(node).and_then(|marker| marker.members.as_ref());
        record.is_some_and(|record| inspection.members.served_by(record).is_some())
    };
    let answer = nodes.iter().filter(|node| node.server.is_ok()).count();
    if nodes.iter().any(|node| of_others(inspection, node).is_some()) {
        Verdict::Differs
    } else if answer < inspection.needed {
        Verdict::TooFew
    } else if nodes.iter().filter(is_ours).count() >= inspection.needed {
        Verdict::Agrees
    } else {
        Verdict::Nobodys
    }
}

fn tell(inspection: &Inspection, verdict: Verdict) {
    for row in table::in_columns(inspection.nodes.iter().map(row)) {
        line(&row);
    }
    for node in &inspection.nodes {
        if let NodeState::Refused(refusal) = &node.status.state {
            line(&plain(&format!(
                "node {} ({}): {refusal}",
                node.node.index(),
                node.status.address
            )));
        }
    }
    line("");
    line(&plain(&format!("configured: {}", inspection.members)));
    match connected(inspection) {
        Some(connected) => {
            connected.iter().for_each(|connected| line(&plain(&connected.to_string())));
        }
        None => line(
            "connected: not known, since the user may not run CLIENT LIST on each node; grant `+client|list`",
        ),
    }
    line(&match verdict {
        Verdict::Agrees => styled(GOOD, "a quorum of the nodes belongs to this list"),
        Verdict::Nobodys => styled(
            DOUBTFUL,
            "no quorum of the nodes was let in for this list yet: the first processes that use it have them let in",
        ),
        Verdict::Differs => styled(BAD, difference(inspection)),
        Verdict::TooFew => styled(BAD, "too few nodes answer"),
    });
}

/// What to do where a node belongs to another list.
fn difference(inspection: &Inspection) -> &'static str {
    let others = inspection.nodes.iter().filter_map(|node| of_others(inspection, node));
    let told = others.map(|other| inspection.members.relation(other)).collect::<Vec<_>>();
    let is_told = |of: fn(&Relation) -> bool| told.iter().any(of);
    if is_told(|relation| matches!(relation, Relation::Into(_))) {
        "the fleet is changing to this list: `quorlock fleet change` ends that, or a process with both lists"
    } else if is_told(|relation| matches!(relation, Relation::Left)) {
        "the fleet has left this list: give every process the list of the nodes above"
    } else {
        "a node belongs to another list: give every process the same nodes, or see `quorlock fleet claim --help`"
    }
}

fn row(node: &NodeFacts) -> [String; 6] {
    let marker = marker(node);
    let belongs = match (marker.and_then(|marker| marker.members.as_ref()), meant(node)) {
        (Some(members), _) if members.generation() > 1 => {
            format!("{members}, generation {}", members.generation())
        }
        (Some(members), _) => members.to_string(),
        (None, Some(meant)) => format!("nobody's yet, meant for {meant}"),
        (None, None) if node.server.is_ok() => "nobody's yet".to_owned(),
        (None, None) => "-".to_owned(),
    };
    let since = marker.and_then(|marker| marker.since?.elapsed().ok());
    let longest = marker.and_then(|marker| marker.max_ttl);
    [
        node.node.to_string(),
        node.status.address.to_string(),
        table::state(&node.status.state),
        belongs,
        since.map_or_else(String::new, |since| format!("for {}", coarse(since))),
        longest.map_or_else(String::new, |longest| format!("longest ttl {longest:?}")),
    ]
}

/// A time of which only the largest unit matters: `3 h`, `40 s`.
fn coarse(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2 * length).unwrap_or((1, "s"));
    format!("{} {}", seconds / unit.0, unit.1)
}

fn as_object(inspection: &Inspection, verdict: Verdict) -> Value {
    let verdict = match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Nobodys => "nobodys",
        Verdict::Differs => "differs",
        Verdict::TooFew => "too-few",
    };
    json!({
        "verdict": verdict,
        "needed": inspection.needed,
        "fleet": inspection.members.fleet(),
        "members": names(&inspection.members),
        "members_after": inspection.members.nodes_after().map(|nodes| nodes.collect::<Vec<_>>()),
        "nodes": inspection.nodes.iter().map(of_node).collect::<Vec<Value>>(),
        "connected": connected(inspection)
            .map(|each| each.iter().map(Connected::as_object).collect::<Vec<Value>>()),
    })
}

fn of_node(node: &NodeFacts) -> Value {
    let (state, why) = as_json::state(&node.status.state);
    let (marker, meant) = (marker(node), meant(node));
    let members = marker.and_then(|marker| marker.members.as_ref());
    let until = marker.filter(|_| meant.is_some()).and_then(|marker| marker.meant_until);
    json!({
        "node": node.node.index(),
        "address": &*node.status.address,
        "state": state,
        "why": why,
        "fleet": members.map(Members::fleet),
        "members": members.map(names),
        "members_after": members.and_then(Members::nodes_after).map(|nodes| nodes.collect::<Vec<_>>()),
        "generation": members.map(Members::generation),
        "since": as_json::at(marker.and_then(|marker| marker.since)),
        "meant_fleet": meant.map(Members::fleet),
        "meant": meant.map(names),
        "meant_until": as_json::at(until),
        "max_ttl": marker.and_then(|marker| marker.max_ttl).map(|ttl| ttl.as_secs_f64()),
        "error": node.server.as_ref().err().map(ToString::to_string),
    })
}

fn names(members: &Members) -> Vec<&str> {
    members.nodes().collect()
}
