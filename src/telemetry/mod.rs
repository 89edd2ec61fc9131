//! Events for the `tracing` crate, and nothing without the feature: call sites carry no `cfg`.
//!
//! It must never log a password. A subscriber runs where the event is, which mostly is the engine thread:
//! `docs/operating.md` says what it must not do, and which lines there are. It knows no type but those of `protocol`, so
//! that every layer may tell of something here; what it shows of an error is the error's text.
//!
//! There is one function for each thing that happens. It takes all that can be said of it, so that whatever else is to
//! be told of it, such as a metric, is told here. How often a line is told, `protocol/notice.rs` decides before.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

mod caller;
pub(crate) mod metrics;

use std::{fmt::Display, time::Duration};

pub(crate) use self::caller::Caller;
use crate::protocol::{
    AdmissionBlock, FencingToken, LossReason, NodeId, Notice, Owner, RoundLoss, Target,
};

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

/// Whether anybody may be listening.
pub(crate) const IS_ON: bool = cfg!(feature = "tracing");

/// A node, as it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeShown<'a> {
    pub(crate) node: NodeId,
    pub(crate) address: &'a str,
}

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

// Nodes, as `engine/watch.rs` sees them.

/// A connection was made and checked.
#[cfg(feature = "redis")]
pub(crate) fn node_connected(node: NodeId, address: &str, version: &str) {
    event!(TRACE, node = node.index(), address, version, "node connected");
}

/// One attempt to connect has failed.
#[cfg(feature = "redis")]
pub(crate) fn node_unreachable(node: NodeId, address: &str, reason: &str) {
    event!(TRACE, node = node.index(), address, reason, "node unreachable");
}

/// Whoever waits for a resource is not woken by it. Said once.
#[cfg(feature = "redis")]
pub(crate) fn no_line(node: NodeId, address: &str, reason: &str) {
    event!(INFO, node = node.index(), address, reason, "node without a line");
}

/// This process counts its votes, from now on.
pub(crate) fn node_votes(shown: NodeShown<'_>, version: Option<&str>, notice: Notice) {
    let (NodeShown { node, address }, times) = (shown, notice.times);
    event!(INFO, node = node.index(), address, version, times, "node votes");
}

pub(crate) fn node_down(shown: NodeShown<'_>, reason: &str, attempts: u64, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(WARN, node = node.index(), address, reason, attempts, times, ?lasted, "node down");
}

pub(crate) fn node_silent(shown: NodeShown<'_>, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(WARN, node = node.index(), address, times, ?lasted, "node does not answer yet");
}

pub(crate) fn node_refused(shown: NodeShown<'_>, refusal: &dyn Display, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(ERROR, node = node.index(), address, %refusal, times, ?lasted, "node refused");
}

pub(crate) fn node_quarantined(shown: NodeShown<'_>, quarantine: Duration, notice: Notice) {
    let (NodeShown { node, address }, times) = (shown, notice.times);
    event!(
        WARN,
        node = node.index(),
        address,
        ?quarantine,
        times,
        "node may have forgotten leases and does not vote yet"
    );
}

pub(crate) fn node_held_back(shown: NodeShown<'_>, hold: AdmissionBlock, notice: Notice) {
    let (NodeShown { node, address }, Notice { times, lasted, .. }) = (shown, notice);
    event!(
        WARN,
        node = node.index(),
        address,
        ?hold,
        times,
        ?lasted,
        "node cannot be admitted yet"
    );
}

/// This process has admitted it.
pub(crate) fn node_admitted(shown: NodeShown<'_>, floor: u64, times: u64) {
    let NodeShown { node, address } = shown;
    event!(INFO, node = node.index(), address, floor, times, "node admitted");
}

/// Leases of this process are longer than those that the nodes knew of, and so are the quarantines of all processes from now
/// on, until an operator lowers it.
pub(crate) fn max_ttl_raised(shown: NodeShown<'_>, from: Duration, to: Duration) {
    let NodeShown { node, address } = shown;
    event!(
        WARN,
        node = node.index(),
        address,
        ?from,
        ?to,
        "this process raises the longest ttl of the fleet"
    );
}

pub(crate) fn own_clock_jumped(times: u64) {
    event!(WARN, times, "the clock of this process jumped against those of most nodes");
}

/// So few nodes vote that nothing can be acquired or renewed.
pub(crate) fn quorum_lost(votes: usize, needed: usize, missing: &dyn Display, notice: Notice) {
    let Notice { times, lasted, .. } = notice;
    event!(ERROR, votes, needed, %missing, times, ?lasted, "quorum lost");
}

/// There has been none yet in this process.
pub(crate) fn no_quorum_yet(votes: usize, needed: usize, missing: &dyn Display, notice: Notice) {
    let lasted = notice.lasted;
    event!(ERROR, votes, needed, %missing, ?lasted, "no quorum yet");
}

/// Behind that: the first one of this process.
pub(crate) fn quorum_there(votes: usize, needed: usize) {
    event!(INFO, votes, needed, "quorum there");
}

/// So many nodes are in quarantine that nobody can acquire: one line for all of them. `max_ttl` is that of the fleet,
/// since another process may have told the nodes a longer one than this process has, and so made them wait for longer.
pub(crate) fn nobody_votes(
    waiting: usize,
    nodes: usize,
    quarantine: Duration,
    max_ttl: Duration,
    notice: Notice,
) {
    let Notice { times, lasted, .. } = notice;
    event!(
        WARN,
        waiting,
        nodes,
        ?quarantine,
        ?max_ttl,
        times,
        ?lasted,
        "{waiting} of {nodes} nodes are new or may have forgotten leases: nobody can acquire for up to {quarantine:.1?}, \
         and acquires that may wait for longer do"
    );
}

pub(crate) fn quarantine_over(votes: usize, needed: usize, times: u64) {
    event!(INFO, votes, needed, times, "quarantine over, a quorum of nodes votes");
}

pub(crate) fn quorum_back(votes: usize, needed: usize, times: u64) {
    event!(INFO, votes, needed, times, "quorum back");
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
pub(crate) fn lowered(held: Held<'_>) {
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
