//! Reaps processes of which this one has become the parent, as the first process of a container does, while the command
//! runs: otherwise they would stay for ever.
//!
//! It must never reap a process that was started here: the code that started it wants to know how it ended.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
};

/// The two that were started here: their numbers, or 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    holder: Arc<AtomicU32>,
    command: Arc<AtomicU32>,
}

impl Orphans {
    /// Runs as a task of this thread, so that it knows each process started here before it looks.
    pub(crate) fn watch() -> std::io::Result<Self> {
        let (ours, mut ended) = (Self::default(), signal(SignalKind::child())?);
        let known = ours.clone();
        tokio::spawn(async move {
            while ended.recv().await.is_some() {
                known.bury();
            }
        });
        Ok(ours)
    }

    pub(crate) fn except_holder(&self, holder: &Child) {
        self.holder.store(holder.id().unwrap_or(0), Relaxed);
    }

    pub(crate) fn except_command(&self, command: &Child) {
        self.command.store(command.id().unwrap_or(0), Relaxed);
    }

    /// Reaps those that have ended.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn bury(&self) {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};

        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let ours = [&self.holder, &self.command].map(|number| number.load(Relaxed));
        // One of ours that has ended hides others behind it. It is soon waited for: there is another look then.
        while let Ok(WaitStatus::Exited(process, _) | WaitStatus::Signaled(process, ..)) =
            waitid(Id::All, look)
            && u32::try_from(process.as_raw()).is_ok_and(|number| !ours.contains(&number))
        {
            let _ = waitpid(process, Some(WaitPidFlag::WNOHANG));
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn bury(&self) {}
}
