//! `quorlock top`: the resources for which most clients wait, who has them, and who waits, told again and again.
//!
//! It decides how often the nodes are asked, and when it ends. What it sees and shows stands in `seen` and `table`.

mod seen;
mod table;

use std::{ffi::OsString, io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Args;
use console::Term;
use quorlock::inspect::FleetError;
use tokio::time::{MissedTickBehavior, interval};

use self::seen::{Hosts, Seen};
use crate::{
    args::{Form, Nodes, duration},
    ended,
    exit::{Failure, Status},
    output::{try_json, try_text},
};

/// Shows for which resources and semaphores most clients wait: how many, since when, who holds it, and from which hosts those
/// come who wait. It ends by a signal, with status 0.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A client is a process: for a resource it counts once for reading and once for all else, however many of its callers wait. It \
comes to stand in line when a first attempt was in vain. One that was killed is `gone`: its place stays while others wait there. \
The nodes are asked for their lines by SCAN, with pauses: a look at a million keys takes about twenty seconds, whatever --every \
says. The user needs the right +scan beside those for waiting; the hosts are known where it may run CLIENT LIST. Without a terminal \
each look is printed behind the one before. With --json it is an object a line.")]
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
    ended::well_by_a_signal()?;
    let redlock = asked.nodes.connect()?;
    crate::connect::connected(&redlock, crate::holder::CONNECTED).await?;
    let mut ticks = interval(asked.every.max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let can_clear = std::io::stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
    let is_live = can_clear && !asked.once && !asked.form.json;
    let mut hosts = Hosts::default();
    loop {
        ticks.tick().await;
        let pattern = asked.pattern.as_encoded_bytes();
        let seen = match Seen::ask(&redlock, pattern, asked.rows, &mut hosts).await {
            Ok(seen) => seen,
            // The nodes may come back.
            Err(FleetError::NotTold { nodes }) if !asked.once => Seen::nothing(&redlock, nodes),
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
