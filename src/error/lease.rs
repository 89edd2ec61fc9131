//! What can go wrong with a lease: its release, an extension, its loss, and the work under it.
//!
//! It must never say "held" of a key that is gone, or leave open whether the lease is over.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use super::{AcquireError, Reports, WOULD_DEADLOCK, named::On};
use crate::{
    protocol::{LossReason, Target},
    text::{counted, rounded},
};

/// Why a release was not confirmed. The lease is over in every case.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: its key was gone, or another client's, on too many nodes. Nothing of ours
    /// is left there. Check whether the work overlapped with another holder's, and use a longer ttl.
    #[error(
        "the lease{} had ended before its release: released on {}; on too many nodes its key was gone, or another \
         client's key was there; nothing of it stays on the nodes; check whether the work overlapped with another \
         holder's; use a longer ttl or renewal{}",
        On(target.as_ref()), counted(*released, "node"), .nodes.after_release(": ")
    )]
    AlreadyEnded {
        /// What it was on; `None` where a test has made the error.
        target: Option<Target>,
        /// The nodes that deleted the key.
        released: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// Too few nodes confirmed. The release goes on in the background, and what cannot be reached expires
    /// after the ttl and any lock-delay. Nothing needs to be done; others may have to wait until then.
    #[error(
        "the release of the lease{} is unconfirmed: {released} of {} confirmed it; it goes on in the background; keys \
         out of reach expire after the ttl and any lock-delay; nothing needs to be done; other clients may have to \
         wait until then{}",
        On(target.as_ref()), counted(*needed, "needed node"), .nodes.after_release(": ")
    )]
    Unconfirmed {
        /// What it was on; `None` where a test has made the error.
        target: Option<Target>,
        /// The nodes that deleted the key.
        released: usize,
        /// The nodes that were needed.
        needed: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) has released the lease before, and reports whether that was
    /// confirmed. Nothing needs to be done.
    #[error(
        "the shutdown of this process released the lease, and reports how that went; nothing needs to be done"
    )]
    ShutDown,
    /// The runtime dropped the work. The key expires after the ttl and any lock-delay. Keep that runtime alive. In a process
    /// that was forked it says that the lease is the parent's, and nothing was sent.
    #[error(
        "the runtime ended before the release was answered, or this process was forked and the lease is its parent's; the \
         key expires after the ttl and any lock-delay; keep the runtime alive, and release in the process that acquired"
    )]
    RuntimeEnded,
    /// The blocking form was called on the very thread that has to answer it. The release goes on in the background.
    /// Await it there, or block another thread.
    #[error(
        "{WOULD_DEADLOCK}; the release goes on in the background; await it instead, or block another thread"
    )]
    WouldDeadlock,
}

debug_is_text! { enum ReleaseError {
    AlreadyEnded { target, released, nodes },
    Unconfirmed { target, released, needed, nodes },
    ShutDown,
    RuntimeEnded,
    WouldDeadlock,
} }

/// A lease is over: another client may hold the resource now. Stop the work, and acquire anew. What is left on
/// the nodes expires, or has been released.
///
/// Its text names the resource and, where a renewal has failed before, what each node said to that.
#[derive(Clone, Eq, Error, PartialEq)]
#[error(
    "the lease{} is lost: {reason}; keys left on the nodes expire or are being released; another client may hold the \
     resource now; stop the work, and acquire anew{}",
    On(self.target()), self.nodes().map(|nodes| nodes.after_extension(": ")).unwrap_or_default()
)]
#[non_exhaustive]
pub struct LeaseLost {
    /// Why.
    pub reason: LossReason,
    /// A word beside the reason, so that a check that says so stays as small as one that does not.
    about: Option<Arc<About>>,
}

debug_is_text! { struct LeaseLost { reason, about } }

/// What was lost.
#[derive(Debug, Eq, PartialEq)]
struct About {
    target: Target,
    nodes: Option<Reports>,
}

impl LeaseLost {
    /// A loss, as a test makes one.
    pub const fn new(reason: LossReason) -> Self {
        Self { reason, about: None }
    }

    /// The same of a lease on this, and what each node said to the last renewal if that has failed.
    ///
    /// ```
    /// use quorlock::{LeaseLost, LossReason, protocol::{Resource, Target}};
    ///
    /// let lost = LeaseLost::new(LossReason::Gone).on(Target::from(Resource::new("invoice:42")?), None);
    /// assert!(lost.to_string().starts_with("the lease on the resource `invoice:42` is lost: "));
    /// # Ok::<(), quorlock::ResourceError>(())
    /// ```
    #[must_use]
    pub fn on(mut self, target: Target, nodes: Option<Reports>) -> Self {
        self.about = Some(Arc::new(About { target, nodes }));
        self
    }

    /// What was leased; `None` where a test has made the error.
    pub fn target(&self) -> Option<&Target> {
        self.about.as_ref().map(|about| &about.target)
    }

    /// What each node said to the last renewal or extension, where that has failed.
    pub fn nodes(&self) -> Option<&Reports> {
        self.about.as_ref()?.nodes.as_ref()
    }
}

/// The lease has no fencing token: the builder was told [`classic`](crate::Builder::classic), where nodes count nothing.
/// Build without it, in every process; or let the store tell a repeat by something else than the token.
#[derive(Clone, Copy, Eq, Error, PartialEq)]
#[error("in classic mode a lease has no fencing token; build without `classic()` in every process")]
#[non_exhaustive]
pub struct NoToken;

debug_is_text! { struct NoToken }

/// Why a lease was not extended.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease is over. Stop the work, and acquire anew.
    #[error(transparent)]
    Lost(#[from] LeaseLost),
    /// Too few nodes answered. The lease is as valid as before, and its key stays on the nodes. Try again
    /// while there is time, or finish within what is left.
    #[error(
        "too few nodes answered the extension; the lease{} is as valid as before, for {:?} more; its key stays on the \
         nodes; try again, or finish, within that time{}",
        On(target.as_ref()), rounded(*validity), .nodes.after_extension(": ")
    )]
    InDoubt {
        /// What it is on; `None` where a test has made the error.
        target: Option<Target>,
        /// What each node said, if any was asked.
        nodes: Reports,
        /// What is left of the validity that was promised before.
        validity: Duration,
    },
    /// The runtime dropped the work, and renews the lease no more: it is as valid as before, and its key expires after the
    /// ttl and any lock-delay. Keep that runtime alive. In a process that was forked it says that the lease is the
    /// parent's.
    #[error(
        "the runtime ended before the extension was answered, or this process was forked and the lease is its parent's; \
         the lease{} is as valid here as before, for {:?} more, and is not renewed here any more; its key expires after \
         the ttl and any lock-delay; finish within that time; keep the runtime alive",
        On(target.as_ref()), rounded(*validity)
    )]
    RuntimeEnded {
        /// What it is on; `None` where a test has made the error.
        target: Option<Target>,
        /// What is left of the validity.
        validity: Duration,
    },
    /// The blocking form was called on the very thread that has to answer it. Nothing was sent. Await it there, or block
    /// another thread.
    #[error(
        "{WOULD_DEADLOCK}; nothing was sent; the lease is as valid as before; await it instead, or block another thread"
    )]
    WouldDeadlock,
    /// The lease was held for as long as `max_hold` allows. Nothing was sent, and it is as valid as before.
    /// Finish within what is left, or raise the limit.
    #[error(
        "the lease{} was held for as long as max_hold allows; nothing was sent; it is as valid as before, for {:?} \
         more; finish within that time, split the work, or raise max_hold",
        On(target.as_ref()), rounded(*validity)
    )]
    MaxHold {
        /// What it is on; `None` where a test has made the error.
        target: Option<Target>,
        /// What is left of the validity.
        validity: Duration,
    },
}

debug_is_text! { enum ExtendError {
    Lost(error),
    InDoubt { target, nodes, validity },
    RuntimeEnded { target, validity },
    WouldDeadlock,
    MaxHold { target, validity },
} }

/// Why work under a lease did not come to its end. Its text is that of the error in it.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The resource was not acquired, and the work was not begun.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost, and the work was dropped where it stood. What it had done by then is done; a
    /// fencing token keeps late effects out.
    #[error(transparent)]
    Lost(#[from] LeaseLost),
}

debug_is_text! { enum RunError {
    Acquire(error),
    Lost(error),
} }
