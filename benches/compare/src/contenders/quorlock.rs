//! quorlock through its public API: with fencing and admission as by default, and in classic mode.

use ::quorlock::{Builder, Redlock};
use futures::future::BoxFuture;

use super::pair::{Contender, Outcome, TTL, timed};

pub(super) struct Quorlock {
    redlock: Redlock,
}

/// As by default. The servers are new, so that the quarantine would only be waited for.
pub(super) fn fenced(urls: &[String]) -> Builder {
    Redlock::builder().nodes(urls).danger_skip_quarantine()
}

pub(super) fn classic(urls: &[String]) -> Builder {
    Redlock::builder().nodes(urls).classic()
}

impl Quorlock {
    pub(super) async fn connect(builder: Builder) -> Self {
        Self { redlock: builder.connect().await.expect("five servers that may vote") }
    }
}

impl Contender for Quorlock {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = self.redlock.try_acquire(resource).ttl(TTL).into_future();
        Box::pin(timed(acquire, |lease| lease.release()))
    }
}
