//! A mutex that a panic does not close: the one that is used everywhere in this crate.
//!
//! It decides that poisoning is ignored. What stands under such a lock is changed in steps that leave it whole, and
//! code of users, which may panic at any time, is never run under one. If every later `lock` panicked as well, one
//! panic would end all renewals and releases of the process, which is the worse of two evils. It must never be held
//! across an `await`.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

/// A value that one thread at a time may look at.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Nothing where somebody else has it, who may be a thread that there is in the parent of this process alone.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same where that can only be so in a process that was forked; in its own process it waits. What is given up
    /// there for a moment in which another thread has the lock is never made good.
    pub(crate) fn lock_if(&self, is_here: impl FnOnce() -> bool) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| is_here().then(|| self.lock()))
    }

    /// Of its only owner, who need not wait.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else has it. A panic of whoever had it is no concern of the next.
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
