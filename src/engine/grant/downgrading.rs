//! A grant whose holder goes on as a reader.
//!
//! What is held alone may always be held with others: the deadline stays, nothing is asked first, and nothing can fail.
//! The holder's sole rights end at once, in one step under the client's lock: its lease term is over for all its
//! signals, and its other tokens are handed to nobody, since readers on the nodes have higher numbers. The nodes follow
//! with the next extension, which begins here. A node that has not followed keeps readers out, and no more.

use std::sync::Arc;

use super::{Grant, LeaseTerm};
use crate::{engine::Engine, protocol::Target, shield::shielded, telemetry};

impl Grant {
    /// The holder shares it with readers from now on, under another lease term. `None` if the grant is not of one
    /// resource, or is over already. Then it stays over for the same reason, and keeps its number, as for a shutdown
    /// that is about to release it.
    pub(super) fn downgrade(self: &Arc<Self>, engine: &Engine, number: u64) -> Option<LeaseTerm> {
        // Checked before any lock is taken: in a forked child a thread that does not exist may hold one.
        if !engine.process().is_here() {
            return None;
        }
        let Target::One(resource) = self.resource.target() else { return None };
        // Reads the clock: in a process that stood still a loss may not have been told yet.
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

    /// Tells of it, and has the nodes follow. It runs user code, which may panic: the holder must have the lease term
    /// by then.
    pub(super) fn spread(self: &Arc<Self>, engine: &Arc<Engine>, term: &LeaseTerm) {
        let caller = self.client().data(self.id).map(|kept| kept.caller.clone());
        let caller = caller.unwrap_or_default();
        telemetry::downgraded(self.held(&caller, term.token()));
        // Watchers of the lease term before learn that it is over; the next waiter here asks the nodes.
        self.handle_changed();
        if !engine.is_served() {
            return;
        }
        let mut at = None;
        // The clock is user code and may panic: then the nodes follow with the next renewal.
        shielded(|| {
            let moment = engine.moment();
            let may_follow = self.left().is_ok() && term.may_be_extended(moment.now);
            at = may_follow.then_some(moment);
        });
        engine.decide(|client| {
            // Before the next waiter here asks.
            if let Some(at) = at {
                client.extend(self.id, &at);
            }
            client.handle_grant_over(self.id);
        });
    }
}
