//! Thousands of requests at once, each in a span of its own, beside leases that are held.

use std::time::{Duration, Instant};

use futures::future::join_all;
use quorlock::{AcquireError, Redlock};
use quorlock_harness::{Cluster, connected};
use tracing::Instrument;

use super::{Log, SECOND};

const BURST: usize = 5_000;
const HELD: usize = 50;

/// Every event costs the engine thread some time, and so does the span that it is told in. This test does not show how
/// fast that is, but that it costs no lease, and does not fill the log.
#[test]
fn a_burst_of_requests_in_spans_costs_no_held_lease_and_few_lines() {
    let (log, _turn) = Log::of_process();
    let cluster = Cluster::start(3);
    let builder = Redlock::builder().nodes(cluster.urls()).danger_skip_quarantine();
    let redlock = connected(builder.close_timeout(60 * SECOND));
    // Without renewals they are over before the bursts are.
    let acquire =
        |n: usize| redlock.acquire(format!("held:{n}")).ttl(2 * SECOND).blocking().unwrap();
    let held: Vec<_> = (0..HELD).map(acquire).collect();
    log.clear();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (began, mut bursts, mut granted, mut crowded) = (Instant::now(), 0, 0, 0);
    while began.elapsed() < 3 * SECOND {
        bursts += 1;
        let ended = runtime.block_on(async {
            join_all((0..BURST).map(|n| {
                let request = redlock.acquire(format!("burst:{n}")).wait(Duration::from_secs(30));
                let span = tracing::info_span!("order", n);
                tokio::spawn(async move { request.await }.instrument(span))
            }))
            .await
        });
        // All leases of a burst are held together, and then dropped together.
        let ended: Vec<_> = ended.into_iter().map(Result::unwrap).collect();
        for ended in &ended {
            match ended {
                Ok(lease) => granted += usize::from(lease.check().is_ok()),
                Err(AcquireError::Crowded { .. }) => crowded += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let lost = held.iter().filter(|lease| lease.check().is_err()).count();
    assert_eq!(lost, 0, "{crowded} of {bursts} * {BURST} were not granted in time");
    assert_eq!(granted + crowded, bursts * BURST, "a lease of a burst was lost");
    let lines = log.lines();
    // At this level of the log each is told of in its own span.
    let told = lines.iter().filter(|line| line.contains("acquired") && line.contains("burst:"));
    let in_span = told.filter(|line| {
        let n = line.split("burst:").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        line.contains(&format!("order{{n={n}}}"))
    });
    assert_eq!(in_span.count(), granted);
    // At most twenty resources a minute are told of as waited for.
    let shown: Vec<&String> = lines.iter().filter(|line| !line.starts_with("DEBUG")).collect();
    println!(
        "{bursts} bursts, {granted} granted, {crowded} crowded, {} lines of {}",
        shown.len(),
        lines.len()
    );
    assert!(shown.len() <= 40, "{shown:#?}");
}
