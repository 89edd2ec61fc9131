//! Releases, as their callers see them; and what the log tells of releases that have no caller.
//!
//! It decides nothing. It must never report a release that no quorum confirmed: it reports what the client has decided.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Counted, Engine, held::Outcomes, watch::Repeated};
use crate::{
    error::ReleaseError,
    node::NodeError,
    protocol::{FencingToken, NodeId, Owner, ReleaseId, Released, RoundLoss, Target},
    telemetry::{self, Caller, Held, NodeShown, metrics},
};

/// The engine's data of a release.
pub(super) struct Releasing {
    pub(super) token: Option<FencingToken>,
    pub(super) caller: Caller,
    /// Until the caller has been told.
    pub(super) answer: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    /// Where the shutdown that ended the lease gets the result.
    pub(super) report: Option<Arc<Outcomes>>,
    /// Counts as under way until the result is told.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    pub(super) counted: Option<Counted>,
}

impl Engine {
    /// Tells the result of a release.
    pub(super) fn released(&self, releasing: Releasing, released: &Released<NodeError>) {
        let Releasing { token, caller, answer, report, .. } = releasing;
        let Released { target, owner, result, released: nodes, .. } = released;
        telemetry::released(Held { caller: &caller, target, owner: *owner, token }, nodes.len());
        let result_of = match result {
            Ok(()) => "confirmed",
            Err(RoundLoss::NoQuorum) => "unconfirmed",
            Err(_) => "already_ended",
        };
        metrics::released(result_of, caller.counts);
        let result = self.result_of(released);
        report.into_iter().for_each(|report| report.note(&result));
        if let Some(answer) = answer {
            let _ = answer.send(result);
        }
    }

    fn result_of(&self, released: &Released<NodeError>) -> Result<(), ReleaseError> {
        let Released { target, result, released: those, said, .. } = released;
        let target = Some(target.clone());
        let (released, nodes) = (those.len(), || self.reports(said));
        match result {
            Ok(()) => Ok(()),
            Err(RoundLoss::NoQuorum) => {
                let needed = self.quorum.needed_beyond(*those);
                Err(ReleaseError::Unconfirmed { target, released, needed, nodes: nodes() })
            }
            Err(_) => Err(ReleaseError::AlreadyEnded { target, released, nodes: nodes() }),
        }
    }

    /// Tells the caller of a release that has waited too long for its turn.
    pub(super) fn release_late(&self, id: ReleaseId) {
        let late = {
            let mut client = self.client.lock();
            let target = client.release_target(id).cloned();
            client.release_data(id).and_then(|of_it| of_it.answer.take()).zip(target)
        };
        if let Some((answer, target)) = late.filter(|(answer, _)| !answer.is_closed()) {
            let _ = answer.send(Err(ReleaseError::Unconfirmed {
                target: Some(target),
                released: 0,
                needed: self.quorum.needed(),
                nodes: self.not_asked(),
            }));
        }
    }

    pub(super) fn tell_queued(&self, node: NodeId, target: &Target, owner: Owner) {
        let Some(slot) = self.slot(node) else { return };
        metrics::release_retried(self.labelled(slot));
        if let Some(times) = self.is_told(Repeated::ReleaseQueued(node)) {
            let shown = NodeShown { node, address: &slot.address };
            telemetry::release_queued(shown, target, owner, times);
        }
    }

    pub(super) fn tell_given_up(&self, node: NodeId, target: &Target, owner: Owner) {
        let Some(slot) = self.slot(node) else { return };
        metrics::release_given_up(self.labelled(slot));
        if let Some(times) = self.is_told(Repeated::ReleaseGivenUp(node)) {
            let shown = NodeShown { node, address: &slot.address };
            telemetry::release_given_up(shown, target, owner, times);
        }
    }
}
