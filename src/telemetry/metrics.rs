//! Metrics for the `metrics` facade, and nothing without the feature: call sites carry no `cfg`.
//!
//! It decides the names and labels, which `docs/observing.md` lists. A label has few values, known from the configuration or
//! from here: never a resource, an owner or the text of an error. A recorder is code of the user's: its panic stays here,
//! and nothing here may be called under a lock.

#![cfg_attr(
    not(feature = "metrics"),
    allow(unused_variables, dead_code, clippy::missing_const_for_fn, reason = "nobody counts")
)]

use std::{sync::Arc, time::Duration};

use super::Counts;
use crate::protocol::{ExtendOutcome, LossReason, RoundLoss, Timestamp};

/// Hands something to the recorder. Without the feature none of the arguments is looked at.
#[cfg(feature = "metrics")]
macro_rules! record {
    ($kind:ident . $does:ident ($value:expr), $($name:tt)+) => {
        crate::shield::shielded(|| metrics::$kind!($($name)+).$does($value))
    };
}
#[cfg(not(feature = "metrics"))]
macro_rules! record {
    ($($record:tt)+) => {};
}

/// A node, by what its metrics are labelled with. Both come from the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labelled<'a> {
    pub(crate) fleet: &'a str,
    pub(crate) address: &'a Arc<str>,
}

#[cfg(feature = "metrics")]
impl Labelled<'_> {
    fn labels(self) -> Vec<metrics::Label> {
        let address = metrics::SharedString::from_shared(Arc::clone(self.address));
        vec![fleet(self.fleet), metrics::Label::new("node", address)]
    }

    fn with(self, key: &'static str, value: &'static str) -> Vec<metrics::Label> {
        let mut labels = self.labels();
        labels.push(metrics::Label::from_static_parts(key, value));
        labels
    }
}

#[cfg(feature = "metrics")]
fn fleet(name: &str) -> metrics::Label {
    metrics::Label::new("fleet", name.to_owned())
}

/// The same with the class of what is counted, where it has one.
macro_rules! record_of {
    ($counts:expr, $kind:ident . $does:ident ($value:expr), $name:literal $(, $key:literal => $label:expr)?) => {
        match $counts.class.name() {
            None => { record!($kind.$does($value), $name $(, $key => $label)?); }
            Some(class) => { record!($kind.$does($value), $name, $($key => $label,)? "class" => class); }
        }
    };
}

/// Describes each metric to the recorder that is installed by now.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    crate::shield::shielded(|| {
        use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

        describe_counter!("quorlock_acquires_total", "Acquires that ended, by outcome");
        describe_histogram!(
            "quorlock_acquire_wait_seconds",
            Unit::Seconds,
            "From the request to its answer, by outcome"
        );
        describe_counter!("quorlock_rounds_total", "Acquire rounds, by outcome");
        describe_histogram!(
            "quorlock_round_seconds",
            Unit::Seconds,
            "From the start of an acquire round to the quorum that won it"
        );
        describe_gauge!("quorlock_acquires_in_line", "Acquires that wait for their turn");
        describe_gauge!("quorlock_leases_held", "Leases that are held");
        describe_histogram!(
            "quorlock_lease_held_seconds",
            Unit::Seconds,
            "From the grant of a lease to its end, by class"
        );
        describe_counter!("quorlock_renewals_total", "Renewals and extensions, by result");
        describe_counter!("quorlock_leases_lost_total", "Leases that were lost, by reason");
        describe_counter!("quorlock_terms_total", "Terms of elections won by candidates here");
        describe_counter!(
            "quorlock_leaders_wedged_total",
            "Leaders whose work went on though their lease was over"
        );
        describe_counter!("quorlock_releases_total", "Releases of leases, by result");
        describe_counter!(
            "quorlock_releases_retried_total",
            "Releases that a node had not confirmed, left to be sent again"
        );
        describe_counter!(
            "quorlock_releases_given_up_total",
            "Releases that a node never confirmed; the key expires"
        );
        describe_gauge!("quorlock_releases_unconfirmed", "Releases that a node has yet to confirm");
        describe_histogram!(
            "quorlock_node_round_trip_seconds",
            Unit::Seconds,
            "From the start of an acquire round to the answer of a node"
        );
        describe_gauge!("quorlock_node_state", "1 for the state that a node is in, else 0");
        describe_gauge!(
            "quorlock_node_clock_offset_seconds",
            Unit::Seconds,
            "How far the clock of a node is ahead of the one of this process"
        );
        describe_gauge!("quorlock_nodes_voting", "Nodes that vote");
        describe_gauge!("quorlock_quorum", "1 while enough nodes vote for a quorum, else 0");
    });
}

#[cfg(feature = "metrics")]
const LOSSES: [LossReason; 5] = [
    LossReason::NotRenewed,
    LossReason::RenewalFailed,
    LossReason::Gone,
    LossReason::MaxHold,
    LossReason::NoHeartbeat,
];
#[cfg(feature = "metrics")]
const OUTCOMES: [&str; 6] =
    ["acquired", "contended", "quarantined", "no_quorum", "too_late", "crowded"];

/// The series that have no node as a label, from zero on: of one that begins with its first increment, Prometheus counts
/// no increase, and the first loss would go unseen.
pub(crate) fn begin() {
    #[cfg(feature = "metrics")]
    {
        let begin = |name: &'static str, key: &'static str, values: &[&'static str]| {
            for value in values {
                record!(counter.increment(0), name, key => *value);
            }
        };
        begin("quorlock_leases_lost_total", "reason", &LOSSES.map(LossReason::name));
        begin("quorlock_acquires_total", "outcome", &OUTCOMES);
        let outcomes = ["won", "contended", "no_quorum", "too_late"];
        begin("quorlock_rounds_total", "outcome", &outcomes);
        begin("quorlock_renewals_total", "result", &["extended", "in_doubt", "lost"]);
        let results = ["confirmed", "handed_on", "kept", "left", "already_ended", "unconfirmed"];
        begin("quorlock_releases_total", "result", &results);
        record!(counter.increment(0), "quorlock_terms_total");
        record!(counter.increment(0), "quorlock_leaders_wedged_total");
        record!(gauge.increment(0.0), "quorlock_leases_held");
    }
}

/// The series of a class, from zero on as well.
pub(super) fn begin_class(class: &'static str) {
    #[cfg(feature = "metrics")]
    {
        for reason in LOSSES.map(LossReason::name) {
            record!(counter.increment(0), "quorlock_leases_lost_total", "reason" => reason, "class" => class);
        }
        for outcome in OUTCOMES {
            record!(counter.increment(0), "quorlock_acquires_total", "outcome" => outcome, "class" => class);
        }
    }
}

pub(super) fn acquired(waited: Duration, counts: Counts) {
    ended("acquired", waited, counts);
}

pub(super) fn not_acquired(outcome: &'static str, waited: Duration, counts: Counts) {
    ended(outcome, waited, counts);
}

fn ended(outcome: &'static str, waited: Duration, counts: Counts) {
    record_of!(counts, counter.increment(1), "quorlock_acquires_total", "outcome" => outcome);
    record_of!(counts, histogram.record(waited), "quorlock_acquire_wait_seconds", "outcome" => outcome);
}

/// The caller has gone away before the answer.
pub(crate) fn acquire_abandoned(counts: Counts) {
    record_of!(counts, counter.increment(1), "quorlock_acquires_total", "outcome" => "abandoned");
}

/// A round was won, so long after its start.
pub(crate) fn round_won(took: Duration) {
    record!(counter.increment(1), "quorlock_rounds_total", "outcome" => "won");
    record!(histogram.record(took), "quorlock_round_seconds");
}

pub(super) fn round_lost(loss: RoundLoss) {
    let outcome = match loss {
        RoundLoss::Contended => "contended",
        RoundLoss::NoQuorum => "no_quorum",
        RoundLoss::TooLate => "too_late",
        RoundLoss::Abandoned => "abandoned",
    };
    record!(counter.increment(1), "quorlock_rounds_total", "outcome" => outcome);
}

/// A lease is in the hands of its holder.
pub(crate) fn lease_begun() {
    record!(gauge.increment(1.0), "quorlock_leases_held");
}

/// Its holder has given it back. To be called once, and not for one that was lost.
pub(crate) fn lease_given_back(counts: Counts, now: Option<Timestamp>) {
    record!(gauge.decrement(1.0), "quorlock_leases_held");
    now.into_iter().for_each(|now| held(counts, now));
}

/// Its holder has given it back, and the next one of this process has it.
pub(crate) fn lease_handed_on(counts: Counts, now: Timestamp) {
    held(counts, now);
    released("handed_on", counts);
}

fn held(counts: Counts, now: Timestamp) {
    if let Some(since) = counts.since {
        let held = now.saturating_since(since);
        record_of!(counts, histogram.record(held), "quorlock_lease_held_seconds");
    }
}

/// It was lost before its holder gave it back.
pub(super) fn lease_lost(reason: LossReason, counts: Counts, now: Option<Timestamp>) {
    record!(gauge.decrement(1.0), "quorlock_leases_held");
    let reason = reason.name();
    record_of!(counts, counter.increment(1), "quorlock_leases_lost_total", "reason" => reason);
    now.into_iter().for_each(|now| held(counts, now));
}

/// A candidate of this process has been elected.
pub(super) fn elected() {
    record!(counter.increment(1), "quorlock_terms_total");
}

/// The work of a leader goes on though its lease is over.
pub(super) fn leader_wedged() {
    record!(counter.increment(1), "quorlock_leaders_wedged_total");
}

/// A renewal has ended, or an extension by the holder.
pub(crate) fn renewed(outcome: ExtendOutcome) {
    let result = match outcome {
        ExtendOutcome::Extended(_) => "extended",
        ExtendOutcome::InDoubt => "in_doubt",
        ExtendOutcome::Lost => "lost",
    };
    record!(counter.increment(1), "quorlock_renewals_total", "result" => result);
}

/// A release is decided: by a quorum, by a hand-over, because the lease was over already, or not at all.
pub(crate) fn released(result: &'static str, counts: Counts) {
    record_of!(counts, counter.increment(1), "quorlock_releases_total", "result" => result);
}

pub(crate) fn release_retried(node: Labelled<'_>) {
    record!(counter.increment(1), "quorlock_releases_retried_total", node.labels());
}

pub(crate) fn release_given_up(node: Labelled<'_>) {
    record!(counter.increment(1), "quorlock_releases_given_up_total", node.labels());
}

/// A node has answered an acquire, so long after the round began.
pub(crate) fn round_trip(node: Labelled<'_>, took: Duration) {
    record!(histogram.record(took), "quorlock_node_round_trip_seconds", node.labels());
}

/// How a node is, and how far its clock is ahead of ours, in seconds.
#[cfg(feature = "metrics")]
pub(crate) fn node(node: Labelled<'_>, state: &str, unconfirmed: usize, clock: Option<f64>) {
    for other in ["connecting", "ready", "quarantined", "down", "refused"] {
        let is = if other == state { 1.0 } else { 0.0 };
        record!(gauge.set(is), "quorlock_node_state", node.with("state", other));
    }
    record!(gauge.set(as_f64(unconfirmed)), "quorlock_releases_unconfirmed", node.labels());
    // From zero on, as above.
    record!(counter.increment(0), "quorlock_releases_retried_total", node.labels());
    record!(counter.increment(0), "quorlock_releases_given_up_total", node.labels());
    if let Some(clock) = clock {
        record!(gauge.set(clock), "quorlock_node_clock_offset_seconds", node.labels());
    }
}

/// How the fleet is, as this process sees it.
#[cfg(feature = "metrics")]
pub(crate) fn quorum(name: &str, voting: usize, needed: usize, in_line: usize) {
    let there = if voting >= needed { 1.0 } else { 0.0 };
    record!(gauge.set(as_f64(voting)), "quorlock_nodes_voting", vec![fleet(name)]);
    record!(gauge.set(there), "quorlock_quorum", vec![fleet(name)]);
    record!(gauge.set(as_f64(in_line)), "quorlock_acquires_in_line", vec![fleet(name)]);
}

/// A gauge takes no other numbers; none of ours is beyond those that are exact.
#[cfg(feature = "metrics")]
fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
