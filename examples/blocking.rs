//! The blocking form: no runtime, no `async`, plain threads.
//!
//!     cargo run --example blocking
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and sleeps is for the library")]

use std::{error::Error, thread, time::Duration};

use quorlock::{Redlock, node::MemoryNode};

fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 3] = std::array::from_fn(|_| MemoryNode::new());
    let redlock = Redlock::blocking_connect(&nodes)?;

    let lease = redlock.acquire("report").blocking()?;
    println!("main holds it, validity={:?}", lease.validity());

    let outcome = thread::scope(|scope| {
        let other = scope.spawn(|| redlock.try_acquire("report").blocking());
        other.join().map_err(|_| "the other thread panicked")
    })?;
    match outcome {
        Err(busy) if busy.is_contended() => println!("the other thread was told that it is busy"),
        other => return Err(format!("unexpected: {other:?}").into()),
    }

    let outcome = thread::scope(|scope| {
        let waiter =
            scope.spawn(|| redlock.acquire("report").wait(Duration::from_secs(5)).blocking());
        thread::sleep(Duration::from_millis(50));
        println!("main releases it");
        lease.blocking_release()?;
        waiter.join().map_err(|_| Box::<dyn Error>::from("the waiter panicked"))
    })?;
    let lease = outcome?;
    println!("the waiter holds it, validity={:?}", lease.validity());

    // A lease that is dropped is released in the background; closing waits for that.
    drop(lease);
    redlock.blocking_close()?;
    println!("closed, keys left: {}", nodes.iter().map(|node| node.keys().len()).sum::<usize>());
    Ok(())
}
