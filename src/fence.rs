//! A gate for a resource in this process: it lets nobody in behind a later holder.
//!
//! It decides by the token alone. It knows nothing of leases, clocks or nodes.

use thiserror::Error;

use crate::{
    lock::Lock,
    protocol::{FencingToken, ReadToken},
};

/// Refuses a caller with a smaller fencing token than it has seen.
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
    seen: Lock<Seen>,
}

/// The largest tokens that were let in, zero where there was none: counters of nodes begin at one. Both stand under one
/// lock, so that a token which is refused leaves no trace, and of a writer and a reader who come at once one sees the other.
#[derive(Debug, Default)]
struct Seen {
    written: u64,
    read: u64,
}

impl FenceGate {
    /// A gate that has seen nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self { seen: Lock::new(Seen { written: 0, read: 0 }) }
    }

    /// Lets the holder of `token` in, and keeps out callers with a smaller one from now on. A token that is refused keeps
    /// nobody out.
    ///
    /// The check and the effect behind it are two steps: hold a mutex over both where effects must not
    /// overlap.
    ///
    /// # Errors
    ///
    /// [`StaleToken::Holder`]: a holder with a larger token has been here, or a reader after this holder. The lease is over; stop
    /// the work.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        let mut seen = self.seen.lock();
        let larger = (seen.written > token.get()).then_some(seen.written);
        let later = (seen.read >= token.get() && seen.read > 0).then_some(seen.read);
        if let Some(largest) = larger.or(later) {
            return Err(StaleToken::Holder { token, largest: FencingToken::new(largest) });
        }
        seen.written = token.get();
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
    /// [`StaleToken::Reader`]: a holder has written since. The lease is over; acquire anew, and read again.
    pub fn admit_read(&self, token: ReadToken) -> Result<(), StaleToken> {
        let mut seen = self.seen.lock();
        let largest = FencingToken::new(seen.written);
        if !token.covers(largest) {
            return Err(StaleToken::Reader { token, largest });
        }
        seen.read = seen.read.max(token.get());
        Ok(())
    }

    /// The largest token of a holder that was let in so far.
    #[must_use]
    pub fn largest(&self) -> Option<FencingToken> {
        let written = self.seen.lock().written;
        (written > 0).then(|| FencingToken::new(written))
    }
}

/// A holder or a reader came too late: its lease is over. Nothing was done. Stop the work, and acquire anew.
#[derive(Clone, Copy, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum StaleToken {
    /// A holder with a larger token has been here, or a reader after this holder.
    #[error(
        "a later holder has used the token {largest}, and this token is {token}; nothing was done; stop the work, and \
         acquire anew"
    )]
    Holder {
        /// The token that was refused.
        token: FencingToken,
        /// The largest that has been seen.
        largest: FencingToken,
    },
    /// A holder has written since this reader's lease. What the reader has read may be of mixed states. Read again under a
    /// new lease.
    #[error(
        "a writer has used the token {largest}, and this reader has {token}; acquire anew, and read again"
    )]
    Reader {
        /// The token that was refused.
        token: ReadToken,
        /// The largest that has written.
        largest: FencingToken,
    },
}

debug_is_text! { enum StaleToken {
    Holder { token, largest },
    Reader { token, largest },
} }

impl StaleToken {
    /// The largest token that has been seen.
    #[must_use]
    pub const fn largest(self) -> FencingToken {
        match self {
            Self::Holder { largest, .. } | Self::Reader { largest, .. } => largest,
        }
    }
}

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
        assert_eq!(gate.admit(earlier), Err(StaleToken::Holder { token: earlier, largest: later }));
        assert_eq!(gate.largest(), Some(later));
    }

    /// What was refused has written nothing, and has read nothing.
    #[test]
    fn a_writer_that_is_refused_leaves_no_trace() {
        let gate = FenceGate::new();
        let (early, late) = (ReadToken::new(33), ReadToken::new(40));
        gate.admit(FencingToken::new(33)).unwrap();
        gate.admit_read(early).unwrap();
        gate.admit_read(late).unwrap();
        let refused = gate.admit(FencingToken::new(35)).unwrap_err();
        assert_eq!(refused.largest(), FencingToken::new(40));
        assert_eq!(gate.largest(), Some(FencingToken::new(33)), "nobody has written since");
        gate.admit_read(early).unwrap();
        gate.admit(FencingToken::new(41)).unwrap();
        assert!(gate.admit_read(late).is_err());
        assert!(gate.admit(FencingToken::new(41)).is_ok(), "what was refused has read nothing");
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
