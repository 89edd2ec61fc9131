//! A small service that charges invoices, each of them once, and the tests of it.
//!
//!     cargo test --example testing
//!     cargo run --example testing
//!
//! The tests at the end cover contention, a crashed holder, a lost lease, and nodes that are down. Each runs twice,
//! with tokio's time paused and without, and none waits in real time. None needs a server.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "the ban on clocks is for the library"
)]

use std::{collections::BTreeMap, error::Error, sync::Mutex, time::Duration};

use quorlock::{Redlock, protocol::FencingToken, testing::Fleet};

/// The answer to a customer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    /// 200: it is paid, now or before.
    Charged,
    /// 409: another instance is about to charge it.
    Busy,
    /// 503: nothing was charged, try again later.
    Unavailable,
}

/// The service: any number of these may run, one in each process.
struct Orders {
    redlock: Redlock,
    /// How long the card company takes.
    card: Duration,
    /// The charged invoices, with their tokens; a table with a unique key in reality.
    charged: Mutex<BTreeMap<u32, Option<FencingToken>>>,
}

impl Orders {
    fn new(redlock: Redlock, card: Duration) -> Self {
        Self { redlock, card, charged: Mutex::default() }
    }

    async fn charge(&self, invoice: u32) -> Answer {
        let request = self.redlock.acquire(format!("invoice:{invoice}"));
        let lease = match request.wait(Duration::from_secs(2)).await {
            Ok(lease) => lease,
            Err(busy) if busy.is_contended() => return Answer::Busy,
            Err(_broken) => return Answer::Unavailable,
        };
        if self.charged().contains_key(&invoice) {
            return Answer::Charged;
        }
        tokio::time::sleep(self.card).await;
        // Right before the effect: it took a while to get here.
        if lease.check().is_err() {
            return Answer::Unavailable;
        }
        self.charged().insert(invoice, lease.token().ok());
        Answer::Charged
    }

    fn charged(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Option<FencingToken>>> {
        self.charged.lock().expect("nobody panics under it")
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let fleet = Fleet::new(5);
    let orders = Orders::new(fleet.redlock(), Duration::from_millis(10));
    println!("an invoice: {:?}", orders.charge(1).await);
    println!("the same again: {:?}", orders.charge(1).await);
    let other = fleet.hold("invoice:2").await;
    let (answer, ()) = tokio::join!(orders.charge(2), fleet.advance(Duration::from_secs(3)));
    println!("one that somebody else is about to charge: {answer:?}");
    drop(other);
    fleet.fail(0..3);
    println!("with three of five nodes down: {:?}", orders.charge(2).await);
    fleet.restore(0..3);
    println!("with all of them back: {:?}", orders.charge(2).await);
    if orders.charged().len() != 2 {
        return Err("each invoice is charged once".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    const SECOND: Duration = Duration::from_secs(1);

    async fn contention(fleet: &Fleet, orders: &Orders) {
        let other = fleet.hold("invoice:42").await;
        assert_eq!(charge(fleet, orders).await, Answer::Busy);
        drop(other);
        assert_eq!(charge(fleet, orders).await, Answer::Charged);
    }
    async fn expiry(fleet: &Fleet, orders: &Orders) {
        let _crashed = fleet.hold_for("invoice:42", SECOND).await;
        assert_eq!(charge(fleet, orders).await, Answer::Charged);
    }
    async fn loss(fleet: &Fleet, orders: &Orders) {
        let nodes_fail = async {
            fleet.advance(SECOND).await;
            fleet.fail(0..3);
        };
        let (answer, ()) = tokio::join!(charge(fleet, orders), nodes_fail);
        assert_eq!((answer, orders.charged().len()), (Answer::Unavailable, 0));
    }
    async fn outage(fleet: &Fleet, orders: &Orders) {
        fleet.stop(0..3);
        assert_eq!(charge(fleet, orders).await, Answer::Unavailable);
        fleet.restore(..);
        assert_eq!(charge(fleet, orders).await, Answer::Charged);
    }
    /// A customer asks, while the fleet's clock moves on by a minute, which takes no real time.
    async fn charge(fleet: &Fleet, orders: &Orders) -> Answer {
        tokio::join!(orders.charge(42), fleet.advance(60 * SECOND)).0
    }

    macro_rules! twice { ($($test:ident)*) => {$( mod $test {
        use super::*;
        async fn run(fleet: Fleet) { $test(&fleet, &Orders::new(fleet.redlock(), 15 * SECOND)).await }
        #[tokio::test(start_paused = true)]
        async fn paused() { run(Fleet::new(5)).await }
        #[tokio::test]
        async fn unpaused() { run(Fleet::new(5)).await }
    } )*}; }
    twice! { contention expiry loss outage }
}
