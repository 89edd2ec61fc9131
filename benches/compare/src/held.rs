//! What leases cost the process that holds them: memory, and the processor time of renewals.
//!
//! It acquires many on three servers with a ttl of ten seconds, lets them be renewed for a while, and looks whether all are
//! still held. It is to run in a process of its own, before whose first lease no memory is free to be used again.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all, stream};
use quorlock::{Lease, Redlock};
use quorlock_harness::Cluster;

use crate::{cpu, waiting::resident};

const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 64;
const SECONDS: u64 = 20;

/// Holds so many, and says what that costs.
pub(crate) async fn measure(count: usize) -> String {
    let cluster = Cluster::start(NODES);
    let urls: Vec<String> = cluster.iter().map(|server| server.url()).collect();
    let redlock = Redlock::builder()
        .nodes(urls)
        .ttl(TTL)
        .max_ttl(TTL)
        .danger_skip_quarantine()
        .connect()
        .await
        .expect("servers");
    redlock.ready(Duration::from_secs(60)).await.expect("they vote");
    // What a client has before its first lease, and what a burst of rounds leaves to be used again.
    let warm = (0..AT_ONCE).map(|number| acquire(&redlock, format!("warm:{number}")));
    for lease in join_all(warm).await {
        lease.release().await.expect("it is held");
    }
    let before = resident().unwrap_or_default();
    let held: Vec<Lease> = stream::iter(0..count)
        .map(|number| acquire(&redlock, format!("held:{number:08}")))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let bytes =
        resident().unwrap_or_default().saturating_sub(before) / u64::try_from(count).unwrap_or(1);
    let used = cpu::used();
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let of_a_core = (cpu::used() - used).as_secs_f64() / SECONDS as f64;
    let lost = held.iter().filter(|lease| lease.check().is_err()).count();
    format!(
        "{count} leases on {NODES} nodes: {bytes} bytes each; renewed at a ttl of {TTL:?}: {:.1} % of a core; {lost} lost",
        of_a_core * 100.0
    )
}

async fn acquire(redlock: &Redlock, name: String) -> Lease {
    redlock.acquire(name).await.expect("nobody else wants it")
}
