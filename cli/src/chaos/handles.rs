//! The user's commands that harm one of their nodes and mend it, such as `docker compose pause node{}` and `unpause`.
//!
//! It decides how they are run, and remembers what has been harmed, so that it is mended however the run ends. It harms no
//! node for which it was given no command, and never makes one up.

use std::{
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, RwLock},
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Args;

use crate::exit::{Failure, Status};

/// How servers of somebody's are harmed. In each command `{}` is the number of the node, in the order of `--nodes`, from 1 on.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Servers that are yours")]
pub(crate) struct Handles {
    /// Stops a node so that it answers nothing, as in `docker compose pause node{}`; {} is its number in --nodes, from 1 on
    #[arg(long, value_name = "COMMAND", requires = "unpause")]
    pause: Option<String>,
    /// Lets it go on, as in `docker compose unpause node{}`
    #[arg(long, value_name = "COMMAND", requires = "pause")]
    unpause: Option<String>,
    /// Kills a node, as in `docker compose kill node{}`. What it does not keep on disk is lost: give it no server whose data you need
    #[arg(long, value_name = "COMMAND", requires = "start")]
    kill: Option<String>,
    /// Starts it again, as in `docker compose start node{}`
    #[arg(long, value_name = "COMMAND", requires = "kill")]
    start: Option<String>,
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Harm {
    Stop,
    Kill,
}

impl Handles {
    pub(crate) const fn can(&self, harm: Harm) -> bool {
        match harm {
            Harm::Stop => self.pause.is_some(),
            Harm::Kill => self.kill.is_some(),
        }
    }

    pub(crate) const fn are_given(&self) -> bool {
        self.can(Harm::Stop) || self.can(Harm::Kill)
    }

    fn commands(&self, harm: Harm) -> Option<(&str, &str)> {
        match harm {
            Harm::Stop => self.pause.as_deref().zip(self.unpause.as_deref()),
            Harm::Kill => self.kill.as_deref().zip(self.start.as_deref()),
        }
    }

    pub(crate) fn harm(&self, node: usize, harm: Harm) -> Result<(), Failure> {
        let Some((command, undo)) = self.commands(harm) else { return Ok(()) };
        let is_over = HARMING.read().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return Ok(());
        }
        // Noted before it runs: a command that fails may have done its work.
        owed().push((node, undo.to_owned()));
        run(command, node)
    }

    pub(crate) fn mend(&self, node: usize, harm: Harm) -> Result<(), Failure> {
        let Some((_, undo)) = self.commands(harm) else { return Ok(()) };
        run(undo, node)?;
        owed().retain(|(other, _)| *other != node);
        Ok(())
    }
}

/// The nodes that are harmed and not mended, and the command that mends each.
static OWED: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

/// Held for reading while a command harms a node. True once no other may begin.
static HARMING: RwLock<bool> = RwLock::new(false);

/// How long this process waits for a command that harms before it ends at once.
const HANGS: Duration = Duration::from_secs(10);

fn owed() -> MutexGuard<'static, Vec<(usize, String)>> {
    OWED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mends what is still harmed, however the run ends. Returns what could not be mended.
pub(crate) fn mend_all() -> Vec<Failure> {
    let owed = std::mem::take(&mut *owed());
    owed.into_iter().filter_map(|(node, undo)| run(&undo, node).err()).collect()
}

/// The same while a command may be harming a node. It waits for that command first, which could undo the mending.
pub(crate) fn mend_before_the_end() -> Vec<Failure> {
    let begun = Instant::now();
    while begun.elapsed() < HANGS {
        if let Ok(mut is_over) = HARMING.try_write() {
            *is_over = true;
            break;
        }
        sleep(Duration::from_millis(5));
    }
    mend_all()
}

fn run(command: &str, node: usize) -> Result<(), Failure> {
    let command = command.replace("{}", &(node + 1).to_string());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).stdin(Stdio::null()).stdout(Stdio::null());
    // A key pressed at the terminal is for this process.
    std::os::unix::process::CommandExt::process_group(&mut shell, 0);
    let failed = |why: &str| {
        let text = format!("node {}: `{command}` failed: {}", node + 1, why.trim());
        Failure::new(Status::Failed, text)
    };
    let output =
        shell.stderr(Stdio::piped()).output().map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(&format!("{}. {said}", output.status)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// For each test that mends: `OWED` belongs to the whole process.
    pub(in crate::chaos) static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_command_that_fails_is_told_and_what_it_may_have_harmed_is_mended() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mended = tempfile::tempdir().unwrap();
        let harm = |pause: &str| {
            let unpause = format!("touch {}/{{}}", mended.path().display());
            let (pause, unpause) = (Some(pause.to_owned()), Some(unpause));
            Handles { pause, unpause, ..Handles::default() }
        };
        let failure = harm("echo no such node{} >&2; exit 3").harm(6, Harm::Stop).unwrap_err();
        assert_eq!(failure.status, Status::Failed);
        assert!(failure.text.contains("no such node7") && failure.text.contains("status: 3"));
        // One that worked, and is not mended before the end.
        harm("true").harm(7, Harm::Stop).unwrap();
        // One that is mended in time.
        let well = harm("true");
        well.harm(8, Harm::Stop).unwrap();
        well.mend(8, Harm::Stop).unwrap();
        std::fs::remove_file(mended.path().join("9")).unwrap();
        assert!(mend_all().is_empty());
        assert!(mended.path().join("7").exists() && mended.path().join("8").exists());
        assert!(!mended.path().join("9").exists(), "not twice");
        // Nothing is done for which there is no command.
        well.harm(1, Harm::Kill).unwrap();
        assert!(!well.can(Harm::Kill) && mend_all().is_empty());
        // A slow command, while the process ends at once.
        let begun = mended.path().join("begun");
        let slow = harm(&format!(
            "touch {}; sleep 0.3; rm -f {}/5",
            begun.display(),
            mended.path().display()
        ));
        std::thread::scope(|scope| {
            scope.spawn(|| slow.harm(4, Harm::Stop).unwrap());
            while !begun.exists() {
                std::thread::yield_now();
            }
            assert!(mend_before_the_end().is_empty());
        });
        assert!(mended.path().join("5").exists(), "it was harmed behind its mending");
        harm("exit 1").harm(5, Harm::Stop).unwrap();
        assert!(mend_all().is_empty(), "nobody is harmed any more");
    }
}
