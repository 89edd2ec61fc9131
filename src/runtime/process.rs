//! Which process this is: a forked child has a copy of everything but the threads.
//!
//! It decides whether code may wait for a lock or an answer. It must never wait for something that only a thread of the
//! parent could give.

use std::{
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    task::{Context, Poll},
};

use crate::protocol::Label;

/// The process in which something was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Whether it is this process, not the parent of a fork. It asks the operating system: any cached answer would
    /// survive a fork.
    pub(crate) fn is_here(self) -> bool {
        self == Self::current()
    }

    /// Awaits a future that only this process can complete; `None` in a child forked since.
    pub(crate) fn awaits<F: Future>(self, future: F) -> Here<F> {
        Here { process: self, future: Some(Box::pin(future)) }
    }

    /// Another process.
    #[cfg(test)]
    pub(super) fn other() -> Self {
        Self(std::process::id().wrapping_add(1))
    }
}

/// A future that runs in its own process and ends at once in another. There it is neither polled nor dropped: to
/// register its waker, or to remove it, it may take a lock that a thread of the parent held.
#[derive(Debug)]
pub(crate) struct Here<F> {
    process: Process,
    /// `None` once it has ended.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Here<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.process.is_here() {
            return Poll::Ready(None);
        }
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let output = std::task::ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(Some(output))
    }
}

impl<F> Drop for Here<F> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && !self.process.is_here()
        {
            std::mem::forget(future);
        }
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

/// Locks a mutex made in `process`. `None` in a forked child while the mutex is locked: a thread of the parent alone
/// may hold it, and never unlocks it here.
pub(super) fn lock_here<T>(mutex: &Mutex<T>, process: Process) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) if !process.is_here() => None,
        Err(TryLockError::WouldBlock) => Some(mutex.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, task::Waker};

    use super::*;

    #[test]
    fn what_another_process_would_have_to_end_ends_at_once_and_is_neither_polled_nor_dropped() {
        struct Untouchable;

        impl Future for Untouchable {
            type Output = ();

            fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
                panic!("it was polled");
            }
        }

        impl Drop for Untouchable {
            fn drop(&mut self) {
                panic!("it was dropped");
            }
        }

        let mut cx = Context::from_waker(Waker::noop());
        let mut elsewhere = Process::other().awaits(Untouchable);
        assert_eq!(Pin::new(&mut elsewhere).poll(&mut cx), Poll::Ready(None));
        let mut here = Process::current().awaits(async { 7 });
        assert_eq!(Pin::new(&mut here).poll(&mut cx), Poll::Ready(Some(7)));
        let mut waits = Process::current().awaits(pending::<()>());
        assert!(Pin::new(&mut waits).poll(&mut cx).is_pending());
    }
}
