//! redlock through its public API, with the default settings.
//!
//! It is synchronous and opens a connection for every command. It runs on a thread where it may block,
//! and the clock is read on that thread, so that handing the work over costs it nothing.

use std::{sync::Arc, time::Instant};

use ::redlock::RedLock;
use futures::future::BoxFuture;

use super::pair::{Contender, Outcome, Pair, TTL};

pub(super) struct Redlock {
    redlock: Arc<RedLock>,
}

impl Redlock {
    pub(super) fn connect(urls: &[String]) -> Self {
        Self { redlock: Arc::new(RedLock::new(urls.to_vec())) }
    }
}

impl Contender for Redlock {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let (redlock, resource) = (Arc::clone(&self.redlock), resource.to_owned());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || pair(&redlock, &resource));
            work.await.unwrap_or_else(|panic| Err(panic.to_string()))
        })
    }
}

fn pair(redlock: &RedLock, resource: &str) -> Outcome {
    let ttl = usize::try_from(TTL.as_millis()).unwrap_or(usize::MAX);
    let start = Instant::now();
    let lock = match redlock.lock(resource.as_bytes(), ttl) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Err("acquire: held by somebody else".to_owned()),
        Err(error) => return Err(format!("acquire: {error}")),
    };
    let acquire = start.elapsed();
    redlock.unlock(&lock);
    Ok(Pair { acquire, whole: start.elapsed() })
}
