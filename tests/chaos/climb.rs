//! A worker that climbs: each of its leases is longer than the one before, and of the same owner if possible, since the
//! one before lingers or the next one is waited for. On the way it asks for all that must outlive commands of an
//! earlier lease: a lock-delay, a time for which others are kept out, and that its writer reads on.
//!
//! It judges nothing, and as any worker it never records more than what it was promised.

use std::{future::IntoFuture, thread, time::Duration};

use futures::{FutureExt, executor::block_on};
use quorlock::{Acquire, Lease, LossReason};

use super::{
    MS, SECOND,
    checker::Held,
    holds::Holds,
    record::{Count, Event, now},
    register::Register,
    wants::DELAY,
    worker::{Worker, counted, name},
};

/// How many there are. A process has one worker for each.
pub(crate) const RESOURCES: usize = 2;

/// The ttls of the leases in ms, one after the other. A grant is handed on if half of the next ttl is left of it.
const TTLS: [u64; 4] = [500, 850, 1_500, 2_600];
const LINGER: Duration = Duration::from_secs(1);
/// The longest ttl that the nodes are told: the last one, with a lock-delay.
pub(crate) const LONGEST: Duration = Duration::from_secs(3);

/// What is asked for.
struct Step {
    resource: usize,
    ttl: Duration,
    delay: Duration,
    /// For how long others are kept out, whatever becomes of it.
    hold: Duration,
    is_last: bool,
    renews: bool,
    asked: Duration,
}

fn one_in(many: u32) -> bool {
    rand::random_ratio(1, many)
}

impl Step {
    fn new(resource: usize, place: usize, delay: Duration) -> Self {
        let (ttl, is_last) = (Duration::from_millis(TTLS[place]), place + 1 == TTLS.len());
        let hold = if is_last && one_in(3) { ttl.mul_f64(0.9) } else { Duration::ZERO };
        let (renews, asked) = (rand::random(), now());
        Self { resource, ttl, delay, hold, is_last, renews, asked }
    }

    fn of(&self, request: Acquire) -> Acquire {
        let mut request = request.ttl(self.ttl).lock_delay(self.delay);
        if !self.is_last {
            request = request.linger(LINGER);
        }
        if !self.hold.is_zero() {
            request = request.hold_at_least(self.hold);
        }
        if self.renews { request } else { request.without_renewal() }
    }

    /// For how long others are kept out behind this end.
    fn held_behind(&self, end: Duration) -> Duration {
        (self.asked + self.hold).saturating_sub(end)
    }
}

impl<W: Fn(Event)> Worker<W> {
    /// Takes its resource over and over.
    pub(crate) fn climb(&self, mut register: Option<&mut Register>) {
        let resource = self.number % RESOURCES;
        while !self.is_stopped() {
            // A grant is not handed on to a request with another delay.
            let delay = if one_in(2) { DELAY } else { Duration::ZERO };
            let mut waiting = None;
            for place in 0..TTLS.len() {
                let (step, request) = waiting.take().unwrap_or_else(|| {
                    let step = Step::new(resource, place, delay);
                    let request = step.of(self.client.try_acquire(name(resource))).into_future();
                    (step, request)
                });
                let lease = match block_on(request) {
                    Ok(lease) => lease,
                    Err(error) => {
                        self.count(counted(error));
                        thread::sleep(MS * rand::random_range(2..20));
                        break;
                    }
                };
                let Some(lease) = self.stand(&step, lease, register.as_deref_mut()) else { break };
                // The next is asked for before this one is let go of, sometimes, and then it is handed on.
                if !step.is_last && rand::random() {
                    let step = Step::new(resource, place + 1, delay);
                    let request = self.client.acquire(name(resource)).wait(SECOND / 2);
                    let mut request = step.of(request).into_future();
                    if (&mut request).now_or_never().is_none() {
                        waiting = Some((step, request));
                    }
                }
                if rand::random() {
                    drop(lease);
                } else if lease.blocking_release().is_err() {
                    self.count(Count::ReleaseUnconfirmed);
                }
            }
        }
    }

    /// Holds a lease for a while, and returns it unless it was lost, or its writer has read on.
    fn stand(
        &self,
        step: &Step,
        lease: Lease,
        mut register: Option<&mut Register>,
    ) -> Option<Lease> {
        // The last is held for its own time, and not for that of the lease before.
        if step.is_last && !step.renews {
            let _ = lease.blocking_extend();
        }
        let (lease, mut held) = self.keep(step, Holds::Alone(lease), register.as_deref_mut())?;
        let Holds::Alone(lease) = lease else { return None };
        // Extended, so that enough of it is left for the next, and it is not in doubt.
        while !step.is_last && lease.blocking_extend().is_err() && lease.check().is_ok() {
            thread::sleep(5 * MS);
        }
        let looked = now();
        held.end = looked.min(lease.check().map_or(held.end, |left| looked + left));
        let reads_on = step.is_last && one_in(3);
        // A writer that reads on holds it as a reader next: then others are kept out after the reader.
        held.kept = if reads_on { Duration::ZERO } else { step.held_behind(held.end) };
        let is_kept = !held.kept.is_zero();
        self.say(Event::Held(held));
        if !reads_on {
            if is_kept {
                self.count(Count::KeptBehind);
            }
            return Some(lease);
        }
        let reads = lease.downgrade().expect("a lease of one resource");
        if reads.check().is_err() {
            self.count(Count::Lost);
            return None;
        }
        self.count(Count::ReadsOn);
        let (reads, mut held) = self.keep(step, Holds::Shared(reads), register)?;
        held.end = now().min(held.end);
        held.kept = step.held_behind(held.end);
        if !held.kept.is_zero() {
            self.count(Count::KeptBehind);
        }
        self.say(Event::Held(held));
        if reads.release().is_some_and(|released| block_on(released).is_err()) {
            self.count(Count::ReleaseUnconfirmed);
        }
        None
    }

    /// Acts under it for a while. A loss is written down, and then the lease is dropped, which releases nothing if
    /// there is a lock-delay.
    fn keep(
        &self,
        step: &Step,
        lease: Holds,
        mut register: Option<&mut Register>,
    ) -> Option<(Holds, Held)> {
        let start = now();
        // Read after the start, so that the sum never lies beyond the true end.
        let end = start + lease.validity();
        let (worker, resource, reads) = (self.number, step.resource, lease.reads());
        let (owner, token) = (lease.owner(), lease.token());
        // If it was over before the start, it is not known since when.
        let delay = if end > start && !reads { step.delay } else { Duration::ZERO };
        let kept = delay.max(step.held_behind(end));
        let asked = if reads { start } else { step.asked };
        let mut held = Held { owner, worker, resource, reads, token, asked, start, end, kept };
        self.say(Event::Granted(held.clone()));
        // Soon, or when the leases before it would be over; never, where it is to be lost with a lock-delay behind it; and long
        // before its least time is over.
        let part = match () {
            () if !step.hold.is_zero() => 0.2..0.5,
            () if !delay.is_zero() && !step.renews && one_in(8) => 1.1..1.2,
            () if step.is_last || one_in(3) => 0.5..0.8,
            () => 0.01..0.1,
        };
        let ends = start + step.ttl.mul_f64(rand::random_range(part));
        loop {
            let looked = now();
            match lease.check() {
                Ok(left) => held.end = held.end.max(looked + left),
                Err(lost) => {
                    self.count(Count::Lost);
                    held.end = looked.min(held.end);
                    // Where the keys were gone nothing keeps others out.
                    let is_kept = lost.reason != LossReason::Gone;
                    if is_kept && !delay.is_zero() {
                        self.count(Count::Delayed);
                    }
                    let kept = delay.max(step.held_behind(held.end));
                    held.kept = if is_kept { kept } else { Duration::ZERO };
                    self.say(Event::Held(held));
                    return None;
                }
            }
            thread::sleep(ends.saturating_sub(now()).min(10 * MS));
            if let (Some(register), Some(token)) = (register.as_deref_mut(), held.token) {
                self.act(register, resource, token, &lease);
            }
            if now() >= ends {
                return Some((lease, held));
            }
        }
    }
}
