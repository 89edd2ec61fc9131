//! rslock through its public API, with the default settings.
//!
//! Its release says nothing about success; the count of keys left behind does.

use std::convert::Infallible;

use ::rslock::LockManager;
use futures::future::BoxFuture;

use super::pair::{Contender, Outcome, TTL, timed};

pub(super) struct Rslock {
    manager: LockManager,
}

impl Rslock {
    /// It connects at the first use.
    pub(super) fn connect(urls: &[String]) -> Self {
        Self { manager: LockManager::new(urls.to_vec()) }
    }
}

impl Contender for Rslock {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = self.manager.lock(resource, TTL);
        Box::pin(timed(acquire, move |lock| async move {
            self.manager.unlock(&lock).await;
            Ok::<(), Infallible>(())
        }))
    }
}
