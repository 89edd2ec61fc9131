//! A long line behind one holder: what a waiter costs in memory, and in which order they are served.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::FutureExt as _;

use super::Worker;
use crate::waiting::{
    locker::Held,
    own::{self, micros},
};

/// The time for the process to settle before memory is read.
const SETTLE: Duration = Duration::from_millis(500);

impl Worker {
    /// `limit` is how many milliseconds the waiters have to be served, once the holder has released.
    pub(super) async fn queue(
        &self,
        waiters: usize,
        resource: &str,
        limit: u64,
    ) -> Result<(), String> {
        // The set-up of a first use must not count for a waiter.
        for _ in 0..20 {
            self.lockers[0].lock(resource).await?().await?;
        }
        let holder = self.lockers[0].lock(resource).await?;
        let before = own::resident();
        let (order, done) = (Arc::<Mutex<Vec<usize>>>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = Vec::new();
        for number in 0..waiters {
            let mut asking = self.lockers[0].lock(resource);
            // Polled here, one after the other, so that the order in which they ask is known.
            let first = asking.poll_unpin(&mut Context::from_waker(Waker::noop()));
            let (order, done) = (Arc::clone(&order), Arc::clone(&done));
            tasks.push(tokio::spawn(async move {
                let held: Result<Held, String> = match first {
                    Poll::Ready(held) => held,
                    Poll::Pending => asking.await,
                };
                order.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                held?().await?;
                done.fetch_add(1, Ordering::Relaxed);
                Ok::<(), String>(())
            }));
        }
        tokio::time::sleep(SETTLE).await;
        let waiting = own::resident();
        let called = own::now();
        holder().await?;
        let end = called + limit * 1_000_000;
        while done.load(Ordering::Relaxed) < waiters && own::now() < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let took = own::now() - called;
        let served = order.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for task in tasks {
            if task.is_finished() {
                task.await.map_err(|panic| panic.to_string())??;
            } else {
                task.abort();
            }
        }
        self.number("served", count(served.len()));
        self.number("out_of_order", count(overtaken(&served)));
        self.number("each", micros(took) / count(served.len().max(1)));
        if let (Some(before), Some(waiting)) = (before, waiting) {
            let bytes = micros(waiting.saturating_sub(before)) * 1e3;
            self.number("bytes", bytes / count(waiters));
        }
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
const fn count(count: usize) -> f64 {
    count as f64
}

/// How many were served after a later arrival.
fn overtaken(served: &[usize]) -> usize {
    let mut latest = None;
    let late = |number: &&usize| {
        let late = latest.is_some_and(|latest| **number < latest);
        latest = latest.max(Some(**number));
        late
    };
    served.iter().filter(late).count()
}

#[cfg(test)]
mod tests {
    use super::overtaken;

    #[test]
    fn whoever_is_served_after_a_later_one_was_overtaken() {
        assert_eq!(overtaken(&[]), 0);
        assert_eq!(overtaken(&[0, 1, 2]), 0);
        assert_eq!(overtaken(&[2, 0, 1, 3]), 2);
    }
}
