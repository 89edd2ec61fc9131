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

use std::{ffi::OsString, time::Duration};

use clap::Args;

pub(crate) use self::{
    command::Become,
    holder::hold,
    signals::{Signals, is_ignored},
    supervisor::supervise,
};
use crate::{
    args::duration,
    exit::{Failure, Status},
    want::{Want, label},
};

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

  quorlock run nightly-report --quiet --once-per 1d -- /usr/local/bin/report         for cron, on each host
  quorlock run scheduler --elect -- /usr/local/bin/scheduler                         for a service, on each host")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) want: Want,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Once in each period of this length, on whichever host comes first, as in `1d`: where it is done already, ends with status 0. The command has done it if its status is 0 and it was not asked to end. Leave out --try: who waits does it where the one before fails. A period begins half its length before a multiple of it, in UTC: a day lasts from noon to noon
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["also", "semaphore", "shared", "elect", "hold_at_least"])]
    pub(crate) once_per: Option<Duration>,
    /// How long the command has between SIGTERM and SIGKILL where the lease is lost; it is taken out of the ttl, of which it is a third at most. By default 5 s, or that third
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,
    /// The exit status where somebody else holds it
    #[arg(long, short = 'E', value_name = "STATUS", default_value_t = crate::exit::Status::Busy.code())]
    pub(crate) busy_status: u8,
    /// Says nothing where somebody else holds it, or it is done: for cron, which sends a mail of what is said
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Says what happens as an object of JSON a line, on standard error: waiting, acquired, already_done, lost, not_said, not_released, failed, over
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
}

impl Run {
    /// The label by which a user finds this run. The process is the supervisor, which gets the signals; the command has its
    /// name alone: arguments may be secret.
    pub(crate) fn label(&self) -> Vec<u8> {
        let command = self.command.first().map(std::path::Path::new);
        let name = command.and_then(std::path::Path::file_name).unwrap_or_default();
        label(nix::unistd::getppid().as_raw(), name.as_encoded_bytes())
    }

    /// The error where the grace that was asked for cannot be given.
    pub(crate) fn too_long_a_grace(&self, validity: Duration) -> Option<Failure> {
        // Stands for a third of the ttl, of which the way to the nodes has taken a part.
        let grace = self.grace.filter(|grace| *grace > validity * 11 / 30)?;
        let text = format!(
            "the grace of {grace:?} is taken out of the lease, of which it may be a third, and that holds for {validity:.1?}: ask for \
             less, or for a longer --ttl, and above max_ttl for that too, as in `--ttl 30s --set max_ttl=30s`; the command was not started"
        );
        Some(Failure::new(Status::Usage, text))
    }

    /// How long the command has between SIGTERM and SIGKILL.
    pub(crate) fn grace(&self, validity: Duration) -> Duration {
        self.grace.unwrap_or(Duration::from_secs(5)).min(validity / 3)
    }
}
