//! Events for the `tracing` crate, and nothing without the feature: call sites carry no `cfg`.
//!
//! It must never log a password, a resource's holder, or an owner. A subscriber runs where the event is, which mostly
//! is the engine thread: `docs/operating.md` says what it must not do.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables, clippy::missing_const_for_fn))]

use std::time::Duration;

use crate::node::NodeError;
#[cfg(feature = "redis")]
use crate::node::Refusal;
use crate::protocol::{AdmissionBlock, LossReason, NodeId, Resource, RoundLoss};
#[cfg(feature = "tracing")]
use crate::shield::shielded;

#[cfg(feature = "tracing")]
const TARGET: &str = "quorlock";

#[cfg(feature = "redis")]
pub(crate) fn node_ready(node: NodeId, address: &str, version: &str) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::info!(target: TARGET, node = node.index(), address, version, "node ready"),
    );
}

#[cfg(feature = "redis")]
pub(crate) fn node_down(node: NodeId, address: &str, reason: &str) {
    #[cfg(feature = "tracing")]
    shielded(|| tracing::warn!(target: TARGET, node = node.index(), address, reason, "node lost"));
}

#[cfg(feature = "redis")]
pub(crate) fn node_unreachable(node: NodeId, address: &str, reason: &str) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::debug!(target: TARGET, node = node.index(), address, reason, "node unreachable"),
    );
}

#[cfg(feature = "redis")]
pub(crate) fn node_refused(node: NodeId, address: &str, refusal: &Refusal) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::error!(target: TARGET, node = node.index(), address, %refusal, "node refused"),
    );
}

pub(crate) fn acquired(resource: &Resource, rounds: u32, elapsed: Duration) {
    #[cfg(feature = "tracing")]
    shielded(|| tracing::debug!(target: TARGET, %resource, rounds, ?elapsed, "acquired"));
}

pub(crate) fn round_lost(resource: &Resource, loss: Option<RoundLoss>, granted: usize) {
    #[cfg(feature = "tracing")]
    shielded(|| tracing::debug!(target: TARGET, %resource, ?loss, granted, "round lost"));
}

pub(crate) fn released(resource: &Resource, confirmed: usize) {
    #[cfg(feature = "tracing")]
    shielded(|| tracing::debug!(target: TARGET, %resource, confirmed, "released"));
}

pub(crate) fn release_queued(node: NodeId, resource: &Resource) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::warn!(target: TARGET, node = node.index(), %resource, "release kept for later"),
    );
}

pub(crate) fn release_given_up(node: NodeId, resource: &Resource) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::warn!(target: TARGET, node = node.index(), %resource, "release given up, the key expires"),
    );
}

pub(crate) fn lease_ending(resource: &Resource, reason: LossReason) {
    #[cfg(feature = "tracing")]
    shielded(|| tracing::warn!(target: TARGET, %resource, %reason, "lease ends soon"));
}

pub(crate) fn lease_lost(resource: &Resource, reason: LossReason) {
    #[cfg(feature = "tracing")]
    shielded(|| tracing::warn!(target: TARGET, %resource, %reason, "lease lost"));
}

pub(crate) fn node_quarantined(node: NodeId, address: &str, quarantine: Duration) {
    #[cfg(feature = "tracing")]
    shielded(|| {
        tracing::warn!(
            target: TARGET, node = node.index(), address, ?quarantine,
            "node may have forgotten leases and does not vote yet; danger_skip_quarantine skips this on \
             throwaway nodes"
        )
    });
}

pub(crate) fn node_admitted(node: NodeId, address: &str, floor: u64) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::info!(target: TARGET, node = node.index(), address, floor, "node admitted"),
    );
}

pub(crate) fn node_held_back(node: NodeId, address: &str, hold: AdmissionBlock) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::warn!(target: TARGET, node = node.index(), address, ?hold, "node cannot be admitted yet"),
    );
}

pub(crate) fn node_not_admitted(node: NodeId, address: &str, error: &NodeError) {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::warn!(target: TARGET, node = node.index(), address, %error, "node's marker cannot be read or set"),
    );
}

pub(crate) fn own_clock_jumped() {
    #[cfg(feature = "tracing")]
    shielded(
        || tracing::warn!(target: TARGET, "the clock of this process jumped against those of most nodes"),
    );
}
