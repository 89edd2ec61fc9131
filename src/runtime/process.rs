//! Which process this is: one that was forked has a copy of everything but the threads.
//!
//! It decides whether a lock may be waited for. It must never wait for one that only a thread of the parent's could
//! give back.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::protocol::Label;

/// The process in which something was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Process(u32);

impl Process {
    pub(super) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether it is this one, and not one that this was forked from. It asks the operating system, whose answer alone
    /// does not survive a fork.
    pub(super) fn is_here(self) -> bool {
        self == Self::current()
    }

    /// One that this is not.
    #[cfg(test)]
    pub(super) fn other() -> Self {
        Self(std::process::id().wrapping_add(1))
    }
}

/// `host/pid/program`, each as far as it can be known, in 128 bytes at most.
pub(crate) fn process_label() -> Vec<u8> {
    let program = std::env::current_exe().ok();
    let program = program.as_ref().and_then(|path| path.file_name()).unwrap_or_default();
    let mut label = host();
    label.truncate(64);
    label.extend(format!("/{}/", std::process::id()).into_bytes());
    label.extend_from_slice(program.as_encoded_bytes());
    label.truncate(Label::MAX_BYTES);
    label
}

#[cfg(unix)]
fn host() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

#[cfg(not(unix))]
fn host() -> Vec<u8> {
    std::env::var_os("COMPUTERNAME").unwrap_or_default().into_encoded_bytes()
}

/// Locks what was made in `process`. `None` says that this process was forked from it, and that somebody has the lock:
/// it may be a thread that there is in the parent alone, and then it stays locked for ever.
pub(super) fn lock_here<T>(mutex: &Mutex<T>, process: Process) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) if !process.is_here() => None,
        Err(TryLockError::WouldBlock) => Some(mutex.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}
