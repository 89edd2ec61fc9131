//! Other kinds of leases through the public API: a set of three, a permit of ten, a read lease.

use ::quorlock::Redlock;
use futures::future::BoxFuture;

use super::{
    pair::{Contender, Outcome, TTL, timed},
    quorlock::fenced,
};

/// So many permits a semaphore has.
const PERMITS: usize = 10;

#[derive(Clone, Copy)]
pub(super) enum Wanted {
    Three,
    Permit,
    Read,
}

pub(super) struct Kinds {
    redlock: Redlock,
    wanted: Wanted,
}

impl Kinds {
    pub(super) async fn connect(urls: &[String], wanted: Wanted) -> Self {
        Self { redlock: fenced(urls).connect().await.expect("servers that may vote"), wanted }
    }
}

/// Three names of resources.
pub(crate) fn three(resource: &str) -> [String; 3] {
    ["a", "b", "c"].map(|part| format!("{resource}:{part}"))
}

impl Contender for Kinds {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        match self.wanted {
            Wanted::Three => {
                let acquire = self.redlock.try_acquire_all(three(resource)).ttl(TTL).into_future();
                Box::pin(timed(acquire, |lease| lease.release()))
            }
            Wanted::Permit => {
                let semaphore = self.redlock.semaphore(resource, PERMITS).expect("so many are few");
                let acquire = semaphore.try_acquire().ttl(TTL).into_future();
                Box::pin(timed(acquire, |permit| permit.release()))
            }
            Wanted::Read => {
                let acquire = self.redlock.try_read(resource).ttl(TTL).into_future();
                Box::pin(timed(acquire, |lease| lease.release()))
            }
        }
    }
}
