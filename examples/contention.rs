//! Ten tasks want one resource. Each holds it for 20 ms; the wait of each is printed.
//!
//!     cargo run --example contention
//!
//! Within a process, the task that asked first is next. The order in which the tasks ask differs from run to run.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{Redlock, node::MemoryNode};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = Redlock::connect(&nodes).await?;
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..10 {
        let (redlock, inside) = (redlock.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            let asked = Instant::now();
            let lease = redlock.acquire("printer").wait(Duration::from_secs(30)).await?;
            let waited = asked.elapsed();
            let others = inside.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            lease.release().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>((task, waited, others))
        });
    }

    let mut place = 0;
    while let Some(done) = tasks.join_next().await {
        let (task, waited, others) = done?.map_err(|error| error as Box<dyn Error>)?;
        if others > 0 {
            return Err(format!("task {task} was not alone").into());
        }
        place += 1;
        println!("{place:>2}. task {task} waited {:>4} ms", waited.as_millis());
    }
    redlock.close().await?;
    println!("ten tasks, never two at once");
    Ok(())
}
