//! quorlock through its public API: with fencing and admission as by default, and in classic mode.

use std::sync::Arc;

use ::quorlock::{Builder, Redlock, runtime::TokioRuntime};
use futures::future::BoxFuture;

use super::pair::{Contender, Outcome, TTL, timed};

pub(super) struct Quorlock {
    redlock: Redlock,
}

/// As by default, but for the quarantine, which would only cost time on new servers.
pub(crate) fn fenced(urls: &[String]) -> Builder {
    Redlock::builder().nodes(urls).danger_skip_quarantine()
}

pub(crate) fn classic(urls: &[String]) -> Builder {
    Redlock::builder().nodes(urls).classic()
}

/// In the runtime that this is called in, with no engine thread.
pub(super) fn here(builder: Builder) -> Builder {
    builder.runtime(Arc::new(TokioRuntime::current().expect("a call within a runtime")))
}

impl Quorlock {
    pub(super) async fn connect(builder: Builder) -> Self {
        Self { redlock: builder.connect().await.expect("servers that may vote") }
    }
}

impl Contender for Quorlock {
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome> {
        let acquire = self.redlock.try_acquire(resource).ttl(TTL).into_future();
        Box::pin(timed(acquire, |lease| lease.release()))
    }
}
