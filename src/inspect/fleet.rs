//! What is found of all nodes together, and of this process.
//!
//! It decides from facts alone.

use std::time::Duration;

use super::{Finding, Ill, Inspection, Severity, offset::own_clock_off};
use crate::{node::NodeState, text::counted};

pub(super) fn findings(inspection: &Inspection) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(quorum(inspection));
    found.extend(number(inspection));
    found.extend(settings(inspection));
    found.extend(own_clock(inspection));
    found
}

fn quorum(inspection: &Inspection) -> Option<Finding> {
    let Inspection { nodes, needed, .. } = inspection;
    if inspection.has_quorum() {
        return None;
    }
    let votes = inspection.votes();
    let waits = nodes
        .iter()
        .filter(|node| matches!(node.status.state, NodeState::Quarantined { .. }))
        .count();
    let remedy = if votes + waits >= *needed {
        "enough of the others are in quarantine, which ends by itself; wait, and look again"
    } else {
        "fix the nodes below"
    };
    let cause = format!(
        "votes: {votes} of {}, too few for a quorum of {needed}; nothing can be acquired or renewed",
        counted(nodes.len(), "node")
    );
    Some(Finding::new(Severity::Error, Ill::NoQuorum, cause, remedy))
}

fn number(inspection: &Inspection) -> Option<Finding> {
    let nodes = inspection.nodes.len();
    if nodes % 2 == 1 || nodes == 0 {
        return None;
    }
    let tolerated = nodes - inspection.needed;
    let cause = format!(
        "{nodes} nodes tolerate the loss of {tolerated}, like {}, but one more can fail",
        counted(nodes - 1, "node")
    );
    let remedy = "use an odd number of nodes; docs/deploying.md says how to change it";
    Some(Finding::new(Severity::Note, Ill::EvenNumber, cause, remedy))
}

fn settings(inspection: &Inspection) -> Vec<Finding> {
    let settings = &inspection.settings;
    let danger = |cause: &str| {
        let remedy = "leave the setting out where anything depends on these locks";
        Finding::new(Severity::Warning, Ill::DangerSetting, cause, remedy)
    };
    let mut found = Vec::new();
    if settings.skip_quarantine && !settings.classic {
        found.push(danger(
            "danger_skip_quarantine is set; a node that has forgotten leases votes at once, and two clients may hold \
             one resource",
        ));
    }
    if settings.allow_eviction {
        found.push(danger(
            "danger_allow_eviction is set; a node may evict a held lock, and two clients may hold one resource",
        ));
    }
    found
}

fn own_clock(inspection: &Inspection) -> Option<Finding> {
    let (off, nodes) = own_clock_off(inspection)?;
    let shown = Duration::from_micros(u64::try_from(off.unsigned_abs()).unwrap_or(u64::MAX));
    let sense = if off > 0 { "behind" } else { "ahead of" };
    let cause = format!(
        "the clock of this machine is {:.3} s {sense} those of {nodes} nodes that agree; tokens that begin anew after \
         the loss of a majority, and the times that `holder` shows, follow it",
        shown.as_secs_f64()
    );
    let remedy = "set this machine's clock by NTP";
    Some(Finding::new(Severity::Warning, Ill::ClockOff, cause, remedy))
}
