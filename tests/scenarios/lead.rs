//! Goal: the loss of a lease is told before its validity ends, whatever the nodes do.
//!
//! Method: many leases at once, all nodes stopped by SIGSTOP, and the time that is left of each lease when its
//! holder hears of the loss. More than two hundred samples; every one must be above zero, less the delay that a
//! watching thread had itself.

use std::time::{Duration, Instant};

use quorlock::{Lease, Redlock, protocol::LossReason, runtime::TokioRuntime};
use quorlock_harness::{Cluster, Lateness, Server, eventually};

use super::{SOON, admitted, all_ready, quantile, ready, settings};

const TTL: Duration = Duration::from_secs(5);
const LEASES: usize = 70;
const ROUNDS: usize = 3;

/// How long before the end of the validity the loss is told: a hundredth of the ttl.
const LEAD: Duration = Duration::from_millis(50);
/// So much is left at the warning, at least.
const WARNED: Duration = Duration::from_millis(5000 / 6);

/// What one holder saw.
struct Sample {
    left_at_warning: Duration,
    end: Instant,
    told: Instant,
}

impl Sample {
    fn lead(&self) -> Duration {
        self.end.saturating_duration_since(self.told)
    }

    /// The two threads that a signal passes through may each come as late as the one that watches.
    fn is_told_in_time(&self, threads: &Lateness) -> bool {
        let late = 2 * threads.longest(self.end - 2 * LEAD, self.told + LEAD);
        self.told < self.end.max(self.end - LEAD / 2 + late)
    }

    fn is_warned_in_time(&self, threads: &Lateness) -> bool {
        let warned = self.end - self.left_at_warning;
        self.left_at_warning + 2 * threads.longest(warned - 2 * LEAD, warned + LEAD) > WARNED
    }
}

/// Waits for the warning and the loss, and says how much was left at each. The end of the validity is read after
/// the clock, so that it is never taken to be later than it is.
async fn watch(lease: Lease) -> Sample {
    lease.ending().await;
    let now = Instant::now();
    let left_at_warning = lease.validity();
    let end = now + left_at_warning;
    let lost = lease.lost().await;
    let told = Instant::now();
    assert_eq!(lost.reason, LossReason::RenewalFailed);
    assert_eq!(lease.check().unwrap_err(), lost);
    Sample { left_at_warning, end, told }
}

async fn round(cluster: &Cluster, redlock: &Redlock) -> Vec<Sample> {
    let acquires = (0..LEASES).map(|n| redlock.acquire(format!("r{n}")).wait(SOON));
    let leases = futures::future::try_join_all(acquires.map(IntoFuture::into_future)).await;
    let watchers: Vec<_> =
        leases.unwrap().into_iter().map(|lease| tokio::spawn(watch(lease))).collect();
    cluster.iter().for_each(Server::pause);
    let mut samples = Vec::new();
    for watcher in watchers {
        samples.push(watcher.await.unwrap());
    }
    cluster.iter().for_each(Server::resume);
    samples
}

#[test]
fn the_loss_is_told_before_the_validity_ends_with_all_nodes_hung() {
    let cluster = admitted(5, TTL);
    let redlock = ready(
        settings(&cluster, TTL).runtime(std::sync::Arc::new(TokioRuntime::dedicated().unwrap())),
    );
    let user = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let threads = Lateness::watch();
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        samples.extend(user.block_on(round(&cluster, &redlock)));
        all_ready(&redlock);
        eventually("no lease is left on any node", SOON, || {
            cluster.iter().all(|server| (0..LEASES).all(|n| server.get(format!("r{n}")).is_none()))
        });
    }
    let mut leads: Vec<_> = samples.iter().map(Sample::lead).collect();
    leads.sort();
    println!(
        "lead time of {} losses: least {:?}, p1 {:?}, p50 {:?}, p99 {:?}, p99.9 {:?}",
        leads.len(),
        leads[0],
        quantile(&leads, 0.01),
        quantile(&leads, 0.5),
        quantile(&leads, 0.99),
        quantile(&leads, 0.999),
    );
    assert!(leads.len() >= 200);
    let least = samples.iter().map(|sample| sample.left_at_warning).min().unwrap();
    println!("validity left at the warning: least {least:?} of {TTL:?}");
    assert!(samples.iter().all(|sample| sample.is_told_in_time(&threads)), "told too late");
    assert!(samples.iter().all(|sample| sample.is_warned_in_time(&threads)), "the warning is late");
    assert!(*leads.last().unwrap() < 2 * LEAD, "and not long before");
}
