//! Re-entrant leases: the requests of one handle share a lease.
//!
//! It decides which requests share a lease. An inner acquire asks no node, and its token is the lease's: a larger one
//! would shut out the outer holder. It must never let a request join a lease whose last holder has let go of it.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, Weak},
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Acquire;
use crate::{
    engine::{Acquiring, Engine, HeldTerm, WeakTerm},
    error::AcquireError,
    kind::Kind,
    lock::Lock,
    protocol::Target,
    runtime::Process,
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
struct Place {
    current: Lock<Option<Current>>,
    /// Held by the request that asks the nodes: the others wait for it, and then share.
    turn: Arc<Mutex<()>>,
}

/// A lease that can be shared while somebody holds it. It keeps neither the lease nor its grant, and dropping it runs no user
/// code: that happens under the locks here.
struct Current {
    held: Weak<HeldTerm>,
    /// Checked before `held` is upgraded: a hand on the lease that is given back at once might be the last.
    term: WeakTerm,
}

/// How a request of a handle goes on.
pub(super) enum Begun {
    /// It shares this lease.
    Shares(Arc<HeldTerm>),
    /// It asks the nodes.
    Asks(Acquiring, Turn),
}

/// The turn of the one request of a handle that asks the nodes for a resource.
pub(super) struct Turn {
    process: Process,
    /// `None` once it is over.
    held: Option<(Arc<Place>, OwnedMutexGuard<()>)>,
}

impl Turn {
    /// Lets the other requests of the handle share the lease.
    pub(super) fn won(self, held: &Arc<HeldTerm>) {
        if let Some((place, _)) = &self.held {
            let current = Current { held: Arc::downgrade(held), term: held.term.weak() };
            *place.current.lock() = Some(current);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The copy in a forked child is the parent's: ending it would take a lock that a missing thread may hold, and wake a
        // task of the parent.
        if !self.process.is_here() {
            std::mem::forget(self.held.take());
        }
    }
}

impl Handle {
    /// How many resources the handle knows. `None` while another thread holds the lock; in a forked child that may be
    /// for ever.
    pub(crate) fn resources(&self) -> Option<usize> {
        self.0.try_lock().map(|places| places.by_name.len())
    }

    /// Shares the lease, or waits for the handle's turn and asks the nodes.
    pub(super) async fn begin<K: Kind>(
        self: Arc<Self>,
        mut request: Acquire<K>,
    ) -> Result<Begun, AcquireError> {
        if !request.engine.process().is_here() {
            // In a forked child, a thread that does not exist there may hold the locks.
            return Err(AcquireError::RuntimeEnded);
        }
        let target = request.target.clone()?;
        let place = self.places().place(target.resource().as_bytes());
        if let Some(held) = place.share(&request) {
            return Ok(Begun::Shares(held));
        }
        let turn = match Arc::clone(&place.turn).try_lock_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = request.wait_for(Arc::clone(&place.turn).lock_owned()).await;
                turn.map_err(|waited| busy_with_itself(&request.engine, target, waited))?
            }
        };
        // Checked again under the turn: the previous request may have acquired meanwhile.
        if let Some(held) = place.share(&request) {
            return Ok(Begun::Shares(held));
        }
        let process = request.engine.process();
        Ok(Begun::Asks(request.ask()?, Turn { process, held: Some((place, turn)) }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock()
    }
}

/// The error while the handle's own first acquire is not over. No node has been asked.
fn busy_with_itself(engine: &Engine, target: Target, waited: std::time::Duration) -> AcquireError {
    let (target, nodes) = (Some(target), engine.not_asked());
    AcquireError::Contended { target, waited, expires_in: None, resource: None, nodes }
}

impl Place {
    /// The lease, if it has as much left as the request wants, and at least as long a lock-delay.
    fn share<K: Kind>(&self, request: &Acquire<K>) -> Option<Arc<HeldTerm>> {
        let (held, term) = {
            let current = self.current.lock();
            let Current { held, term } = current.as_ref()?;
            (Weak::clone(held), term.clone())
        };
        // No lock is held from here on: the last handle on a grant runs user code when it is dropped.
        let term = term.upgrade()?;
        let left = term.check().ok()?;
        let least = request.min_validity.max(request.hold_at_least.unwrap_or_default());
        let is_short = term.grant().lock_delay() < request.lock_delay;
        if left.is_zero() || left < least || is_short {
            return None;
        }
        let held = held.upgrade()?;
        if let Some(least) = request.hold_at_least {
            held.hold_for(least);
        }
        Some(held)
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
