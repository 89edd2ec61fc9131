//! `quorlock hold`: a lease for whatever has started it, until its standard input ends.
//!
//! It gives the lease back at the end of its input, at a line `release`, and where nobody reads it or its caller is gone.
//! It says that a lease is lost before the lease ends, and ends then. A caller that does not read must never hold up a
//! renewal or a release, and no line that it writes may harm the lease. With `--json` it must not give the lease back for a
//! signal: service managers and terminals send these to a caller and to this process at once, and the caller may still work.

mod caller;
mod lines;
mod said;
mod teller;

use std::{
    future::{Future, pending},
    io::IsTerminal as _,
    pin::Pin,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use futures::FutureExt as _;
use nix::sys::signal::SigSet;
use quorlock::{ExtendError, Redlock, ReleaseError};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::{
    caller::Caller,
    lines::{Asked, What},
    said::Event,
    teller::Teller,
};
use crate::{
    exit::{Failure, Status},
    run::Signals,
    want::{Holds, Want},
};

/// How much longer it may take to clean up on nodes that do not answer.
const TIDIED: Duration = Duration::from_millis(300);

/// Tells a program too that its command line is wrong.
pub(crate) fn refuse(error: &clap::Error) {
    if std::env::args_os().any(|argument| argument == "--json") {
        let event =
            Event::Failed { what: Status::Usage, reason: said::first_of(&error.to_string()) };
        crate::output::line(&event.json(None));
    }
}

/// Holds a resource for the program that has started it, until its standard input ends
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
It says what becomes of the lease on standard output: granted, then ending where renewals fail, lost before the lease ends, and \
released. It reads lines: check (is it held, and for how long?), extend, and release, each with a word behind it that the answer \
repeats, as in `check 7`.

Count the time of an answer from before you wrote the line: whatever stood still meanwhile, the lease holds at least until then.

Exit status: 0 given back, 1 its input ended before the lease was granted, 64 the command line is wrong, 69 too few nodes answer, \
71 the system refused something, 75 somebody else holds it, 76 the lease was lost, 78 the nodes or a setting are wrong.

  quorlock hold deploy                    by hand, until Ctrl-D
  quorlock hold invoice:42 --json         for a program, whose signals it leaves to that program")]
pub(crate) struct Hold {
    #[command(flatten)]
    want: Want,
    /// Says what happens as an object of JSON a line, and does not end by a signal, unless it reads from a terminal
    #[arg(long)]
    json: bool,
    /// Ends with this process too: for a caller whose children keep this input open when it dies
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    caller: Option<i32>,
}

pub(crate) async fn hold(asked: Hold) -> Result<ExitCode, Failure> {
    let is_for_people = !asked.json || std::io::stdin().is_terminal();
    if !is_for_people {
        // Before any thread is started: each inherits it.
        let _ = SigSet::all().thread_block();
    }
    let of_machine = |error: std::io::Error| {
        Failure::new(Status::Failed, format!("a thread cannot be started: {error}"))
    };
    let signals = if is_for_people { Some(Signals::listen().map_err(of_machine)?) } else { None };
    let teller = Teller::start(asked.json).map_err(of_machine)?;
    let mut caller = Caller::listen(asked.caller, signals, teller.unread()).map_err(of_machine)?;
    let status = match held_to_its_end(&asked, &teller, &mut caller).await {
        Ok(status) => status,
        Err(failure) if !asked.json => {
            teller.end();
            return Err(failure);
        }
        Err(Failure { status, text }) => {
            teller.say(&Event::Failed { what: status, reason: text }, None);
            status
        }
    };
    teller.end();
    Ok(status.into())
}

async fn held_to_its_end(
    asked: &Hold,
    teller: &Teller,
    caller: &mut Caller,
) -> Result<Status, Failure> {
    let (want, began) = (&asked.want, Instant::now());
    let redlock = want.nodes.connect_as(Some(caller::label(asked.caller)))?;
    teller.say(&Event::Waiting { reason: None }, None);
    let granted = async {
        let tell = |reason| teller.say(&Event::Waiting { reason: Some(reason) }, None);
        want.usable(&redlock, tell).await?;
        let wait = want.longest().map(|wait| wait.saturating_sub(began.elapsed()));
        want.acquire(&redlock, wait).await
    };
    let granted = tokio::select! {
        granted = granted => granted,
        // Dropping the request undoes it.
        () = before_granted(teller, caller) => Err(Failure::new(
            Status::No,
            "it was ended before the lease was granted, and nothing is held",
        )),
    };
    let holds = match granted {
        Ok(holds) => holds,
        Err(failure) => {
            tidy(&redlock).await;
            return Err(failure);
        }
    };
    teller.say(&Event::granted(want, &holds), None);
    match until_end(&holds, teller, caller).await {
        Ended::Lost(reason) => {
            teller.say(&Event::Lost { reason }, None);
            // Its keys expire: a release might let somebody in before the caller has read that.
            std::mem::forget((holds, redlock));
            Ok(Status::Lost)
        }
        Ended::GivenBack(id) => {
            let (status, event) = given_back(holds).await;
            teller.say(&event, id.as_deref());
            tidy(&redlock).await;
            Ok(status)
        }
    }
}

/// Releases whatever was dropped on the way.
async fn tidy(redlock: &Redlock) {
    let _ = timeout(TIDIED, redlock.shutdown()).await;
}

async fn given_back(holds: Holds) -> (Status, Event) {
    match holds.release().await {
        Ok(()) => (Status::Done, Event::Released),
        Err(error @ ReleaseError::AlreadyEnded { .. }) => {
            (Status::Lost, Event::Lost { reason: error.to_string() })
        }
        Err(error) => (Status::Broken, Event::NotReleased { reason: error.to_string() }),
    }
}

/// Returns when the lease is not wanted any more.
async fn before_granted(teller: &Teller, caller: &mut Caller) {
    loop {
        match caller.next().await {
            None | Some(Ok(Asked { what: What::Release, .. })) => return,
            Some(Ok(Asked { what, id })) => {
                let reason = "nothing is held yet: wait for `granted`".to_owned();
                teller.answer(&Event::Refused { line: what.to_string(), reason }, id.as_deref());
            }
            Some(Err(refused)) => teller.answer(&refused.into(), None),
        }
    }
}

/// Why a lease is not held any longer.
enum Ended {
    Lost(String),
    /// With the word behind `release`.
    GivenBack(Option<String>),
}

type Extension<'a> = Pin<Box<dyn Future<Output = Result<Duration, ExtendError>> + 'a>>;

/// Answers until the lease is lost, or is to be given back.
async fn until_end(holds: &Holds, teller: &Teller, caller: &mut Caller) -> Ended {
    let signal = holds.signal();
    let mut extension: Option<Extension<'_>> = None;
    // Whoever asks while the lease is extended gets the answer of that.
    let mut extends: Vec<Option<String>> = Vec::new();
    let mut is_ending = false;
    let mut look = interval((signal.validity() / 20).max(Duration::from_millis(5)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            lost = signal.lost() => return Ended::Lost(lost.to_string()),
            reason = holds.ending(), if !is_ending => {
                is_ending = true;
                // It says so of one that is lost too.
                let left = match signal.check() {
                    Ok(left) => left,
                    Err(lost) => return Ended::Lost(lost.to_string()),
                };
                let event = Event::Ending { reason: reason.to_string(), validity_ms: millis(left) };
                teller.answer(&event, None);
            }
            // It may be renewed after all, and end later.
            _ = look.tick(), if is_ending => is_ending = holds.ending().now_or_never().is_some(),
            extended = next(&mut extension) => {
                extension = None;
                let event = match extended {
                    Ok(validity) => Event::Extended { validity_ms: millis(validity) },
                    Err(ExtendError::Lost(lost)) => return Ended::Lost(lost.to_string()),
                    Err(error) => Event::NotExtended {
                        reason: error.to_string(),
                        validity_ms: millis(signal.validity()),
                    },
                };
                extends.drain(..).for_each(|id| teller.answer(&event, id.as_deref()));
            }
            word = caller.next() => match word {
                None => return Ended::GivenBack(None),
                Some(Ok(Asked { what: What::Release, id })) => return Ended::GivenBack(id),
                Some(Ok(Asked { what: What::Check, id })) => match signal.check() {
                    Ok(left) => teller.answer(&Event::Held { validity_ms: millis(left) }, id.as_deref()),
                    Err(lost) => return Ended::Lost(lost.to_string()),
                },
                Some(Ok(Asked { what: What::Extend, id })) => {
                    if extends.len() < teller::MOST {
                        extends.push(id);
                    }
                    extension.get_or_insert_with(|| Box::pin(holds.extend()));
                }
                Some(Err(refused)) => teller.answer(&refused.into(), None),
            }
        }
    }
}

/// What the extension says that is under way, if any.
async fn next(extension: &mut Option<Extension<'_>>) -> Result<Duration, ExtendError> {
    match extension {
        Some(extension) => extension.await,
        None => pending().await,
    }
}

/// Whole milliseconds, and no more than there are.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
