//! The process that holds the lease.
//!
//! It says until when the command may run, after each renewal, and never later than the lease holds. It gives the lease back
//! when it is told that the command is over, or where the one that watches is gone and it has ended the command itself; while
//! anybody of that may still run it must leave the lease to expire.

use std::{process::ExitCode, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin},
    time::{MissedTickBehavior, interval},
};

use super::{
    Run,
    group::{Group, micros, now},
    told::{Granted, Held, Watched, line},
    want::Holds,
};
use crate::exit::{Failure, Status};

/// Between two words about the time that is left, at most. At least a tenth of the ttl.
const OFTEN: Duration = Duration::from_secs(1);
/// Nodes that have just been started do not vote before their quarantine is over.
const READY: Duration = Duration::from_secs(60);

/// Holds it for a command that another process runs.
pub(crate) async fn hold(run: Run) -> ExitCode {
    let mut words = BufReader::new(stdin()).lines();
    match hold_and_tell(&run, &mut words).await {
        Ok(()) => Status::Done.into(),
        Err(Failure { status, text }) => {
            say(&Held::Failed { status: status.code(), text });
            status.into()
        }
    }
}

type Words = Lines<BufReader<Stdin>>;

async fn hold_and_tell(run: &Run, words: &mut Words) -> Result<(), Failure> {
    let redlock = run.nodes.connect()?;
    let ready = redlock.ready(run.wait.map_or(READY, |wait| wait.max(READY)));
    tokio::select! {
        ready = ready => ready.map_err(|error| Failure::new(Status::Broken, error))?,
        _ = words.next_line() => return Ok(()),
    }
    loop {
        let holds = tokio::select! {
            holds = run.acquire(&redlock) => holds?,
            // Nobody waits any more. What was asked for is undone by its drop.
            _ = words.next_line() => break,
        };
        if !until_over(run, holds, words).await {
            break;
        }
    }
    // Whatever was dropped on the way.
    let _ = redlock.shutdown().await;
    Ok(())
}

/// Says what becomes of the lease until the command is over: whether there is to be another.
async fn until_over(run: &Run, holds: Holds, words: &mut Words) -> bool {
    let signal = holds.signal();
    // Read before, so that the time between both makes it earlier.
    let until = || now().saturating_add(micros(signal.validity()));
    let grace = run.grace(signal.validity());
    say(&Held::Granted(Granted {
        resource: run.resource.clone(),
        owner: holds.owner(),
        token: holds.token(),
        slot: holds.slot(),
        until: until(),
        grace_us: micros(grace),
    }));
    let mut tick = interval((signal.validity() / 10).min(OFTEN).max(Duration::from_millis(5)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut group = None;
    let (mut last, mut is_lost) = (0, false);
    loop {
        tokio::select! {
            lost = holds.lost(), if !is_lost => {
                is_lost = true;
                say(&Held::Lost { reason: lost.to_string() });
            }
            _ = tick.tick(), if !is_lost => {
                let until = until();
                if until > last {
                    last = until;
                    say(&Held::Until { until });
                }
            }
            word = words.next_line() => match watched(word) {
                Some(Watched::Runs { group: number }) => group = Group::of(number),
                Some(word) => {
                    let left = if is_lost { None } else { holds.release().await.err() };
                    say(&Held::Over { left: left.map(|error| error.to_string()) });
                    return word == Watched::Again;
                }
                None => {
                    ended_here(holds, group, until().min(now().saturating_add(micros(grace)))).await;
                    return false;
                }
            }
        }
    }
}

/// The one that watches is gone: its command is ended from here.
async fn ended_here(holds: Holds, group: Option<Group>, kill_at: u64) {
    if let Some(group) = group {
        group.end(kill_at).await;
        if !group.is_gone_within(Duration::from_secs(1)).await {
            // Left to expire: a process that ends so releases nothing.
            std::process::exit(Status::Failed.code().into());
        }
    }
    let _ = holds.release().await;
}

/// What the other one says; `None` where it is gone.
fn watched(line: std::io::Result<Option<String>>) -> Option<Watched> {
    serde_json::from_str(&line.ok()??).ok()
}

/// Where nobody reads it, the end of the input says so too.
fn say(word: &Held) {
    use std::io::Write as _;

    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line(word).as_bytes());
    let _ = out.flush();
}
