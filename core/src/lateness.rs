//! How late a command may be executed: the arithmetic on what a node may still take.
//!
//! A command carries the time, by the node's clock, after which the node refuses it. The client knows that clock by its
//! last reading; it may have strayed since. It decides nothing, and rounds against a caller that relies on a command
//! never being executed.

use core::time::Duration;

use super::admission::{NodeClock, READ_EVERY};

/// A node refuses a command that arrives this much after the time limit of its round, plus the possible error of the
/// reading of its clock.
pub const LATE: Duration = Duration::from_millis(100);

/// How long a node may still execute a command that was sent with this node timeout. The limit is by the node's clock,
/// which may have strayed since its last reading. In classic mode nodes refuse no late command.
///
/// ```
/// use std::time::Duration;
/// use quorlock_core::lateness::taken_for;
///
/// // 100 ms and 100 ms, and a tenth of that and of the 10 s since the clock was read.
/// assert_eq!(taken_for(Duration::from_millis(100)), Duration::from_millis(1_220));
/// ```
pub fn taken_for(node_timeout: Duration) -> Duration {
    let limit = node_timeout.saturating_add(LATE);
    limit.saturating_add(NodeClock::strayed(READ_EVERY.saturating_add(limit)))
}
