//! A catalog in two parts that are written one after the other: many read it together, and nobody sees half of a change.
//!
//!     cargo run --example readers
//!
//! A writer that goes on as a reader sees what it has written, beside other readers, and before the next write. A
//! reader that was paused, and looks when its lease is over, learns from its token that another has written since.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorlock::{FenceGate, Redlock, node::MemoryNode};
use tokio::task::JoinSet;

/// What is read and written, and the gate before it.
#[derive(Default)]
struct Catalog {
    parts: [AtomicU64; 2],
    gate: FenceGate,
    inside: AtomicUsize,
    most: AtomicUsize,
}

type Failure = Box<dyn Error + Send + Sync>;

async fn write(redlock: &Redlock, catalog: &Catalog) -> Result<(), Failure> {
    let lease = redlock.write("catalog").wait(Duration::from_secs(30)).await?;
    catalog.gate.admit(lease.token()?)?;
    for part in &catalog.parts {
        part.fetch_add(1, Ordering::SeqCst);
        // A reader here would see half of the change.
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    Ok(lease.release().await?)
}

async fn read(redlock: &Redlock, catalog: &Catalog) -> Result<(), Failure> {
    let lease = redlock.read("catalog").wait(Duration::from_secs(30)).await?;
    catalog.gate.admit_read(lease.token())?;
    let inside = catalog.inside.fetch_add(1, Ordering::SeqCst) + 1;
    catalog.most.fetch_max(inside, Ordering::SeqCst);
    let first = catalog.parts[0].load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_micros(500)).await;
    let second = catalog.parts[1].load(Ordering::SeqCst);
    catalog.inside.fetch_sub(1, Ordering::SeqCst);
    if first != second {
        return Err(format!("half of a change: {first} and {second}").into());
    }
    Ok(lease.release().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    let catalog = Arc::new(Catalog::default());
    let mut tasks = JoinSet::new();
    for number in 0..10 {
        // Each task stands for a process of its own: two that write, and eight that read.
        let (redlock, catalog) = (Redlock::connect(&nodes).await?, Arc::clone(&catalog));
        tasks.spawn(async move {
            for _ in 0..20 {
                if number < 2 {
                    write(&redlock, &catalog).await?;
                } else {
                    read(&redlock, &catalog).await?;
                }
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?.map_err(|error| error as Box<dyn Error>)?;
    }
    println!("40 writes and 160 reads, of which none saw half of a change");
    if catalog.most.load(Ordering::SeqCst) < 2 {
        return Err("nobody read beside another".into());
    }

    let (one, other) = (Redlock::connect(&nodes).await?, Redlock::connect(&nodes).await?);
    let lease = one.write("catalog").await?;
    let written = lease.token()?;
    catalog.gate.admit(written)?;
    let reads = lease.downgrade()?;
    // The others are let in when the nodes have followed, which is a round trip later.
    let beside = other.read("catalog").wait(Duration::from_secs(30)).await?;
    catalog.gate.admit_read(reads.token())?;
    catalog.gate.admit_read(beside.token())?;
    let both = beside.token().covers(written) && reads.check().is_ok();
    println!("a writer that reads on reads beside another, who sees what it wrote: {both}");
    reads.release().await?;
    beside.release().await?;

    let paused = one.read("catalog").ttl(Duration::from_millis(100)).without_renewal().await?;
    let busy = other.try_write("catalog").await.is_err_and(|error| error.is_contended());
    println!("while it is read, a writer is refused: {busy}");
    paused.lost().await;
    write(&other, &catalog).await.map_err(|error| error as Box<dyn Error>)?;
    let late = catalog.gate.admit_read(paused.token()).is_err();
    println!("a reader that was paused until somebody had written is refused: {late}");
    if !both || !busy || !late {
        return Err("somebody was let in".into());
    }
    Ok(())
}
