//! Events for the `tracing` crate, and nothing without the feature: call sites carry no `cfg`.
//!
//! It must never log a password. A subscriber runs where the event is, which mostly is the engine thread:
//! `docs/observing.md` says what it must not do, and which lines there are. It knows no type but those of `protocol`, so
//! that every layer may tell of something here; what it shows of an error is the error's text.
//!
//! There is one function for each thing that happens. It takes all that can be said of it, so that whatever else is to
//! be told of it, such as a metric, is told here. How often a line is told, `core/src/notice.rs` decides before.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

mod caller;
pub(crate) mod metrics;

use std::{fmt::Display, time::Duration};

pub(crate) use self::caller::Caller;
use crate::protocol::{FencingToken, LossReason, Owner, RoundLoss, Target};

/// Tells a subscriber of something: a level, and what its macro in `tracing` takes. A panic of the subscriber stays
/// there. Without the feature none of the arguments is looked at.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $($event:tt)+) => {
        crate::shield::shielded(|| {
            tracing::event!(target: "quorlock", tracing::Level::$level, $($event)+);
        })
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($($event:tt)+) => {};
}

/// The same in the span of whoever asked for it.
#[cfg(feature = "tracing")]
macro_rules! event_for {
    ($caller:expr, $level:ident, $($event:tt)+) => {
        // Looked at before the subscriber is sought out.
        if tracing::Level::$level <= tracing::level_filters::LevelFilter::current() {
            crate::shield::shielded(|| $caller.tell(|parent| match parent {
                Some(parent) => {
                    tracing::event!(target: "quorlock", parent: parent, tracing::Level::$level, $($event)+);
                }
                None => tracing::event!(target: "quorlock", tracing::Level::$level, $($event)+),
            }));
        }
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event_for {
    ($($event:tt)+) => {};
}

mod nodes;

pub(crate) use self::nodes::*;

/// Whether anybody may be listening.
pub(crate) const IS_ON: bool = cfg!(feature = "tracing");

/// What has been granted to somebody, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) caller: &'a Caller,
    pub(crate) target: &'a Target,
    pub(crate) owner: Owner,
    /// None in classic mode.
    pub(crate) token: Option<FencingToken>,
}

impl Held<'_> {
    fn token(&self) -> Option<u64> {
        self.token.map(FencingToken::get)
    }
}

/// An acquire under way, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody is told"))]
    pub(crate) caller: &'a Caller,
    pub(crate) target: &'a Target,
    /// The rounds that were lost before.
    pub(crate) rounds: u32,
    pub(crate) waited: Duration,
}

// Acquires, rounds and leases.

pub(crate) fn acquired(held: Held<'_>, rounds: u32, waited: Duration) {
    metrics::acquired(waited);
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, DEBUG, resource = %target, %owner, token, rounds, ?waited, "acquired");
}

/// An acquire has ended without a lease. `outcome` is one word for why.
pub(crate) fn not_acquired(asked: Asked<'_>, outcome: &'static str, error: &dyn Display) {
    let Asked { target, rounds, waited, .. } = asked;
    metrics::not_acquired(outcome, waited);
    event_for!(asked.caller, DEBUG, resource = %target, outcome, rounds, ?waited, %error, "not acquired");
}

pub(crate) fn round_lost(asked: Asked<'_>, owner: Owner, loss: RoundLoss, granted: usize) {
    metrics::round_lost(loss);
    let Asked { target, rounds, waited, .. } = asked;
    event_for!(
        asked.caller,
        TRACE,
        resource = %target,
        %owner,
        ?loss,
        granted,
        rounds,
        ?waited,
        "round lost"
    );
}

/// An acquire has waited for a while; `last` is what its last round has met, or that of the one who asks for it. So many
/// come before it here, and elsewhere as last seen. `times` counts the waiters for this resource
/// that have come so far since this was told last; where that is `None` it has been told within the last minute, or of
/// enough other resources.
pub(crate) fn still_waiting(
    asked: Asked<'_>,
    holder: Option<&str>,
    (ahead, elsewhere): (usize, Option<u32>),
    last: &dyn Display,
    times: Option<u64>,
) {
    let Asked { target, rounds, waited, .. } = asked;
    if times.is_some() {
        event_for!(
            asked.caller,
            INFO,
            resource = %target,
            holder,
            ahead,
            elsewhere,
            rounds,
            ?waited,
            times,
            %last,
            "still waiting"
        );
    } else {
        event_for!(
            asked.caller,
            DEBUG,
            resource = %target,
            holder,
            ahead,
            elsewhere,
            rounds,
            ?waited,
            %last,
            "still waiting"
        );
    }
}

pub(crate) fn released(held: Held<'_>, confirmed: usize) {
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, DEBUG, resource = %target, %owner, token, confirmed, "released");
}

/// A lease was released, and the next one of this process has begun under its grant.
pub(crate) fn handed_on(held: Held<'_>) {
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, DEBUG, resource = %target, %owner, token, handed_on = true, "released");
}

/// The holder of a lease shares it with readers from now on.
pub(crate) fn downgraded(held: Held<'_>) {
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, DEBUG, resource = %target, %owner, token, "downgraded");
}

/// A lease was released, and its grant is kept for a while for this process.
pub(crate) fn kept(held: Held<'_>) {
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, DEBUG, resource = %target, %owner, token, kept = true, "released");
}

/// A candidate has been elected.
pub(crate) fn elected(target: &Target, owner: Owner, term: FencingToken) {
    metrics::elected();
    event!(INFO, resource = %target, %owner, term = term.get(), "elected");
}

/// The work of a leader has returned an error.
pub(crate) fn leader_failed(target: &Target, term: FencingToken, error: &dyn Display) {
    event!(WARN, resource = %target, term = term.get(), %error, "the work of the leader failed");
}

/// The work of a leader goes on though its lease is over.
pub(crate) fn leader_wedged(target: &Target, owner: Owner, term: FencingToken) {
    metrics::leader_wedged();
    event!(
        WARN,
        resource = %target,
        %owner,
        term = term.get(),
        "the work of the leader goes on though its lease is over"
    );
}

/// A lease that was lost is over, and its keys are left to keep others out.
pub(crate) fn left(held: Held<'_>, lock_delay: Duration) {
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(
        held.caller,
        DEBUG,
        resource = %target,
        %owner,
        token,
        ?lock_delay,
        "left for the lock-delay"
    );
}

pub(crate) fn release_queued(shown: NodeShown<'_>, target: &Target, owner: Owner, times: u64) {
    let NodeShown { node, address } = shown;
    event!(WARN, node = node.index(), address, resource = %target, %owner, times, "release kept for later");
}

pub(crate) fn release_given_up(shown: NodeShown<'_>, target: &Target, owner: Owner, times: u64) {
    let NodeShown { node, address } = shown;
    event!(
        WARN,
        node = node.index(),
        address,
        resource = %target,
        %owner,
        times,
        "release given up, the key expires"
    );
}

pub(crate) fn shutting_down(held: usize) {
    event!(INFO, held, "shutting down, the leases that are held end");
}

pub(crate) fn lease_ending(held: Held<'_>, reason: LossReason) {
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, WARN, resource = %target, %owner, token, %reason, "lease ends soon");
}

pub(crate) fn lease_lost(held: Held<'_>, reason: LossReason) {
    metrics::lease_lost(reason);
    let Held { target, owner, .. } = held;
    let token = held.token();
    event_for!(held.caller, WARN, resource = %target, %owner, token, %reason, "lease lost");
}
