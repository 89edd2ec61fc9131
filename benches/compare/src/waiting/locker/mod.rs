//! A lock that can be waited for: the one form in which each contender takes part.
//!
//! Asking is one boxed future for every contender, and so is releasing.

mod floor;
mod local;
mod quorlock;
mod redlock;
mod rslock;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;

use super::who::Who;

/// The longest wait.
const WAIT: Duration = Duration::from_secs(120);

/// What is held: call it to release.
pub(crate) type Held = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), String>> + Send>;

/// One set of connections.
pub(crate) trait Locker: Send + Sync {
    /// Waits until the resource is held.
    fn lock(&self, resource: &str) -> BoxFuture<'static, Result<Held, String>>;
}

/// Makes a release of what can be done later.
fn held<R: Future<Output = Result<(), String>> + Send + 'static>(
    release: impl FnOnce() -> R + Send + 'static,
) -> Held {
    Box::new(move || Box::pin(release()))
}

/// So many sets of connections to the same servers.
pub(crate) async fn connect(who: Who, clients: usize, urls: &[String]) -> Vec<Arc<dyn Locker>> {
    if who == Who::Local {
        // There is one process, and in it one mutex.
        let local: Arc<dyn Locker> = Arc::new(local::Local::default());
        return vec![local; clients];
    }
    let mut lockers: Vec<Arc<dyn Locker>> = Vec::new();
    for _ in 0..clients {
        lockers.push(match who {
            Who::Quorlock => quorlock::connect(crate::contenders::fenced(urls)).await,
            Who::Linger => quorlock::connect(quorlock::lingering(urls)).await,
            Who::Classic => quorlock::connect(crate::contenders::classic(urls)).await,
            Who::Rslock => Arc::new(rslock::Rslock::connect(urls)),
            Who::Redlock => Arc::new(redlock::Redlock::connect(urls)),
            Who::Floor => Arc::new(floor::Floor::connect(urls).await),
            Who::Local | Who::NodeRedlock => unreachable!("it is none of these"),
        });
    }
    lockers
}
