//! The process that holds the lease.
//!
//! It says until when the command may run, after each renewal, and never later than the lease holds. It gives the lease back
//! when it is told that the command is over, or where the one that watches is gone and it has ended the command itself; while
//! anybody of that may still run it must leave the lease to expire. Where the one that watches is stopped when the lease ends,
//! it ends the command too. All signals are blocked in it: whoever started it has seen to that.

use std::{
    os::fd::AsFd as _,
    process::ExitCode,
    time::{Duration, Instant},
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
    want::Holds,
};
use crate::{
    connect::{connected, refused},
    exit::{Failure, Status},
};

/// Between two looks at the time that is left, at most: a fortieth of it, so that a renewal is known soon.
const OFTEN: Duration = Duration::from_secs(1);
/// How long nodes are waited for that have just been started, and do not vote before their quarantine is over; and by one who
/// does not wait, or for shorter, as he waits for others alone.
const READY: Duration = Duration::from_secs(60);
const READY_AT_ONCE: Duration = Duration::from_secs(3);
/// Nodes that answer are connected by then.
const CONNECTED: Duration = Duration::from_millis(300);
/// From then on people are told what is waited for.
const A_WHILE: Duration = Duration::from_secs(2);
/// A twentieth of the lease, or so much: between the SIGKILL that a command gets at its end and the last of its processes.
const TO_DIE: Duration = Duration::from_millis(100);
/// For a word that was said while this process was stopped, and is in the pipe.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// So long a process that was killed takes to be gone, or it does not end.
const GONE: Duration = Duration::from_secs(1);

/// Holds it for a command that another process runs.
pub(crate) async fn hold(run: Run) -> ExitCode {
    let (teller, told, mut words) = match Teller::start().and_then(|(a, b)| Ok((a, b, words()?))) {
        Ok(all) => all,
        Err(error) => {
            say(&Failure::new(Status::Failed, error).into(), &run.resource, run.json);
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
    // Behind the last word this process may end.
    let _ = told.join();
    status.into()
}

type Words = Lines<BufReader<Receiver>>;

/// What the other process says, without a thread for it.
fn words() -> std::io::Result<Words> {
    let pipe = Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    Ok(BufReader::new(pipe).lines())
}

async fn hold_and_tell(run: &Run, teller: &Teller, words: &mut Words) -> Result<(), Failure> {
    let asked = Instant::now();
    let longest = match run.wait {
        Some(wait) => Some(wait),
        None => run.nodes.wait(),
    };
    let redlock = run.nodes.connect_as(Some(run.label()))?;
    let limit = match longest {
        _ if run.try_once => Some(READY_AT_ONCE),
        Some(wait) => Some(wait.max(READY_AT_ONCE)),
        None if run.elect => None,
        None => Some(READY),
    };
    tokio::select! {
        ready = ready(&redlock, limit, teller) => ready?,
        refused = refused(&redlock, CONNECTED) => return Err(refused),
        _ = words.next_line() => return Ok(()),
    }
    // A majority is enough; but until the first renewal the loss of one of it would be the loss of the lease.
    connected(&redlock, CONNECTED).await?;
    let mut wait = longest.map(|wait| wait.saturating_sub(asked.elapsed()));
    loop {
        let (holds, least) = tokio::select! {
            holds = run.acquire(&redlock, wait) => holds?,
            // Nobody waits any more. What was asked for is undone by its drop.
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
    // Whatever was dropped on the way.
    let _ = redlock.shutdown().await;
    Ok(())
}

/// Waits until enough nodes vote; `None`: whoever asks them waits by himself. It says so where that takes a while.
async fn ready(redlock: &Redlock, limit: Option<Duration>, teller: &Teller) -> Result<(), Failure> {
    let broken = |error| Failure::new(Status::Broken, error);
    if limit.is_some_and(|limit| limit <= READY_AT_ONCE) {
        return redlock.ready(READY_AT_ONCE).await.map_err(broken);
    }
    let Err(not_ready) = redlock.ready(A_WHILE).await else { return Ok(()) };
    teller.say(Held::Waits { reason: not_ready.to_string() });
    match limit {
        Some(limit) => redlock.ready(limit.saturating_sub(A_WHILE)).await.map_err(broken),
        None => Ok(()),
    }
}

/// Says what becomes of the lease until the command is over: whether there is to be another.
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
    // The clock is read before what is left, so that the time between both makes it earlier.
    let good_until = || now().saturating_add(micros(signal.validity())).saturating_sub(to_die);
    let grace = micros(run.grace(validity));
    let mut last = good_until();
    teller.say(Held::Granted(Granted {
        resource: run.resource.clone(),
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
    // `None` where it was given back without a word of the other one.
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
                // What two readings of a clock differ by is no renewal.
                if until > last.saturating_add(micros(validity / 100)) {
                    last = until;
                    teller.say(Held::Until { until });
                }
            }
            () = sleep(until(end_at).min(OFTEN)) => if now() >= end_at {
                // This process may have been stopped, and not the other.
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
            Some(word @ (Watched::Over | Watched::Again)) => {
                let left = match holds.take() {
                    Some(holds) if !is_lost => holds.release().await.err(),
                    _ => None,
                };
                teller.say(Held::Over { left: left.map(|error| error.to_string()) });
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
    /// It does not run yet, and from then on it never does.
    Waits {
        until: u64,
    },
    /// It may run, and nobody has said yet in which group.
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

    /// When the other process is late. It asks the command to end a grace before the end, and has the first half of it; then
    /// it kills it at the end.
    fn end_at(self, last: u64, grace: u64) -> u64 {
        match self {
            Self::Waits { until } => until,
            Self::Runs(_) => last.saturating_sub(grace / 2),
            Self::Asked(_) => last.saturating_sub(micros(ON_ITS_WAY)),
            Self::Starts | Self::Ended => u64::MAX,
        }
    }

    /// The other process is stopped: the command is ended here, or what it never started is given back.
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
                // The other one may go on meanwhile, and asks nobody who has been asked: it is told first, if that takes no time.
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
            // Behind a loss the delay keeps others out, which a release would end.
            && run.lock_delay.is_none()
            && group.is_gone_within(GONE).await
            && let Some(holds) = holds.take()
        {
            // A renewal that was answered late would keep it, for a command that is gone.
            let _ = holds.release().await;
        }
        Self::Ended
    }
}

/// The one that watches is gone: its command is ended from here.
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
        // Left to expire: a process that ends so releases nothing.
        std::process::exit(Status::Failed.code().into());
    }
    if let Some(holds) = holds {
        let _ = holds.release().await;
    }
}

/// What the other one says; `None` where it is gone.
fn watched(line: std::io::Result<Option<String>>) -> Option<Watched> {
    serde_json::from_str(&line.ok()??).ok()
}
