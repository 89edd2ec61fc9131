//! The process that the user has started: it watches the command, and ends it before the lease does.
//!
//! It believes a word of the holder up to the time that the word names, and no longer: a holder that is stopped, or
//! gone, renews nothing that counts. It must never say that the command is over while any process of its group is left.

use std::{
    pin::pin,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use futures::FutureExt as _;
use nix::sys::signal::Signal;
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

use super::{
    Run,
    command::{WAITS, go},
    group::{Group, now, until},
    notes::{Notes, say},
    orphans::Orphans,
    partner::Partner,
    said::{Event, Fate},
    signals::Signals,
    terminal::Terminal,
    told::{Granted, Held, Watched},
};
use crate::exit::{Failure, Status};

/// How long the kernel may take to end a process after a SIGKILL.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// Timers stand still while the machine sleeps, so the clock is read at least this often.
const LOOK: Duration = Duration::from_secs(1);

/// Signals that ask a command to end: one that ends then, with whatever status, may have left its work undone.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

const GONE: &str = "the process that renewed the lease has ended";

pub(crate) async fn supervise(run: Run) -> ExitCode {
    let notes = match Notes::start(&run) {
        Ok(notes) => notes,
        Err(error) => {
            let text = format!("a thread cannot be started: {error}");
            say(&Failure::new(Status::Failed, text).into(), &run.want.resource, run.json);
            return Status::Failed.into();
        }
    };
    let code = match supervised(&run, &notes).await {
        Ok(code) => code,
        Err(failure) => {
            let status = failure.status;
            let busy = status == Status::Busy;
            if !(run.quiet && (busy || status == Status::Done)) {
                notes.say(failure);
            }
            if busy { run.busy_status } else { status.code() }
        }
    };
    notes.say(Event::Over { status: code });
    notes.end();
    code.into()
}

async fn supervised(run: &Run, notes: &Notes) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::new(Status::Failed, error);
    let mut signals = Signals::listen().map_err(failed)?;
    let orphans = Orphans::watch().map_err(failed)?;
    let mut partner = Partner::start(&orphans)?;
    loop {
        notes.say(Event::Waiting { reason: None });
        let granted = tokio::select! {
            biased;
            signal = signals.end() => {
                // No command runs. The holder gives back whatever it was granted.
                partner.end().await;
                return Ok(of_signal(signal));
            }
            granted = partner.granted(notes) => granted?,
        };
        notes.say(Event::acquired(&granted, run.want.elect));
        match watch(run, &granted, &mut partner, &mut signals, &orphans, notes).await {
            Ok(end) if end.goes_on(run) => {
                if !partner.again().await {
                    partner = Partner::start(&orphans)?;
                }
            }
            Ok(End::Late | End::Lost) => {
                partner.end_lost().await;
                return Ok(Status::Lost.code());
            }
            Ok(End::Itself(status, is_done)) => {
                if let Some(until) = granted.keep_until {
                    keep_out(until, &mut partner, &mut signals, notes).await;
                }
                let is_done = is_done && run.once_per.is_some();
                let (unsaid, left) = partner.give_back(is_done).await;
                unsaid.into_iter().for_each(|reason| notes.say(Event::NotSaid { reason }));
                left.into_iter().for_each(|reason| notes.say(Event::NotReleased { reason }));
                return Ok(status);
            }
            Ok(End::Never) => {
                partner.leave().await;
                let text = "some process of the command was killed and does not end, and the lease is left to expire";
                return Err(Failure::new(Status::Failed, text));
            }
            Err(not_started) => {
                let _ = partner.give_back(false).await;
                return Err(not_started);
            }
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// With this status; and whether it has done its work, and was not asked to end.
    Itself(u8, bool),
    Lost,
    /// It was never started: this process was stopped when it should have been.
    Late,
    /// A process of its group is still there.
    Never,
}

impl End {
    /// Whether there is to be another lease: a leader has another term, and a run that started too late waits anew.
    const fn goes_on(self, run: &Run) -> bool {
        match self {
            Self::Late => !run.want.try_once,
            Self::Lost => run.want.elect,
            Self::Itself(..) | Self::Never => false,
        }
    }
}

fn late(notes: &Notes) -> End {
    let reason = "this process was stopped when it should have started it".to_owned();
    notes.say(Event::Lost { reason, command: Fate::NotStarted });
    End::Late
}

/// Runs the command to its end, and returns when its whole group is gone.
async fn watch(
    run: &Run,
    granted: &Granted,
    partner: &mut Partner,
    signals: &mut Signals,
    orphans: &Orphans,
    notes: &Notes,
) -> Result<End, Failure> {
    let failed = |error: std::io::Error| Failure::new(Status::Failed, error);
    let mut children = signal(SignalKind::child()).map_err(failed)?;
    let mut continued = signal(SignalKind::from_raw(Signal::SIGCONT as i32)).map_err(failed)?;
    let mut term = Term { until: granted.until, grace: granted.grace_us, is_asked: false };
    // This process may have been stopped since the grant. The holder does not wait for a command beyond the lease.
    if term.is_over() {
        return Ok(late(notes));
    }
    let terminal = Terminal::of_stdin();
    if !WAITS {
        partner.say(Watched::Starts).await;
    }
    let mut child = run.start(granted, term.ask_at())?;
    orphans.except_command(&child);
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Group::of);
    let Some(group) = leader else {
        return Err(Failure::new(Status::Failed, "the command has no number"));
    };
    partner.say(Watched::Runs { leader: group.leader().as_raw(), started: group.started() }).await;
    // Or stopped since that look.
    if WAITS && term.is_over() {
        group.signal(Signal::SIGKILL);
        let _ = child.wait().await;
        return Ok(late(notes));
    }
    // The command has the terminal before its first line: what is typed from then on is for it.
    terminal.started(group);
    go(group);
    let mut was_asked = false;
    let status = loop {
        // A word of the holder counts before the clock, and a loss before an end that it may have caused.
        let lost = tokio::select! {
            biased;
            word = partner.next() => term.hear(word),
            status = child.wait() => match status {
                Ok(status) => break Some(status),
                // The command may still run.
                Err(error) => Some(format!("nobody says when the command ends: {error}")),
            },
            signal = signals.next() => {
                was_asked |= ENDING.contains(&signal);
                group.signal(signal);
                None
            }
            _ = children.recv() => { terminal.see(group); None }
            _ = continued.recv() => { terminal.go_on(group); None }
            () = sleep(until(term.ask_at()).min(LOOK)) => term.is_lost(partner).await,
        };
        if let Some(why) = lost {
            notes.say(Event::Lost { reason: why, command: Fate::Ended });
            break None;
        }
    };
    // Processes that the command left in its group are ended with it: nothing of it may run without the lease.
    let kill_at = term.kill_at();
    if !term.is_asked && !group.is_gone() {
        // The holder is told first, without a wait: if this process ends after either step, it does not ask again.
        let mut saying = pin!(timeout(until(kill_at), partner.say(Watched::Asked)));
        let said = saying.as_mut().now_or_never();
        group.ask(kill_at);
        if said.is_none() {
            // A stopped holder may not read it.
            let _ = saying.await;
        }
    }
    group.kill_by(kill_at).await;
    let is_gone = timeout(AFTER_KILL, is_gone(&mut child, group)).await.is_ok();
    terminal.take_back(group);
    Ok(match status {
        _ if !is_gone => End::Never,
        Some(status) => End::Itself(of_status(status), status.success() && !was_asked),
        None => End::Lost,
    })
}

/// Keeps others out until then, behind the end of the command. A signal ends that.
async fn keep_out(until_then: u64, partner: &mut Partner, signals: &mut Signals, notes: &Notes) {
    partner.say(Watched::Stays).await;
    while now() < until_then {
        let word = tokio::select! {
            biased;
            _ = signals.end() => return,
            word = partner.next() => word,
            () = sleep(until(until_then).min(LOOK)) => continue,
        };
        let reason = match word {
            Some(Held::Lost { reason, .. }) => reason,
            None => GONE.to_owned(),
            Some(_) => continue,
        };
        notes.say(Event::Lost { reason, command: Fate::WasOver });
        return;
    }
}

/// Waits for the end of the group after a SIGKILL.
async fn is_gone(child: &mut Child, group: Group) {
    let _ = child.wait().await;
    group.bury();
    while !group.is_gone_within(Duration::from_millis(100)).await {
        group.bury();
    }
}

/// Until when the command may run, in microseconds of the clock of [`now`].
#[derive(Clone, Copy, Debug)]
struct Term {
    until: u64,
    grace: u64,
    /// The holder has asked the command to end.
    is_asked: bool,
}

impl Term {
    /// When the command is asked to end.
    const fn ask_at(self) -> u64 {
        self.until.saturating_sub(self.grace)
    }

    /// When the command is killed, if it is asked now.
    fn kill_at(self) -> u64 {
        self.until.min(now().saturating_add(self.grace))
    }

    fn is_over(self) -> bool {
        now() >= self.ask_at()
    }

    /// Why the lease is lost, if this word says so.
    fn hear(&mut self, word: Option<Held>) -> Option<String> {
        match word {
            Some(Held::Until { until }) => self.until = until,
            Some(Held::Lost { reason, asked }) => {
                self.is_asked |= asked;
                return Some(reason);
            }
            Some(_) => {}
            None => return Some(GONE.to_owned()),
        }
        None
    }

    /// Why the lease is lost by the clock, if it is. Words that came while this process was stopped count.
    async fn is_lost(&mut self, partner: &mut Partner) -> Option<String> {
        while self.is_over() {
            let Some(word) = partner.said().await else {
                return Some("it was not renewed in time".to_owned());
            };
            if let Some(why) = self.hear(Some(word)) {
                return Some(why);
            }
        }
        None
    }
}

/// The status as a shell has it.
fn of_status(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;

    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn of_signal(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn ending_in(left: u64, grace: u64) -> Term {
        Term { until: now().saturating_add(left), grace, is_asked: false }
    }

    /// A command that is asked late has only the rest of the lease to end in, and not all of its grace.
    #[test]
    fn a_command_is_killed_behind_its_grace_and_never_behind_the_end_of_the_lease() {
        for left in [0, 1, HOUR] {
            let late = ending_in(left, 10 * HOUR);
            assert_eq!(late.kill_at(), late.until, "{left}");
        }
        let early = ending_in(10 * HOUR, HOUR);
        let before = now();
        let kill_at = early.kill_at();
        assert!((before + HOUR..=now() + HOUR).contains(&kill_at));
    }

    #[test]
    fn a_command_is_asked_to_end_a_grace_before_the_lease_does() {
        let term = ending_in(10 * HOUR, HOUR);
        assert_eq!(term.ask_at(), term.until - HOUR);
        assert!(!term.is_over());
        assert!(ending_in(HOUR, HOUR).is_over() && ending_in(0, 0).is_over());
    }

    /// The holder has asked the command already, and a second signal may end it for good.
    #[test]
    fn what_is_said_of_a_loss_is_kept_and_what_is_said_of_a_renewal_moves_the_end() {
        let mut term = ending_in(HOUR, 0);
        let until = term.until + HOUR;
        assert_eq!(term.hear(Some(Held::Until { until })), None);
        assert_eq!((term.until, term.is_asked), (until, false));
        let lost = |asked| Some(Held::Lost { reason: "gone".to_owned(), asked });
        assert_eq!(term.hear(lost(true)).as_deref(), Some("gone"));
        assert!(term.is_asked);
        assert!(term.hear(lost(false)).is_some() && term.is_asked, "it was asked once");
        assert_eq!(term.hear(None).as_deref(), Some(GONE));
    }
}
