//! Events for the `tracing` crate, and nothing without the feature: call sites carry no `cfg`.
//!
//! It must never log a password, a resource's holder, or an owner. A subscriber runs where the event is, which mostly
//! is the engine thread: `docs/operating.md` says what it must not do. It knows no type but those of `protocol`, so
//! that every layer may tell of something here; what it shows of an error is the error's text.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

use std::{fmt::Display, time::Duration};

use crate::protocol::{AdmissionBlock, LossReason, NodeId, Resource, RoundLoss};

/// Tells a subscriber of something: a level, and what its macro in `tracing` takes. A panic of the subscriber stays
/// there. Without the feature none of the arguments is looked at.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $($event:tt)+) => {
        crate::shield::shielded(|| tracing::$level!(target: "quorlock", $($event)+))
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($($event:tt)+) => {};
}

#[cfg(feature = "redis")]
pub(crate) fn node_ready(node: NodeId, address: &str, version: &str) {
    event!(info, node = node.index(), address, version, "node ready");
}

#[cfg(feature = "redis")]
pub(crate) fn node_down(node: NodeId, address: &str, reason: &str) {
    event!(warn, node = node.index(), address, reason, "node lost");
}

#[cfg(feature = "redis")]
pub(crate) fn node_unreachable(node: NodeId, address: &str, reason: &str) {
    event!(debug, node = node.index(), address, reason, "node unreachable");
}

#[cfg(feature = "redis")]
pub(crate) fn node_refused(node: NodeId, address: &str, refusal: &dyn Display) {
    event!(error, node = node.index(), address, %refusal, "node refused");
}

pub(crate) fn acquired(resource: &Resource, rounds: u32, elapsed: Duration) {
    event!(debug, %resource, rounds, ?elapsed, "acquired");
}

pub(crate) fn round_lost(resource: &Resource, loss: Option<RoundLoss>, granted: usize) {
    event!(debug, %resource, ?loss, granted, "round lost");
}

pub(crate) fn released(resource: &Resource, confirmed: usize) {
    event!(debug, %resource, confirmed, "released");
}

pub(crate) fn release_queued(node: NodeId, resource: &Resource) {
    event!(warn, node = node.index(), %resource, "release kept for later");
}

pub(crate) fn release_given_up(node: NodeId, resource: &Resource) {
    event!(warn, node = node.index(), %resource, "release given up, the key expires");
}

pub(crate) fn shutting_down(held: usize) {
    event!(info, held, "shutting down, the leases that are held end");
}

pub(crate) fn lease_ending(resource: &Resource, reason: LossReason) {
    event!(warn, %resource, %reason, "lease ends soon");
}

pub(crate) fn lease_lost(resource: &Resource, reason: LossReason) {
    event!(warn, %resource, %reason, "lease lost");
}

pub(crate) fn node_quarantined(node: NodeId, address: &str, quarantine: Duration) {
    event!(
        warn,
        node = node.index(),
        address,
        ?quarantine,
        "node may have forgotten leases and does not vote yet; danger_skip_quarantine skips this on throwaway nodes"
    );
}

pub(crate) fn node_admitted(node: NodeId, address: &str, floor: u64) {
    event!(info, node = node.index(), address, floor, "node admitted");
}

pub(crate) fn node_held_back(node: NodeId, address: &str, hold: AdmissionBlock) {
    event!(warn, node = node.index(), address, ?hold, "node cannot be admitted yet");
}

pub(crate) fn node_not_admitted(node: NodeId, address: &str, error: &dyn Display) {
    event!(warn, node = node.index(), address, %error, "node's marker cannot be read or set");
}

pub(crate) fn own_clock_jumped() {
    event!(warn, "the clock of this process jumped against those of most nodes");
}
