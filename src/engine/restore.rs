//! Restores: the key of a held lease set again on nodes that have lost it, where a quorum has just confirmed the
//! lease. It counts from the next extension on.
//!
//! It decides which restores share a task, and what has to be undone because the lease ended meanwhile. It must
//! never leave a key behind whose lease is over, and must never count a restore as a vote.

use std::{sync::Arc, time::Duration};

use super::{
    Engine,
    fanout::{Fanout, Numbered, Progress},
    footprint::Footprint,
};
use crate::{
    engine::Grant,
    node::NodeError,
    protocol::{Command, NodeId, Reply, Round, Timestamp, Verdict},
};

/// The most restores that one task sends. A runtime lets a task do only so much before it has to yield, and what
/// was not sent by then would be sent behind a release that comes in between.
const MOST: usize = 32;

/// A node that has lost the key of a lease.
struct Lost {
    grant: Arc<Grant>,
    node: NodeId,
    ttl: Duration,
    /// Up to when the lease has been confirmed.
    until: Timestamp,
}

impl Engine {
    /// Restores the leases of a batch, each of which has been extended by the round in its place, where they are
    /// gone. It goes on beside the caller.
    pub(super) fn restore(
        self: &Arc<Self>,
        batch: &[Arc<Grant>],
        rounds: &[Round],
        gone: Vec<(usize, NodeId)>,
    ) {
        let lost = |(lease, node): (usize, NodeId)| {
            let (grant, round) = (batch.get(lease)?, rounds.get(lease)?);
            let (ttl, until) = (round.spec().ttl, round.deadline());
            let confirmed = round.verdict() == Verdict::Won;
            confirmed.then(|| Lost { grant: Arc::clone(grant), node, ttl, until })
        };
        let mut lost = gone.into_iter().filter_map(lost).peekable();
        while lost.peek().is_some() {
            let together: Vec<Lost> = lost.by_ref().take(MOST).collect();
            let engine = Arc::clone(self);
            self.spawn(async move { engine.restore_together(together).await });
        }
    }

    async fn restore_together(self: Arc<Self>, lost: Vec<Lost>) {
        let mut calls: Fanout<Numbered> = Fanout::new(&self);
        let mut unanswered = vec![false; lost.len()];
        for (number, (lost, unanswered)) in lost.iter().zip(&mut unanswered).enumerate() {
            // Noted before it is sent: a release that comes in between has to know of it.
            if lost.grant.may_stand_on(lost.node) {
                *unanswered = true;
                calls.push_numbered(&self, lost.node, number, lost.command());
            }
        }
        while let Progress::Answered((_, answer)) = calls.progress(&self).await {
            if let Ok((number, result)) = answer
                && let (Some(lost), Some(open)) = (lost.get(number), unanswered.get_mut(number))
            {
                *open = false;
                self.restored(lost, result);
            }
        }
        for (lost, _) in lost.iter().zip(unanswered).filter(|(_, unanswered)| *unanswered) {
            self.restored(lost, Err(NodeError::TimedOut));
        }
    }

    /// Takes what became of a restore, and undoes it where its lease has ended meanwhile: the release of the lease
    /// may have been executed before the restore, such as where a node has to be sent the script first.
    fn restored(self: &Arc<Self>, lost: &Lost, result: Result<Reply, NodeError>) {
        let reply = result.unwrap_or_else(|error| {
            self.node_failed(lost.node, &error);
            Reply::Failed { sent: error.sent() }
        });
        if lost.grant.restored(lost.node, &reply) {
            let may_land_late = reply == (Reply::Failed { sent: true });
            let (resource, owner) = (lost.grant.resource().clone(), lost.grant.owner());
            self.release_unwatched(
                resource,
                owner,
                lost.ttl,
                &Footprint::at(lost.node, may_land_late),
            );
        }
    }
}

impl Lost {
    fn command(&self) -> Command {
        Command::Restore {
            resource: self.grant.resource().clone(),
            owner: self.grant.owner(),
            ttl: self.ttl,
            until: self.until,
            token: self.grant.token(),
        }
    }
}
