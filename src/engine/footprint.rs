//! A footprint that the round, its lease and its releases share, and the key that it is of.
//!
//! It decides nothing. Whoever makes a footprint order releases takes these orders under the same lock, or somebody else
//! would: each order is sent by whoever has taken it.

use std::{iter, sync::Arc, time::Duration};

use super::{Engine, client::SharedClient};
use crate::protocol::{
    Footprint, FootprintId, NodeId, Owner, ReleaseOrder, Target, Timestamp, validity,
};

/// A footprint that several have to do with, for as long as any of them has.
#[derive(Debug)]
pub(super) struct SharedFootprint {
    client: SharedClient,
    id: FootprintId,
}

impl SharedFootprint {
    pub(super) fn new(client: &SharedClient, footprint: Footprint) -> Self {
        let id = client.lock().add_footprint(footprint);
        Self { client: client.clone(), id }
    }

    pub(super) const fn client(&self) -> &SharedClient {
        &self.client
    }

    pub(super) const fn id(&self) -> FootprintId {
        self.id
    }

    /// Looks at it, or changes it; nothing where it is gone, which it is not while anybody has it.
    pub(super) fn with<R>(&self, with: impl FnOnce(&mut Footprint) -> R) -> Option<R> {
        self.client.lock().footprint(self.id).map(with)
    }

    /// Whether nothing stands there, and nothing will.
    pub(super) fn is_clear(&self, node: NodeId) -> bool {
        self.with(|footprint| footprint.is_clear(node)).unwrap_or_default()
    }

    /// Where to release now.
    pub(super) fn orders(&self) -> Vec<ReleaseOrder> {
        self.with(orders).unwrap_or_default()
    }
}

fn orders(footprint: &mut Footprint) -> Vec<ReleaseOrder> {
    iter::from_fn(|| footprint.poll_release()).collect()
}

impl Drop for SharedFootprint {
    fn drop(&mut self) {
        if let Some(mut client) = self.client.lock_here() {
            client.forget_footprint(self.id);
        }
    }
}

/// Which keys are to be deleted, or kept for a while, and where it may stand.
#[derive(Clone)]
pub(super) struct Released {
    pub(super) target: Target,
    pub(super) owner: Owner,
    /// For how long a node keeps it.
    pub(super) key_life: Duration,
    pub(super) footprint: Arc<SharedFootprint>,
    /// Up to when others are kept out all the same. By the steady clock, which may only run behind: never for less.
    pub(super) hold: Option<Timestamp>,
}

impl Released {
    /// For how long a node is to keep the key from now on; `None` where it is to delete it. Asked whenever it is sent, so
    /// that one that is sent again does not keep it for longer.
    pub(super) fn keep(&self, engine: &Engine) -> Option<Duration> {
        let left = self.hold?.saturating_since(engine.steady());
        (!left.is_zero()).then(|| validity::kept_for(left, engine.config.drift()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::{
        protocol::{ClientId, ClientSettings, NodeId, Quorum},
        runtime::Process,
    };

    /// A lease that was released while its round was still waiting for stragglers was reported as ended before.
    #[test]
    fn whoever_ends_a_grant_gets_all_orders_though_its_round_asks_at_the_same_time() {
        const NODES: usize = 5;
        let settings = ClientSettings {
            quorum: Quorum::of(NODES),
            client: ClientId::new([1; 8]),
            node_timeout: Duration::from_secs(1),
        };
        let client = SharedClient::new(Process::current(), settings);
        let footprint = || {
            let mut footprint = Footprint::new(NODES);
            (0..NODES).for_each(|node| footprint.handle_acquire_sent(NodeId::new(node)));
            SharedFootprint::new(&client, footprint)
        };
        let all: Vec<SharedFootprint> = (0..20_000).map(|_| footprint()).collect();
        let (at, stolen, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let orders = all[at.load(Ordering::Acquire)].orders();
                    stolen.fetch_add(orders.len(), Ordering::Relaxed);
                }
            });
            for (index, footprint) in all.iter().enumerate() {
                at.store(index, Ordering::Release);
                std::hint::spin_loop();
                let mine = footprint.with(|footprint| {
                    footprint.handle_given_back();
                    orders(footprint).len()
                });
                stolen.fetch_add(NODES - mine.unwrap(), Ordering::Relaxed);
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(stolen.into_inner(), 0);
    }
}
