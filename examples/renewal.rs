//! A long job under a lease that is renewed; it stops when the lease is lost, here because two of three nodes
//! stand still.
//!
//!     cargo run --example renewal
#![allow(clippy::disallowed_methods, reason = "the ban on sleeps is for the library")]

use std::{
    error::Error,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use quorlock::{Redlock, RunError, node::MemoryNode};

const TTL: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 3] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = Redlock::connect(&nodes).await?;

    // Twelve steps take more than two ttls.
    let steps = AtomicU32::new(0);
    let job = async |steps_wanted: u32, nodes_stop_after: u32| {
        steps.store(0, Ordering::Relaxed);
        let work = redlock.acquire("report").ttl(TTL).run(async |lease| {
            while steps.load(Ordering::Relaxed) < steps_wanted {
                lease.check()?; // right before each effect
                if steps.fetch_add(1, Ordering::Relaxed) == nodes_stop_after {
                    println!("    two of three nodes stop");
                    nodes.iter().take(2).for_each(MemoryNode::pause);
                }
                tokio::time::sleep(STEP).await;
            }
            Ok(())
        });
        work.await.and_then(|done: Result<(), quorlock::LeaseLost>| done.map_err(RunError::from))
    };

    println!("a job of 12 steps under a ttl of 5 steps:");
    job(12, u32::MAX).await?;
    println!("    done, steps={}", steps.load(Ordering::Relaxed));

    println!("the same job, while nodes fail:");
    match job(12, 2).await {
        Err(RunError::Lost(lost)) => println!("    stopped: {lost}"),
        other => return Err(format!("unexpected: {other:?}").into()),
    }
    if steps.load(Ordering::Relaxed) == 12 {
        return Err("the job went on without its lease".into());
    }
    nodes.iter().for_each(MemoryNode::resume);
    println!("    the nodes are back");
    let lease = redlock.acquire("report").await?;
    println!("    acquired again");
    lease.release().await?;
    Ok(())
}
