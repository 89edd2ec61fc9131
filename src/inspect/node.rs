//! What is found of one node.
//!
//! It decides from facts alone: what its server shows is a list of rules, and behind them stands why it does not vote.

use super::{
    Finding, Ill, Inspection, NodeFacts, Severity,
    refusal::{not_asked, refused},
    rules,
    seen::Seen,
};
use crate::node::{NodeState, Refusal};

pub(super) fn findings(inspection: &Inspection, node: &NodeFacts) -> Vec<Finding> {
    let mut found = match &node.server {
        Ok(server) => rules::findings(&Seen { inspection, node, server }),
        Err(error) => vec![not_asked(error)],
    };
    let is_found = |ill| found.iter().any(|found: &Finding| found.ill == ill);
    // Of a node whose replies come too late nobody knows yet whether it may vote: that is why.
    let too_slow = node.status.state == NodeState::Connecting && is_found(Ill::Slow);
    let standing = standing(inspection, node).filter(|found| !too_slow && !is_found(found.ill));
    found.extend(standing);
    found
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
                    "its quarantine is over; it is held back until enough of the others can be asked".to_owned(),
                    "bring the other nodes back; with strict_admission an operator must admit it (docs/deploying.md)",
                )
            } else {
                (
                    format!(
                        "it may have forgotten leases, so it does not vote for about {} s more",
                        remaining.as_secs() + 1
                    ),
                    "wait; if it neither restarted nor is new, find why it lost its data or its clock jumped",
                )
            };
            Some(Finding::new(Severity::Warning, Ill::Quarantined, cause, remedy))
        }
        // Why it is not reached has been said where it could not be asked either.
        NodeState::Down { .. } | NodeState::Connecting if !is_there(node) => None,
        NodeState::Down { reason } => Some(Finding::new(
            Severity::Error,
            Ill::NotVoting,
            format!("it answers but does not vote: {reason}"),
            "fix that; it is tried again by itself",
        )),
        NodeState::Connecting => {
            let (ill, limit) = (Ill::NotVoting, inspection.settings.node_timeout);
            let cause = format!(
                "it answers but does not vote yet; it is still being checked (node_timeout is {limit:?})"
            );
            let remedy = "look again; if that lasts, check its round trips";
            Some(Finding::new(Severity::Warning, ill, cause, remedy))
        }
    }
}
