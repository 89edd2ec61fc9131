//! A gate for a resource in this process: it lets nobody in behind a later holder.
//!
//! It decides by the token alone. It knows nothing of leases, clocks or nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::protocol::{FencingToken, ReadToken};

/// Refuses whoever comes with a smaller fencing token than has been seen.
///
/// It stands before a resource that lives in this process, such as a file or a device that only this process
/// writes to. A store that several processes write to has to check the token itself: see `docs/fencing.md`.
/// The same token is let in again, because it is its holder's.
///
/// ```
/// use quorlock::{FenceGate, protocol::FencingToken};
///
/// let gate = FenceGate::new();
/// assert!(gate.admit(FencingToken::new(33)).is_ok());
/// assert!(gate.admit(FencingToken::new(34)).is_ok());
/// assert!(gate.admit(FencingToken::new(33)).is_err());
/// ```
#[derive(Debug, Default)]
pub struct FenceGate {
    largest: AtomicU64,
    /// Of those who have read.
    read: AtomicU64,
}

impl FenceGate {
    /// A gate that has seen nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self { largest: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    /// Lets the holder of `token` in, and keeps out whoever has a smaller one from now on.
    ///
    /// The check and the effect behind it are two steps: hold a mutex over both where effects must not
    /// overlap.
    ///
    /// # Errors
    ///
    /// [`StaleToken`]: somebody with a larger token has been here, or a reader after this holder. The lease is over; stop
    /// the work.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        // In one step: between a load and a store a larger token could come in, and be written over.
        let largest = self.largest.fetch_max(token.get(), Ordering::SeqCst);
        if largest > token.get() {
            return Err(StaleToken { token, largest: FencingToken::new(largest) });
        }
        // Each side says its own and then looks at the other's, so that of two who come at once one sees the other.
        let read = self.read.load(Ordering::SeqCst);
        if read >= token.get() && read > 0 {
            return Err(StaleToken { token, largest: FencingToken::new(read) });
        }
        Ok(())
    }

    /// Lets a reader in that may see all that was written, and keeps out writers that were before it from now on.
    ///
    /// ```
    /// use quorlock::{FenceGate, FencingToken, ReadToken};
    ///
    /// let gate = FenceGate::new();
    /// gate.admit(FencingToken::new(33))?;
    /// gate.admit_read(ReadToken::new(33))?;
    /// assert!(gate.admit(FencingToken::new(33)).is_err(), "it would write under a reader's eyes");
    /// gate.admit(FencingToken::new(34))?;
    /// assert!(gate.admit_read(ReadToken::new(33)).is_err(), "it would see half of what is written");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`StaleRead`]: somebody has written since. The lease is over; acquire anew, and read again.
    pub fn admit_read(&self, token: ReadToken) -> Result<(), StaleRead> {
        self.read.fetch_max(token.get(), Ordering::SeqCst);
        let largest = FencingToken::new(self.largest.load(Ordering::SeqCst));
        if token.covers(largest) { Ok(()) } else { Err(StaleRead { token, largest }) }
    }

    /// The largest token seen so far.
    #[must_use]
    pub fn largest(&self) -> Option<FencingToken> {
        match self.largest.load(Ordering::SeqCst) {
            // Counters of nodes begin at one, so that zero is no token.
            0 => None,
            largest => Some(FencingToken::new(largest)),
        }
    }
}

/// A holder came too late: somebody with a larger token has been here. Nothing was done. Stop the work, and
/// acquire anew.
#[derive(Clone, Copy, Eq, Error, PartialEq)]
#[error(
    "a later holder has been here with the token {largest}, and this one is {token}; nothing was done; stop the work, and acquire anew"
)]
#[non_exhaustive]
pub struct StaleToken {
    /// The token that was refused.
    pub token: FencingToken,
    /// The largest that has been seen.
    pub largest: FencingToken,
}

debug_is_text! { struct StaleToken { token, largest } }

/// A reader came too late: somebody has written since. What it has read may be of mixed states. Acquire anew, and read
/// again.
#[derive(Clone, Copy, Eq, Error, PartialEq)]
#[error(
    "somebody has written with the token {largest}, and this reader has {token}; acquire anew, and read again"
)]
#[non_exhaustive]
pub struct StaleRead {
    /// The token that was refused.
    pub token: ReadToken,
    /// The largest of those who have written.
    pub largest: FencingToken,
}

debug_is_text! { struct StaleRead { token, largest } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_in_behind_a_later_holder() {
        let gate = FenceGate::new();
        assert_eq!(gate.largest(), None);
        let [earlier, later] = [4, 5].map(FencingToken::new);
        gate.admit(later).unwrap();
        gate.admit(later).unwrap();
        assert_eq!(gate.admit(earlier), Err(StaleToken { token: earlier, largest: later }));
        assert_eq!(gate.largest(), Some(later));
    }

    #[test]
    fn threads_that_race_are_let_in_in_order() {
        let gate = FenceGate::new();
        let inside = std::sync::Mutex::new(0);
        std::thread::scope(|scope| {
            for offset in 0..4u64 {
                let (gate, inside) = (&gate, &inside);
                scope.spawn(move || {
                    for step in 0..10_000 {
                        let token = FencingToken::new(step * 4 + offset + 1);
                        let mut last = inside.lock().unwrap();
                        if gate.admit(token).is_ok() {
                            assert!(token.get() >= *last);
                            *last = token.get();
                        }
                    }
                });
            }
        });
        assert_eq!(gate.largest(), Some(FencingToken::new(40_000)));
    }
}
