//! The process that the user has started: it watches the command, and ends it before the lease does.
//!
//! It believes what the holder of the lease says for as long as that was said, and no longer: a holder that is stopped, or is
//! gone, renews nothing that counts. It must never say that the command is over while anybody of its group is left.

use std::{
    process::{ExitCode, ExitStatus, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::sleep,
};

use super::{
    Run,
    command::this_program,
    group::{Group, now, until},
    told::{Granted, Held, Watched, line},
};
use crate::{
    exit::{Failure, Status},
    output::say,
    run::signals::Signals,
    run::terminal::Terminal,
};

/// Behind a SIGKILL a process is gone as soon as the kernel has seen to it.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// How long the lease may take to be given back: longer than the holder itself waits for nodes that do not answer.
const GIVEN_BACK: Duration = Duration::from_secs(5);

pub(crate) async fn supervise(run: Run) -> ExitCode {
    match supervised(&run).await {
        Ok(code) => code.into(),
        Err(Failure { status, text }) => {
            let busy = status == Status::Busy;
            if !(busy && run.quiet) {
                say(&text);
            }
            if busy { run.busy_status.into() } else { status.into() }
        }
    }
}

async fn supervised(run: &Run) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::new(Status::Failed, error);
    let mut signals = Signals::listen().map_err(failed)?;
    let mut holder = Holder::start()?;
    loop {
        let granted = tokio::select! {
            granted = holder.granted() => granted?,
            signal = signals.next() => {
                // Nothing runs. It gives back whatever it was given.
                holder.end().await;
                return Ok(of_signal(signal));
            }
        };
        let (end, status) = watch(run, &granted, &mut holder, &mut signals).await?;
        match end {
            End::ItsOwn if !holder.has_lost => {
                holder.say(Watched::Over).await;
                holder.over().await;
                return Ok(status);
            }
            End::ItsOwn => return Ok(status),
            End::Lost if run.elect => holder.say(Watched::Again).await,
            End::Lost => {
                holder.say(Watched::Over).await;
                holder.over().await;
                return Ok(Status::Lost.code());
            }
        }
        holder.has_lost = false;
    }
}

/// Why a command is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    ItsOwn,
    Lost,
}

/// Runs the command to its end, and returns when its whole group is gone.
async fn watch(
    run: &Run,
    granted: &Granted,
    holder: &mut Holder,
    signals: &mut Signals,
) -> Result<(End, u8), Failure> {
    let (mut good_until, grace) = (granted.until, granted.grace_us);
    let terminal = Terminal::of_stdin();
    let child = run.command(granted)?.spawn();
    let mut child = child.map_err(|error| Failure::new(Status::CannotRun, error))?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Group::of);
    let Some(group) = leader else {
        return Err(Failure::new(Status::Failed, "the command has no number"));
    };
    holder.say(Watched::Runs { group: group.number() }).await;
    terminal.give(group);
    let status = loop {
        tokio::select! {
            status = child.wait() => break Some(status),
            word = holder.next() => match word {
                Some(Held::Until { until }) => good_until = until,
                Some(Held::Lost { reason }) => {
                    say(&format!("`{}` is lost, and the command is ended: {reason}", run.resource));
                    break None;
                }
                Some(_) => {}
                None => {
                    say(&format!("nobody renews the lease on `{}` any more, and the command is ended", run.resource));
                    break None;
                }
            },
            () = sleep(until(good_until.saturating_sub(grace)).min(Duration::from_secs(1))) => {
                if now() >= good_until.saturating_sub(grace) {
                    say(&format!("the lease on `{}` was not renewed in time, and the command is ended", run.resource));
                    break None;
                }
                terminal.see(group);
            }
            signal = signals.next() => group.signal(signal),
        }
    };
    let end = if status.is_some() { End::ItsOwn } else { End::Lost };
    holder.has_lost |= end == End::Lost;
    // What it has left behind in its group is ended with it: nothing of it may run without the lease.
    group.end(good_until.min(now().saturating_add(grace))).await;
    let status = match status {
        Some(status) => status,
        None => child.wait().await,
    };
    terminal.take_back();
    if !group.is_gone_within(AFTER_KILL).await {
        say("some process of the command does not end, and the lease is left to expire");
        holder.leave().await;
        return Err(Failure::new(Status::Failed, "the command was killed and is not gone"));
    }
    let status = status.map_err(|error| Failure::new(Status::Failed, error))?;
    Ok((end, of_status(status)))
}

/// As a shell has it.
fn of_status(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;

    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn of_signal(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

/// The process that holds the lease.
struct Holder {
    process: Child,
    words: Lines<BufReader<ChildStdout>>,
    /// `None` where it is told no more.
    told: Option<ChildStdin>,
    has_lost: bool,
}

impl Holder {
    /// By the arguments of this one.
    fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(Status::Failed, error);
        let mut command = Command::new(this_program()?);
        // What stands before is the name of the command, `run`, and nothing else.
        command.arg("hold-for-run").args(std::env::args_os().skip(2));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // So that what a terminal sends to a whole group does not end it before the command.
        command.process_group(0);
        let mut process = command.spawn().map_err(failed)?;
        let (told, words) = (process.stdin.take(), process.stdout.take());
        let Some(words) = words else {
            return Err(Failure::new(Status::Failed, "there is no pipe"));
        };
        Ok(Self { process, words: BufReader::new(words).lines(), told, has_lost: false })
    }

    /// What it says next; `None` where it is gone.
    async fn next(&mut self) -> Option<Held> {
        let line = self.words.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    async fn granted(&mut self) -> Result<Granted, Failure> {
        loop {
            match self.next().await {
                Some(Held::Granted(granted)) => return Ok(granted),
                Some(Held::Failed { status, text }) => {
                    return Err(Failure { status: Status::of(status), text });
                }
                Some(_) => {}
                None => {
                    let text = "the process that asks for the lease has ended";
                    return Err(Failure::new(Status::Failed, text));
                }
            }
        }
    }

    async fn say(&mut self, word: Watched) {
        if let Some(told) = &mut self.told {
            // One that is gone hears nothing, and says nothing either.
            let _ = told.write_all(line(&word).as_bytes()).await;
        }
    }

    /// It has given the lease back, or is gone. One that is stopped, or cannot reach the nodes, is not waited for for ever:
    /// the command is over, and the keys expire.
    async fn over(&mut self) {
        let told = tokio::time::timeout(GIVEN_BACK, async {
            while let Some(word) = self.next().await {
                if let Held::Over { left } = word {
                    return left;
                }
            }
            None
        });
        match told.await {
            Ok(left) => {
                left.iter().for_each(|left| say(left));
                self.end().await;
            }
            Err(_) => self.leave().await,
        }
    }

    /// It gives back what it has, and ends.
    async fn end(&mut self) {
        self.told = None;
        if tokio::time::timeout(GIVEN_BACK, self.process.wait()).await.is_err() {
            self.leave().await;
        }
    }

    /// It gives back nothing: its keys expire.
    async fn leave(&mut self) {
        let _ = self.process.kill().await;
    }
}
