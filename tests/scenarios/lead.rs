//! Goal: the loss of a lease is told before its validity ends, whatever the nodes do.
//!
//! Method: many leases at once, all nodes stopped by SIGSTOP, and the time that is left of each lease when its
//! holder hears of the loss. More than two hundred samples; every one must be above zero.

use std::time::{Duration, Instant};

use quorlock::{Lease, Redlock, protocol::LossReason, runtime::TokioRuntime};
use quorlock_harness::{Cluster, Server, eventually};

use super::{MS, SECOND, SOON, admitted, all_ready, alone, quantile, ready, settings};

const TTL: Duration = SECOND;
const LEASES: usize = 60;
const ROUNDS: usize = 4;

/// What one holder saw.
struct Sample {
    warned: Duration,
    lead: Duration,
}

/// Waits for the warning and the loss, and says how much was left at each. The end of the validity is read after
/// the clock, so that it is never taken to be later than it is.
async fn watch(lease: Lease) -> Sample {
    lease.ending().await;
    let now = Instant::now();
    let warned = lease.validity();
    let end = now + warned;
    let lost = lease.lost().await;
    let lead = end.saturating_duration_since(Instant::now());
    assert_eq!(lost.reason, LossReason::RenewalFailed);
    assert_eq!(lease.check().unwrap_err(), lost);
    Sample { warned, lead }
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
    let redlock = ready(
        settings(&cluster, TTL).runtime(std::sync::Arc::new(TokioRuntime::dedicated().unwrap())),
    );
    let user = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        samples.extend(user.block_on(round(&cluster, &redlock)));
        all_ready(&redlock);
        eventually("no lease is left on any node", SOON, || {
            cluster.iter().all(|server| (0..LEASES).all(|n| server.get(format!("r{n}")).is_none()))
        });
    }
    let mut leads: Vec<_> = samples.iter().map(|sample| sample.lead).collect();
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
    assert!(leads[0] > Duration::ZERO, "told too late");
    assert!(*leads.last().unwrap() < 100 * MS, "and not long before");
    let earliest = samples.iter().map(|sample| sample.warned).min().unwrap();
    println!("validity left at the warning: least {earliest:?} of {TTL:?}");
    assert!(earliest > TTL / 6, "the warning comes early: {earliest:?}");
}
