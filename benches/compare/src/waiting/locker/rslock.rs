//! rslock through its public API: `acquire` tries again and again, with the default pauses.

use std::sync::Arc;

use ::rslock::LockManager;
use futures::future::BoxFuture;

use super::{Held, Locker, held};
use crate::contenders::TTL;

pub(super) struct Rslock {
    manager: Arc<LockManager>,
}

impl Rslock {
    /// It connects at the first use.
    pub(super) fn connect(urls: &[String]) -> Self {
        Self { manager: Arc::new(LockManager::new(urls.to_vec())) }
    }
}

impl Locker for Rslock {
    fn lock(&self, resource: &str) -> BoxFuture<'static, Result<Held, String>> {
        let (manager, resource) = (Arc::clone(&self.manager), resource.to_owned());
        Box::pin(async move {
            let lock = manager.acquire_no_guard(resource.as_str(), TTL).await;
            let lock = lock.map_err(|error| format!("{error:?}"))?;
            Ok(held(|| async move {
                manager.unlock(&lock).await;
                Ok(())
            }))
        })
    }
}
