//! `quorlock fleet change`: ends the change from one list of nodes to another, after asking whether that may be.
//!
//! It decides what it tells and when it asks. The library decides when each step is safe. It may be stopped at any moment
//! and begun again. It must never begin without a yes, by `--yes` or on a terminal.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use quorlock::{
    NodeStates, Redlock, Settings,
    node::{NodeSpec, NodeState},
};
use tokio::time::{Instant, sleep};

use super::seconds;
use crate::{
    ask,
    connect::{built, connected},
    exit::{Failure, Status},
    output::{BAD, line, styled},
    shown::{counted, plain},
};

/// Ends the change to another list of nodes: status 0 done, 1 it was not confirmed, 69 too few nodes of a list vote, 78 a list is
/// wrong.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Roll out the new list to all processes first, with the old one beside it (QUORLOCK_NODES_BEFORE). Processes that have the old list \
alone are refused from here on, and lose what they hold. A process with the new list alone ends the change by itself, without this \
command.

It seals a majority of the old nodes, waits as long as a quarantine, and opens the new ones. Stopped at any moment, it may be begun \
again.")]
pub(crate) struct Change {
    /// URLs of the nodes before the change, with commas between them
    #[arg(long, value_name = "URLS")]
    from: String,
    /// URLs of all nodes behind the change, with commas between them
    #[arg(long, value_name = "URLS")]
    to: String,
    /// Does not ask
    #[arg(long)]
    yes: bool,
    /// A setting by its name, as in `--set max_ttl=30s`, in place of that of the environment (QUORLOCK_MAX_TTL); may be given again
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// For a busy machine, and the admission of one node after the other.
const SLACK: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn change(asked: Change) -> Result<ExitCode, Failure> {
    let redlock = built(asked.builder()?)?;
    connected(&redlock, SLACK).await?;
    let quarantine = redlock.quarantine();
    line(&format!(
        "waits until a majority of both lists votes: new nodes take {}",
        seconds(quarantine)
    ));
    let ready = redlock.ready(quarantine + SLACK).await;
    ready.map_err(|error| Failure::new(Status::Broken, error))?;
    if !redlock.is_changing() {
        line(
            "the change has ended before: all nodes of the new list serve processes with that list",
        );
        return Ok(Status::Done.into());
    }
    if !asked.yes && !confirmed()? {
        return Err(Failure::new(Status::No, "nothing was changed"));
    }
    redlock.end_change();
    line(&format!(
        "seals the old nodes, and waits {} before it opens the new ones",
        seconds(quarantine)
    ));
    let end = Instant::now() + quarantine + SLACK;
    while redlock.is_changing() {
        if Instant::now() > end {
            return Err(open_in_part(&redlock));
        }
        sleep(LOOK).await;
    }
    line("done: all nodes of the new list are open; roll out the new list alone");
    Ok(Status::Done.into())
}

impl Change {
    fn builder(&self) -> Result<quorlock::Builder, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::new(Status::Config, error);
        let environment = Settings::from_env().map_err(|error| wrong(&error))?;
        let given: Settings = self.set.join(" ").parse().map_err(|error| wrong(&error))?;
        let builder = Redlock::builder()
            .nodes(NodeSpec::urls(&self.to))
            .nodes_before(NodeSpec::urls(&self.from));
        Ok(builder.settings(environment).settings(given))
    }
}

fn open_in_part(redlock: &Redlock) -> Failure {
    let nodes: NodeStates = redlock.nodes().into_iter().collect();
    let votes = redlock.nodes().iter().filter(|node| node.state == NodeState::Ready).count();
    let all = counted(redlock.nodes().len(), "node");
    let text = format!(
        "not all nodes of the new list are open yet, and {votes} of {all} vote; those that come back are opened by any process that \
         has the new list: {nodes}"
    );
    Failure::new(Status::Broken, plain(&text).to_string())
}

fn confirmed() -> Result<bool, Failure> {
    let what = "processes with the old list alone are refused from here on, and nobody can be asked whether any is left";
    let lost = styled(BAD, "What a process with the old list alone holds is lost.");
    let asked = format!("Every process has both lists, or the new one alone? {lost}");
    ask::confirmed(what, &[asked], "Write yes to end the change")
}
