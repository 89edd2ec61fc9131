//! How often a lease that is held is renewed, which is what it costs the nodes.
//!
//! It looks at the leases alone: one that is renewed is valid for longer than a moment before. So it counts on servers of a user
//! too, whose own counters count everybody.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use quorlock::Redlock;
use tokio::time::{Instant, sleep};

/// So many are held at most, for this ttl, so that they are renewed no more often than operations may be.
const LEASES: u32 = 10;
const TTL: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewals {
    /// Of each lease, in its ttl.
    pub(super) in_a_ttl: f64,
    /// That of a lease for which nobody asks for another.
    pub(super) ttl: Duration,
}

impl Renewals {
    /// Commands to each node, for each lease that is held for the ttl of the settings.
    pub(super) fn per_second(&self) -> f64 {
        self.in_a_ttl / self.ttl.as_secs_f64()
    }
}

/// Holds leases for so long and watches them.
pub(super) async fn watch(
    redlock: &Redlock,
    run: &str,
    limit: Option<u32>,
    long: Duration,
    over: &AtomicBool,
) -> Result<Renewals, String> {
    let name = |number: u32| format!("{run}held/{number}");
    let leases = limit.map_or(LEASES, |limit| (limit / 10).clamp(1, LEASES));
    let usual = redlock.try_acquire(name(LEASES)).await.map_err(|error| error.to_string())?;
    let settings = usual.ttl();
    usual.release().await.map_err(|error| error.to_string())?;
    let ttl = TTL.min(settings);
    let mut held = Vec::new();
    for number in 0..leases {
        let lease = redlock.try_acquire(name(number)).ttl(ttl).await;
        let lease = lease.map_err(|error| error.to_string())?;
        held.push((lease.validity(), lease));
    }
    let (begun, mut renewed) = (Instant::now(), 0_u32);
    while begun.elapsed() < long && !over.load(Relaxed) {
        sleep(Duration::from_millis(5)).await;
        for (seen, lease) in &mut held {
            let validity = lease.validity();
            renewed += u32::from(validity > *seen + ttl / 20);
            *seen = validity;
        }
    }
    let lasted = begun.elapsed();
    let mut lost = None;
    for (_, lease) in held {
        lost = lease.release().await.err().or(lost);
    }
    if let Some(error) = lost {
        return Err(error.to_string());
    }
    let in_a_ttl =
        f64::from(renewed) / f64::from(leases) * ttl.as_secs_f64() / lasted.as_secs_f64();
    (in_a_ttl > 0.0)
        .then_some(Renewals { in_a_ttl, ttl: settings })
        .ok_or_else(|| "none was seen".to_owned())
}
