//! What came of closing a handle, or of shutting a process down.
//!
//! It must never call a lease released that no quorum has confirmed.

use thiserror::Error;

use super::WOULD_DEADLOCK;
use crate::text::counted;

/// [`Redlock::close`](crate::Redlock::close) has ended: nothing is under way any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Closed {
    /// The leases that are still held, and keep others out until they are released, are dropped, or expire. Where this is
    /// not zero at the end of a process, [`Redlock::shutdown`](crate::Redlock::shutdown) is what was meant.
    pub held: usize,
}

/// Why [`Redlock::close`](crate::Redlock::close) or [`Redlock::shutdown`](crate::Redlock::shutdown) did not see the end of
/// everything. The handle is closed all the same; behind `shutdown`, all leases are lost to their holders, and none is renewed.
#[derive(Clone, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CloseError {
    /// `close_timeout` has passed. What is left on the nodes is still being released while the process lives, and
    /// expires after the ttl and any lock-delay. Close earlier, or raise `close_timeout`; where a node is down nothing
    /// needs to be done.
    #[error(
        "close_timeout passed with {} unfinished (releases or rounds); pending work goes on while the process lives; \
         keys left on the nodes expire after the ttl and any lock-delay; close earlier, or raise close_timeout",
        counted(*unfinished, "operation")
    )]
    Unfinished {
        /// The operations that had not ended.
        unfinished: usize,
    },
    /// `close_timeout` has passed before every lease was released. What was not confirmed is still being released while
    /// the process lives, and expires after the ttl and any lock-delay. Work that goes on under `run` keeps its key for so
    /// long at most. Raise `close_timeout`, fix the nodes, or end the work when it is told that its lease is lost.
    #[error(
        "not all leases were released within close_timeout: {released} released, {gone} already ended, \
         {unconfirmed} not confirmed, {working} still at work; keys left on the nodes expire after the ttl and any \
         lock-delay; other clients may have to wait until then; raise close_timeout, fix the nodes, or end work when \
         its lease is lost"
    )]
    Unreleased {
        /// The leases that were released, each confirmed by a quorum.
        released: usize,
        /// The leases that had ended before.
        gone: usize,
        /// The leases that no quorum has confirmed as released.
        unconfirmed: usize,
        /// The leases under which the work of a `run` has not ended.
        working: usize,
    },
    /// The blocking form was called on the very thread that has to answer it. It goes on in the background. Await it there,
    /// or block another thread.
    #[error(
        "{WOULD_DEADLOCK}; it goes on in the background; await it instead, or block another thread"
    )]
    WouldDeadlock,
}

debug_is_text! { enum CloseError {
    Unfinished { unfinished },
    Unreleased { released, gone, unconfirmed, working },
    WouldDeadlock,
} }

/// [`Redlock::shutdown`](crate::Redlock::shutdown) has ended: this process keeps nobody out any more, but for leases with
/// [`hold_at_least`](crate::Acquire::hold_at_least), and those with a [`lock_delay`](crate::Acquire::lock_delay) that were
/// lost before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Shutdown {
    /// The leases that were released, each confirmed by a quorum.
    pub released: usize,
    /// The leases that had ended before: on too many nodes the key was gone, or it was lost and has a lock-delay, for which
    /// its keys are left. See what overlapped with whom.
    pub gone: usize,
    /// Operations on single nodes that had not ended after `close_timeout`, as where a minority is down. Their keys
    /// expire, and keep nobody out.
    pub unfinished: usize,
}

/// A blocking form was called on the very thread that has to answer it, and has done nothing. Await it there, or block
/// another thread.
#[derive(Clone, Copy, Eq, Error, PartialEq)]
#[error("{WOULD_DEADLOCK}; await it instead, or block another thread")]
#[non_exhaustive]
pub struct WouldDeadlock;

debug_is_text! { struct WouldDeadlock }
