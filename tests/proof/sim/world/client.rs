//! One task of a client: it acquires, holds, extends, gives up, drops and releases at random, and writes down what it
//! held.
//!
//! It does what `docs/safety.md` asks of a holder: it calls `check` before each effect, and stops when it is told of a
//! loss. So what counts as held is the time up to the last moment at which it could have had an effect.

use std::{
    future::IntoFuture,
    pin::{Pin, pin},
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    AcquireError, ExtendError, LeaseLost, LossReason, Permit, Redlock, protocol::Timestamp,
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use super::{
    account::{Holding, Open},
    holds::Holds,
    record::Notes,
};
use crate::{
    MS, SECOND,
    invariants::told,
    machine::Machine,
    node::SimServer,
    reached::*,
    setup::{Flaw, Mode, Setup},
};

/// So often a client asks for something.
pub(super) const REQUESTS: usize = 15;

/// A task of a client's process.
pub(super) struct Worker {
    pub(super) client: usize,
    pub(super) setup: Setup,
    pub(super) longest_ttl: Duration,
    pub(super) redlock: Redlock,
    pub(super) machine: Machine,
    pub(super) notes: Notes,
    pub(super) servers: Vec<SimServer>,
}

type Request = Pin<Box<dyn Future<Output = Result<Holds, AcquireError>> + Send>>;

/// What a request is for.
struct Wish {
    resources: Vec<&'static str>,
    reads: bool,
    ttl: Duration,
    /// It is held for so long at the most.
    longest: Duration,
    /// Kept as nobody's for so long behind it.
    linger: Option<Duration>,
    /// Others are kept out for so long at the least.
    hold: Option<Duration>,
}

impl Worker {
    pub(super) fn runtime(&self) -> &SimRuntime {
        &self.notes.runtime
    }

    /// Asks again and again, until the client has asked often enough, or this life is over.
    pub(super) async fn live(&self, mut requests: usize) {
        while requests > 0 && self.notes.takes_on(self.client) {
            let done = REQUESTS - requests;
            requests -= 1;
            self.sleep(Duration::from_micros(self.runtime().below(self.pause_us()))).await;
            let wish = self.wish(done);
            if let Some((lease, asked)) = self.ask(&wish).await {
                self.hold(wish, lease, asked).await;
            }
        }
    }

    /// Where grants are to go on inside a process, others come only now and then: a grant is not handed on for long while they
    /// wait.
    fn pause_us(&self) -> u64 {
        if self.setup.varied && self.client > 0 { 1_000_000 } else { 20_000 }
    }

    fn longest_wait_ms(&self) -> u64 {
        if self.setup.varied && self.client == 0 { 8_000 } else { 300 }
    }

    /// Sleeps by the client's own clock.
    async fn sleep(&self, time: Duration) {
        let until = self.machine.now().saturating_add(time);
        self.machine.sleep_until(until).await;
    }

    fn wish(&self, done: usize) -> Wish {
        let (runtime, setup) = (self.runtime(), &self.setup);
        let resources = if setup.varied { vec!["a"] } else { wanted(setup, runtime) };
        let longest = self.longest_ttl;
        // One after the other asks for more, and no more than twice as much, so that a grant goes from each to the next.
        let shorter = 4 - (done % 5) as i32;
        let ttl = if setup.varied {
            longest.mul_f64(0.53_f64.powi(shorter))
        } else {
            let ttls = [100 * MS, 300 * MS, SECOND, longest];
            ttls[usize::try_from(runtime.below(4)).unwrap()].min(longest)
        };
        let reads = setup.readers && runtime.chance(0.7);
        // Most hold it for a moment, and some for longer than it lasts without a renewal.
        let longest = match setup.long_hold {
            Some(long) if runtime.chance(0.2) => long,
            _ if setup.varied && shorter == 0 && runtime.chance(0.7) => ttl + ttl / 2,
            _ if runtime.chance(0.1) => 2 * ttl,
            _ => ttl.min(30 * MS),
        };
        let part = |chance| {
            let drawn = setup.varied && runtime.chance(chance);
            drawn.then(|| ttl.mul_f64(runtime.below(100) as f64 / 100.0))
        };
        let (linger, hold) = (part(0.5), part(0.15).filter(|_| !reads));
        Wish { resources, reads, ttl, longest, linger, hold }
    }

    fn request(&self, wish: &Wish) -> Request {
        let (runtime, ttl) = (self.runtime(), wish.ttl);
        macro_rules! settle {
            ($request:expr) => {{
                let wait = runtime.below(self.longest_wait_ms()) as u32 * MS;
                let request = $request.ttl(ttl).wait(wait);
                let renews = wish.longest > 2 * ttl;
                match runtime.below(10) {
                    0..5 if self.setup.varied => request.without_renewal(),
                    _ if self.setup.varied => request,
                    0..3 if !renews => request.without_renewal(),
                    3 if !renews => request.max_hold(ttl),
                    4 if !renews => request.heartbeat_within(ttl),
                    _ => request,
                }
            }};
        }
        match &*wish.resources {
            _ if self.setup.permits.is_some() => {
                let semaphore = self.redlock.semaphore("s", self.setup.permits.unwrap()).unwrap();
                let request = settle!(semaphore.acquire()).into_future();
                Box::pin(async { request.await.map(Permit::into_lease).map(Holds::Alone) })
            }
            [one] if wish.reads => {
                let request = settle!(self.redlock.read(one)).into_future();
                Box::pin(async { request.await.map(Holds::Shared) })
            }
            [one] => {
                let request = settle!(self.redlock.acquire(one));
                let request = request.linger(wish.linger.unwrap_or_default());
                let request = match wish.hold {
                    Some(least) => request.hold_at_least(least),
                    None => request,
                }
                .into_future();
                Box::pin(async { request.await.map(Holds::Alone) })
            }
            all => {
                let request = settle!(self.redlock.acquire_all(all)).into_future();
                Box::pin(async { request.await.map(Holds::Alone) })
            }
        }
    }

    /// Asks for it, and may give up. Returns the lease, and when it was asked for.
    async fn ask(&self, wish: &Wish) -> Option<(Holds, Timestamp)> {
        let (client, runtime, reached) = (self.client, self.runtime(), &self.notes.reached);
        let resource = wish.resources.join(" ");
        let request = self.request(wish);
        let asked = runtime.now();
        let waits = self.notes.waits(&wish.resources);
        let asks = self.machine.asks();
        let answer = if runtime.chance(0.2) {
            let limit = Box::pin(self.sleep(Duration::from_micros(runtime.below(10_000))));
            match select(request, limit).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => {
                    runtime.note(format_args!("client {client} gives up on {resource}"));
                    reached.hit(S31);
                    self.notes.record().cancelled += 1;
                    return None;
                }
            }
        } else {
            request.await
        };
        drop(asks);
        reached.hit_if(self.machine.stood_still(asked) > wish.ttl, S3);
        match answer {
            Ok(lease) => {
                reached.hit_if(waits.others() >= 3, S30);
                reached.hit_if(self.machine.wall_is_far_off(), S35);
                reached.hit_if(self.setup.mixed, S28);
                reached.hit_if(self.servers.iter().any(SimServer::is_paused), S37);
                Some((lease, asked))
            }
            Err(error) => {
                runtime.note(format_args!("client {client} fails on {resource}: {error}"));
                assert!(!matches!(error, AcquireError::RuntimeEnded | AcquireError::Closed));
                self.notes.record().failures += 1;
                None
            }
        }
    }

    async fn hold(&self, wish: Wish, lease: Holds, asked: Timestamp) {
        let (client, runtime) = (self.client, self.runtime());
        let from = runtime.now();
        let resources = match &lease {
            // Of two slots.
            Holds::Alone(lease) if self.setup.permits.is_some() => {
                vec![if lease.resource().as_bytes() == b"s/0" { "s/0" } else { "s/1" }]
            }
            _ => wish.resources.clone(),
        };
        let resource = resources.join(" ");
        let (owner, token) = (lease.owner(), lease.token());
        assert_eq!(token.is_some(), self.setup.mode != Mode::Classic);
        let (believed, seen) = (from, vec![see(&lease, false)]);
        let ends = self.end_of(seen[0]);
        let holding = Holding {
            resources,
            owner,
            token,
            reads: wish.reads,
            asked,
            from,
            believed,
            ends,
            seen,
            is_downgraded: false,
            // By clocks that may be a hundredth apart.
            kept_until: wish.hold.map(|hold| from.saturating_add(hold.mul_f64(0.98))),
        };
        let mut holding = Open::new(self, holding);
        let (owner, left) = (&holding.owner, holding.seen[0].left);
        runtime.note(format_args!(
            "client {client} holds {resource} as {owner}, token {token:?}, for {left:?}"
        ));
        self.granted(&mut holding);
        let held = self.machine.holds();
        let mut lost = self.work(&lease, &mut holding, wish.longest).await;
        let mut lease = lease;
        let downgrades = self.setup.readers && lost.is_none() && runtime.chance(0.5)
            || self.setup.varied && lost.is_none() && runtime.chance(0.1);
        if downgrades {
            lease = self.downgrade(lease, &mut holding);
            lost = self.work(&lease, &mut holding, 2 * wish.longest).await;
        }
        let end = runtime.below(3);
        // Keys that are gone keep nobody out, and a release says that nothing is on its way.
        let is_by_time = lost.as_ref().is_some_and(|lost| lost.reason != LossReason::Gone);
        // Readers have none.
        let has_delay = !self.setup.lock_delay.is_zero() && !holding.reads;
        let is_left = is_by_time && end == 0 && has_delay;
        holding.end(lost, is_left.then_some(wish.ttl));
        drop(held);
        let released = match end {
            _ if is_left && self.setup.flaw == Flaw::ReleasesLost => lease.release().await,
            0 => {
                drop(lease);
                Ok(())
            }
            1 => {
                drop(lease.release());
                Ok(())
            }
            _ => lease.release().await,
        };
        runtime.note(format_args!("client {client} lets go of {resource}: {released:?}"));
    }

    /// Counts what there is to count of a grant.
    fn granted(&self, holding: &mut Holding) {
        let reached = &self.notes.reached;
        let mut record = self.notes.record();
        let same = || record.history.iter().filter(|hold| hold.owner == holding.owner);
        let (first, last) = (same().next().cloned(), same().map(|hold| hold.until).max());
        record.promises.lingered += usize::from(last.is_some_and(|last| last < holding.asked));
        if let Some(first) = first {
            reached.hit(S7);
            if !self.setup.excludes {
                // A lease that is handed on counts as asked for when its grant was.
                holding.asked = holding.asked.min(first.asked);
            }
        }
    }

    /// Works under the lease, with a check before each effect. Returns why it was lost, if it was.
    async fn work(
        &self,
        lease: &Holds,
        holding: &mut Holding,
        longest: Duration,
    ) -> Option<LeaseLost> {
        let (client, runtime) = (self.client, self.runtime());
        let resource = holding.resources.join(" ");
        let work = Duration::from_micros(runtime.below(longest.as_micros() as u64));
        let slices = 1 + runtime.below(3) as u32;
        let mut lost = None;
        if self.setup.varied && runtime.chance(0.5) {
            lost = self.extend(lease, 1).await;
        }
        for _ in 0..slices {
            if lost.is_some() {
                break;
            }
            let slice = Box::pin(self.sleep(work / slices));
            if let Either::Left((told, _)) = select(pin!(lease.lost()), slice).await {
                lost = Some(told);
                break;
            }
            let seen = see(lease, false);
            holding.seen.push(seen);
            if seen.left.is_none() {
                // The task that tells of it may not have run yet.
                let patience = Box::pin(self.sleep(MS));
                if let Either::Left((told, _)) = select(pin!(lease.lost()), patience).await {
                    lost = Some(told);
                }
                break;
            }
            (holding.believed, holding.ends) = (runtime.now(), self.end_of(seen));
            lease.heartbeat();
            if runtime.chance(0.3) {
                self.write(lease, holding);
            }
        }
        // An extension in doubt is tried again where more is to follow under the grant.
        let (chance, tries) = if self.setup.varied { (0.9, 4) } else { (0.2, 1) };
        if lost.is_none() && runtime.chance(chance) {
            lost = self.extend(lease, tries).await;
        }
        if lost.is_some() {
            holding.seen.push(see(lease, true));
            if self.setup.flaw == Flaw::GoesOn {
                self.sleep(300 * MS).await;
                (holding.believed, holding.ends) = (runtime.now(), runtime.now());
            }
        }
        runtime.note(format_args!("client {client} held {resource}: {lost:?}"));
        lost
    }

    /// Extends it, and again while that is in doubt. Returns why it was lost, if it was.
    async fn extend(&self, lease: &Holds, tries: usize) -> Option<LeaseLost> {
        for _ in 0..tries {
            // Its answer may come a node timeout behind the end of the lease, so it listens for the loss beside it.
            match select(pin!(lease.lost()), pin!(lease.extend())).await {
                Either::Left((told, _)) => return Some(told),
                Either::Right((Ok(_), _)) => break,
                Either::Right((Err(error), _)) => {
                    self.notes.reached.hit(S8);
                    if let Some(lost) = lost_by(error) {
                        return Some(lost);
                    }
                }
            }
        }
        None
    }

    fn downgrade(&self, lease: Holds, holding: &mut Holding) -> Holds {
        let Holds::Alone(writer) = lease else { return lease };
        let runtime = self.runtime();
        // What it had alone is over, and what it shares begins.
        // Nor are others kept out who read.
        holding.kept_until = None;
        self.write_down(holding, None, None);
        holding.owner.push_str(", downgraded");
        (holding.reads, holding.is_downgraded) = (true, true);
        (holding.asked, holding.from) = (runtime.now(), runtime.now());
        let reader = Holds::Shared(writer.downgrade().unwrap());
        assert_eq!(reader.token(), holding.token);
        // It may have been lost between the last look and this one.
        holding.seen.clear();
        let (client, owner) = (self.client, &holding.owner);
        runtime.note(format_args!("client {client} reads as {owner}"));
        reader
    }

    /// An effect: it reaches the store at once, or when the lease may be over.
    fn write(&self, lease: &Holds, holding: &Holding) {
        let (Some(token), false) = (holding.token, holding.reads) else { return };
        let runtime = self.runtime();
        let signal = match lease {
            Holds::Alone(lease) => lease.signal(),
            Holds::Shared(_) => return,
        };
        let is_flawed = self.setup.flaw == Flaw::WritesUnfenced;
        let (resources, owner) = (holding.resources.clone(), holding.owner.clone());
        let notes = self.notes.clone();
        let arrive = move || {
            for resource in &resources {
                notes.write(resource, (&owner, token), is_flawed, signal.is_lost());
            }
        };
        if runtime.chance(0.8) {
            return arrive();
        }
        let delay = Duration::from_micros(runtime.below(400_000));
        let arrival = runtime.timer(runtime.now().saturating_add(delay));
        runtime.spawn(Box::pin(async move {
            arrival.await;
            arrive();
        }));
    }
}

/// What the holder of a lease sees at this moment.
fn see(lease: &Holds, is_told: bool) -> told::Seen {
    told::Seen { left: lease.check().ok(), is_told }
}

/// What a client wants next, in whatever order.
fn wanted(setup: &Setup, runtime: &SimRuntime) -> Vec<&'static str> {
    if !setup.sets {
        return vec![["a", "b"][usize::try_from(runtime.below(2)).unwrap()]];
    }
    let mut all = vec!["a", "b", "c"];
    for _ in 0..runtime.below(3) {
        all.swap_remove(usize::try_from(runtime.below(all.len() as u64)).unwrap());
    }
    all
}

fn lost_by(error: ExtendError) -> Option<LeaseLost> {
    match error {
        ExtendError::Lost(lost) => Some(lost),
        _ => None,
    }
}
