//! From one holder to the next: two take turns at one resource, and each writes down when it asked, when it got it, and when it
//! gave it back.
//!
//! A hand-over counts where the next one stood in line before the release. The time goes from the call of `release` to the next
//! lease; it takes the records of both ends to know it.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use quorlock::Redlock;
use quorlock_harness::history::record::now;
use serde::{Deserialize, Serialize};

/// By the clock that all processes of a machine share.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Turn {
    pub(super) asked: Duration,
    pub(super) granted: Duration,
    pub(super) released: Duration,
}

/// Takes turns until then, and tells each.
pub(super) async fn take_turns(
    redlock: &Redlock,
    resource: &str,
    hold: Duration,
    until: Duration,
    over: &AtomicBool,
    mut told: impl FnMut(Result<Turn, String>),
) {
    while now() < until && !over.load(Relaxed) {
        let asked = now();
        let lease = match redlock.acquire(resource).wait(Duration::from_secs(2)).await {
            Ok(lease) => lease,
            Err(error) => {
                told(Err(error.to_string()));
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let granted = now();
        tokio::time::sleep(hold).await;
        let released = now();
        let ended = lease.release().await;
        told(ended.map(|()| Turn { asked, granted, released }).map_err(|error| error.to_string()));
    }
}

/// The times of the hand-overs, of the turns of both.
pub(super) fn between(one: &[Turn], other: &[Turn]) -> Vec<Duration> {
    let mut all: Vec<(bool, Turn)> = Vec::with_capacity(one.len() + other.len());
    all.extend(one.iter().map(|turn| (false, *turn)));
    all.extend(other.iter().map(|turn| (true, *turn)));
    all.sort_unstable_by_key(|(_, turn)| turn.granted);
    let pairs = all.windows(2).filter_map(|pair| match pair {
        [(of, earlier), (to, later)] if of != to && later.asked < earlier.released => {
            // No lease is granted while another holds.
            later.granted.checked_sub(earlier.released)
        }
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(asked: u64, granted: u64, released: u64) -> Turn {
        let [asked, granted, released] = [asked, granted, released].map(Duration::from_millis);
        Turn { asked, granted, released }
    }

    #[test]
    fn only_what_was_waited_for_is_handed_over() {
        let one = [turn(0, 1, 10), turn(11, 22, 30), turn(31, 90, 95)];
        // Asked while it was held; then after it was free, which is no hand-over; then the same again.
        let other = [turn(2, 13, 20), turn(40, 41, 50), turn(51, 52, 60)];
        let found = between(&one, &other);
        assert_eq!(found, [3, 2, 30].map(Duration::from_millis));
        assert!(between(&one, &[]).is_empty());
    }
}
