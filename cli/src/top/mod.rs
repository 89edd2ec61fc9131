//! `quorlock top`: the resources for which most clients wait, who has them, and who waits, told again and again.
//!
//! It decides how often the nodes are asked, and when it ends. What it shows stands in `shown`.

mod seen;
mod table;

use std::{ffi::OsString, io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Args;
use console::Term;
use quorlock::{Redlock, inspect::FleetError};
use tokio::time::{MissedTickBehavior, interval};

use self::seen::{Hosts, Seen};
use crate::{
    args::{Form, Nodes, duration},
    ended::Ended,
    exit::{Failure, Status},
    output::{try_json, try_text},
};

/// Shows for which resources and semaphores most clients wait: how many, since when, who holds it, and from which hosts those
/// come who wait. It ends by a signal, with status 0.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A client is a process: it counts once for a resource, however many of its callers wait. It comes to stand in line when a first \
attempt was in vain, and who waits for less than a look takes may be missed. The nodes are asked for their lines by SCAN, with \
pauses, so that a look at a million of keys takes some seconds. The user needs the right +scan; the hosts are known where it may \
run CLIENT LIST. Without a terminal each look is printed behind the one before. With --json it is an object a line.")]
pub(crate) struct Top {
    /// Which names: `*` stands for any bytes, `?` for one, `[ab]` for one of these
    #[arg(default_value = "*")]
    pattern: OsString,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    every: Duration,
    /// How many resources to show
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    rows: usize,
    /// Looks once: status 0, also where nobody waits; 69 where no majority of the nodes tells its lines
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    nodes: Nodes,
}

pub(crate) async fn show(asked: Top) -> Result<ExitCode, Failure> {
    let mut ended = Ended::listen().map_err(|error| Failure::new(Status::Failed, error))?;
    let redlock = asked.nodes.connect()?;
    tokio::select! {
        () = ended.wait() => Ok(Status::Done.into()),
        answer = go_on(&redlock, &asked) => answer,
    }
}

async fn go_on(redlock: &Redlock, asked: &Top) -> Result<ExitCode, Failure> {
    crate::connect::connected(redlock, crate::holder::CONNECTED).await?;
    let mut ticks = interval(asked.every.max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_live = std::io::stdout().is_terminal() && !asked.once && !asked.form.json;
    let mut hosts = Hosts::default();
    loop {
        ticks.tick().await;
        let pattern = asked.pattern.as_encoded_bytes();
        let seen = match Seen::ask(redlock, pattern, asked.rows, &mut hosts).await {
            Ok(seen) => seen,
            // The nodes may come back.
            Err(FleetError::NotTold { nodes }) if !asked.once => Seen::nothing(redlock, nodes),
            Err(error @ FleetError::NotTold { .. }) => {
                return Err(Failure::new(Status::Broken, error));
            }
            Err(error) => return Err(Failure::new(Status::Config, error)),
        };
        let written = if asked.form.json {
            try_json(&seen.as_json())
        } else {
            // Not as a part of the text, from which everything but words is taken away where there are to be no colours.
            let cleared = if is_live { Term::stdout().clear_screen() } else { Ok(()) };
            cleared.and_then(|()| try_text(&table::table(&seen, is_live)))
        };
        // Nobody reads any more, as behind `head`.
        if written.is_err() {
            return Ok(Status::Done.into());
        }
        if asked.once {
            return seen.verdict();
        }
    }
}
