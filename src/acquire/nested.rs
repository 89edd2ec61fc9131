//! Re-entrant leases: the requests of one handle share a lease.
//!
//! It decides which requests share a lease. An inner acquire takes no key, and its token is the lease's: a larger one
//! would shut out the outer holder. A request that cannot share stands in line as any other, and shares once it can. It
//! must never let a request join a lease whose last holder has let go of it.

use std::{
    collections::HashMap,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use futures::future::select;
use tokio::sync::Notify;

use crate::{
    engine::{AcquireSpec, Engine, HeldTerm, WeakTerm},
    lock::Lock,
    shield::shield,
};

/// The map is pruned no sooner than at this size.
const FEW: usize = 32;

/// The resources of a handle, with some that it no longer holds.
#[derive(Default)]
pub(crate) struct Handle(Lock<Places>);

#[derive(Default)]
struct Places {
    by_name: HashMap<Box<[u8]>, Arc<Place>>,
    /// The size at which places are removed that are neither held nor being acquired.
    prune_at: usize,
}

/// One resource of a handle.
#[derive(Default)]
pub(super) struct Place {
    current: Lock<Option<Current>>,
    /// Tells the requests that wait of another current lease.
    changed: Notify,
}

/// A lease that can be shared while somebody holds it. It keeps neither the lease nor its grant, and dropping it runs no user
/// code: that happens under the locks here.
struct Current {
    held: Weak<HeldTerm>,
    /// Checked before `held` is upgraded: a share of the lease that is given back at once might be the last.
    term: WeakTerm,
}

/// What a request asks of the lease that it shares.
#[derive(Clone, Copy)]
struct Wants {
    least: Duration,
    lock_delay: Duration,
    hold_at_least: Option<Duration>,
}

/// A request's share of its handle's lease, once there is one. It runs in its own process alone.
pub(super) struct Sharing {
    place: Arc<Place>,
    /// The lock only makes it `Sync`, and is never taken.
    pub(super) shares: Lock<Shares>,
}

type Shares = Pin<Box<dyn Future<Output = Option<Arc<HeldTerm>>> + Send>>;

impl Sharing {
    /// The request has acquired the resource itself: the other requests of the handle share this lease from now on.
    pub(super) fn won(self, held: &Arc<HeldTerm>) {
        // One that was picked up late may be over, and another request of the handle may have acquired since.
        if held.term.check().is_err() {
            return;
        }
        let current = Current { held: Arc::downgrade(held), term: held.term.weak() };
        *self.place.current.lock() = Some(current);
        self.place.changed.notify_waiters();
    }
}

impl Handle {
    /// How many resources the handle knows. `None` while another thread holds the lock; in a forked child that may be
    /// for ever.
    pub(crate) fn resources(&self) -> Option<usize> {
        self.0.try_lock().map(|places| places.by_name.len())
    }

    /// The share of a request of this handle. `None` in a forked child, where a thread that does not exist there may hold the
    /// locks.
    pub(super) fn sharing(&self, engine: &Arc<Engine>, asked: &AcquireSpec) -> Option<Sharing> {
        if !engine.process().is_here() {
            return None;
        }
        let round = &asked.round;
        let wants = Wants {
            least: round.min_validity,
            lock_delay: round.lock_delay,
            hold_at_least: round.hold_at_least,
        };
        let place = self.places().place(round.target.resource().as_bytes());
        let shares = share(Arc::clone(&place), wants);
        let shares = Lock::new(Box::pin(engine.process().awaits(shield(shares))) as Shares);
        Some(Sharing { place, shares })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock()
    }
}

/// Waits until the handle has a lease that the request can share.
async fn share(place: Arc<Place>, wants: Wants) -> Arc<HeldTerm> {
    loop {
        let mut changed = pin!(place.changed.notified());
        // Registered before it is looked at, so that no change in between is missed.
        changed.as_mut().enable();
        let short = match place.share(wants) {
            Ok(held) => return held,
            Err(short) => short,
        };
        let Some(extensions) = short else {
            changed.await;
            continue;
        };
        let mut extended = pin!(extensions.notified());
        extended.as_mut().enable();
        if let Ok(held) = place.share(wants) {
            return held;
        }
        select(changed, extended).await;
    }
}

impl Place {
    /// The lease, if it has as much left as the request wants, and at least as long a lock-delay. Where only time is
    /// missing, the error tells of the lease's extensions.
    fn share(&self, wants: Wants) -> Result<Arc<HeldTerm>, Option<Arc<Notify>>> {
        let (held, term) = match &*self.current.lock() {
            Some(Current { held, term }) => (Weak::clone(held), term.clone()),
            None => return Err(None),
        };
        // No lock is held from here on: the last handle on a grant runs user code when it is dropped.
        let term = term.upgrade().ok_or(None)?;
        let left = term.check().map_err(|_| None)?;
        if left.is_zero() || term.grant().lock_delay() < wants.lock_delay {
            return Err(None);
        }
        if left < wants.least {
            return Err(term.grant().extensions());
        }
        let held = held.upgrade().ok_or(None)?;
        // Checked again with a share of it: a shutdown may have ended it before, and then the last share gives it back.
        term.check().map_err(|_| None)?;
        if let Some(least) = wants.hold_at_least {
            held.hold_for(least);
        }
        Ok(held)
    }

    fn is_held(&self) -> bool {
        self.current.lock().as_ref().is_some_and(|current| current.held.strong_count() > 0)
    }
}

impl Places {
    /// The place of a resource. It stays while the resource is held or being acquired.
    fn place(&mut self, resource: &[u8]) -> Arc<Place> {
        if let Some(place) = self.by_name.get(resource) {
            return Arc::clone(place);
        }
        // Pruned only when it has doubled, so that each acquire pays little however much is held.
        if self.by_name.len() >= self.prune_at {
            self.by_name.retain(|_, place| Arc::strong_count(place) > 1 || place.is_held());
            self.prune_at = self.by_name.len().saturating_mul(2).max(FEW);
        }
        Arc::clone(self.by_name.entry(resource.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_acquires_is_forgotten_when_the_map_has_doubled_and_not_before() {
        let mut places = Places::default();
        let name = |number: usize| number.to_string().into_bytes();
        let kept: Vec<Arc<Place>> = (0..FEW).map(|number| places.place(&name(number))).collect();
        // Full: it is pruned, and everything is being acquired.
        drop(places.place(b"first"));
        for number in FEW + 1..2 * FEW {
            drop(places.place(&name(number)));
            assert_eq!(places.by_name.len(), number + 1, "looked through too soon");
        }
        drop(places.place(b"last"));
        assert_eq!(places.by_name.len(), FEW + 1);
        assert!(kept.iter().all(|place| Arc::strong_count(place) == 2));
    }
}
