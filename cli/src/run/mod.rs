//! `quorlock run`: a command that runs while a resource is held, and never beyond it.
//!
//! Three processes take part. This one, which the user started, watches the command and ends it (`supervisor`). A second one
//! holds the lease, and says after each renewal until when the command may run (`holder`): so neither of them can be killed
//! or stopped without the other ending the command in time. The third becomes the command (`command`). What the first two
//! say to each other is in `told`.

mod command;
mod group;
mod holder;
mod notes;
mod orphans;
mod partner;
mod said;
mod signals;
mod supervisor;
mod teller;
mod terminal;
mod told;
mod want;

use std::{ffi::OsString, time::Duration};

use clap::Args;

pub(crate) use self::{command::Become, holder::hold, signals::is_ignored, supervisor::supervise};
use crate::args::{Nodes, duration};

/// Runs a command while it holds a resource, and never beyond it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
The command finds in its environment: QUORLOCK_RESOURCE, QUORLOCK_TOKEN (larger than that of every run before: give it to the \
store that it writes to), QUORLOCK_OWNER, with --semaphore QUORLOCK_SLOT, and with --elect QUORLOCK_TERM, which is the token.

Where the lease is lost, or cannot be renewed any more, the command and all that it has started in its process group are sent \
SIGTERM, and SIGKILL after the grace: before anybody else can hold the resource.

Exit status: that of the command, and 128 and the number of a signal where that ended it. Of quorlock itself: 75 somebody else \
holds it (--busy-status makes it another), 69 too few nodes answer, 76 the lease was lost and the command was ended, 71 the system \
refused something, 64 the command line is wrong, 78 the nodes or a setting are wrong, 126 the command cannot be started, 127 there is \
none of that name.

  quorlock run nightly-report --try --hold-at-least 30m -- /usr/local/bin/report     for cron, on each host
  quorlock run scheduler --elect -- /usr/local/bin/scheduler                         for a service, on each host")]
pub(crate) struct Run {
    /// What is locked; all that have to exclude each other use the same name
    pub(crate) resource: String,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Another resource that is held with it, all or none; may be given again
    #[arg(long, value_name = "RESOURCE", conflicts_with_all = ["semaphore", "shared", "elect"])]
    pub(crate) also: Vec<String>,
    /// Does not wait: where somebody else holds it, ends with status 75
    #[arg(long = "try", short = 'n')]
    pub(crate) try_once: bool,
    /// Waits for so long, as in `90s`, and ends with status 75 then. Without this, --try and the setting of that name it waits for as long as it takes
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration, conflicts_with = "try_once")]
    pub(crate) wait: Option<Duration>,
    /// How long nodes keep the lease if it is not renewed, which it is while the command runs: how late others get it where this machine dies. By default 10 s, and for longer --set max_ttl is needed, alike everywhere
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// Others are kept out for so long from the start, also where the command ends before: for jobs that timers of several hosts start. Up to max_ttl the nodes do that by themselves; for longer quorlock stays until then
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "elect")]
    pub(crate) hold_at_least: Option<Duration>,
    /// Others are kept out for so much longer where the lease is not given back but expires: ttl and delay together are max_ttl at most
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) lock_delay: Option<Duration>,
    /// So many commands run at once, alike for all of this resource: 1 to 256
    #[arg(long, value_name = "PERMITS", conflicts_with_all = ["shared", "elect"])]
    pub(crate) semaphore: Option<usize>,
    /// Together with others that share it, and never beside one that does not
    #[arg(long, conflicts_with_all = ["elect", "hold_at_least", "lock_delay"])]
    pub(crate) shared: bool,
    /// As the leader of an election: where the lease is lost the command is ended, and started again with the next term
    #[arg(long)]
    pub(crate) elect: bool,
    /// How long the command has between SIGTERM and SIGKILL where the lease is lost; it is taken out of the ttl, of which it is a third at most. By default 5 s, or that third
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,
    /// The exit status where somebody else holds it
    #[arg(long, short = 'E', value_name = "STATUS", default_value_t = crate::exit::Status::Busy.code())]
    pub(crate) busy_status: u8,
    /// Says nothing where somebody else holds it: for cron, which sends a mail of what is said
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Says what happens as an object of JSON a line, on standard error: waiting, acquired, lost, not_released, failed, over
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) nodes: Nodes,
}
