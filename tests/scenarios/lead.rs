//! Goal: the loss of a lease is told before its validity ends, whatever the nodes do.
//!
//! Method: many leases at once, all nodes stopped by SIGSTOP, and the time that is left of each lease when its
//! holder hears of the loss. More than two hundred samples; every one must be above zero, but where the threads themselves
//! came that late to all that was due.

use std::time::{Duration, Instant};

use quorlock::{
    Lease, Redlock,
    protocol::LossReason,
    runtime::{Runtime as _, TokioRuntime},
};
use quorlock_harness::{Cluster, Lateness, Server, eventually};

use super::{MS, SECOND, SOON, admitted, all_ready, alone, quantile, ready, settings};

const TTL: Duration = SECOND;
const LEASES: usize = 60;
const ROUNDS: usize = 4;

/// How long before the end of the validity the loss is told: a hundredth of the ttl.
const LEAD: Duration = Duration::from_millis(10);

/// What one holder saw.
struct Sample {
    warned: Duration,
    end: Instant,
    told: Instant,
}

impl Sample {
    fn lead(&self) -> Duration {
        self.end.saturating_duration_since(self.told)
    }

    /// What came late where the threads did not: the warning, and the loss.
    fn late(&self, threads: &Lateness) -> [bool; 2] {
        let in_time = |at: Instant| threads.longest(at - 100 * MS, at + 10 * MS) < LEAD;
        let warned = self.end - self.warned;
        [self.warned <= TTL / 6 && in_time(warned), self.told >= self.end && in_time(self.told)]
    }
}

/// Waits for the warning and the loss, and says how much was left at each. The end of the validity is read after
/// the clock, so that it is never taken to be later than it is.
async fn watch(lease: Lease) -> Sample {
    lease.ending().await;
    let now = Instant::now();
    let warned = lease.validity();
    let end = now + warned;
    let lost = lease.lost().await;
    let told = Instant::now();
    assert_eq!(lost.reason, LossReason::RenewalFailed);
    assert_eq!(lease.check().unwrap_err(), lost);
    Sample { warned, end, told }
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
    let _turn = alone();
    let cluster = admitted(5, TTL);
    let runtime = std::sync::Arc::new(TokioRuntime::dedicated().unwrap());
    let mut user = tokio::runtime::Builder::new_multi_thread();
    let user = user.worker_threads(1).enable_time().build().unwrap();
    let threads = Lateness::default();
    runtime.spawn(Box::pin(threads.sample()));
    user.spawn(threads.sample());
    let redlock = ready(settings(&cluster, TTL).runtime(runtime));
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
    for sample in &samples {
        let late = sample.late(&threads);
        assert_eq!(
            late,
            [false; 2],
            "warned {:?} and told {:?} before",
            sample.warned,
            sample.lead()
        );
    }
    assert!(*leads.last().unwrap() < 100 * MS, "and not long before");
    let earliest = samples.iter().map(|sample| sample.warned).min().unwrap();
    println!("validity left at the warning: least {earliest:?} of {TTL:?}");
}
