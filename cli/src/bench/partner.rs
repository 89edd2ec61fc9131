//! The second process of a hand-over: the same binary, which takes turns at one resource until its input ends.
//!
//! Its part is the first line of its input and no argument, since addresses may contain passwords. It ends with the first
//! process, whatever becomes of that, and gives back what it holds.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, ExitCode},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use quorlock_harness::Companion;
use serde::{Deserialize, Serialize};

use super::{
    handover::{Turn, take_turns},
    stage::connect,
};
use crate::{
    args::Nodes,
    exit::{Failure, Status},
    trial::told,
};

/// What it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Part {
    pub(super) nodes: Nodes,
    pub(super) resource: String,
    pub(super) hold: Duration,
}

/// What it says: first that it is there.
#[derive(Debug, Deserialize, Serialize)]
enum Said {
    Ready,
    Turn(Turn),
    Failed(String),
}

/// What `quorlock bench-partner` does.
pub(crate) async fn pass_on() -> Result<ExitCode, Failure> {
    let (part, over): (Part, _) = told()?;
    let redlock = match connect(&part.nodes, part.nodes.classic).await {
        Ok(redlock) => redlock,
        Err(failure) => {
            say(&Said::Failed(failure.text));
            return Ok(Status::Broken.into());
        }
    };
    say(&Said::Ready);
    let told = |turn| {
        say(&match turn {
            Ok(turn) => Said::Turn(turn),
            Err(why) => Said::Failed(why),
        })
    };
    take_turns(&redlock, &part.resource, part.hold, Duration::MAX, &over, told).await;
    // A lease that is not given back by then ends with its ttl.
    drop(redlock.shutdown().await);
    Ok(Status::Done.into())
}

/// Writes one line. The process that started this one may be gone.
fn say(said: &Said) {
    if let Ok(text) = serde_json::to_string(said) {
        drop(writeln!(std::io::stdout().lock(), "{text}"));
    }
}

/// The process, as the first one has it.
pub(super) struct Partner {
    companion: Companion,
    reader: JoinHandle<(Vec<Turn>, Vec<String>)>,
}

impl Partner {
    /// Starts it, and waits until it is connected.
    pub(super) fn start(part: &Part) -> Result<Self, String> {
        let part = serde_json::to_string(part).map_err(|error| error.to_string())?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("bench-partner");
        let mut companion = Companion::run(command);
        companion.say(&part);
        let output = BufReader::new(companion.output());
        let (there, is_there) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let (mut turns, mut errors) = (Vec::new(), Vec::new());
            for line in output.lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(Said::Ready) => drop(there.send(())),
                    Ok(Said::Turn(turn)) => turns.push(turn),
                    Ok(Said::Failed(why)) => errors.push(why),
                    Err(_) => {}
                }
            }
            (turns, errors)
        });
        // The reader ends with its process, and closes the channel.
        let started = is_there.recv_timeout(Duration::from_secs(70));
        let partner = Self { companion, reader };
        if started.is_err() {
            let (_, errors) = partner.end();
            let why = errors.into_iter().next();
            return Err(why.unwrap_or_else(|| "the second process has not started".to_owned()));
        }
        Ok(partner)
    }

    /// Ends it, and returns its turns, and what failed.
    pub(super) fn end(mut self) -> (Vec<Turn>, Vec<String>) {
        self.companion.end(Duration::from_secs(10));
        self.reader.join().unwrap_or_default()
    }
}
