//! rlock through its public API, with the default settings but for the ttl. It has one server.

use std::sync::Arc;

use ::rlock::{AcquireOptions, async_lock::RLock};
use futures::future::BoxFuture;

use super::pair::{Contender, Outcome, TTL, timed};

pub(super) struct Rlock {
    lock: Arc<RLock>,
    options: AcquireOptions,
}

impl Rlock {
    pub(super) async fn connect(urls: &[String]) -> Self {
        let lock = RLock::new(urls[0].as_str()).await.expect("a server");
        let options = AcquireOptions::builder().ttl(TTL).build().expect("options");
        Self { lock: Arc::new(lock), options }
    }
}

impl Contender for Rlock {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = async move {
            let guard =
                self.lock.try_acquire_mutex_with_options(resource, self.options.clone()).await;
            guard.map_err(|error| error.to_string())?.ok_or_else(|| "busy".to_owned())
        };
        Box::pin(timed(acquire, |mut guard| async move { guard.release().await.map(drop) }))
    }
}
