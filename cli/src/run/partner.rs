//! The process that holds the lease, as the supervisor sees it.
//!
//! The supervisor believes nothing of it but its words. A holder that is stopped, or cannot reach the nodes, must never
//! keep it waiting for ever.

use std::{process::Stdio, time::Duration};

use nix::sys::signal::SigSet;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use super::{
    command::this_program,
    notes::Notes,
    orphans::Orphans,
    said::Event,
    signals::blocked,
    told::{Granted, Held, Watched, line},
};
use crate::exit::{Failure, Status};

/// How long the lease may take to be given back: longer than the holder itself waits for nodes that do not answer.
const GIVEN_BACK: Duration = Duration::from_secs(5);
/// The same where it says first that the work is done: for as long as its lease holds, which is not known here.
const SAID: Duration = Duration::from_secs(60);
/// How much longer it may take to clean up on nodes that do not answer.
const TIDIED: Duration = Duration::from_millis(300);
/// How long a holder may take that only has to answer. A stopped one does not.
const ANSWERED: Duration = Duration::from_secs(1);
/// For a word that was said while this process was stopped, and is in the pipe.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

pub(crate) struct Partner {
    process: Child,
    words: Lines<BufReader<ChildStdout>>,
    /// `None` where it is told no more.
    told: Option<ChildStdin>,
}

impl Partner {
    /// Starts it, with the arguments of this process.
    pub(crate) fn start(orphans: &Orphans) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let text = format!("a second process cannot be started, to hold the lease: {error}");
            Failure::new(Status::Failed, text)
        };
        let mut command = this_program()?;
        // The two before are the program and `run`.
        command.arg("hold-for-run").args(std::env::args_os().skip(2));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // So that what a terminal sends to a whole group does not end it before the command.
        command.process_group(0);
        // A service manager ends a service by a signal to all its processes. The holder must end after the command, so
        // no signal may reach it, not even before its first line.
        let mut process = blocked(SigSet::all(), || command.spawn()).map_err(failed)?;
        orphans.except_holder(&process);
        let (told, words) = (process.stdin.take(), process.stdout.take());
        let Some(words) = words else {
            return Err(Failure::new(Status::Failed, "there is no pipe"));
        };
        Ok(Self { process, words: BufReader::new(words).lines(), told })
    }

    /// What it says next; `None` where it is gone.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; no word is lost.
    pub(crate) async fn next(&mut self) -> Option<Held> {
        let line = self.words.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }

    /// What it has said already, if anything: this process may have been stopped when it did.
    pub(crate) async fn said(&mut self) -> Option<Held> {
        timeout(ON_ITS_WAY, self.next()).await.ok()?
    }

    pub(crate) async fn granted(&mut self, notes: &Notes) -> Result<Granted, Failure> {
        loop {
            match self.next().await {
                Some(Held::Waits { reason }) => {
                    notes.say(Event::Waiting { reason: Some(reason) });
                }
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

    pub(crate) async fn say(&mut self, word: Watched) {
        if let Some(told) = &mut self.told {
            // A holder that is gone hears nothing, and says nothing either.
            let _ = told.write_all(line(&word).as_bytes()).await;
        }
    }

    /// Tells it that the command is over, and whether its work is done, and waits until it has given the lease back. Returns
    /// why it is not on record that the work is done, and what stays, in words.
    pub(crate) async fn give_back(&mut self, is_done: bool) -> (Option<String>, Option<String>) {
        let (word, within) =
            if is_done { (Watched::Done, SAID) } else { (Watched::Over, GIVEN_BACK) };
        self.say(word).await;
        let (unsaid, left) = self.over(within).await;
        let unsaid = unsaid.filter(|_| is_done);
        // A node that is down may still have its key, which is then in nobody's way, and expires.
        let within = if left.is_some() { Duration::ZERO } else { TIDIED };
        self.end_within(within).await;
        (unsaid, left)
    }

    /// The same of a lease that was lost: there is nothing to give back.
    pub(crate) async fn end_lost(&mut self) {
        self.say(Watched::Over).await;
        match self.over(ANSWERED).await.1 {
            None => self.end_within(TIDIED).await,
            Some(_) => self.leave().await,
        }
    }

    /// The same, for another campaign. Returns whether the holder is there for that.
    pub(crate) async fn again(&mut self) -> bool {
        self.say(Watched::Again).await;
        let is_there =
            self.over(ANSWERED).await.1.is_none() && matches!(self.process.try_wait(), Ok(None));
        if !is_there {
            self.leave().await;
        }
        is_there
    }

    async fn over(&mut self, within: Duration) -> (Option<String>, Option<String>) {
        let both = |unsaid: &str, left: &str| (Some(unsaid.to_owned()), Some(left.to_owned()));
        let over = async {
            while let Some(word) = self.next().await {
                if let Held::Over { left, unsaid } = word {
                    return (unsaid, left);
                }
            }
            let left = "the process that held the lease has ended, and the lease expires by itself";
            both("the process that was to say so has ended", left)
        };
        let late = "the lease could not be given back in time, and expires by itself";
        let silent = "the nodes did not answer in time";
        timeout(within, over).await.unwrap_or_else(|_| both(silent, late))
    }

    /// It gives back what it has, and ends.
    pub(crate) async fn end(&mut self) {
        self.end_within(GIVEN_BACK).await;
    }

    async fn end_within(&mut self, limit: Duration) {
        self.told = None;
        if timeout(limit, self.process.wait()).await.is_err() {
            self.leave().await;
        }
    }

    /// Kills it, so that it gives back nothing: its keys expire.
    pub(crate) async fn leave(&mut self) {
        let _ = self.process.kill().await;
    }
}
