//! Acquire and release on five nodes, while nodes die and come back.
//!
//!     cargo run --example quickstart
//!
//! The nodes are in this process. With `QUORLOCK_NODES` set to a comma-separated list of URLs, the same locks are taken
//! on those servers, such as those of `compose.yaml`, and nothing is killed. An outcome that is not the expected one
//! ends the program with a failure.

use std::{error::Error, process::ExitCode, time::Duration};

use quorlock::{AcquireError, Redlock, node::MemoryNode};

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match std::env::var_os("QUORLOCK_NODES") {
        Some(_) => on_servers().await,
        None => on_embedded_nodes().await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn on_servers() -> Outcome {
    let redlock = Redlock::from_env().await?;
    for (index, node) in redlock.nodes().iter().enumerate() {
        let version = node.version.as_deref().unwrap_or("unknown version");
        println!("node {index} {}: {:?}, {version}", node.address, node.state);
    }
    acquire_and_release(&redlock, "on servers").await?;
    redlock.close().await?;
    Ok(())
}

async fn on_embedded_nodes() -> Outcome {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    // A short longest ttl, so that the quarantine below is short too.
    let short = Duration::from_secs(1);
    let redlock = Redlock::builder().nodes(&nodes).ttl(short).max_ttl(short).connect().await?;
    acquire_and_release(&redlock, "five nodes up").await?;

    let [first, second, third, ..] = &nodes;
    first.kill();
    second.kill();
    acquire_and_release(&redlock, "two killed").await?;

    third.kill();
    match redlock.try_acquire("invoice:42").await {
        Err(AcquireError::NoQuorum { granted, needed, nodes, .. }) => {
            println!("three killed: refused, {granted} granted of the {needed} needed");
            for (report, error) in nodes.failures() {
                println!("    {}: {error}", report.node);
            }
        }
        other => return Err(format!("three nodes are dead, and yet: {other:?}").into()),
    }

    // Their memory is gone. They are quarantined for a little longer than the longest ttl, until every lease that
    // they may have forgotten is over; the acquire waits for that.
    for node in [first, second, third] {
        node.restart();
    }
    acquire_and_release(&redlock, "restarted").await?;
    redlock.close().await?;
    Ok(())
}

async fn acquire_and_release(redlock: &Redlock, when: &str) -> Outcome {
    // Servers that nobody has seen before are in quarantine for eleven seconds, once.
    let lease = redlock.acquire("invoice:42").await?;
    println!("{when}: acquired, validity={:?}, owner={}", lease.validity(), lease.owner());

    // Other callers are told that it is busy, which is not the same as broken.
    match redlock.try_acquire("invoice:42").await {
        Err(busy) if busy.is_contended() => {}
        other => return Err(format!("a second holder was not refused: {other:?}").into()),
    }
    lease.release().await?;
    println!("{when}: released");
    Ok(())
}
