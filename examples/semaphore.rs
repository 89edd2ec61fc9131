//! A service that takes at most three calls at a time, from any number of processes: each call holds a permit.
//!
//!     cargo run --example semaphore
//!
//! The nodes pick a free permit, so it costs one round trip. A caller that finds all permits taken waits, and is woken
//! when any of them is released.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorlock::{FencingToken, Redlock, node::MemoryNode};
use tokio::task::JoinSet;

const PERMITS: usize = 3;

/// The service: it counts concurrent calls, and keeps the largest token of each permit.
#[derive(Default)]
struct Service {
    calls: AtomicUsize,
    most: AtomicUsize,
    fences: Mutex<[Option<FencingToken>; PERMITS]>,
}

impl Service {
    async fn call(
        &self,
        permit: u8,
        token: FencingToken,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        {
            // A holder that was paused beyond its lease has a smaller token than the next holder of this permit.
            let mut fences = self.fences.lock().map_err(|_| "a task panicked")?;
            let fence = fences.get_mut(usize::from(permit)).ok_or("no such permit")?;
            if *fence > Some(token) {
                return Err("somebody with a larger token has been there".into());
            }
            *fence = Some(token);
        }
        let now = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.calls.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    let (service, used) = (Arc::new(Service::default()), Arc::new(Mutex::new(BTreeSet::new())));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        // Stands for a process of its own.
        let redlock = Redlock::connect(&nodes).await?;
        let (service, used) = (Arc::clone(&service), Arc::clone(&used));
        tasks.spawn(async move {
            let semaphore = redlock.semaphore("geocoder", PERMITS)?;
            for _ in 0..10 {
                let permit = semaphore.acquire().wait(Duration::from_secs(30)).await?;
                used.lock().map_err(|_| "a task panicked")?.insert(permit.slot());
                service.call(permit.slot(), permit.token()?).await?;
                permit.release().await?;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?.map_err(|error| error as Box<dyn Error>)?;
    }
    let most = service.most.load(Ordering::SeqCst);
    let used = used.lock().map_err(|_| "a task panicked")?.clone();
    println!("80 calls from 8 processes with permits {used:?}, {most} at once at most");
    if most > PERMITS {
        return Err("too many".into());
    }

    let redlock = Redlock::connect(&nodes).await?;
    let semaphore = redlock.semaphore("geocoder", PERMITS)?;
    let mut held = Vec::new();
    while let Ok(permit) = semaphore.try_acquire().await {
        held.push(permit);
    }
    println!("without waiting: {} permits, and no more", held.len());
    // A permit is a lease, so any lock on its name takes the permit.
    let first = held.first().map(|permit| permit.resource().to_string()).unwrap_or_default();
    println!("{first} is held: {}", redlock.try_acquire(&first).await.is_err());
    Ok(())
}
