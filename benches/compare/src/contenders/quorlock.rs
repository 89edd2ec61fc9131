//! quorlock through its public API, with the default settings.

use ::quorlock::Redlock;
use futures::future::BoxFuture;

use super::{Contender, Outcome, TTL, timed};

pub(super) struct Quorlock {
    redlock: Redlock,
}

impl Quorlock {
    pub(super) async fn connect(urls: &[String]) -> Self {
        let urls = urls.iter().map(String::as_str);
        let redlock = Redlock::connect(urls).await.expect("five servers that may vote");
        Self { redlock }
    }
}

impl Contender for Quorlock {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = self.redlock.try_acquire(resource).ttl(TTL).into_future();
        Box::pin(timed(acquire, |lease| lease.release()))
    }
}
