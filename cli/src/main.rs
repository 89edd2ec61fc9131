//! The command `quorlock`: reads the command line, hands over, and ends with a status of `exit`.
//!
//! What a command does stands in a module of its name. It uses the public interface of the crate alone.

mod args;
mod ask;
#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod chaos;
mod connect;
mod doctor;
mod ended;
mod exit;
mod fleet;
mod hold;
mod holder;
mod list;
mod man;
mod output;
#[cfg(unix)]
mod picture;
#[cfg(unix)]
mod place;
mod raised;
mod release;
mod run;
mod shown;
mod top;
#[cfg(unix)]
mod trial;
mod want;
mod watch;

use std::{future::Future, io::stdout, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};

use crate::{
    args::{Command, Line},
    exit::{Failure, Status},
};

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            if !error.use_stderr() {
                // Help and version were asked for.
                return Status::Done.into();
            }
            if std::env::args_os().nth(1).is_some_and(|command| command == "hold") {
                hold::refuse(&error);
            }
            return Status::Usage.into();
        }
    };
    raised::listen(match &line.command {
        Command::HoldForRun(run) if run.json => {
            raised::To::Programs { resource: run.want.resource.clone() }
        }
        Command::HoldForRun(_) | Command::Hold(_) => raised::To::PeopleAside,
        _ => raised::To::People,
    });
    match line.command {
        Command::Run(run) => wait_for(async { Ok(run::supervise(run).await) }),
        Command::HoldForRun(run) => wait_for(async { Ok(run::hold(run).await) }),
        Command::Hold(asked) => wait_for(hold::hold(asked)),
        Command::Become(command) => command.start(),
        Command::Holder(asked) => wait_for(holder::show(asked)),
        Command::Doctor(asked) => wait_for(doctor::examine(asked)),
        Command::Fleet(asked) => wait_for(fleet::fleet(asked)),
        Command::List(asked) => wait_for(list::show(asked)),
        Command::Watch(asked) => wait_for(watch::watch(asked)),
        Command::Top(asked) => wait_for(top::show(asked)),
        Command::Release(asked) => wait_for(release::take(asked)),
        #[cfg(unix)]
        Command::Chaos(asked) => ended(chaos::run(&asked)),
        #[cfg(unix)]
        Command::ChaosWorker(worker) => ended(chaos::work(worker)),
        #[cfg(unix)]
        Command::Bench(asked) => wait_for(bench::run(asked)),
        #[cfg(unix)]
        Command::BenchPartner => wait_for(bench::pass_on()),
        Command::Completions { shell } => {
            let mut line = args::public(&Line::command());
            clap_complete::generate(shell, &mut line, "quorlock", &mut stdout());
            Status::Done.into()
        }
        Command::Man(asked) => ended(asked.print(Line::command())),
    }
}

/// Runs on this thread: a command is killed when the thread that started it ends.
fn wait_for(command: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = match runtime {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => Err(Failure::new(Status::Failed, error)),
    };
    ended(answer)
}

fn ended(answer: Result<ExitCode, Failure>) -> ExitCode {
    answer.unwrap_or_else(|Failure { status, text }| {
        output::say(&text);
        status.into()
    })
}
