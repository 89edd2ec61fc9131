//! What a log is told of acquires, leases and leaders.
//!
//! It decides nothing but words and levels, each in one line of a list. What is counted beside a line stands behind it.

use std::{fmt::Display, time::Duration};

use super::{Caller, NodeShown, metrics};
use crate::protocol::{FencingToken, LossReason, Owner, RoundLoss, Target, Timestamp};

/// A lease that was granted, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) caller: &'a Caller,
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) target: &'a Target,
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) owner: Owner,
    /// None in classic mode.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) token: Option<FencingToken>,
}

/// An acquire under way, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) caller: &'a Caller,
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) target: &'a Target,
    /// The rounds that were lost before.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) rounds: u32,
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) waited: Duration,
}

/// Lines of leases, in the span of their callers.
macro_rules! of_leases {
    ($held:ident: $($level:ident $name:ident($($argument:ident: $type:ty),*) [$($field:tt)*] $text:literal $(=> $counted:expr)?;)*) => {$(
        pub(crate) fn $name($held: Held<'_>, $($argument: $type),*) {
            $($counted;)?
            event_for!(
                $name, $held.caller, $level, resource = %$held.target, owner = %$held.owner,
                token = $held.token.map(FencingToken::get), $($field)* $text
            );
        }
    )*};
}

of_leases! {
    held:
    DEBUG acquired(rounds: u32, waited: Duration) [rounds, ?waited,] "acquired"
        => metrics::acquired(waited, held.caller.counts);
    DEBUG released(confirmed: usize) [confirmed,] "released";
    DEBUG handed_on() [handed_on = true,] "released";
    DEBUG kept() [kept = true,] "released";
    DEBUG downgraded() [] "downgraded";
    DEBUG left(lock_delay: Duration) [?lock_delay,] "left for the lock-delay";
    WARN lease_ending(reason: LossReason) [%reason,] "lease ends soon";
    WARN lease_lost(reason: LossReason, now: Option<Timestamp>) [%reason,] "lease lost"
        => metrics::lease_lost(reason, held.caller.counts, now);
}

/// Lines of requests, in the span of their callers.
macro_rules! of_requests {
    ($asked:ident: $($level:ident $name:ident($($argument:ident: $type:ty),*) [$($field:tt)*] $text:literal $(=> $counted:expr)?;)*) => {$(
        pub(crate) fn $name($asked: Asked<'_>, $($argument: $type),*) {
            $($counted;)?
            event_for!(
                $name, $asked.caller, $level, resource = %$asked.target, $($field)* $text
            );
        }
    )*};
}

// `outcome` is one word for why. `last` is what its last round has met, or that of the one who asks for it. So many come
// before it `here`, and `elsewhere` as last seen.
of_requests! {
    asked:
    DEBUG not_acquired(outcome: &'static str, error: &dyn Display)
        [outcome, rounds = asked.rounds, waited = ?asked.waited, %error,] "not acquired"
        => metrics::not_acquired(outcome, asked.waited, asked.caller.counts);
    TRACE round_lost(owner: Owner, loss: RoundLoss, granted: usize)
        [%owner, ?loss, granted, rounds = asked.rounds, waited = ?asked.waited,] "round lost"
        => metrics::round_lost(loss);
    INFO waits(holder: Option<&str>, ahead: usize, elsewhere: Option<u32>, last: &dyn Display, times: u64)
        [holder, ahead, elsewhere, rounds = asked.rounds, waited = ?asked.waited, times, %last,] "still waiting";
    DEBUG waits_too(holder: Option<&str>, ahead: usize, elsewhere: Option<u32>, last: &dyn Display)
        [holder, ahead, elsewhere, rounds = asked.rounds, waited = ?asked.waited, %last,] "still waiting";
}

/// An acquire has waited for a while. `times` counts the waiters for this resource that have come so far since this was told
/// last; where that is `None` it has been told within the last minute, or of enough other resources.
pub(crate) fn still_waiting(
    asked: Asked<'_>,
    holder: Option<&str>,
    (ahead, elsewhere): (usize, Option<u32>),
    last: &dyn Display,
    times: Option<u64>,
) {
    match times {
        Some(times) => waits(asked, holder, ahead, elsewhere, last, times),
        None => waits_too(asked, holder, ahead, elsewhere, last),
    }
}

/// Lines of what belongs to no caller.
macro_rules! of_process {
    ($($level:ident $name:ident($($argument:ident: $type:ty),*) [$($field:tt)*] $text:literal $(=> $counted:expr)?;)*) => {$(
        pub(crate) fn $name($($argument: $type),*) {
            $($counted;)?
            event!($name, $level, $($field)* $text);
        }
    )*};
}

of_process! {
    INFO elected(target: &Target, owner: Owner, term: FencingToken)
        [resource = %target, %owner, term = term.get(),] "elected" => metrics::elected();
    WARN leader_failed(target: &Target, term: FencingToken, error: &dyn Display)
        [resource = %target, term = term.get(), %error,] "the work of the leader failed";
    WARN leader_wedged(target: &Target, owner: Owner, term: FencingToken)
        [resource = %target, %owner, term = term.get(),] "the work of the leader goes on though its lease is over"
        => metrics::leader_wedged();
    WARN release_queued(shown: NodeShown<'_>, target: &Target, owner: Owner, times: u64)
        [node = shown.node.index(), address = shown.address, resource = %target, %owner, times,]
        "release kept for later";
    WARN release_given_up(shown: NodeShown<'_>, target: &Target, owner: Owner, times: u64)
        [node = shown.node.index(), address = shown.address, resource = %target, %owner, times,]
        "release given up, the key expires";
    INFO shutting_down(held: usize) [held,] "shutting down, the leases that are held end";
}
