//! How often a lease that is held is renewed, which is what it costs the nodes.
//!
//! It looks at the leases alone: a renewal makes a lease valid for longer than a moment before. So it works on a user's
//! servers too, whose own counters count all clients.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use quorlock::Redlock;
use tokio::time::{Instant, sleep};

/// How many leases are held at most, with this ttl, so that renewals are no more frequent than operations may be.
const LEASES: u32 = 10;
const TTL: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewals {
    /// Renewals of each lease, in its ttl.
    pub(super) in_a_ttl: f64,
    /// The ttl of a lease for which no other is asked for.
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
        held.push((Rhythm { validity: lease.validity(), ..Rhythm::default() }, lease));
    }
    let begun = Instant::now();
    while begun.elapsed() < long && !over.load(Relaxed) {
        sleep(Duration::from_millis(5)).await;
        for (rhythm, lease) in &mut held {
            rhythm.look(lease.validity(), ttl, begun.elapsed());
        }
    }
    let (mut lost, mut periods) = (None, Vec::new());
    for (rhythm, lease) in held {
        periods.extend(rhythm.period());
        lost = lease.release().await.err().or(lost);
    }
    if let Some(error) = lost {
        return Err(error.to_string());
    }
    let mean = periods.iter().sum::<f64>() / f64::from(u32::try_from(periods.len()).unwrap_or(1));
    let is_some = mean.is_finite() && mean > 0.0;
    let renewals = Renewals { in_a_ttl: ttl.as_secs_f64() / mean, ttl: settings };
    is_some.then_some(renewals).ok_or_else(|| "too few were seen".to_owned())
}

/// When one lease was renewed, as its validity says.
#[derive(Debug, Default)]
struct Rhythm {
    validity: Duration,
    first: Option<Duration>,
    last: Duration,
    /// Renewals after the first.
    renewed: u32,
}

impl Rhythm {
    fn look(&mut self, validity: Duration, ttl: Duration, now: Duration) {
        // The validity falls with time, and only a renewal raises it.
        if validity > self.validity + ttl / 20 {
            self.renewed += u32::from(self.first.is_some());
            self.first.get_or_insert(now);
            self.last = now;
        }
        self.validity = validity;
    }

    /// From one renewal to the next, in seconds.
    fn period(&self) -> Option<f64> {
        let lasted = self.last.saturating_sub(self.first?);
        (self.renewed > 0).then(|| lasted.as_secs_f64() / f64::from(self.renewed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_watch_do_not_count() {
        let ms = Duration::from_millis;
        let mut rhythm = Rhythm { validity: ms(900), ..Rhythm::default() };
        assert_eq!(rhythm.period(), None);
        for (now, validity) in
            [(100, 800), (200, 990), (400, 790), (500, 1000), (800, 990), (900, 890)]
        {
            rhythm.look(ms(validity), ms(1_000), ms(now));
        }
        // At 200, 500 and 800.
        assert!((rhythm.period().unwrap() - 0.3).abs() < 1e-9, "{rhythm:?}");
    }
}
