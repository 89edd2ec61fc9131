//! Releases, as those have them who wait for one; and what a log is told of those that nobody waits for.
//!
//! It decides nothing. It must never report a release that no quorum confirmed: what it reports, the client has decided.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Counted, Engine, held::Outcomes, watch::Repeated};
use crate::{
    error::ReleaseError,
    node::NodeError,
    protocol::{FencingToken, NodeId, Owner, ReleaseId, Released, RoundLoss, Target},
    telemetry::{self, Caller, Held, NodeShown, metrics},
};

/// Of a release that somebody waits for.
pub(super) struct Releasing {
    pub(super) token: Option<FencingToken>,
    pub(super) caller: Caller,
    /// Until whoever waits for it has been told.
    pub(super) answer: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    /// Of the shutdown that has ended the lease.
    pub(super) report: Option<Arc<Outcomes>>,
    /// Until that is said.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    pub(super) counted: Option<Counted>,
}

impl Engine {
    /// A release is decided.
    pub(super) fn released(&self, releasing: Releasing, released: &Released<NodeError>) {
        let Releasing { token, caller, answer, report, .. } = releasing;
        let Released { target, owner, result, released: nodes, .. } = released;
        telemetry::released(Held { caller: &caller, target, owner: *owner, token }, *nodes);
        metrics::released(match result {
            Ok(()) => "confirmed",
            Err(RoundLoss::NoQuorum) => "unconfirmed",
            Err(_) => "already_ended",
        });
        let result = self.result_of(released);
        report.into_iter().for_each(|report| report.note(&result));
        if let Some(answer) = answer {
            let _ = answer.send(result);
        }
    }

    fn result_of(&self, released: &Released<NodeError>) -> Result<(), ReleaseError> {
        let Released { target, result, released, said, .. } = released;
        let target = Some(target.clone());
        let (released, nodes) = (*released, || self.reports(said));
        match result {
            Ok(()) => Ok(()),
            Err(RoundLoss::NoQuorum) => {
                let needed = self.quorum.needed();
                Err(ReleaseError::Unconfirmed { target, released, needed, nodes: nodes() })
            }
            Err(_) => Err(ReleaseError::AlreadyEnded { target, released, nodes: nodes() }),
        }
    }

    /// A release has waited too long for its turn, which whoever waits for it is told.
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
