//! Several schedulers run, and one leads: the others watch the leader, and take over when it resigns or is lost.
//!
//!     cargo run --example leader
//!
//! Orders carry the term of the leader, and the receiver refuses those of an earlier term: orders that a leader sent
//! before it was lost may arrive at any time.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{error::Error, sync::Arc, time::Duration};

use quorlock::{Election, FenceGate, Observed, Redlock, node::MemoryNode};
use tokio::time::sleep;

const TTL: Duration = Duration::from_millis(500);
const MS: Duration = Duration::from_millis(1);

/// Stands for a process of its own.
async fn candidate(nodes: &[MemoryNode; 3], name: &str) -> Result<Election, Box<dyn Error>> {
    let redlock = Redlock::builder().nodes(nodes).ttl(TTL).connect().await?;
    Ok(redlock.election("scheduler").text(name))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 3] = std::array::from_fn(|_| MemoryNode::new());
    // The receiver of the orders.
    let gate = Arc::new(FenceGate::new());
    let (a, b) = (candidate(&nodes, "a").await?, candidate(&nodes, "b").await?);

    // The observer only watches.
    let mut observer = b.observe();
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Ok(observed) = observer.changed().await {
            if let Observed::Leads(leader) = observed {
                println!("observer: {} leads", leader.text);
                seen.push(leader.term);
                if seen.len() == 2 {
                    break;
                }
            }
        }
        seen
    });

    // The first leads until its work is done: here, five orders. Then it resigns.
    let of_a = Arc::clone(&gate);
    let first = tokio::spawn(async move {
        let work = async move |leadership: &quorlock::Leadership| {
            for number in 0..5 {
                of_a.admit(leadership.term())?;
                println!("a: order {number}");
                sleep(60 * MS).await;
            }
            Ok::<_, quorlock::StaleToken>(leadership.term())
        };
        a.lead(work).await
    });
    sleep(20 * MS).await;

    // The other one waits for that, and leads at once.
    let of_b = Arc::clone(&gate);
    let work = async |leadership: &quorlock::Leadership| {
        of_b.admit(leadership.term())?;
        println!("b: leads, health {}", if b.health().is_wedged() { "wedged" } else { "fine" });
        sleep(2 * TTL).await;
        Ok::<_, quorlock::StaleToken>(leadership.term())
    };
    let second = b.lead(work).await?;
    let first = first.await??;
    println!("terms rise: {}", first < second);
    println!("a late order of a is taken: {}", gate.admit(first).is_ok());
    let seen = watching.await?;
    if seen != [first, second] || gate.admit(first).is_ok() {
        return Err("it should have been seen in this order, and the late order refused".into());
    }
    Ok(())
}
