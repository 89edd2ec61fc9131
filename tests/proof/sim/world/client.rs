//! One client: it acquires, holds, extends, gives up, drops and releases at random, and writes down what it held.

use std::{
    future::IntoFuture,
    pin::{Pin, pin},
    sync::Mutex,
    time::Duration,
};

use futures::future::{Either, select};
use quorlock::{
    AcquireError, ExtendError, Lease, LeaseLost, LossReason, Permit, ReadLease, Redlock, Release,
    protocol::{Drift, FencingToken},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use super::Record;
use crate::{
    MS, SECOND,
    invariants::Hold,
    setup::{Mode, Setup},
};

/// What a client holds.
enum Holds {
    Alone(Lease),
    Shared(ReadLease),
}

impl Holds {
    fn owner(&self) -> String {
        match self {
            Self::Alone(lease) => lease.owner().to_string(),
            Self::Shared(lease) => lease.owner().to_string(),
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            Self::Alone(lease) => lease.token().ok().map(FencingToken::get),
            Self::Shared(lease) => Some(lease.token().get()),
        }
    }

    async fn lost(&self) -> LeaseLost {
        match self {
            Self::Alone(lease) => lease.lost().await,
            Self::Shared(lease) => lease.lost().await,
        }
    }

    async fn extend(&self) -> Result<Duration, ExtendError> {
        match self {
            Self::Alone(lease) => lease.extend().await,
            Self::Shared(lease) => lease.extend().await,
        }
    }

    fn release(self) -> Release {
        match self {
            Self::Alone(lease) => lease.release(),
            Self::Shared(lease) => lease.release(),
        }
    }
}

/// So often a client asks for something.
pub(super) const REQUESTS: usize = 15;

/// One client: it acquires, holds, extends, gives up, drops and releases at random.
pub(super) async fn live(
    client: usize,
    setup: Setup,
    requests: usize,
    redlock: &Redlock,
    runtime: &SimRuntime,
    record: &Mutex<Record>,
) {
    let ttls = [100 * MS, 300 * MS, SECOND, setup.longest_ttl];
    for _ in 0..requests {
        runtime.sleep(Duration::from_micros(runtime.below(20_000))).await;
        let resources = wanted(setup, runtime);
        let resource = resources.join(" ");
        let ttl = ttls[usize::try_from(runtime.below(4)).unwrap()];
        let reads = setup.readers && runtime.chance(0.7);
        macro_rules! settle {
            ($request:expr) => {{
                let request = $request.ttl(ttl).wait(runtime.below(300) as u32 * MS);
                if runtime.chance(0.3) { request.without_renewal() } else { request }
            }};
        }
        let request: Pin<Box<dyn Future<Output = Result<Holds, AcquireError>> + Send>> =
            match &*resources {
                _ if setup.permits.is_some() => {
                    let permits = setup.permits.unwrap();
                    let semaphore = redlock.semaphore("s", permits).unwrap();
                    let request = settle!(semaphore.acquire()).into_future();
                    Box::pin(async { request.await.map(Permit::into_lease).map(Holds::Alone) })
                }
                [one] if reads => {
                    let request = settle!(redlock.read(one)).into_future();
                    Box::pin(async { request.await.map(Holds::Shared) })
                }
                [one] => {
                    let request = settle!(redlock.acquire(one)).into_future();
                    Box::pin(async { request.await.map(Holds::Alone) })
                }
                all => {
                    let request = settle!(redlock.acquire_all(all)).into_future();
                    Box::pin(async { request.await.map(Holds::Alone) })
                }
            };
        let asked = runtime.now();
        let answer = if runtime.chance(0.2) {
            let limit = runtime.sleep(Duration::from_micros(runtime.below(10_000)));
            match select(request, limit).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => {
                    runtime.note(format_args!("client {client} gives up on {resource}"));
                    record.lock().unwrap().cancelled += 1;
                    continue;
                }
            }
        } else {
            request.await
        };
        let lease = match answer {
            Ok(lease) => lease,
            Err(error) => {
                runtime.note(format_args!("client {client} fails on {resource}: {error}"));
                assert!(!matches!(error, AcquireError::RuntimeEnded | AcquireError::Closed));
                record.lock().unwrap().failures += 1;
                continue;
            }
        };
        let mut from = runtime.now();
        let resources = match &lease {
            // Of two slots.
            Holds::Alone(lease) if setup.permits.is_some() => {
                vec![if lease.resource().as_bytes() == b"s/0" { "s/0" } else { "s/1" }]
            }
            _ => resources,
        };
        let (mut owner, token) = (lease.owner(), lease.token());
        assert_eq!(token.is_some(), setup.mode != Mode::Classic);
        runtime.note(format_args!("client {client} holds {resource} as {owner}, token {token:?}"));
        // Most hold it for a moment, and some for longer than it lasts without a renewal.
        let longest = if runtime.chance(0.1) { 2 * ttl } else { ttl.min(30 * MS) };
        let work = runtime.sleep(Duration::from_micros(runtime.below(longest.as_micros() as u64)));
        let lost = match select(pin!(lease.lost()), work).await {
            Either::Left((lost, _)) => Some(lost),
            Either::Right(_) if runtime.chance(0.2) => lease.extend().await.err().and_then(lost_by),
            Either::Right(_) => None,
        };
        // It is told of the loss before the validity ends, so all of this time counts.
        let mut until = runtime.now();
        runtime.note(format_args!("client {client} held {resource}: {lost:?}"));
        let (mut lease, mut lost, mut reads, mut asked) = (lease, lost, reads, asked);
        if setup.readers && lost.is_none() && runtime.chance(0.5) {
            lease = match lease {
                Holds::Alone(writer) => {
                    // What it had alone is over, and what it shares begins.
                    let (resource, kept_out) = (resource.clone(), None);
                    record.lock().unwrap().history.push(Hold {
                        client,
                        resource,
                        owner: owner.clone(),
                        reads,
                        token,
                        asked,
                        from,
                        until,
                        kept_out,
                    });
                    (owner, reads) = (format!("{owner}, lowered"), true);
                    (asked, from) = (until, until);
                    Holds::Shared(writer.downgrade().unwrap())
                }
                reader @ Holds::Shared(_) => reader,
            };
            assert_eq!(lease.token(), token);
            runtime.note(format_args!("client {client} reads {resource} as {owner}"));
            let work =
                runtime.sleep(Duration::from_micros(runtime.below(2 * longest.as_micros() as u64)));
            lost = match select(pin!(lease.lost()), work).await {
                Either::Left((lost, _)) => Some(lost),
                Either::Right(_) => None,
            };
            until = runtime.now();
            runtime.note(format_args!("client {client} has read {resource}: {lost:?}"));
        }
        let end = runtime.below(3);
        // Keys that are gone keep nobody out, and a release says that nothing is on its way.
        let is_by_time = lost.is_some_and(|lost| lost.reason != LossReason::Gone);
        let is_left = is_by_time && end == 0 && !setup.lock_delay.is_zero();
        let drift = Drift::default().of(ttl + setup.lock_delay);
        let kept_out = is_left.then(|| until.saturating_add(setup.lock_delay - drift));
        {
            let mut record = record.lock().unwrap();
            record.lost += usize::from(lost.is_some());
            record.history.extend(resources.iter().map(|resource| {
                let (resource, owner) = ((*resource).to_owned(), owner.clone());
                Hold { client, resource, owner, reads, token, asked, from, until, kept_out }
            }));
        }
        let released = match end {
            _ if is_left && setup.releases_lost => lease.release().await,
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
}

/// What a client wants next, in whatever order.
fn wanted(setup: Setup, runtime: &SimRuntime) -> Vec<&'static str> {
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
