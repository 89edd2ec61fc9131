//! A valve that compares no tokens carries out every order, however late. A lock-delay gives orders that were sent
//! before a loss the time to arrive while nobody is at work.
//!
//!     cargo run --example lock_delay
//!
//! A store that can compare tokens is better, since that does not rest on time: see the example `fencing`.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use quorlock::{Redlock, node::MemoryNode};
use tokio::time::sleep;

const TTL: Duration = Duration::from_millis(200);
/// How long an order is on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_millis(1500);

/// Who is at work at the valve.
type Valve = Mutex<Option<&'static str>>;

/// An order that arrives later. Returns who was at work then.
async fn order(valve: Arc<Valve>) -> Result<Option<&'static str>, String> {
    sleep(ON_ITS_WAY).await;
    valve.lock().map(|at_work| *at_work).map_err(|_| "a task panicked".to_owned())
}

/// A holder sends an order and loses its lease, and the next goes to work. Returns how long after the loss that was,
/// and who was at work when the order arrived.
async fn lose(
    nodes: &[MemoryNode],
    delay: Duration,
) -> Result<(Duration, Option<&'static str>), Box<dyn Error>> {
    let (one, other) = (Redlock::connect(nodes).await?, Redlock::connect(nodes).await?);
    let valve = Arc::<Valve>::default();
    let lease = one.acquire("valve").ttl(TTL).lock_delay(delay).without_renewal().await?;
    lease.check()?;
    let ordered = tokio::spawn(order(Arc::clone(&valve)));
    // The lease is not renewed, as when the process stands still.
    lease.lost().await;
    drop(lease);
    let lost = Instant::now();
    let next = other.acquire("valve").wait(Duration::from_secs(30)).await?;
    let after = lost.elapsed();
    *valve.lock().map_err(|_| "a task panicked")? = Some("the next one");
    let met = ordered.await??;
    next.release().await?;
    Ok((after, met))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 3] = std::array::from_fn(|_| MemoryNode::new());
    let (after, met) = lose(&nodes, Duration::ZERO).await?;
    println!(
        "without: the next one is at work {after:.1?} after the loss; the order meets {met:?}"
    );
    let (delayed, alone) = lose(&nodes, DELAY).await?;
    println!(
        "with: the next one is at work {delayed:.1?} after the loss; the order meets {alone:?}"
    );
    if met.is_none() || alone.is_some() {
        return Err(
            "the order should have met somebody without the delay, and nobody with it".into()
        );
    }

    let (one, other) = (Redlock::connect(&nodes).await?, Redlock::connect(&nodes).await?);
    let lease = one.acquire("valve").ttl(TTL).lock_delay(DELAY).await?;
    // A release says that nothing is on its way any more.
    lease.release().await?;
    let released = Instant::now();
    other.acquire("valve").await?.release().await?;
    println!("behind a release it is free at once: {}", released.elapsed() < DELAY / 2);
    Ok(())
}
