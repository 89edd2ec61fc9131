//! An adder: over and over it takes the lock of a set, reads the set, sleeps, and writes it with one element more.
//!
//! It does what the users of each lock are told to do, and no more: with rslock the work stands in `using`, which renews; ours
//! is checked right before the write, or bears its token to a store that compares. It judges nothing.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use quorlock::{Lease, Redlock, protocol::FencingToken};
use rslock::LockManager;

use super::{
    super::{
        MS, SECOND,
        checker::Held,
        record::{Addition, AdditionEnd, Event, now},
        wants::Stand,
        worker::{counted, name},
    },
    Guard,
    store::Store,
};

/// A turn in so many is a long one.
const LONG: u32 = 8;
/// How long it leaves the lock alone at most: otherwise rslock, which asks now and then, would not get it.
const REST: Duration = Duration::from_millis(60);

pub(super) struct Adder<'a> {
    pub(super) number: usize,
    /// The set, and its lock.
    pub(super) resource: usize,
    pub(super) stand: Stand,
    pub(super) store: Store,
    pub(super) ttl: Duration,
    pub(super) stop: &'a AtomicBool,
    pub(super) turns: u64,
}

impl Adder<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && (self.stand == Stand::Nowhere || self.turns == 0)
    }

    fn tell(&self, event: &Event) {
        // The runner may have begun a line.
        println!("\n{event}");
    }

    /// Adds under leases of this client.
    pub(super) fn by_quorlock(&mut self, client: &Redlock) {
        while self.goes_on() {
            let asked = now();
            match client.acquire(name(self.resource)).wait(3 * SECOND).blocking() {
                Ok(lease) => {
                    self.under(&lease, asked);
                    let _ = lease.blocking_release();
                    std::thread::sleep(self.rest());
                }
                Err(error) => self.tell(&Event::Count(counted(error))),
            }
        }
    }

    fn under(&mut self, lease: &Lease, asked: Duration) {
        let start = now();
        let until = Cell::new(start + lease.validity());
        let guard = Guard::of(self.resource);
        let token = lease.token().ok().map(FencingToken::get);
        let fence = token.filter(|_| guard == Guard::Fenced);
        let held = |end: Duration| Held {
            owner: lease.owner().to_string(),
            worker: self.number,
            resource: self.resource,
            reads: false,
            token,
            asked,
            start,
            end,
            kept: Duration::ZERO,
        };
        // It holds what the latest look promised.
        let check = || {
            let looked = now();
            let checked = lease.check();
            if let Ok(left) = checked {
                until.set(until.get().max(looked + left));
            }
            guard == Guard::Fenced || checked.is_ok()
        };
        let set = self.store.read(self.resource, fence);
        // An adder that is to be stopped after its look does not look again.
        let looks_early = self.stand == Stand::Checked;
        let holds = !looks_early || check();
        let told = now();
        self.tell(&Event::Granted(held(until.get())));
        std::thread::sleep(self.pause());
        self.stand(told);
        let end = match set {
            Some(_) if !holds || !looks_early && !check() => AdditionEnd::NotSent,
            Some(set) if self.store.write(self.resource, fence, &self.with_one_more(&set)) => {
                AdditionEnd::Acknowledged
            }
            _ => AdditionEnd::Refused,
        };
        self.tell(&Event::Held(held(now().min(until.get()))));
        self.ended(end);
    }

    /// Adds under locks of rslock, in its own form that renews them.
    pub(super) async fn by_rslock(&mut self, manager: &LockManager) {
        let (name, ttl) = (name(self.resource), self.ttl);
        while self.goes_on() {
            let asked = now();
            let work = async || {
                let set = self.store.read(self.resource, None).expect("nobody is refused");
                let start = now();
                let owner = format!("{:032x}", rand::random::<u128>());
                self.tell(&Event::Granted(Held {
                    owner,
                    worker: self.number,
                    resource: self.resource,
                    reads: false,
                    token: None,
                    asked,
                    start,
                    end: start,
                    kept: Duration::ZERO,
                }));
                tokio::time::sleep(self.pause()).await;
                self.stand(start);
                let text = self.with_one_more(&set);
                assert!(self.store.write(self.resource, None, &text), "nobody is refused");
            };
            let end = match manager.using(name.as_bytes(), ttl, work).await {
                Ok(()) => AdditionEnd::Acknowledged,
                Err(_) => AdditionEnd::NotSent,
            };
            self.ended(end);
            tokio::time::sleep(self.rest()).await;
        }
    }

    fn element(&self) -> u64 {
        self.number as u64 * 1_000_000 + self.turns
    }

    fn with_one_more(&self, set: &str) -> String {
        format!("{set},{}", self.element())
    }

    fn ended(&mut self, end: AdditionEnd) {
        let (worker, resource, element) = (self.number, self.resource, self.element());
        self.tell(&Event::Added(Addition { worker, resource, element, end }));
        self.turns += 1;
    }

    fn rest(&self) -> Duration {
        if self.goes_on() { REST.mul_f64(rand::random()) } else { Duration::ZERO }
    }

    /// For how long it sleeps between reading and writing: some milliseconds, and now and then up to the ttl.
    fn pause(&self) -> Duration {
        if self.stand != Stand::Nowhere {
            return Duration::ZERO;
        }
        let most = if rand::random_ratio(1, LONG) { self.ttl } else { 20 * MS };
        most.mul_f64(rand::random())
    }

    /// Stays here until this process has been stopped for longer than the ttl, if it is to be. It may have been stopped
    /// as soon as it had `told` that it holds the lock.
    fn stand(&self, told: Duration) {
        let (mut stopped, mut last) = (self.stand == Stand::Nowhere, told);
        while !stopped {
            std::thread::sleep(MS);
            // From one look to the next: wherever it was stopped in between.
            let now = now();
            stopped = now - last > self.ttl;
            last = now;
        }
    }
}
