//! `quorlock fleet`: which nodes make up a fleet, whose they are, and the longest ttl that they know.
//!
//! It decides what the subcommands are called. What each does stands in a module of its name.

mod change;
mod claim;
mod connected;
mod max_ttl;
mod show;

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Shows which nodes the fleet has, and changes that or its longest ttl.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
A node keeps the names of all nodes of its fleet, and refuses every process with another list. It keeps the longest ttl that any \
process told it, and a node that may have forgotten leases does not vote for that long.

  quorlock fleet show                 whose each node is, and since when
  quorlock fleet change               ends the change to another list, while processes with both run
  quorlock fleet claim                takes nodes from a list that nobody uses any more
  quorlock fleet max-ttl 10s          lowers the longest ttl, once every process uses the shorter one")]
pub(crate) struct Fleet {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Shows which nodes belong together, as each node says
    Show(show::Show),
    /// Ends the change to another list of nodes
    Change(change::Change),
    /// Takes the nodes that belong to another list
    Claim(claim::Claim),
    /// Lowers the longest ttl that the nodes know
    MaxTtl(max_ttl::MaxTtl),
}

pub(crate) async fn fleet(asked: Fleet) -> Result<ExitCode, Failure> {
    match asked.command {
        Command::Show(asked) => show::show(asked).await,
        Command::Change(asked) => change::change(asked).await,
        Command::Claim(asked) => claim::claim(asked).await,
        Command::MaxTtl(asked) => max_ttl::lower(asked).await,
    }
}

/// A time to wait, as people read it: rounded up, so that it is over by then.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_millis().div_ceil(1000))
}
