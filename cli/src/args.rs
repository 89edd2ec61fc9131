//! What is common to all commands: the nodes, the settings, the form of the answer.
//!
//! It decides how a command line is read. What a command needs for itself stands with that command.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, builder::styling};
use serde::{Deserialize, Serialize};

use crate::run;

const COLOURS: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Green.on_default().bold())
    .usage(styling::AnsiColor::Green.on_default().bold())
    .literal(styling::AnsiColor::Cyan.on_default().bold())
    .placeholder(styling::AnsiColor::Cyan.on_default());

/// A lock on N independent Redis or Valkey masters, for the shell: runs a command under it, and shows who holds what.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, styles = COLOURS, arg_required_else_help = true)]
#[command(after_help = "\
For example:

  export QUORLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
  quorlock doctor                                     whether these are fit for locks
  quorlock run nightly-report -- /usr/local/bin/report --all
  quorlock holder nightly-report                      who runs it

Exit statuses: 0 done (holder: somebody holds it; doctor: fit), 1 no (holder: nobody does; doctor: warnings), 2 bad (doctor: errors; \
fleet show: nodes of others), 64 the command line is wrong, 69 too few nodes answer, 71 the system refused something, 75 somebody else holds it, 76 the lease \
was lost, 78 the nodes or a setting are wrong. That of run is the command's where it has run to its end.

Settings are read from the environment, QUORLOCK_NODES, QUORLOCK_MAX_TTL and so on. What is given on the command line stands above \
them, and is seen by all users of this machine, passwords in URLs too.")]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while it holds a resource
    Run(run::Run),
    /// Holds a resource for the program that has started it, until its standard input ends
    Hold(crate::hold::Hold),
    /// Says who holds a resource
    Holder(crate::holder::Holder),
    /// Says whether the nodes are fit for locks, and what to do where they are not
    Doctor(crate::doctor::Doctor),
    /// Shows which nodes the fleet has, and changes that or its longest ttl
    Fleet(crate::fleet::Fleet),
    /// Lists the resources that look held
    List(crate::list::List),
    /// Prints who holds a resource whenever that changes
    Watch(crate::watch::Watch),
    /// Shows for which resources most clients wait, live
    Top(crate::top::Top),
    /// Takes a resource from its holder
    Release(crate::release::Release),
    /// The process of `run` that holds the lease
    #[command(hide = true)]
    HoldForRun(run::Run),
    /// Becomes the command, which ends with its parent
    #[command(hide = true)]
    Become(run::Become),
    /// Harms servers and workers, and shows that nothing goes wrong, or what
    #[cfg(unix)]
    Chaos(crate::chaos::Chaos),
    /// A worker of `chaos`
    #[cfg(unix)]
    #[command(hide = true)]
    ChaosWorker(crate::chaos::Worker),
    /// Measures what locks cost on your nodes, or on servers of its own
    #[cfg(unix)]
    Bench(crate::bench::Bench),
    /// The second process of `bench`
    #[cfg(unix)]
    #[command(hide = true)]
    BenchPartner,
    /// Prints the completions for a shell
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Prints a man page, or writes all of them
    Man(crate::man::Man),
}

/// The command line without what is for this program itself: completions know of no hidden subcommands.
pub(crate) fn public(line: &clap::Command) -> clap::Command {
    let shown = line.get_subcommands().filter(|command| !command.is_hide_set());
    clap::Command::new("quorlock").version(env!("CARGO_PKG_VERSION")).subcommands(shown.cloned())
}

/// Which nodes, and how they are spoken to.
#[derive(Args, Clone, Debug, Deserialize, Serialize)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct Nodes {
    /// URLs of the nodes, with commas between them, as in `redis://10.0.0.1`: three tolerate the loss of one, five of two; may be given again, for more. By default those of QUORLOCK_NODES
    #[arg(long, value_name = "URLS")]
    pub(crate) nodes: Vec<String>,
    /// A setting by its name, as in `--set max_ttl=30s`, in place of that of the environment (QUORLOCK_MAX_TTL); may be given again
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Plain Redlock, SET NX PX: no tokens, and nobody notices where a node restarts empty
    #[arg(long)]
    pub(crate) classic: bool,
    /// Nodes that may have forgotten leases vote at once, without a wait: for trials on this machine alone
    #[arg(long)]
    pub(crate) danger_skip_quarantine: bool,
}

/// The form of the answer.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The answer is an object of JSON on a line; of list, watch and top, one for each thing that they have to say
    #[arg(long)]
    pub(crate) json: bool,
}

/// A whole number and a unit, as in the settings.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let micros: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(WRITTEN.to_owned()),
    };
    if number.is_empty() {
        return Err(WRITTEN.to_owned());
    }
    let time = number.parse::<u64>().ok().and_then(|number| number.checked_mul(micros));
    time.map(Duration::from_micros).ok_or_else(|| "it is too long".to_owned())
}

const WRITTEN: &str = "write a whole number and a unit (us, ms, s, m, h or d), as in `10s`";

#[cfg(test)]
#[path = "args_test.rs"]
mod tests;
