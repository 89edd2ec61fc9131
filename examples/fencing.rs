//! A store that refuses a stale fencing token, and a holder that comes too late.
//!
//!     cargo run --example fencing

use std::{error::Error, time::Duration};

use quorlock::{Lease, Redlock, node::MemoryNode, protocol::FencingToken};

/// What a store does: it keeps the largest token that it has seen, and compares and writes in one step.
#[derive(Default)]
struct Store {
    fence: Option<FencingToken>,
    value: String,
}

impl Store {
    fn write(&mut self, lease: &Lease, value: &str) -> Result<(), String> {
        let token = lease.token().map_err(|error| error.to_string())?;
        // An equal token is a repeat by the same holder: nobody else ever gets it.
        match self.fence {
            Some(fence) if token < fence => return Err("a later holder has written".to_owned()),
            _ => self.fence = Some(token),
        }
        value.clone_into(&mut self.value);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 3] = std::array::from_fn(|_| MemoryNode::new());
    let (ours, theirs) = (Redlock::connect(&nodes).await?, Redlock::connect(&nodes).await?);
    let mut store = Store::default();

    let paused =
        ours.acquire("invoice:42").ttl(Duration::from_millis(300)).without_renewal().await?;
    paused.check()?;
    println!("the first holder has looked at its lease, and is paused");

    // Nobody renews it, as when the whole process stands still.
    let next = theirs.acquire("invoice:42").await?;
    store.write(&next, "written by the second holder")?;
    println!("the second holder has the resource, and writes");

    match store.write(&paused, "written by the first holder") {
        Err(refused) => println!("the first holder wakes up, writes, and is refused: {refused}"),
        Ok(()) => return Err("a stale write was accepted".into()),
    }
    store.write(&next, "written by the second holder, again")?;
    println!("the store has: {}", store.value);
    println!("the first holder looks again: {}", paused.check().err().ok_or("still held")?);
    next.release().await?;
    Ok(())
}
