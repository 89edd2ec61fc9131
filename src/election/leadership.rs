//! What a leader has: a lease, its term, and what it says of itself.
//!
//! It decides nothing. It must never be given up while work goes on under it that it knows of.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use futures::future::{Either, select};

use super::{ProclaimError, Shared};
use crate::{
    engine::Proclamation,
    error::ReleaseError,
    lease::{Lease, Release},
    protocol::{FencingToken, LeaderText, Timestamp},
    runtime::block_on,
    shield::shield,
};

/// How many node timeouts a proclamation is waited for.
const WAITED_FOR: u32 = 10;

/// The leadership of an election: a [`Lease`], which it derefs to.
///
/// While [`check`](Lease::check) says so, nobody else leads. It is lost as a lease is: see [`Lease::lost`].
///
/// # Drop behavior
///
/// Dropping it gives the term up, as dropping the lease releases that. Stop its work first:
/// [`Election::lead`](super::Election::lead) does that.
#[must_use = "dropping a leadership gives the term up at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    lease: Lease,
    proclamation: Arc<Proclamation>,
    shared: Arc<Shared>,
}

impl Leadership {
    pub(super) const fn new(
        lease: Lease,
        proclamation: Arc<Proclamation>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { lease, proclamation, shared }
    }

    /// The term: the fencing token of the lease, larger than that of every leader before. What the leader sends carries it.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.proclamation.term()
    }

    /// Says something else of itself from now on, to observers and beside the key. It returns when a quorum of nodes has it,
    /// so that a later look sees it.
    ///
    /// # Errors
    ///
    /// [`ProclaimError`]. Where too few nodes have taken it within ten node timeouts, it goes on in the background.
    ///
    /// # Cancel safety
    ///
    /// From its first poll on it is said, and goes on when the future is dropped.
    pub async fn proclaim(&self, text: impl AsRef<[u8]>) -> Result<(), ProclaimError> {
        let number = self.say(text.as_ref())?;
        self.heard(number).await
    }

    fn say(&self, text: &[u8]) -> Result<u64, ProclaimError> {
        let said = LeaderText::new(text).ok_or(ProclaimError::TextTooLong { bytes: text.len() })?;
        if !self.lease.engine().process().is_here() {
            return Err(ProclaimError::Lost(self.lease.forked()));
        }
        if let Err(lost) = self.lease.check() {
            return Err(ProclaimError::Lost(lost));
        }
        Ok(self.proclamation.say(self.lease.engine(), said))
    }

    async fn heard(&self, number: u64) -> Result<(), ProclaimError> {
        let engine = self.lease.engine();
        let wait = engine.config.node_timeout.saturating_mul(WAITED_FOR);
        let limit = engine.sleep_until(engine.now().saturating_add(wait));
        let heard = select(Box::pin(self.proclamation.confirmed(number)), limit);
        match engine.process().awaits(shield(heard)).await {
            None => Err(ProclaimError::Lost(self.lease.forked())),
            Some(Either::Left((confirmed, _))) => confirmed.map_err(ProclaimError::Lost),
            Some(Either::Right(_)) => Err(ProclaimError::Unconfirmed {
                told: self.proclamation.told(),
                needed: engine.quorum.needed(),
            }),
        }
    }

    /// [`proclaim`](Leadership::proclaim), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`proclaim`](Leadership::proclaim), and [`ProclaimError::WouldDeadlock`].
    pub fn blocking_proclaim(&self, text: impl AsRef<[u8]>) -> Result<(), ProclaimError> {
        let number = self.say(text.as_ref())?;
        if self.lease.runs_here() {
            return Err(ProclaimError::WouldDeadlock);
        }
        block_on(self.heard(number))
    }

    /// Gives the term up, so that another candidate leads at once. Nothing of its work may go on.
    ///
    /// It is what [`Lease::release`] is, and starts when it is called.
    ///
    /// # Errors
    ///
    /// As for [`Lease::release`]. The term is over either way.
    pub fn resign(self) -> Release {
        // Its work has ended, as far as anybody knows: it does not outlive what is released next.
        self.end_work();
        self.lease.start_release()
    }

    fn end_work(&self) {
        // In a process that was forked a thread that is not there may have the locks.
        if self.lease.engine().is_served() {
            self.proclamation.end();
            self.shared.at_work().retain(|other| !Arc::ptr_eq(other, &self.proclamation));
        }
    }

    /// Up to when its work may go on that was given so much time to stop; `None` while the term lasts.
    pub(super) fn stop_by(&self, stop_within: Duration) -> Option<Timestamp> {
        let lost = self.lease.check().err()?;
        let engine = self.lease.engine();
        let now = engine.now();
        // Without such a time it ends with the loss, by whichever clock reading that was seen; and in a forked process at once.
        let stop_by = if stop_within.is_zero() || !engine.process().is_here() {
            now
        } else {
            self.proclamation.stop_by(stop_within, lost.reason, now)
        };
        Some(stop_by)
    }

    /// [`resign`](Leadership::resign), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`Lease::blocking_release`].
    pub fn blocking_resign(self) -> Result<(), ReleaseError> {
        let runs_here = self.lease.runs_here();
        self.resign().block(runs_here)
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // The lease follows.
        self.end_work();
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("term", &self.term())
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
