//! The quiet before a turn, so that what one contender still has under way is not billed to the next.
//!
//! A pair is done at the third reply. The other two, and the releases of nodes that were late, go on in the
//! background, and no public function of a contender tells of them. So this looks for them from outside, at both ends
//! of the connections. A turn that begins without quiet is counted and reported.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use quorlock_harness::Cluster;

use crate::cpu;

/// How long the process must be idle.
const INTERVAL: Duration = Duration::from_millis(2);

/// Idle is at most this part of one processor: ending the sleep itself takes a hundredth or two.
const IDLE: u32 = 20;

/// After this long a turn begins all the same.
const LIMIT: Duration = Duration::from_secs(2);

/// Waits for quiet, and counts how often it was in vain.
pub(crate) struct Quiet {
    cluster: Arc<Cluster>,
    missed: usize,
}

impl Quiet {
    pub(crate) const fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, missed: 0 }
    }

    pub(crate) const fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// How many turns began while something of an earlier turn may have been under way.
    pub(crate) const fn missed(&self) -> usize {
        self.missed
    }

    /// Waits until no server that answers has a lock and the process is idle, both twice in a row.
    ///
    /// A lock on a server is a release that has not been carried out there. The first look may overtake a command that
    /// has reached the server already, as a server takes its connections in any order; the second comes behind it.
    /// A command that has not been written, or a reply that has not been read, is work for some thread of this process,
    /// and while that runs, the process is not idle. A thread that other processes keep from running for both intervals
    /// looks idle: then a few replies are on the wrong bill.
    pub(crate) async fn wait(&mut self) {
        let until = Instant::now() + LIMIT;
        let mut quiet = 0;
        while quiet < 2 {
            if Instant::now() >= until {
                self.missed += 1;
                return;
            }
            let seen = (self.without_locks().await, idle().await);
            quiet = if seen == (true, true) { quiet + 1 } else { 0 };
        }
    }

    async fn without_locks(&self) -> bool {
        let cluster = Arc::clone(&self.cluster);
        let look = tokio::task::spawn_blocking(move || cluster.locks_left().is_empty());
        look.await.expect("servers that answer")
    }
}

/// Whether the process uses no more than a trace of processor time while this task sleeps. It sleeps in the runtime,
/// which can be the one that the work under way needs.
async fn idle() -> bool {
    let (started, before) = (Instant::now(), cpu::used());
    tokio::time::sleep(INTERVAL).await;
    (cpu::used() - before) * IDLE <= started.elapsed()
}

#[cfg(test)]
mod tests {
    use std::{
        hint::spin_loop,
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Asks until the answer is `wanted`: other tests and other processes run at the same time.
    async fn idle_becomes(wanted: bool) {
        let until = Instant::now() + PATIENCE;
        while idle().await != wanted {
            assert!(Instant::now() < until, "idle was never {wanted}");
        }
    }

    fn block_on(future: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(future);
    }

    #[test]
    fn a_process_with_a_busy_thread_is_not_idle_and_is_when_the_thread_has_ended() {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !busy.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        block_on(async move {
            idle_becomes(false).await;
            stop.store(true, Ordering::Relaxed);
            thread.join().unwrap();
            idle_becomes(true).await;
        });
    }

    #[test]
    fn a_release_that_has_not_been_carried_out_is_waited_for() {
        let cluster = Arc::new(Cluster::start(2));
        cluster[1].set("compare:late", "owner", Some(300));
        let mut quiet = Quiet::new(Arc::clone(&cluster));
        block_on(async {
            quiet.wait().await;
            assert!(cluster.locks_left().is_empty(), "it went on before");
            assert_eq!(quiet.missed(), 0);
            cluster[0].set("compare:lost", "owner", None);
            quiet.wait().await;
            assert_eq!(quiet.missed(), 1);
        });
    }
}
