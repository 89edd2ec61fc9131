//! Restores: the key of a held lease set again on nodes that have lost it, where a quorum has just confirmed the
//! lease. It counts from the next extension on.
//!
//! It decides which restores share a task, and that one that was in somebody's way is sent once more. Whether one may be sent, and what has to be undone because the lease ended
//! meanwhile, the footprint decides. It must never count a restore as a vote.

use std::{sync::Arc, time::Duration};

use super::{
    Engine, Grant,
    fanout::{Fanout, Numbered, Progress},
};
use crate::{
    node::NodeError,
    protocol::{Command, NodeId, Reply, Timestamp},
};

/// The most restores that one task sends. A runtime lets a task do only so much before it has to yield, and what
/// was not sent by then would be sent behind a release that comes in between.
const MOST: usize = 32;

/// The pause before a restore is sent once more, at least, and the room for chance beyond that. Those who wait are told of an
/// extension, so that their rounds, which last for a moment, have the key of a node that has lost it when the restore comes.
/// They would have it each time.
const PAUSE: Duration = Duration::from_millis(2);
const CHANCE: Duration = Duration::from_millis(16);

/// A node that has lost the key of a lease.
pub(super) struct LostKey {
    pub(super) grant: Arc<Grant>,
    pub(super) node: NodeId,
    /// For how long the node is to keep it.
    pub(super) key_life: Duration,
    /// Up to when the lease has been confirmed.
    pub(super) until: Timestamp,
}

impl Engine {
    /// Restores keys of leases that have just been extended. It goes on beside the caller.
    pub(super) fn restore(self: &Arc<Self>, lost: impl IntoIterator<Item = LostKey>) {
        let mut lost = lost.into_iter().peekable();
        while lost.peek().is_some() {
            let together: Vec<LostKey> = lost.by_ref().take(MOST).collect();
            let engine = Arc::clone(self);
            self.spawn(async move {
                let denied = engine.restore_together(together).await;
                if !denied.is_empty() {
                    engine.sleep_until(engine.pause_before_restore()).await;
                    engine.restore_together(denied).await;
                }
            });
        }
    }

    fn pause_before_restore(&self) -> Timestamp {
        let chance = CHANCE * u32::from(self.random_byte()) / u32::from(u8::MAX);
        self.now().saturating_add(PAUSE + chance)
    }

    /// Those that somebody else's key was in the way of.
    async fn restore_together(self: &Arc<Self>, lost: Vec<LostKey>) -> Vec<LostKey> {
        let mut calls: Fanout<Numbered> = Fanout::new(self);
        let (mut unanswered, mut denied) = (vec![false; lost.len()], vec![false; lost.len()]);
        for (number, (lost, unanswered)) in lost.iter().zip(&mut unanswered).enumerate() {
            // Noted before it is sent: a release that comes in between has to know of it.
            if lost.grant.begin_restore(lost.node) {
                *unanswered = true;
                calls.push_numbered(self, lost.node, number, lost.command());
            }
        }
        while let Progress::Answered((_, answer)) = calls.progress(self).await {
            if let Ok((number, result)) = answer
                && let (Some(lost), Some(open), Some(denied)) =
                    (lost.get(number), unanswered.get_mut(number), denied.get_mut(number))
            {
                *open = false;
                *denied = matches!(result, Ok(Reply::Denied(_)));
                self.restored(lost, result);
            }
        }
        // The time is up: these may be executed yet, so their footprints must know.
        for (lost, _) in lost.iter().zip(unanswered).filter(|(_, unanswered)| *unanswered) {
            self.restored(lost, Err(NodeError::TimedOut));
        }
        lost.into_iter().zip(denied).filter_map(|(lost, denied)| denied.then_some(lost)).collect()
    }

    /// Takes what became of a restore, and undoes it where its lease has ended meanwhile: the release of the lease
    /// may have been executed before the restore, such as where a node has to be sent the script first.
    fn restored(self: &Arc<Self>, lost: &LostKey, result: Result<Reply, NodeError>) {
        let grant = &lost.grant;
        let reply = result.map_err(|error| {
            self.node_failed(lost.node, &error, None);
            error.failure()
        });
        grant.footprint().with(|footprint| footprint.handle_restore(lost.node, &reply));
        self.release_unwatched(&grant.to_release(self));
    }
}

impl LostKey {
    fn command(&self) -> Command {
        Command::Restore {
            target: self.grant.target().clone(),
            owner: self.grant.owner(),
            ttl: self.key_life,
            until: self.until,
            fenced: self.grant.is_fenced(),
            note: self.grant.note(),
        }
    }
}
