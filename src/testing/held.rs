//! A simulated other holder of a resource: it asks the nodes as a client would.
//!
//! It decides nothing; the nodes do. It must keep the resource as a client keeps a lease, and lose it where a client
//! would.

use std::{fmt, panic::Location, pin::pin, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{Either, select},
};
use tokio::sync::oneshot;

use crate::{
    node::{MemoryNode, Node},
    protocol::{Command, FencingToken, Granted, Join, Owner, Quorum, Reply, Resource},
    runtime::{Runtime, VirtualTime},
    text::counted,
};

/// A resource that a simulated other client holds, made by [`Fleet::hold`](super::Fleet::hold). Dropping it releases
/// the resource.
#[must_use = "dropping it releases the resource at once"]
pub struct Held {
    nodes: Arc<[MemoryNode]>,
    key: Key,
    token: FencingToken,
    /// Ends the renewals when it is dropped.
    _renewed: oneshot::Sender<()>,
}

#[derive(Clone)]
struct Key {
    resource: Resource,
    owner: Owner,
}

impl Held {
    /// Asks until it is granted: a lease that was dropped just before may still be under release.
    pub(super) async fn acquire(
        time: VirtualTime,
        nodes: Arc<[MemoryNode]>,
        resource: Resource,
        ttl: Option<Duration>,
        asked_at: &'static Location<'static>,
    ) -> Self {
        let until = time.now().saturating_add(PATIENCE);
        loop {
            let (held, votes) = Self::try_acquire(&time, &nodes, &resource, ttl);
            if votes.granted >= votes.needed {
                return held;
            }
            drop(held);
            assert!(
                votes.denied > 0 && time.now() < until,
                "`{}` cannot be held by another client, as is asked for at {asked_at}: of {}, {} granted it and {} \
                 said that it is held already, and {} must grant it",
                resource.as_bytes().escape_ascii(),
                counted(nodes.len(), "node"),
                votes.granted,
                votes.denied,
                votes.needed,
            );
            assert!(time.serves(), "the runtime in which the fleet was made has ended");
            time.sleep_until(time.now().saturating_add(PAUSE)).await;
        }
    }

    /// Asks every node once.
    fn try_acquire(
        time: &VirtualTime,
        nodes: &Arc<[MemoryNode]>,
        resource: &Resource,
        ttl: Option<Duration>,
    ) -> (Self, Votes) {
        let key = Key { resource: resource.clone(), owner: Owner::from_random(time.random()) };
        let hint = Some(time.wall_us());
        let mut votes = Votes { granted: 0, denied: 0, needed: Quorum::of(nodes.len()).needed() };
        let mut tokens = Vec::new();
        for node in nodes.iter() {
            let Some(marker) = ask(node.join(Join::look(Duration::ZERO))) else { continue };
            let Key { resource, owner } = key.clone();
            let (ttl, mark) = (ttl.unwrap_or(TTL), marker.mark());
            match ask(node.call(Command::Acquire {
                target: resource.into(),
                owner,
                ttl,
                hint,
                count: 1,
                first: 0,
                mark,
                note: None,
                stand: None,
            })) {
                Some(Reply::Granted(Granted { token: Some(token), .. })) => {
                    tokens.push((node, mark, token))
                }
                Some(Reply::Denied(_)) => votes.denied += 1,
                _ => {}
            }
        }
        votes.granted = tokens.len();
        let token = tokens.iter().map(|(.., token)| *token).max().unwrap_or(FencingToken::new(0));
        for (node, mark, own) in tokens {
            if own < token {
                let Key { resource, owner } = key.clone();
                ask(node.call(Command::Confirm { target: resource.into(), owner, token, mark }));
            }
        }
        let (renewed, ended) = oneshot::channel();
        let held = Self { nodes: Arc::clone(nodes), key, token, _renewed: renewed };
        if ttl.is_none() && votes.granted >= votes.needed {
            let (time, nodes, key) = (time.clone(), Arc::clone(nodes), held.key.clone());
            let sleeper = time.clone();
            time.spawn(Box::pin(async move { renew(&sleeper, &nodes, &key, ended).await }));
        }
        (held, votes)
    }

    /// The fencing token, larger than those of all earlier leases: for what the other holder writes to a store.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

/// What the nodes said.
struct Votes {
    granted: usize,
    denied: usize,
    needed: usize,
}

/// Extends it until it is dropped.
async fn renew(
    time: &VirtualTime,
    nodes: &[MemoryNode],
    key: &Key,
    mut ended: oneshot::Receiver<()>,
) {
    loop {
        let sleep = time.sleep_until(time.now().saturating_add(TTL / 3));
        if let Either::Right(_) = select(sleep, pin!(&mut ended)).await {
            return;
        }
        let extend = |node: &MemoryNode| {
            let Key { resource, owner } = key.clone();
            ask(node.call(Command::Extend {
                target: resource.into(),
                owner,
                ttl: TTL,
                fenced: true,
            }))
        };
        let replies: Vec<_> = nodes.iter().map(extend).collect();
        let granted = replies.iter().filter(|reply| matches!(reply, Some(Reply::Granted(_))));
        if granted.count() < Quorum::of(nodes.len()).needed() {
            // A later extension may be granted, until the keys have expired.
            continue;
        }
        for (node, reply) in nodes.iter().zip(replies) {
            if matches!(reply, Some(Reply::Denied(denial)) if denial.gone) {
                let (Key { resource, owner }, until) = (key.clone(), time.now());
                ask(node.call(Command::Restore {
                    target: resource.into(),
                    owner,
                    ttl: TTL,
                    until,
                    fenced: true,
                    note: None,
                }));
            }
        }
    }
}

/// The immediate answer of a node. A stopped node executes the command later, and answers nothing.
fn ask<T, E>(answer: impl Future<Output = Result<T, E>>) -> Option<T> {
    answer.now_or_never()?.ok()
}

impl Drop for Held {
    fn drop(&mut self) {
        for node in self.nodes.iter() {
            let Key { resource, owner } = self.key.clone();
            ask(node.call(Command::Release { target: resource.into(), owner, keep: None }));
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("resource", &self.key.resource)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// The ttl that others see: that of a lease with the default settings.
const TTL: Duration = Duration::from_secs(10);

/// How long the other holder waits for a held resource, and how long it pauses between two attempts.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);
