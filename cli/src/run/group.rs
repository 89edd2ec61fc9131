//! A process group: whether any process is left in it, signals to all of it, and its end in time.
//!
//! It must never signal the group of others: once a group is empty, its number may be given to another.

use std::time::Duration;

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// The pause between two looks whether a group is gone: at first, and later.
const LOOK: Duration = Duration::from_millis(2);
const LOOK_LATER: Duration = Duration::from_millis(50);

/// The time that both processes share, in microseconds. It counts while the machine sleeps where there is such a clock.
pub(crate) fn now() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    let Ok(time) = clock_gettime(CLOCK) else { return u64::MAX };
    let time = Duration::from(time);
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The time from now until then.
pub(crate) fn until(then: u64) -> Duration {
    Duration::from_micros(then.saturating_sub(now()))
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The processes that a command has started, as far as they have stayed in its group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Group {
    leader: Pid,
    /// When its leader was started, which tells it from later ones of its number. `None` where the kernel does not say.
    started: Option<u64>,
}

impl Group {
    /// The group of a process that was started here and has not been waited for. `None` for a number that can be no
    /// group of a command: it would mean one's own, or all processes.
    pub(crate) fn of(leader: i32) -> Option<Self> {
        Self::known(leader, started(leader))
    }

    /// The same for a leader that another process has started.
    pub(crate) fn known(leader: i32, started: Option<u64>) -> Option<Self> {
        (leader > 1).then(|| Self { leader: Pid::from_raw(leader), started })
    }

    pub(crate) const fn leader(self) -> Pid {
        self.leader
    }

    pub(crate) const fn started(self) -> Option<u64> {
        self.started
    }

    pub(crate) fn signal(self, signal: Signal) {
        if !self.is_of_others() {
            // It fails where no process is left, or none of this user.
            let _ = killpg(self.leader, signal);
        }
    }

    /// Whether its number has been given to another process. The kernel does not reuse it while any process is left in
    /// the group: then only the first leader has it, or none.
    fn is_of_others(self) -> bool {
        let is_there = || kill(self.leader, None) != Err(Errno::ESRCH);
        self.started.is_some() && is_there() && started(self.leader.as_raw()) != self.started
    }

    /// Whether no process that could still do anything is left in it.
    pub(crate) fn is_gone(self) -> bool {
        killpg(self.leader, None) == Err(Errno::ESRCH) || self.is_of_others() || !lives(self.leader)
    }

    /// Reaps those of which this process has become the parent, as the first process of a container does. Only after it
    /// has waited for the leader.
    pub(crate) fn bury(self) {
        let all = Pid::from_raw(-self.leader.as_raw());
        while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
            waitpid(all, Some(WaitPidFlag::WNOHANG))
        {}
    }

    /// SIGTERM, which is sent once, and not where the time for it has passed.
    pub(crate) fn ask(self, kill_at: u64) {
        if now() < kill_at {
            self.signal(Signal::SIGTERM);
            // A stopped process hears of it only when it goes on.
            self.signal(Signal::SIGCONT);
        }
    }

    /// SIGKILL to all that are left at that time, or at once if it has passed. When this returns, all have been killed.
    pub(crate) async fn kill_by(self, kill_at: u64) {
        let mut look = LOOK;
        while now() < kill_at && !self.is_gone() {
            tokio::time::sleep(look.min(until(kill_at))).await;
            look = (2 * look).min(LOOK_LATER);
        }
        self.signal(Signal::SIGKILL);
    }

    /// Whether they are gone within that time, behind a SIGKILL.
    pub(crate) async fn is_gone_within(self, limit: Duration) -> bool {
        let end = now().saturating_add(micros(limit));
        let mut look = LOOK;
        while !self.is_gone() {
            if now() >= end {
                return false;
            }
            tokio::time::sleep(look).await;
            look = (2 * look).min(LOOK_LATER);
        }
        true
    }
}

/// What the kernel says of a process, behind its name, which may hold anything.
fn stat(file: &std::path::Path) -> Option<String> {
    let stat = std::fs::read(file).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}

/// When a process was started, in ticks since the start of the machine.
fn started(process: i32) -> Option<u64> {
    // The 22nd field; the first two are cut off.
    stat(format!("/proc/{process}/stat").as_ref())?.split(' ').nth(19)?.parse().ok()
}

/// Whether any process of a group has not ended. Ended ones whose parent does not reap them stay in it for ever, and do
/// not count. Where the kernel does not tell, the group counts as alive.
fn lives(group: Pid) -> bool {
    let Ok(all) = std::fs::read_dir("/proc") else { return true };
    let group = group.to_string();
    let mut is_any = false;
    for entry in all.flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            continue;
        }
        let Some(stat) = stat(&entry.path().join("stat")) else { continue };
        is_any = true;
        let mut fields = stat.split(' ');
        let (state, _parent, of) = (fields.next(), fields.next(), fields.next());
        if of == Some(&*group) && !matches!(state, Some("Z" | "X")) {
            return true;
        }
    }
    !is_any
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn sleeper() -> std::process::Child {
        use std::os::unix::process::CommandExt as _;

        Command::new("sleep").arg("60").stdin(Stdio::null()).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_number_that_was_given_to_another_is_not_signalled() {
        let mut other = sleeper();
        let number = i32::try_from(other.id()).unwrap();
        let ours = Group::of(number).unwrap();
        assert!(!ours.is_of_others() && !ours.is_gone());
        // As if ours had been started before it, and had ended.
        let before = Group::known(number, ours.started().map(|started| started - 1)).unwrap();
        assert!(before.is_of_others() && before.is_gone());
        before.signal(Signal::SIGTERM);
        ours.signal(Signal::SIGKILL);
        // It has ended, and has not been reaped yet.
        while !ours.is_gone() {
            std::thread::yield_now();
        }
        assert_eq!(killpg(ours.leader(), None), Ok(()));
        // It has ended by the first signal that reached it.
        let ended = std::os::unix::process::ExitStatusExt::signal(&other.wait().unwrap());
        assert_eq!(ended, Some(Signal::SIGKILL as i32));
        assert!(ours.is_gone());
    }

    /// A stopped command would hear of SIGTERM only with its SIGKILL, and be ended without a word.
    #[test]
    fn a_command_that_is_stopped_hears_that_it_is_asked_to_end() {
        use std::os::unix::process::CommandExt as _;

        let script = "trap 'exit 7' TERM; kill -STOP $$; while :; do sleep 0.01; done";
        let mut stopped = Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
        let number = i32::try_from(stopped.id()).unwrap();
        let file = std::path::PathBuf::from(format!("/proc/{number}/stat"));
        while stat(&file).is_some_and(|stat| !stat.starts_with('T')) {
            std::thread::yield_now();
        }
        Group::of(number).unwrap().ask(u64::MAX);
        let limit = now().saturating_add(micros(Duration::from_secs(20)));
        let ended = loop {
            match stopped.try_wait().unwrap() {
                None if now() < limit => std::thread::yield_now(),
                ended => break ended,
            }
        };
        // It is not left behind where it has heard nothing.
        let _ = stopped.kill();
        assert_eq!(ended.and_then(|status| status.code()), Some(7));
    }

    #[test]
    fn groups_that_mean_more_than_a_command_are_none() {
        for number in [-7, -1, 0, 1] {
            assert_eq!(Group::of(number), None);
        }
    }
}
