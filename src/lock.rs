//! The mutex of this crate: a panic does not close it.
//!
//! It decides that poisoning is ignored. Data under such a lock changes in steps that leave it whole, and user code,
//! which may panic at any time, never runs under one. If every later `lock` panicked as well, one panic would end all
//! renewals and releases of the process, which is the worse of two evils. It must never be held across an `await`.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

/// A value that one thread at a time may use.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// `None` while another thread holds the lock; in a forked child that thread may not exist.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Like `try_lock`, but waits if `is_here` says that this is the lock's own process. Work skipped there because
    /// another thread holds the lock for a moment would never be made good.
    pub(crate) fn lock_if(&self, is_here: impl FnOnce() -> bool) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| is_here().then(|| self.lock()))
    }

    /// The value, for its only owner, who need not wait.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock. A panic of an earlier holder is ignored.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_under_it_keeps_nobody_out() {
        let lock = Lock::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = lock.lock();
            *guard = 2;
            panic!("under the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 2);
    }
}
