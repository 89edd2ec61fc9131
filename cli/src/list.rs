//! `quorlock list`: the resources that look held, and by whom.
//!
//! It decides nothing. Names are written so that a terminal shows them and does nothing else.

use std::{ffi::OsString, process::ExitCode};

use clap::Args;
use quorlock::{NodeStates, node::NodeState, protocol::Quorum};

use crate::{
    args::{Form, Nodes},
    exit::{Failure, Status},
    holder::as_json,
    output::{FAINT, say, styled, try_json, try_line},
    shown::name,
};

/// Lists the resources that look held, with their holders: status 0, also where there are none; 69 where no majority of the nodes
/// tells its keys and votes, so that some may be missing.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Each node is asked for its keys by SCAN, some hundreds at a time, with a pause after each page that is as long as the page took. The \
user needs the right +scan. Permits of a semaphore are listed as NAME/0, NAME/1 and so on. With --json there is a line for each \
resource.")]
pub(crate) struct List {
    /// Which names: `*` stands for any bytes, `?` for one, `[ab]` for one of these
    #[arg(default_value = "*")]
    pattern: OsString,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

pub(crate) async fn show(asked: List) -> Result<ExitCode, Failure> {
    let redlock = asked.nodes.connect()?;
    crate::connect::connected(&redlock, crate::holder::CONNECTED).await?;
    let mut resources = redlock.resources(asked.pattern.as_encoded_bytes());
    loop {
        let page = resources.next_page().await;
        let Some(page) = page.map_err(|error| Failure::new(Status::Broken, error))? else { break };
        for listed in page {
            let written = if asked.form.json {
                try_json(&as_json(&listed.name, &listed.holder))
            } else {
                let name = name(&listed.name);
                try_line(&format!("{name}  {}", styled(FAINT, &listed.holder.to_string())))
            };
            // Nobody reads any more, as behind `head`.
            if written.is_err() {
                return Ok(Status::Done.into());
            }
        }
    }
    let (untold, nodes) = (resources.untold(), redlock.nodes());
    let (all, needed) = (nodes.len(), Quorum::of(nodes.len()).needed());
    let told = all.saturating_sub(untold.iter().count());
    let votes = nodes.iter().filter(|node| node.state == NodeState::Ready).count();
    if told < needed {
        let text = format!(
            "{told} of {all} nodes have told their keys: what a majority holds may be missing: {untold}"
        );
        return Err(Failure::new(Status::Broken, text));
    }
    if untold.iter().next().is_some() {
        say(&format!(
            "names may be missing that are only on nodes that did not tell their keys: {untold}"
        ));
    }
    if votes < needed {
        let nodes: NodeStates = nodes.into_iter().collect();
        let text = format!("{votes} of {all} nodes vote: what is held cannot be said: {nodes}");
        return Err(Failure::new(Status::Broken, text));
    }
    Ok(Status::Done.into())
}
