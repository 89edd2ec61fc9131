//! How a holder ends its lease: released now, or left to expire.
//!
//! It decides nothing; what is released, and where, is decided by the footprint.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::Lease;
use crate::{
    engine::ReleaseAnswer,
    error::ReleaseError,
    kind::{Excludes, Kind},
    runtime::{Process, block_on},
    shield::Shield,
};

impl<K: Kind> Lease<K> {
    /// Ends the lease now, so that others need not wait for the ttl and any lock-delay; with
    /// [`hold_at_least`](crate::Acquire::hold_at_least), so that they wait until that time is over and no longer.
    ///
    /// It returns when a quorum has confirmed; the other nodes are seen to in the background. Where somebody waits for the
    /// resource in this process, the next lease begins at once under the same grant, with a token of its own: then nothing is
    /// sent, nothing need be confirmed, and it returns at once; and so it does where the grant lingers
    /// ([`Acquire::linger`](crate::Acquire::linger)).
    ///
    /// # Errors
    ///
    /// [`ReleaseError`], which says whether the lease had ended before, or too few nodes confirmed. The
    /// lease is over either way.
    ///
    /// # Cancel safety
    ///
    /// The release starts when this method is called, not when the future is polled, and dropping the
    /// future does not stop it: only its result is lost.
    #[doc(alias = "unlock")]
    pub fn release(self) -> Release {
        let process = self.held.engine.process();
        // The last one who holds it: nobody can join any more.
        let last = Arc::into_inner(self.held);
        let answer = last.map_or(Ok(ReleaseAnswer::HandedOn), |last| last.release().map_err(Some));
        Release { answer, process, shield: Shield::default() }
    }

    /// Releases it for whoever holds it, before they let go of it.
    pub(crate) fn start_release(&self) -> Release {
        let (answer, process) = (self.held.release().map_err(Some), self.held.engine.process());
        Release { answer, process, shield: Shield::default() }
    }

    /// [`release`](Lease::release), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`release`](Lease::release), and [`ReleaseError::WouldDeadlock`].
    pub fn blocking_release(self) -> Result<(), ReleaseError> {
        let runs_here = self.runs_here();
        let release = self.release();
        if runs_here && !matches!(release.answer, Ok(ReleaseAnswer::HandedOn)) {
            // It is started, and nobody waits for it.
            return Err(ReleaseError::WouldDeadlock);
        }
        block_on(release)
    }

    /// Ends the lease without releasing it: it is not renewed any more, and nothing is sent. The key keeps others out
    /// until it expires, a ttl and the lock-delay after it was granted or extended last. It is for work that must be left
    /// alone for a while after a failure; where a time is known before, [`hold_at_least`](crate::Acquire::hold_at_least) says it.
    ///
    /// For the holder it is over at once, and for all of them where it is re-entrant. An extension that is under way may
    /// still count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorlock::{Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let lease = redlock.acquire("invoice:42").ttl(Duration::from_secs(5)).await?;
    /// lease.let_expire();
    /// assert!(redlock.try_acquire("invoice:42").await.unwrap_err().is_contended());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[doc(alias = "leave")]
    #[doc(alias = "forget")]
    pub fn let_expire(self)
    where
        K: Excludes,
    {
        self.held.let_expire();
    }
}

/// A release under way, made by [`Lease::release`]. It works on any executor, and goes on when dropped.
#[must_use = "await it to learn whether the release was confirmed"]
#[derive(Debug)]
pub struct Release {
    /// Or why there is none; `None` once that has been told.
    answer: Result<ReleaseAnswer, Option<ReleaseError>>,
    /// The one that is answered.
    process: Process,
    shield: Shield,
}

impl Future for Release {
    type Output = Result<(), ReleaseError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { answer, process, shield } = &mut *self;
        match answer {
            Ok(ReleaseAnswer::Asked(_)) if !process.is_here() => {
                Poll::Ready(Err(ReleaseError::RuntimeEnded))
            }
            Ok(ReleaseAnswer::HandedOn) => {
                *answer = Err(None);
                Poll::Ready(Ok(()))
            }
            Ok(ReleaseAnswer::Asked(waiting)) => shield.poll(Pin::new(waiting), cx).map(|result| {
                *answer = Err(None);
                result.unwrap_or(Err(ReleaseError::RuntimeEnded))
            }),
            Err(error) => Poll::Ready(Err(error.take().unwrap_or(ReleaseError::RuntimeEnded))),
        }
    }
}
