//! quorlock through its public API.

use std::{sync::Arc, time::Duration};

use ::quorlock::{Builder, Redlock};
use futures::future::BoxFuture;

use super::{Held, Locker, WAIT, held};
use crate::contenders::{TTL, fenced};

struct Quorlock {
    redlock: Redlock,
}

/// As by default, but a grant lingers for a second.
pub(super) fn lingering(urls: &[String]) -> Builder {
    fenced(urls).linger(Duration::from_secs(1))
}

pub(super) async fn connect(builder: Builder) -> Arc<dyn Locker> {
    Arc::new(Quorlock { redlock: builder.connect().await.expect("servers that may vote") })
}

impl Locker for Quorlock {
    fn lock(&self, resource: &str) -> BoxFuture<'static, Result<Held, String>> {
        let lease = self.redlock.acquire(resource).ttl(TTL).wait(WAIT).into_future();
        Box::pin(async move {
            let lease = lease.await.map_err(|error| error.to_string())?;
            Ok(held(|| async { lease.release().await.map_err(|error| error.to_string()) }))
        })
    }
}
