//! The one form in which each contender does its work: acquire a fresh resource and release it.
//!
//! A pair is one boxed future for every contender, and the clock is read at the same three points.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;

/// The ttl of every lease.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// One acquire and one release that both succeeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// From the call to the lease.
    pub(crate) acquire: Duration,
    /// From the call to the end of the release.
    pub(crate) whole: Duration,
}

/// A pair, or what went wrong.
pub(crate) type Outcome = Result<Pair, String>;

/// A connected client of the servers.
pub(crate) trait Contender: Send + Sync {
    /// Acquires `resource` and releases it.
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome>;
}

/// Runs an acquire and the release of what it gave, and reads the clock around both.
pub(super) async fn timed<H, E: Display, F: Display, R: Future<Output = Result<(), F>>>(
    acquire: impl Future<Output = Result<H, E>>,
    release: impl FnOnce(H) -> R,
) -> Outcome {
    let start = Instant::now();
    let held = acquire.await.map_err(|error| format!("acquire: {error}"))?;
    let acquire = start.elapsed();
    release(held).await.map_err(|error| format!("release: {error}"))?;
    Ok(Pair { acquire, whole: start.elapsed() })
}
