//! A grant whose holder goes on as a reader.
//!
//! Whatever is held alone may be held with others: the deadline stays, nothing is asked first, and nothing can fail. What
//! was the holder's alone is over at once, in one step under the lock of the client: its tenure is, for whoever looks at a
//! signal of it, and the rest of its tokens is handed to nobody, since readers on the nodes have numbers above them. The
//! nodes follow with the next extension, which is begun here; one that has not followed keeps readers out, and no more.

use std::sync::Arc;

use super::{Grant, Tenure};
use crate::{
    engine::Engine,
    protocol::{ExtendOutcome, Target},
    shield::shielded,
    telemetry,
};

impl Grant {
    /// Its holder shares it with readers from now on, under another tenure. `None` where it is over already, which it stays
    /// for the same reason and to whoever has its number, such as a shutdown that is about to release it; or where it is not
    /// of one resource.
    pub(super) fn lower(self: &Arc<Self>, engine: &Engine, number: u64) -> Option<Tenure> {
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
        let number = client.change(self.id, |leases| leases.lower(number))??;
        // Whoever sends something for it from now on does so as a reader's.
        let _ = self.instead.set(Box::new(Target::Lowered(resource.clone())));
        let leases = client.leases(self.id)?;
        let (token, ttl) = (leases.token(), leases.lifecycle().ttl());
        drop(client);
        Some(Tenure::new(Arc::clone(self), number, token, ttl))
    }

    /// Tells of it, and has the nodes follow. It runs code of the user's, which may panic: the tenure has to be in the hands
    /// of its holder by then.
    pub(super) fn spread(self: &Arc<Self>, engine: &Arc<Engine>, tenure: &Tenure) {
        let caller = self.client().data(self.id).map(|kept| kept.caller.clone());
        let caller = caller.unwrap_or_default();
        telemetry::lowered(self.held(&caller, tenure.token()));
        // Those who look at the tenure before learn that it is over; whoever is next here asks the nodes.
        self.handle_changed();
        self.make_room();
        let now = engine.now();
        if self.left().is_ok() && tenure.may_be_extended(now) {
            engine.extend_beside(self, &self.resource);
        }
    }

    /// Whether its holder shares it with readers, and had it alone.
    pub(in crate::engine) fn is_lowered(&self) -> bool {
        self.instead.get().is_some_and(|target| target.is_lowered())
    }

    /// An extension has ended that was begun when the grant was its holder's alone. Nodes that have made it a reader's since
    /// refuse it, and are no sign of a loss.
    pub(in crate::engine) fn judged(&self, outcome: ExtendOutcome, lowered: bool) -> ExtendOutcome {
        self.ask(outcome, |leases| leases.judged(outcome, lowered))
    }

    /// A quorum has it as a reader's: those who pause here until they may read need not pause any longer.
    pub(in crate::engine) fn handle_followed(&self, engine: &Arc<Engine>, outcome: ExtendOutcome) {
        if self.is_lowered() && matches!(outcome, ExtendOutcome::Extended(_)) {
            engine.decide(|client| client.handle_shared(self.resource.queue()));
        }
    }
}
