//! Transfers between accounts: each needs two of them at once, in whatever order it names them. No two transfers
//! deadlock, and no account is touched by two at a time.
//!
//!     cargo run --example together
//!
//! With one lease for each account, two transfers in opposite directions would wait for each other until one of them gives
//! up. One lease on both is granted whole or not at all, and costs one round trip.
#![allow(clippy::disallowed_methods, reason = "the ban on clocks and spawns is for the library")]

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{AcquireError, FencingToken, Redlock, node::MemoryNode};
use tokio::task::JoinSet;

/// An account, with the largest token that has written to it.
#[derive(Clone, Default)]
struct Account {
    balance: i64,
    written_by: Option<FencingToken>,
}

/// The store: it takes a transfer only if no larger token has written to either account. One token is enough: it is
/// larger than that of every earlier lease on any of the resources.
fn transfer(from: &mut Account, to: &mut Account, token: FencingToken) -> bool {
    let is_late = |account: &Account| account.written_by > Some(token);
    if is_late(from) || is_late(to) {
        return false;
    }
    from.balance -= 1;
    to.balance += 1;
    (from.written_by, to.written_by) = (Some(token), Some(token));
    true
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: [MemoryNode; 5] = std::array::from_fn(|_| MemoryNode::new());
    let accounts = Arc::new(Mutex::new(vec![Account::default(); 3]));
    let mut tasks = JoinSet::new();
    // In a circle, and back: in every order that two of three can be named.
    for pair in [[0, 1], [1, 2], [2, 0], [1, 0], [2, 1], [0, 2]] {
        // Stands for a process of its own.
        let redlock = Redlock::connect(&nodes).await?;
        let accounts = Arc::clone(&accounts);
        tasks.spawn(async move {
            for _ in 0..20 {
                let names = pair.map(|account| format!("account:{account}"));
                let lease = redlock.acquire_all(names).wait(Duration::from_secs(30)).await?;
                let token = lease.token()?;
                tokio::time::sleep(Duration::from_micros(200)).await;
                {
                    let mut accounts = accounts.lock().map_err(|_| "a task panicked")?;
                    let [from, to] = accounts.get_disjoint_mut(pair)?;
                    if !transfer(from, to, token) {
                        return Err("somebody with a larger token has been there".into());
                    }
                }
                lease.release().await?;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?.map_err(|error| error as Box<dyn Error>)?;
    }
    let accounts = accounts.lock().map_err(|_| "a task panicked")?.clone();
    let balances: Vec<i64> = accounts.iter().map(|account| account.balance).collect();
    println!("120 transfers, balances {balances:?}");
    if balances != [0; 3] {
        return Err("something was lost".into());
    }

    let (one, other) = (Redlock::connect(&nodes).await?, Redlock::connect(&nodes).await?);
    let held = one.acquire("account:1").await?;
    match other.try_acquire_all(["account:0", "account:1", "account:2"]).await {
        Err(AcquireError::Contended { resource: Some(resource), .. }) => {
            println!("all three: refused, {resource} is held by another client");
        }
        other => return Err(format!("{other:?}").into()),
    }
    // Nothing was taken.
    other.try_acquire_all(["account:0", "account:2"]).await?.release().await?;
    println!("the other two: acquired");
    held.release().await?;
    Ok(())
}
