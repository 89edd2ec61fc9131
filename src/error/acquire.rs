//! Why a resource was not acquired, and after which pause to try again.
//!
//! It must never call a node broken that waits out its quarantine, or a resource held of which nothing is known.

use std::time::Duration;

use thiserror::Error;

use super::{
    NotAdopted, Reports, Unsupported, WOULD_DEADLOCK,
    acquire_text::{Contended, HoldTooLong, Quarantined, Ttl},
    named::NotAcquired,
};
use crate::{
    config::LockDelayTooLong,
    protocol::{Resource, ResourceError, Target},
    text::{counted, rounded},
};

/// The bounds of a suggested pause. None is shorter than what a header in whole seconds can say.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A resource may be released at any moment, however late its key would expire.
const LONGEST_PAUSE_IF_HELD: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// The nodes come back when an operator fixes them, or by themselves, at an unknown time.
const PAUSE_IN_AN_OUTAGE: Duration = Duration::from_secs(5);

/// Why a resource was not acquired.
///
/// Whatever a failed acquire had set on some nodes is being released in the background when this error is
/// returned; what cannot be released expires after the ttl and any lock-delay.
///
/// The text of each says all that there is to say, in one line: the cause, with what every node said, what is left on the
/// nodes, and what to do. None has a `source()`. What is said of a resource names it: that is the `target` of each, which is
/// `None` where a test has made the error.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Busy: another client holds the resource, or several asked at once and none got a quorum; or another lease of this
    /// process has it, which [`Reports::held_here`] says. Nothing of this attempt stays on the nodes. Wait longer, or try again after [`suggested_pause`](AcquireError::suggested_pause).
    #[error("{}", Contended { target, waited, expires_in, resource, nodes })]
    Contended {
        /// What was asked for.
        target: Option<Target>,
        /// How long the caller has waited.
        waited: Duration,
        /// Of several resources that were asked for at once: the one that is in the way for longest, by most of the nodes
        /// that say so.
        resource: Option<Resource>,
        /// When the key of the holder would expire, from now. A lease that is renewed expires later than that, and one
        /// that is released is free earlier: it is no time to rely on. `None` where the holder set no ttl, or nothing
        /// is known.
        expires_in: Option<Duration>,
        /// What each node said.
        nodes: Reports,
    },
    /// Neither busy nor broken: a quorum would be there, but some of its nodes may have forgotten leases and do not vote
    /// before their quarantine is over. It ends by itself. Nothing of ours stays on the nodes. An acquire waits for
    /// that up to its deadline, and what it sees of the nodes meanwhile counts for those that come after it. Wait longer
    /// than `remaining`, or try again.
    #[error("{}{}", NotAcquired(target), Quarantined { waited, remaining, nodes })]
    Quarantined {
        /// What was asked for.
        target: Option<Target>,
        /// How long the caller has waited.
        waited: Duration,
        /// When enough quarantines will be over for a quorum to vote, from now; earlier if another client has seen the
        /// nodes for longer. Zero where they are over, and the nodes wait to be admitted, for which enough of the others
        /// must answer.
        remaining: Duration,
        /// What each node said.
        nodes: Reports,
    },
    /// Broken: so many nodes failed that no client could acquire anything. Locks set on the other nodes are being
    /// released. Fix the nodes that the reports name; retrying alone does not help.
    #[error(
        "{}no quorum ({granted} of {} granted); partial locks are being released; fix the nodes that failed, since \
         retrying alone does not help{}",
        NotAcquired(target), counted(*needed, "needed node"), .nodes.after(": ")
    )]
    NoQuorum {
        /// What was asked for.
        target: Option<Target>,
        /// The nodes that granted.
        granted: usize,
        /// The nodes that were needed.
        needed: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// A quorum granted, but so slowly that less than the minimum validity was left. The lock is being released. Use
    /// a longer ttl, or find what delays the nodes or this process.
    #[error(
        "{}a quorum granted too late, after {:?} of a ttl of {ttl:?}; less than the minimum validity of \
         {min_validity:?} was left; the lock is being released; use a longer ttl, or find what delays the nodes or \
         this process",
        NotAcquired(target), rounded(*elapsed)
    )]
    TooLate {
        /// What was asked for.
        target: Option<Target>,
        /// The ttl that was asked for.
        ttl: Duration,
        /// The time from before the first send to the reply that made the quorum.
        elapsed: Duration,
        /// The least validity that was accepted.
        min_validity: Duration,
    },
    /// Busy, too, but with this process: it has more acquires in flight than the nodes answer. The caller's time was up
    /// before its turn came, or its round timed out while others of this process were answered. Nothing stays on the
    /// nodes, and the state of the resource is unknown. Wait longer, start fewer acquires at once, or find what slows
    /// the nodes.
    #[error(
        "{}too many acquires are in flight in this process; timed out after {:?} with {} waiting; nothing stays on \
         the nodes; the state of the resource is unknown; wait longer, start fewer at once, or find what slows the \
         nodes",
        NotAcquired(target), rounded(*waited), counted(*waiting, "other")
    )]
    Crowded {
        /// What was asked for.
        target: Option<Target>,
        /// How long the caller has waited.
        waited: Duration,
        /// How many others were waiting for their turn.
        waiting: usize,
    },
    /// A detached lease was not adopted; `reason` says why, and what to do.
    #[error("{}{reason}{}", NotAcquired(target), .nodes.after(": "))]
    NotAdopted {
        /// What the detached lease is of.
        target: Option<Target>,
        /// How long the caller has waited.
        waited: Duration,
        /// Why not.
        reason: NotAdopted,
        /// What each node said.
        nodes: Reports,
    },
    /// The name cannot be a resource, or these names cannot be locked at once, or no semaphore has so many permits. Nothing
    /// was sent. The field says what is accepted.
    #[error("invalid resource; nothing was sent: {0}")]
    Resource(ResourceError),
    /// These nodes cannot grant this kind of lease. Nothing was sent. The field says why.
    #[error("the nodes cannot grant this kind of lease; nothing was sent: {0}")]
    Unsupported(Unsupported),
    /// The ttl is out of range, or leaves nothing after drift and minimum validity. Nothing was sent.
    /// Ask for a ttl between `min` and `max` that is longer than the minimum validity.
    #[error("{}{}; nothing was sent", NotAcquired(target), Ttl { ttl, min_validity, min, max })]
    Ttl {
        /// What was asked for.
        target: Option<Target>,
        /// The ttl that was asked for.
        ttl: Duration,
        /// The minimum validity that was asked for.
        min_validity: Duration,
        /// The shortest ttl that is accepted.
        min: Duration,
        /// The longest ttl that is accepted.
        max: Duration,
    },
    /// The lease cannot be held for as long as [`hold_at_least`](crate::Acquire::hold_at_least) says: its key must outlive
    /// the process, so that its ttl must be longer, and `max_ttl` forbids that, with the
    /// [`lock_delay`](crate::Acquire::lock_delay) if there is one. Nothing was sent. Ask for `max` at most, or raise
    /// [`Builder::max_ttl`](crate::Builder::max_ttl) in every process of the fleet, and with it the quarantine.
    #[error("{}{}", NotAcquired(target), HoldTooLong { hold, max, max_ttl, lock_delay })]
    HoldTooLong {
        /// What was asked for.
        target: Option<Target>,
        /// What was asked for.
        hold: Duration,
        /// The longest that is accepted, with that lock-delay.
        max: Duration,
        /// The longest ttl.
        max_ttl: Duration,
        /// The lock-delay that was asked for with it.
        lock_delay: Duration,
    },
    /// The ttl and the [`lock_delay`](crate::Acquire::lock_delay) together are longer than `max_ttl`, for which a node that
    /// may have forgotten a key is kept from voting. Nothing was sent. Ask for less of one of them, or raise
    /// [`Builder::max_ttl`](crate::Builder::max_ttl) in every process of the fleet, and with it the quarantine.
    #[error(
        "{}{}; nothing was sent",
        NotAcquired(target), LockDelayTooLong { lock_delay: *lock_delay, ttl: *ttl, max_ttl: *max_ttl }
    )]
    LockDelayTooLong {
        /// What was asked for.
        target: Option<Target>,
        /// The lock-delay that was asked for.
        lock_delay: Duration,
        /// The ttl that was asked for.
        ttl: Duration,
        /// The longest that both together may be.
        max_ttl: Duration,
    },
    /// The [`Redlock`](crate::Redlock) has been closed. Nothing was sent, or it is being undone. Acquire before closing.
    #[error(
        "this Redlock is closed, perhaps through a clone; nothing stays on the nodes; acquire before closing, or \
         connect a new one"
    )]
    Closed,
    /// The runtime dropped the work, as one given by `Builder::runtime` may do when it ends. What had been
    /// set expires after the ttl and any lock-delay. Keep that runtime alive. In a process that was forked it says that
    /// this handle is the parent's: build one there.
    #[error(
        "the runtime ended before the answer, or this process was forked; what was set expires after the ttl and \
         any lock-delay; keep the runtime alive, and connect in the process that acquires"
    )]
    RuntimeEnded,
    /// The blocking form was called on the very thread that has to answer it. Nothing was sent. Await it there, or
    /// block another thread.
    #[error("{WOULD_DEADLOCK}; nothing was sent; await it instead, or block another thread")]
    WouldDeadlock,
}

debug_is_text! { enum AcquireError {
    Contended { target, waited, resource, expires_in, nodes },
    Quarantined { target, waited, remaining, nodes },
    NoQuorum { target, granted, needed, nodes },
    TooLate { target, ttl, elapsed, min_validity },
    Crowded { target, waited, waiting },
    NotAdopted { target, waited, reason, nodes },
    Resource(error),
    Unsupported(error),
    Ttl { target, ttl, min_validity, min, max },
    HoldTooLong { target, hold, max, max_ttl, lock_delay },
    LockDelayTooLong { target, lock_delay, ttl, max_ttl },
    Closed,
    RuntimeEnded,
    WouldDeadlock,
} }

impl AcquireError {
    /// A resource that another client holds, for a test of what is made of that: an answer 409, a later attempt.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::AcquireError;
    ///
    /// let error = AcquireError::contended(Duration::from_secs(3));
    /// assert!(error.is_contended());
    /// assert_eq!(error.suggested_pause(), Some(Duration::from_secs(3)));
    /// ```
    pub fn contended(expires_in: impl Into<Option<Duration>>) -> Self {
        let (waited, nodes) = (Duration::ZERO, Reports::default());
        let expires_in = expires_in.into();
        Self::Contended { target: None, waited, expires_in, resource: None, nodes }
    }

    /// Too few nodes that vote already, for a test of what is made of that. A quorum can vote after `remaining`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::AcquireError;
    ///
    /// let error = AcquireError::quarantined(Duration::from_millis(11_200));
    /// assert_eq!(error.suggested_pause(), Some(Duration::from_secs(12)));
    /// ```
    pub fn quarantined(remaining: Duration) -> Self {
        let (waited, nodes) = (Duration::ZERO, Reports::default());
        Self::Quarantined { target: None, waited, remaining, nodes }
    }

    /// An outage of two of three nodes, for a test of what is made of that: an answer 503, an alarm.
    ///
    /// ```
    /// use quorlock::AcquireError;
    ///
    /// let error = AcquireError::no_quorum();
    /// assert!(!error.is_busy() && error.suggested_pause().is_some());
    /// ```
    pub fn no_quorum() -> Self {
        Self::NoQuorum { target: None, granted: 1, needed: 2, nodes: Reports::default() }
    }

    /// One word for how an acquire ended, for a log.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Contended { .. } => "contended",
            Self::Quarantined { .. } => "quarantined",
            Self::NoQuorum { .. } => "no_quorum",
            Self::TooLate { .. } => "too_late",
            Self::Crowded { .. } => "crowded",
            Self::NotAdopted { .. } => "not_adopted",
            Self::Resource(_)
            | Self::Unsupported(_)
            | Self::Ttl { .. }
            | Self::HoldTooLong { .. }
            | Self::LockDelayTooLong { .. } => "refused",
            Self::Closed => "closed",
            Self::RuntimeEnded | Self::WouldDeadlock => "not_run",
        }
    }

    /// Whether another client holds the resource: waiting or trying again helps.
    pub const fn is_contended(&self) -> bool {
        matches!(self, Self::Contended { .. })
    }

    /// Whether waiting or trying again helps, for whatever reason: another client holds the resource, or this process
    /// has too much in flight. Only [`is_contended`](AcquireError::is_contended) says that another client is at work.
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Contended { .. } | Self::Crowded { .. })
    }

    /// A pause before the next attempt: what an answer to a request of others says in `Retry-After`. It is in whole
    /// seconds, at least one and at most an hour; `None` where trying again never helps.
    ///
    /// | error | status | pause |
    /// | --- | --- | --- |
    /// | `Contended` | 409 | until the key in the way would expire, and at most 10 s, since it may be released before; 1 s where that is not known |
    /// | `Crowded`, `TooLate`, `NotAdopted` that is `Undecided` | 503 | 1 s |
    /// | `Quarantined` | 503 | until a quorum can vote |
    /// | `NoQuorum` | 503 | 5 s |
    /// | `NotAdopted`, otherwise | 409 | none: acquire the resource |
    /// | `Closed`, `RuntimeEnded` | 503 | none: this process is about to end |
    /// | all others | 500 | none: what is wrong stands in the program |
    pub fn suggested_pause(&self) -> Option<Duration> {
        let pause = match self {
            Self::Contended { expires_in, .. } => {
                expires_in.unwrap_or(SHORTEST_PAUSE).min(LONGEST_PAUSE_IF_HELD)
            }
            Self::Quarantined { remaining, .. } => *remaining,
            Self::NoQuorum { .. } => PAUSE_IN_AN_OUTAGE,
            Self::Crowded { .. }
            | Self::TooLate { .. }
            | Self::NotAdopted { reason: NotAdopted::Undecided, .. } => SHORTEST_PAUSE,
            Self::NotAdopted { .. }
            | Self::Resource(_)
            | Self::Unsupported(_)
            | Self::Ttl { .. }
            | Self::HoldTooLong { .. }
            | Self::LockDelayTooLong { .. }
            | Self::Closed
            | Self::RuntimeEnded
            | Self::WouldDeadlock => return None,
        };
        // Rounded up: a client that comes back a moment too early has waited in vain.
        let part_of_a_second = u64::from(pause.subsec_nanos() > 0);
        let whole = Duration::from_secs(pause.as_secs().saturating_add(part_of_a_second));
        Some(whole.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }

    /// What was asked for. `None` where the error is not about that, or a test has made it.
    pub const fn target(&self) -> Option<&Target> {
        match self {
            Self::Contended { target, .. }
            | Self::Quarantined { target, .. }
            | Self::NoQuorum { target, .. }
            | Self::TooLate { target, .. }
            | Self::Crowded { target, .. }
            | Self::NotAdopted { target, .. }
            | Self::Ttl { target, .. }
            | Self::HoldTooLong { target, .. }
            | Self::LockDelayTooLong { target, .. } => target.as_ref(),
            Self::Resource(_)
            | Self::Unsupported(_)
            | Self::Closed
            | Self::RuntimeEnded
            | Self::WouldDeadlock => None,
        }
    }

    /// What each node said in the last round, where there was one.
    pub const fn nodes(&self) -> Option<&Reports> {
        match self {
            Self::Contended { nodes, .. }
            | Self::Quarantined { nodes, .. }
            | Self::NotAdopted { nodes, .. }
            | Self::NoQuorum { nodes, .. } => Some(nodes),
            _ => None,
        }
    }
}

// Not by `#[from]`, which would make it a source.
impl From<ResourceError> for AcquireError {
    fn from(error: ResourceError) -> Self {
        Self::Resource(error)
    }
}
