//! redlock through its public API, with the default pauses, on threads where it may block.

use std::sync::Arc;

use ::redlock::{Lock, RedLock};
use futures::future::BoxFuture;

use super::{Held, Locker, held};
use crate::contenders::TTL;

pub(super) struct Redlock {
    redlock: Arc<RedLock>,
}

impl Redlock {
    /// It connects for every command.
    pub(super) fn connect(urls: &[String]) -> Self {
        Self { redlock: Arc::new(RedLock::new(urls.to_vec())) }
    }
}

impl Locker for Redlock {
    fn lock(&self, resource: &str) -> BoxFuture<'static, Result<Held, String>> {
        let (redlock, resource) = (Arc::clone(&self.redlock), resource.to_owned());
        Box::pin(async move {
            let asking = Arc::clone(&redlock);
            let work = move || acquire(&asking, &resource);
            let (resource, val) =
                tokio::task::spawn_blocking(work).await.map_err(|panic| panic.to_string())??;
            Ok(held(move || async move {
                let release = move || {
                    redlock.unlock(&Lock {
                        resource,
                        val,
                        validity_time: 0,
                        lock_manager: &redlock,
                    });
                };
                tokio::task::spawn_blocking(release).await.map_err(|panic| panic.to_string())
            }))
        })
    }
}

/// The name and the value of a lock, which borrows its manager otherwise.
fn acquire(redlock: &RedLock, resource: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let ttl = usize::try_from(TTL.as_millis()).unwrap_or(usize::MAX);
    loop {
        match redlock.lock(resource.as_bytes(), ttl) {
            Ok(Some(lock)) => return Ok((lock.resource, lock.val)),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
