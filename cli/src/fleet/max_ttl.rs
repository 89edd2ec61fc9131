//! `quorlock fleet max-ttl`: lowers the longest ttl that the nodes know.
//!
//! It decides which status says what; the crate decides how long to wait for the clients. It asks nothing: a ttl that a
//! running client still uses is not lowered.

use std::{process::ExitCode, time::Duration};

use clap::Args;

use super::{claim::failure, seconds};
use crate::{
    args::{Nodes, duration},
    connect::{built, connected},
    exit::{Failure, Status},
    holder::CONNECTED,
    output::{DOUBTFUL, GOOD, line, styled},
    shown::plain,
};

/// Lowers the longest ttl that the nodes know: status 0 lowered, 1 a process still uses a longer one, 69 not all nodes answer.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Nodes keep the longest max_ttl that any process told them, and a node that may have forgotten leases does not vote for that long. \
So give all processes the shorter max_ttl first, and restart them.

It waits until every lease of before is over, and every running process has told its max_ttl again. Ended before that, it has \
changed nothing.")]
pub(crate) struct MaxTtl {
    /// To which it is lowered, as in `10s`: max_ttl as the processes have it
    #[arg(value_name = "DURATION", value_parser = duration)]
    to: Duration,
    #[command(flatten)]
    nodes: Nodes,
}

/// The default of the crate. Nothing is acquired here, and the handle takes no ttl above `max_ttl`.
const TTL: Duration = Duration::from_secs(10);

pub(crate) async fn lower(asked: MaxTtl) -> Result<ExitCode, Failure> {
    let builder = asked.nodes.builder()?.max_ttl(asked.to);
    let redlock = built(builder.ttl(asked.to.min(TTL)).lock_delay(Duration::ZERO))?;
    connected(&redlock, CONNECTED).await?;
    let watch = redlock.watch_max_ttl().await.map_err(|error| failure(&error))?;
    line(&format!(
        "waits until the leases of before are over, and every process has told its max_ttl: {}",
        seconds(watch.remaining())
    ));
    let lowered = watch.lower().await.map_err(|error| failure(&error))?;
    for node in &lowered.nodes {
        let to = match &node.to {
            Ok(to) => format!("from {:?} to {to:?}", node.from),
            Err(error) => format!("was {:?}, and did not answer: {error}", node.from),
        };
        line(&plain(&format!("{} {}: {to}", node.node, node.address)));
    }
    if lowered.nodes.iter().any(|node| node.to.is_err()) {
        return Err(Failure::new(Status::Broken, "not all nodes were lowered; run it again"));
    }
    if let Some(longer) = lowered.longer() {
        let text = format!(
            "not lowered to {:?}: a process that runs uses max_ttl {longer:?}, or another run of this command began meanwhile; restart that process with the shorter one, and run this again",
            lowered.asked
        );
        line(&styled(DOUBTFUL, &text));
        return Ok(Status::No.into());
    }
    line(&styled(GOOD, &format!("the longest ttl is {:?}", lowered.asked)));
    Ok(Status::Done.into())
}
