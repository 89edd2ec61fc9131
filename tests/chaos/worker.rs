//! A worker takes one lock over and over, writes under it, ends it in every way in which a lease can end, and
//! writes down when it may have acted.
//!
//! It judges nothing. A worker never records more than what it was promised: the end is the earlier of the moment
//! before its release and the end of the validity. The planted one records and does more than that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use quorlock::{
    AcquireError, CampaignError, Lease, LossReason, Observed, Redlock, protocol::FencingToken,
};

use super::{
    MS, RESOURCE, SECOND,
    checker::{Effect, Held, Seen},
    holds::Holds,
    record::{Count, Event, History, Record, now},
    register::Register,
    wants::{DELAY, PERMITS, Wants},
};

/// The name of a resource by its number.
pub(crate) fn name(resource: usize) -> String {
    if resource == 0 { RESOURCE.to_owned() } else { format!("{RESOURCE}:{resource}") }
}

/// How an acquire counts that was not granted; panics where no fault explains it.
#[track_caller]
pub(crate) fn counted(error: AcquireError) -> Count {
    match error {
        AcquireError::Contended { .. } => Count::Contended,
        // A worker that goes on after a stop finds its round too late.
        AcquireError::NoQuorum { .. }
        | AcquireError::Quarantined { .. }
        | AcquireError::Crowded { .. } => Count::NoQuorum,
        AcquireError::TooLate { .. } => Count::TooLate,
        other => panic!("{other}"),
    }
}

/// What a worker is told.
#[derive(Clone)]
pub(crate) struct Orders {
    /// Of every lease.
    pub(crate) ttl: Duration,
    /// The address of the register, where one is written to.
    pub(crate) register: Option<String>,
    /// The planted bug: it looks at no clock, and its writes are not compared.
    pub(crate) careless: bool,
    /// Whether it lets go soon, nearly always.
    pub(crate) brief: bool,
    pub(crate) wants: Wants,
}

pub(crate) struct Worker<W> {
    pub(crate) number: usize,
    pub(crate) orders: Orders,
    pub(crate) client: Redlock,
    /// Where events go.
    pub(crate) write_down: W,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<W: Fn(Event)> Worker<W> {
    pub(crate) fn work(&self) {
        let mut register = self.orders.register.as_deref().map(Register::open);
        if self.orders.wants == Wants::Climbs {
            return self.climb(register.as_mut());
        }
        if self.orders.wants == Wants::Chains {
            return self.pass_along(register.as_mut().expect("a register"));
        }
        while !self.stop.load(Ordering::Relaxed) {
            let mut resources = self.orders.wants.next();
            let asked = now();
            // Half of the leases are renewed, where they are held for that long.
            // Some are not ready to wait for as long as a quarantine lasts.
            let patient = self.orders.wants.is_brisk() || rand::random_ratio(3, 4);
            let wait = if patient { 2 * SECOND } else { 100 * MS };
            macro_rules! settle {
                ($request:expr) => {{
                    let request = $request.wait(wait);
                    if rand::random() {
                        request.without_renewal()
                    } else {
                        request.max_hold(2 * self.orders.ttl)
                    }
                }};
            }
            let reads = self.orders.wants.may_read() && rand::random_ratio(3, 4);
            let held = match *resources {
                _ if self.orders.wants == Wants::Permits => {
                    let semaphore = self.client.semaphore("permits", PERMITS).unwrap();
                    let permit = settle!(semaphore.acquire()).blocking();
                    permit.map(|permit| {
                        resources = vec![usize::from(permit.slot())];
                        Holds::Alone(permit.into_lease())
                    })
                }
                _ if self.orders.wants == Wants::Elections => {
                    let election = self.client.election("chaos").ttl(self.orders.ttl);
                    let won = election.text(self.number.to_string()).blocking_campaign();
                    won.map(Holds::Leads).map_err(|error| match error {
                        CampaignError::Acquire(error) => error,
                        other => panic!("{other}"),
                    })
                }
                [one] if self.orders.wants == Wants::Delayed => {
                    let request = self.client.acquire(name(one)).lock_delay(DELAY);
                    settle!(request).blocking().map(Holds::Alone)
                }
                [one] if reads => {
                    settle!(self.client.read(name(one))).blocking().map(Holds::Shared)
                }
                [one] => settle!(self.client.write(name(one))).blocking().map(Holds::Alone),
                _ => {
                    let all = self.client.acquire_all(resources.iter().map(|one| name(*one)));
                    settle!(all).blocking().map(Holds::Alone)
                }
            };
            match held {
                Ok(lease) => {
                    let writer = self.hold(&resources, asked, now(), lease, register.as_mut());
                    // A writer that had it alone until now shares it from here on.
                    if let Some((lease, since)) = writer {
                        self.read_on(&resources, since, lease, register.as_mut());
                    }
                }
                Err(error) => self.count(counted(error)),
            }
        }
    }

    pub(crate) fn say(&self, event: Event) {
        (self.write_down)(event);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, count: Count) {
        (self.write_down)(Event::Count(count));
    }

    /// Writes to the register, or reads it: whether it took that, and whether the lease held behind it.
    pub(crate) fn act(
        &self,
        register: &mut Register,
        resource: usize,
        token: u64,
        lease: &Holds,
    ) -> (bool, bool) {
        let (worker, reads, before) = (self.number, lease.reads(), now());
        let accepted = if reads {
            register.read(resource, token)
        } else {
            register.write(resource, token, !self.orders.careless)
        };
        let (after, held) = (now(), lease.check().is_ok());
        let effect = Effect { worker, resource, reads, token, before, after, accepted, held };
        (self.write_down)(Event::Effect(effect));
        (accepted, held)
    }

    /// Goes on as a reader; `since` is when it stopped being a writer.
    fn read_on(
        &self,
        resources: &[usize],
        since: Duration,
        lease: Lease,
        register: Option<&mut Register>,
    ) {
        let reads = if self.orders.wants == Wants::Unheld {
            let until = since + lease.validity();
            let (owner, token) =
                (lease.owner().to_string(), lease.token().ok().map(FencingToken::get));
            drop(lease.release());
            Holds::Unheld { owner, token, until }
        } else {
            Holds::Shared(lease.downgrade().expect("a lease of one resource"))
        };
        // Others may have had it before this one read, if it was lost by then.
        if reads.check().is_err() {
            self.count(Count::Lost);
            return;
        }
        self.count(Count::ReadsOn);
        self.hold(resources, since, since, reads, register);
    }

    /// Holds a lease for a while and ends it in one of several ways. If its writer reads on, it returns the lease and
    /// since when.
    fn hold(
        &self,
        resources: &[usize],
        asked: Duration,
        start: Duration,
        lease: Holds,
        mut register: Option<&mut Register>,
    ) -> Option<(Lease, Duration)> {
        // Read after the start, so that the sum never lies beyond the true end.
        let mut until = start + lease.validity();
        let (token, reads) = (lease.token(), lease.reads());
        let (owner, worker) = (lease.owner(), self.number);
        let held = |resource: &usize, end: Duration, kept: Duration| {
            let (owner, resource) = (owner.clone(), *resource);
            Held { owner, worker, resource, reads, token, asked, start, end, kept }
        };
        // A worker that is killed has lost it. The time for which no one gets it counts from the lease's end; if that
        // was before the start, it is not known when.
        let promised = if until > start { self.orders.wants.promised() } else { Duration::ZERO };
        let granted = |one| (self.write_down)(Event::Granted(held(one, until, promised)));
        resources.iter().for_each(granted);
        let dice = rand::random::<u8>();
        let pause = match dice {
            // One in 256 for too long.
            1..4 | 8..=255 if self.orders.brief => MS / 2,
            _ if self.orders.wants.is_brisk() => MS / 10,
            // Now and then it outlives its ttl, as a holder that hangs would, or one that is renewed.
            0..4 => self.orders.ttl + 50 * MS,
            4..32 => 30 * MS,
            _ if self.orders.wants == Wants::Permits => MS / 2,
            _ => 2 * MS,
        };
        let work_ends = now() + pause.mul_f64(random().mul_add(0.25, 0.75));
        let mut lost = false;
        loop {
            // It holds what the latest look promised, whatever happens to the renewals.
            let looked = now();
            match lease.check() {
                Ok(validity) => until = until.max(looked + validity),
                Err(_) => lost = true,
            }
            if lost && !self.orders.careless {
                break;
            }
            // The effect is on its way. A worker stopped meanwhile is late when it goes on.
            let left = work_ends.saturating_sub(now());
            std::thread::sleep(left.min(20 * MS));
            if let (Some(register), Some(token)) = (register.as_deref_mut(), token) {
                let mut all_accepted = true;
                for resource in resources.iter().copied() {
                    let (accepted, held) = self.act(register, resource, token, &lease);
                    all_accepted &= accepted;
                    lost |= !accepted && !held;
                }
                if !all_accepted {
                    break;
                }
            }
            if now() >= work_ends {
                break;
            }
        }
        let now = now();
        let end = if self.orders.careless { now } else { now.min(until) };
        if lost {
            self.count(Count::Lost);
        }
        // A lost lease that is dropped is not released. Where the keys were gone nothing keeps others out.
        let by_time = lease.check().is_err_and(|lost| lost.reason != LossReason::Gone);
        let is_kept = lost && by_time && dice.is_multiple_of(4);
        let kept = if is_kept { promised } else { Duration::ZERO };
        // Told before the release: of a worker that is killed the record must tell whether it can have released.
        resources.iter().for_each(|one| (self.write_down)(Event::Held(held(one, end, kept))));
        let lease = match lease {
            Holds::Alone(lease)
                if self.orders.wants.may_read() && !lost && rand::random_ratio(1, 3) =>
            {
                return Some((lease, now));
            }
            lease => lease,
        };
        match dice % 4 {
            0 => drop(lease),
            1 => drop(lease.release()),
            _ => {
                let released = lease.release().map(futures::executor::block_on);
                if released.is_some_and(|released| released.is_err()) {
                    self.count(Count::ReleaseUnconfirmed);
                }
            }
        }
        None
    }
}

/// Looks who leads, over and over.
pub(crate) fn watch(client: &Redlock, ttl: Duration, write_down: impl Fn(Event)) {
    let mut observer = client.election("chaos").ttl(ttl).observe();
    loop {
        let asked = now();
        match observer.blocking_changed() {
            Ok(Observed::Leads(leader)) => {
                let worker = leader.text.to_string().parse().expect("the number of a worker");
                // Of one that has been killed another process takes the place.
                let observer = std::process::id();
                let term = leader.term.get();
                write_down(Event::Seen(Seen { observer, worker, term, asked }));
            }
            Ok(_) => {}
            // The client has been closed.
            Err(_) => return,
        }
    }
}

/// From zero to one.
fn random() -> f64 {
    f64::from(rand::random::<u8>()) / 255.0
}

/// Workers in this process.
pub(crate) struct Workload {
    record: Record,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Starts `workers` threads; the i-th uses the (i modulo n)-th of the n clients.
    pub(crate) fn start(clients: &[Redlock], workers: usize, ttl: Duration) -> Self {
        let (record, stop) = (Record::default(), Arc::<AtomicBool>::default());
        let spawn = |number: usize| {
            let record = record.clone();
            let worker = Worker {
                number,
                orders: Orders {
                    ttl,
                    register: None,
                    careless: false,
                    brief: false,
                    wants: Wants::One,
                },
                client: clients[number % clients.len()].clone(),
                write_down: move |event| record.lock().take(event),
                stop: Arc::clone(&stop),
            };
            std::thread::spawn(move || worker.work())
        };
        let workers = (0..workers).map(spawn).collect();
        Self { record, stop, workers }
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    /// Ends the work and returns what was recorded.
    pub(crate) fn stop(self) -> History {
        self.stop.store(true, Ordering::Relaxed);
        self.workers.into_iter().for_each(|worker| worker.join().expect("a worker panicked"));
        std::mem::take(&mut *self.record.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use quorlock::node::MemoryNode;

    use super::{super::checker, *};

    /// Leases as of a process that was stopped between the grant and the moment in which its thread heard of it. Others
    /// get each when the delay is over, which counts from an end that the process did not see.
    #[test]
    fn what_was_over_before_it_was_seen_is_not_said_to_be_kept_from_then_on() {
        let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
        let client = Redlock::builder().ttl(SECOND).max_ttl(SECOND).danger_skip_quarantine();
        let client = client.nodes(nodes).blocking_connect().unwrap();
        let history = Mutex::new(History::default());
        // The record of a grant, which later records replace.
        let granted = Mutex::new(Vec::new());
        let worker = |number: usize, wants: Wants| Worker {
            number,
            orders: Orders { ttl: 50 * MS, register: None, careless: false, brief: true, wants },
            client: client.clone(),
            write_down: |event: Event| {
                if let Event::Granted(held) = &event {
                    granted.lock().unwrap().push(held.clone());
                }
                history.lock().unwrap().take(event);
            },
            stop: Arc::default(),
        };
        // In as many ways as leases end, and often enough for each.
        let acquire = |resource: usize| {
            let request = client.acquire(name(resource)).ttl(50 * MS).lock_delay(DELAY);
            (resource, now(), request.without_renewal().blocking().unwrap())
        };
        let late: Vec<_> = (0..64).map(acquire).collect();
        // The last of them is over, and nobody else has one yet.
        late.iter().for_each(|(_, _, lease)| {
            futures::executor::block_on(lease.lost());
        });
        std::thread::sleep(DELAY / 2);
        let stopped = worker(0, Wants::Delayed);
        for (resource, asked, lease) in late {
            stopped.hold(&[resource], asked, now(), Holds::Alone(lease), None);
        }
        let next = worker(1, Wants::One);
        for resource in 0..64 {
            let asked = now();
            let lease = client.acquire(name(resource)).blocking().unwrap();
            next.hold(&[resource], asked, now(), Holds::Alone(lease), None);
        }
        let history = history.lock().unwrap();
        assert_eq!(history.leases.len(), 128);
        let found = checker::too_soon(&history.leases);
        assert!(found.is_empty(), "{} of them: {:#?}", found.len(), found.first());
        let granted = granted.into_inner().unwrap();
        for held in granted.iter().chain(&history.leases).filter(|held| held.worker == 0) {
            assert_eq!(held.kept, Duration::ZERO, "{held:?}");
        }
    }
}
