//! How a holder ends its lease: released now, or left to expire.
//!
//! It decides nothing: the footprint decides what is released, and where.

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
    kind::{Exclusive, Kind, Slot},
    runtime::{Process, block_on},
    shield::Shield,
};

impl<K: Kind> Lease<K> {
    /// Ends the lease now, so that others need not wait for the ttl and any lock-delay. With
    /// [`hold_at_least`](crate::Acquire::hold_at_least) they wait until that time is over and no longer.
    ///
    /// It returns when a quorum has confirmed; the other nodes are released in the background. In three cases nothing
    /// is sent, and it returns at once: the next waiter of this process takes over the grant, with a token of its own;
    /// the grant lingers ([`Acquire::linger`](crate::Acquire::linger)); or other holders share the lease.
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
        // The last holder: no other can join any more.
        let last = Arc::into_inner(self.into_held());
        let answer = last.map_or(Ok(ReleaseAnswer::HandedOn), |last| last.release().map_err(Some));
        Release { answer, process, shield: Shield::default() }
    }

    /// Starts the release while the holder still has the lease.
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
        self.release().block(runs_here)
    }
}

impl Lease<Exclusive> {
    /// Ends the lease without releasing it: renewals stop, and nothing is sent. The key keeps others out until it
    /// expires, a ttl and the lock-delay after the last grant or extension. Use it for work that must be left alone for
    /// a while after a failure; where the time is known before, use [`hold_at_least`](crate::Acquire::hold_at_least).
    ///
    /// The lease is over at once for its holder. An extension that is under way may still count.
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
    pub fn let_expire(self) {
        self.held.let_expire();
    }
}

impl Lease<Slot> {
    /// Ends the permit without releasing it, as `let_expire` of a plain lease does.
    pub fn let_expire(self) {
        self.held.let_expire();
    }
}

/// A release under way, made by [`Lease::release`]. It works on any executor, and goes on when dropped.
#[must_use = "await it to learn whether the release was confirmed"]
#[derive(Debug)]
pub struct Release {
    /// The answer, or why there is none: `None` once that has been returned.
    answer: Result<ReleaseAnswer, Option<ReleaseError>>,
    /// The process in which the answer arrives.
    process: Process,
    shield: Shield,
}

impl Release {
    /// Waits for it, unless this thread runs the engine: then only for an answer that is there already.
    pub(crate) fn block(self, runs_here: bool) -> Result<(), ReleaseError> {
        if runs_here && matches!(self.answer, Ok(ReleaseAnswer::Asked(_))) {
            return Err(ReleaseError::WouldDeadlock);
        }
        block_on(self)
    }
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
