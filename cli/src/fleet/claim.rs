//! `quorlock fleet claim`: takes nodes from a list that nobody uses any more, after asking whether that is so.
//!
//! It decides when it asks, and which status says what. It must never go on without a yes, by `--yes` or on a terminal, nor take
//! a node of members that it has not shown.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use quorlock::{
    Redlock,
    inspect::{FleetError, Inspection, Outcome},
    node::NodeState,
    protocol::Members,
};

use super::{seconds, show::of_others};
use crate::{
    args::Nodes,
    ask,
    exit::{Failure, Status},
    output::{BAD, line, styled},
    shown::{counted, plain},
};

/// Takes the nodes that belong to another list, and waits until a quorum votes: status 0 done, 1 there is nothing to take or it was
/// not confirmed, 69 too few nodes answer or vote.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It ends the fleet of that other list: its processes are refused from then on, and their leases are lost. So end all of them \
first, and start none with the old list again.

Each node counts as one that has forgotten, and votes after its quarantine: the longest ttl, a tenth of \
it, and two node timeouts.")]
pub(crate) struct Claim {
    /// Does not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    nodes: Nodes,
}

/// Beyond the quarantine: for the admission of one node after the other, on a busy machine too.
const ADMITTED: Duration = Duration::from_secs(30);

pub(crate) async fn claim(asked: Claim) -> Result<ExitCode, Failure> {
    let redlock = asked.nodes.connect()?;
    let inspection = redlock.inspect(Duration::ZERO).await;
    let owners = owners(&inspection);
    if owners.is_empty() {
        return Err(nothing(&inspection));
    }
    for (members, nodes) in &owners {
        line(&plain(&format!("used as {members}: {}", nodes.join(", "))));
    }
    line(&plain(&format!("configured: {}", inspection.members)));
    if !asked.yes && !confirmed(&owners)? {
        return Err(Failure::new(Status::No, "nothing was changed"));
    }
    let from: Vec<Members> = owners.into_iter().map(|(members, _)| members).collect();
    let claimed = redlock.claim_nodes_from(&from).await;
    let claimed = claimed.map_err(|error| failure(&error))?;
    for node in &claimed {
        line(&plain(&format!("{} {}: {}", node.node, node.address, node.outcome)));
    }
    let taken = claimed.iter().filter(|node| matches!(node.outcome, Outcome::Taken { .. })).count();
    if taken == 0 {
        return Err(Failure::new(Status::Broken, "no node was taken"));
    }
    line(&format!("{} taken", counted(taken, "node")));
    until_it_votes(&redlock, quarantine(&inspection)).await
}

/// The other lists that own nodes, with the addresses of these.
fn owners(inspection: &Inspection) -> Vec<(Members, Vec<String>)> {
    let mut owners: Vec<(Members, Vec<String>)> = Vec::new();
    for node in &inspection.nodes {
        let Some(other) = of_others(inspection, node) else { continue };
        let address = node.status.address.to_string();
        match owners.iter_mut().find(|(members, _)| members == other) {
            Some((_, addresses)) => addresses.push(address),
            None => owners.push((other.clone(), vec![address])),
        }
    }
    owners
}

/// Why there is nothing to take.
fn nothing(inspection: &Inspection) -> Failure {
    let answer = inspection.nodes.iter().filter(|node| node.server.is_ok()).count();
    if inspection.settings.classic {
        return failure(&FleetError::Classic);
    }
    if answer < inspection.needed {
        let nodes = counted(inspection.nodes.len(), "node");
        return Failure::new(Status::Broken, format!("too few nodes answer: {answer} of {nodes}"));
    }
    Failure::new(Status::No, "no node belongs to another list, and nothing was changed")
}

/// The longest time that a node waits if it is taken now.
fn quarantine(inspection: &Inspection) -> Duration {
    let markers = inspection.nodes.iter().filter_map(|node| node.server.as_ref().ok());
    let told = markers.filter_map(|server| server.marker.as_ref()?.max_ttl);
    let settings = &inspection.settings;
    if settings.skip_quarantine {
        return Duration::ZERO;
    }
    let longest = told.fold(settings.max_ttl, Duration::max);
    longest + longest / 10 + 2 * settings.node_timeout
}

/// Explains, and waits for a yes on the terminal.
fn confirmed(owners: &[(Members, Vec<String>)]) -> Result<bool, Failure> {
    let what = "the nodes belong to another list, and nobody can be asked whether its processes have ended";
    let line = |(members, _): &(Members, Vec<String>)| {
        let members = plain(&members.to_string()).to_string();
        let lost = styled(BAD, "Their leases are lost.");
        format!("Every process that uses the nodes as {members} has ended? {lost}")
    };
    let lines: Vec<String> = owners.iter().map(line).collect();
    ask::confirmed(what, &lines, "Write yes to take the nodes")
}

/// Says what is waited for, and waits.
async fn until_it_votes(redlock: &Redlock, quarantine: Duration) -> Result<ExitCode, Failure> {
    line(&format!("waits until a quorum votes: the quarantine takes {}", seconds(quarantine)));
    let ready = redlock.ready(quarantine + ADMITTED).await;
    ready.map_err(|error| Failure::new(Status::Broken, error))?;
    let votes = redlock.nodes().iter().filter(|node| node.state == NodeState::Ready).count();
    line(&format!("votes: {votes} of {}", counted(redlock.nodes().len(), "node")));
    Ok(Status::Done.into())
}

/// Why nothing was done.
pub(super) fn failure(error: &FleetError) -> Failure {
    let status = match error {
        FleetError::Classic => Status::Usage,
        FleetError::NotAll { .. } => Status::Broken,
        _ => Status::Failed,
    };
    Failure::new(status, error)
}
