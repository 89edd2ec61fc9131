//! The process that holds the lease.
//!
//! After each renewal it says until when the command may run, never later than the lease holds. It gives the lease back
//! when it is told that the command is over, or when the supervisor is gone and it has ended the command itself. While
//! any process of the command may still run, it must leave the lease to expire. If the supervisor is stopped when the
//! lease ends, it ends the command too. All signals are blocked in it: the supervisor starts it so.

use std::{
    os::fd::AsFd as _,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use quorlock::Redlock;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::unix::pipe::Receiver,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    Run,
    group::{Group, micros, now, until},
    notes::say,
    teller::Teller,
    told::{Granted, Held, Watched},
};
use crate::{
    exit::{Failure, Status},
    want::Holds,
};

/// The longest pause between two looks at the time left; usually a fortieth of it, so that a renewal is known soon.
const OFTEN: Duration = Duration::from_secs(1);
/// The time for the last process of a command to die after SIGKILL: a twentieth of the lease, and this at most.
const TO_DIE: Duration = Duration::from_millis(100);
/// For a word that was said while this process was stopped, and is in the pipe.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// How long a killed process may take to be gone. After that it counts as one that does not end.
const GONE: Duration = Duration::from_secs(1);

/// Holds the lease for a command that the supervisor runs.
pub(crate) async fn hold(run: Run) -> ExitCode {
    let (teller, told, mut words) = match Teller::start().and_then(|(a, b)| Ok((a, b, words()?))) {
        Ok(all) => all,
        Err(error) => {
            say(&Failure::new(Status::Failed, error).into(), &run.want.resource, run.json);
            return Status::Failed.into();
        }
    };
    let status = match hold_and_tell(&run, &teller, &mut words).await {
        Ok(()) => Status::Done,
        Err(Failure { status, text }) => {
            teller.say(Held::Failed { status: status.code(), text });
            status
        }
    };
    drop(teller);
    // This process may end once the last word is written.
    let _ = told.join();
    status.into()
}

type Words = Lines<BufReader<Receiver>>;

/// What the supervisor says, read without a thread for it.
fn words() -> std::io::Result<Words> {
    let pipe = Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    Ok(BufReader::new(pipe).lines())
}

async fn hold_and_tell(run: &Run, teller: &Teller, words: &mut Words) -> Result<(), Failure> {
    let asked = Instant::now();
    let longest = run.want.longest();
    let redlock = run.want.nodes.connect_as(Some(run.label()))?;
    let held = hold_with(&redlock, run, (asked, longest), teller, words).await;
    // Releases whatever was dropped on the way, also what an acquire in vain has set.
    let _ = redlock.shutdown().await;
    held
}

async fn hold_with(
    redlock: &Redlock,
    run: &Run,
    (asked, longest): (Instant, Option<Duration>),
    teller: &Teller,
    words: &mut Words,
) -> Result<(), Failure> {
    // Of the moment in which it was started, whatever it waits for.
    let began = SystemTime::now();
    let tell = |reason| teller.say(Held::Waits { reason });
    tokio::select! {
        usable = run.want.usable(redlock, tell) => usable?,
        _ = words.next_line() => return Ok(()),
    }
    let mut wait = longest.map(|wait| wait.saturating_sub(asked.elapsed()));
    loop {
        let (holds, least) = tokio::select! {
            holds = acquire(run, redlock, wait, began) => holds?,
            // The supervisor does not wait any more. Dropping the request undoes it.
            _ = words.next_line() => break,
        };
        if let Some(too_long) = run.too_long_a_grace(holds.signal().validity()) {
            let _ = holds.release().await;
            return Err(too_long);
        }
        if !until_over(run, holds, least, teller, words).await {
            break;
        }
        wait = longest;
    }
    Ok(())
}

/// As was asked for, and for how long this process has to hold it at least.
async fn acquire(
    run: &Run,
    redlock: &Redlock,
    wait: Option<Duration>,
    began: SystemTime,
) -> Result<(Holds, Option<Duration>), Failure> {
    match run.once_per {
        None => run.want.acquire_to_stay(redlock, wait).await,
        Some(every) => {
            let holds = run.want.acquire_once(redlock, wait, (every, began)).await;
            holds.map(|holds| (holds, None))
        }
    }
}

/// Says that the work is done, for as long as the lease holds, and gives a lease back that is not lost. Returns why it is not
/// on record, and what stays, in words.
async fn given_back(
    holds: Holds,
    is_done: bool,
    is_lost: bool,
) -> (Option<String>, Option<String>) {
    let unsaid = loop {
        // Work that is done is done, also where the lease was lost by then.
        let said = if is_done { holds.done().await } else { Ok(()) };
        match said {
            Err(_) if holds.signal().check().is_ok() => {}
            said => break said.err().map(|error| error.to_string()),
        }
    };
    let left = if is_lost { None } else { holds.release().await.err() };
    (unsaid, left.map(|error| error.to_string()))
}

/// Says what becomes of the lease until the command is over. Returns whether there is to be another lease.
async fn until_over(
    run: &Run,
    holds: Holds,
    least: Option<Duration>,
    teller: &Teller,
    words: &mut Words,
) -> bool {
    let signal = holds.signal();
    let validity = signal.validity();
    let to_die = micros((validity / 20).min(TO_DIE));
    // The clock is read before the validity, so that time between the two makes the result earlier.
    let good_until = || now().saturating_add(micros(signal.validity())).saturating_sub(to_die);
    let grace = micros(run.grace(validity));
    let mut last = good_until();
    teller.say(Held::Granted(Granted {
        resource: run.want.resource.clone(),
        owner: holds.owner(),
        token: holds.token(),
        slot: holds.slot(),
        until: last,
        grace_us: grace,
        keep_until: least.map(|least| now().saturating_add(micros(least))),
    }));
    let mut tick = interval((validity / 40).min(OFTEN).max(Duration::from_millis(5)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut command = Command::Waits { until: last };
    // `None` once the lease was given back without a word of the supervisor.
    let (mut holds, mut is_lost) = (Some(holds), false);
    loop {
        let end_at = command.end_at(last, grace);
        let mut said = None;
        tokio::select! {
            biased;
            word = words.next_line() => said = Some(word),
            lost = signal.lost(), if !is_lost => {
                is_lost = true;
                last = last.min(now().saturating_add(grace));
                teller.say(Held::Lost { reason: lost.to_string(), asked: false });
            }
            _ = tick.tick(), if !is_lost => {
                let until = good_until();
                // A difference between two readings of the clock is no renewal.
                if until > last.saturating_add(micros(validity / 100)) {
                    last = until;
                    teller.say(Held::Until { until });
                }
            }
            () = sleep(until(end_at).min(OFTEN)) => if now() >= end_at {
                // This process may have been stopped, and not the supervisor.
                match timeout(ON_ITS_WAY, words.next_line()).await {
                    Ok(word) => said = Some(word),
                    Err(_) => {
                        is_lost = true;
                        command = command.end_without_other(run, last, &mut holds, teller).await;
                    }
                }
            }
        }
        let Some(word) = said else { continue };
        match watched(word) {
            Some(Watched::Starts) => command = Command::Starts,
            Some(Watched::Runs { leader, started }) => {
                let group = Group::known(leader, started);
                command = group.map_or(Command::Starts, Command::Runs);
            }
            Some(Watched::Asked) => command = command.asked(),
            Some(Watched::Stays) => command = Command::Ended,
            Some(word @ (Watched::Over | Watched::Done | Watched::Again)) => {
                let (unsaid, left) = match holds.take() {
                    Some(holds) => given_back(holds, word == Watched::Done, is_lost).await,
                    None => (None, None),
                };
                teller.say(Held::Over { left, unsaid });
                return word == Watched::Again;
            }
            None => {
                ended_here(holds, command, last.min(now().saturating_add(grace))).await;
                return false;
            }
        }
    }
}

/// What is known of the command.
#[derive(Clone, Copy, Debug)]
enum Command {
    /// It does not run yet, and from `until` on it never does.
    Waits {
        until: u64,
    },
    /// It may run, in a group that is not known yet.
    Starts,
    Runs(Group),
    /// It runs, and has been asked to end.
    Asked(Group),
    /// It has ended, or was ended here.
    Ended,
}

impl Command {
    const fn asked(self) -> Self {
        match self {
            Self::Runs(group) => Self::Asked(group),
            other => other,
        }
    }

    /// When the supervisor is late. It asks the command to end a grace before the lease ends, and has half of that
    /// grace for this; it kills the command at the end.
    fn end_at(self, last: u64, grace: u64) -> u64 {
        match self {
            Self::Waits { until } => until,
            Self::Runs(_) => last.saturating_sub(grace / 2),
            Self::Asked(_) => last.saturating_sub(micros(ON_ITS_WAY)),
            Self::Starts | Self::Ended => u64::MAX,
        }
    }

    /// Acts for a stopped supervisor: ends the command, or gives back a lease whose command was never started.
    async fn end_without_other(
        self,
        run: &Run,
        last: u64,
        holds: &mut Option<Holds>,
        teller: &Teller,
    ) -> Self {
        let lost =
            |reason: &str, asked| teller.say(Held::Lost { reason: reason.to_owned(), asked });
        let late = "it was not renewed in time";
        match self {
            Self::Waits { .. } => {
                if let Some(holds) = holds.take() {
                    let _ = holds.release().await;
                }
                lost("the command was not started in time", false);
            }
            Self::Runs(group) => {
                // The supervisor may go on meanwhile, and must not ask twice: it is told first, if that takes no time.
                let told = Held::Lost { reason: late.to_owned(), asked: true };
                let _ = timeout(ON_ITS_WAY, teller.say_now(told)).await;
                group.ask(last);
                group.kill_by(last).await;
            }
            Self::Asked(group) => {
                group.kill_by(last).await;
                lost(late, true);
            }
            Self::Starts | Self::Ended => lost(late, false),
        }
        if let Self::Runs(group) | Self::Asked(group) = self
            // After a loss the lock-delay keeps others out, and a release would end it.
            && run.want.lock_delay.is_none()
            && group.is_gone_within(GONE).await
            && let Some(holds) = holds.take()
        {
            // A renewal that is answered late would keep the lease for a command that is gone.
            let _ = holds.release().await;
        }
        Self::Ended
    }
}

/// The supervisor is gone: ends its command from here.
async fn ended_here(holds: Option<Holds>, command: Command, kill_at: u64) {
    let is_gone = match command {
        Command::Runs(group) | Command::Asked(group) => {
            if let Command::Runs(_) = command {
                group.ask(kill_at);
            }
            group.kill_by(kill_at).await;
            group.is_gone_within(GONE).await
        }
        Command::Starts => false,
        Command::Waits { .. } | Command::Ended => true,
    };
    if !is_gone {
        // The lease is left to expire: `exit` releases nothing.
        std::process::exit(Status::Failed.code().into());
    }
    if let Some(holds) = holds {
        let _ = holds.release().await;
    }
}

/// What the supervisor says; `None` where it is gone.
fn watched(line: std::io::Result<Option<String>>) -> Option<Watched> {
    serde_json::from_str(&line.ok()??).ok()
}
