//! A grant whose holder goes on as a reader.
//!
//! Whatever is held alone may be held with others: the deadline stays, nothing is asked first, and nothing can fail. What
//! was the holder's alone is over at once, in one step under the lock of the client: its lease term is, for whoever looks at a
//! signal of it, and the rest of its tokens is handed to nobody, since readers on the nodes have numbers above them. The
//! nodes follow with the next extension, which is begun here; one that has not followed keeps readers out, and no more.

use std::sync::Arc;

use super::{Grant, LeaseTerm};
use crate::{engine::Engine, protocol::Target, shield::shielded, telemetry};

impl Grant {
    /// Its holder shares it with readers from now on, under another lease term. `None` where it is over already, which it stays
    /// for the same reason and to whoever has its number, such as a shutdown that is about to release it; or where it is not
    /// of one resource.
    pub(super) fn downgrade(self: &Arc<Self>, engine: &Engine, number: u64) -> Option<LeaseTerm> {
        // Asked before any lock is taken: in a forked process a thread that is not there may have it.
        if !engine.is_served() {
            return None;
        }
        let Target::One(resource) = self.resource.target() else { return None };
        // By the clock: in a process that stood still nobody may have been told yet of a loss.
        shielded(|| {
            let _ = self.left();
        });
        let mut client = self.client();
        let (number, token) = client.downgrade(self.id, number)?;
        let _ = self.instead.set(Box::new(Target::Downgraded(resource.clone())));
        let ttl = client.leases(self.id)?.lifecycle().ttl();
        drop(client);
        Some(LeaseTerm::new(Arc::clone(self), number, token, ttl))
    }

    /// Tells of it, and has the nodes follow. It runs code of the user's, which may panic: the lease term has to be in the hands
    /// of its holder by then.
    pub(super) fn spread(self: &Arc<Self>, engine: &Arc<Engine>, term: &LeaseTerm) {
        let caller = self.client().data(self.id).map(|kept| kept.caller.clone());
        let caller = caller.unwrap_or_default();
        telemetry::downgraded(self.held(&caller, term.token()));
        // Those who look at the lease term before learn that it is over; whoever is next here asks the nodes.
        self.handle_changed();
        let mut at = None;
        // It is code of the user's, which may panic: then the nodes follow with the next renewal.
        shielded(|| {
            let moment = engine.moment();
            let may_follow = self.left().is_ok() && term.may_be_extended(moment.now);
            at = may_follow.then_some(moment);
        });
        engine.decide(|client| {
            // Before whoever is next here asks.
            if let Some(at) = at {
                client.extend(self.id, &at);
            }
            client.handle_grant_over(self.id);
        });
    }
}
