//! Who is compared, and the one form in which each does its work: acquire a fresh resource and release it.
//!
//! A pair is one boxed future for everybody, and the clock is read at the same three points.

mod floor;
mod quorlock;
mod redlock;
mod rslock;

use std::{
    fmt::Display,
    str::FromStr,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;

/// The ttl of every lease.
const TTL: Duration = Duration::from_secs(10);

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

/// A connected client of five servers.
pub(crate) trait Contender: Send + Sync {
    /// Acquires `resource` and releases it.
    fn pair<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Outcome>;
}

/// Runs an acquire and the release of what it gave, and reads the clock around both.
async fn timed<H, E: Display, F: Display, R: Future<Output = Result<(), F>>>(
    acquire: impl Future<Output = Result<H, E>>,
    release: impl FnOnce(H) -> R,
) -> Outcome {
    let start = Instant::now();
    let held = acquire.await.map_err(|error| format!("acquire: {error}"))?;
    let acquire = start.elapsed();
    release(held).await.map_err(|error| format!("release: {error}"))?;
    Ok(Pair { acquire, whole: start.elapsed() })
}

/// The contenders by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    FloorCaller,
    FloorThread,
    Quorlock,
    Classic,
    Rslock,
    Redlock,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::FloorCaller,
        Self::FloorThread,
        Self::Quorlock,
        Self::Classic,
        Self::Rslock,
        Self::Redlock,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FloorCaller => "floor (caller's runtime)",
            Self::FloorThread => "floor (I/O thread)",
            Self::Quorlock => "quorlock",
            Self::Classic => "quorlock, classic mode",
            Self::Rslock => "rslock 0.10",
            Self::Redlock => "redlock 2.0",
        }
    }

    /// The name on the command line and in the keys.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::FloorCaller => "floor-caller",
            Self::FloorThread => "floor-thread",
            Self::Quorlock => "quorlock",
            Self::Classic => "classic",
            Self::Rslock => "rslock",
            Self::Redlock => "redlock",
        }
    }

    pub(crate) async fn connect(self, urls: &[String]) -> Box<dyn Contender> {
        match self {
            Self::FloorCaller => Box::new(floor::CallerFloor::connect(urls).await),
            Self::FloorThread => Box::new(floor::ThreadFloor::connect(urls).await),
            Self::Quorlock => Box::new(quorlock::Quorlock::connect(urls).await),
            Self::Classic => Box::new(quorlock::Quorlock::connect_classic(urls).await),
            Self::Rslock => Box::new(rslock::Rslock::connect(urls)),
            Self::Redlock => Box::new(redlock::Redlock::connect(urls)),
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.id() == name).ok_or(())
    }
}
