//! A grant handed on: the next lease term begins where the one before ends, on the releasing thread.
//!
//! It carries out what `protocol::Client` decides: which request is next, whether the grant will do for it, and under
//! which token. It sends no command, waits for nothing, and moves a timer only if the next lease asks for another ttl
//! or renewal.
//!
//! **Who may think that it holds, when.** The lease term changes in one step, under the client's lock: before it, only
//! the releaser's number is current, and after it only the next holder's. A check, a signal or a heartbeat of the one
//! before finds its number past, whatever it had read. So two holders are never told at once that the lease is theirs.
//! A late effect of the holder before is refused by its older token.

use std::{mem, sync::Arc};

use super::{Grant, HeldTerm, LeaseTerm};
use crate::{
    engine::{Engine, Request},
    protocol::{Begun, Passed, Timestamp, Wakeup},
    telemetry::{self, Caller, Held, metrics},
};

impl Grant {
    /// Hands it on to the first in line if the grant will do for that request, or keeps it if that was asked for.
    /// `true`: the lease term with this number is over, and nothing is to be released.
    pub(super) fn hand_on(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        if !self.client().may_pass(self.id) {
            return false;
        }
        // Read before locking: the clock is user code and may panic.
        let at = engine.moment();
        let now = at.now;
        let (passed, before, late, caller) = {
            let mut client = self.client();
            let Some((passed, before, late)) = client.hand_on(self.id, number, &at) else {
                return false;
            };
            // The caller of the lease before.
            let caller = client.data_mut(self.id).map(|kept| match &passed {
                Passed::To(request, ..) => {
                    mem::replace(&mut kept.caller, request.asked.caller.clone().holding(now))
                }
                Passed::Kept(_) => {
                    kept.kept = Some(Arc::clone(self));
                    mem::take(&mut kept.caller)
                }
                Passed::ToNobody => Caller::default(),
            });
            (passed, before, late, caller.unwrap_or_default())
        };
        let handed_on = match passed {
            Passed::To(request, begun, wakeup) => {
                let before = self.held(&caller, before);
                self.begin_term(engine, request, (begun, wakeup), before, now);
                true
            }
            Passed::Kept(wakeup) => {
                // First: nothing else wakes the task before that.
                engine.wake(wakeup);
                metrics::released("kept", caller.counts);
                metrics::lease_given_back(caller.counts, Some(now));
                telemetry::kept(self.held(&caller, before));
                self.handle_changed();
                true
            }
            Passed::ToNobody => false,
        };
        for request in late {
            engine.refuse_late(request, self.id);
        }
        handed_on
    }

    /// Tells of a lease term that has begun, and of the one before. No lock may be held.
    fn begin_term(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        request: Box<Request>,
        (Begun { number, token, .. }, wakeup): (Begun, Wakeup),
        before: Held<'_>,
        now: Timestamp,
    ) {
        // Held before the runtime is asked, which may panic: dropping it gives it back. Its ttl is no shorter than
        // before: requests for less are not handed it.
        let term = LeaseTerm::new(Arc::clone(self), number, token, request.asked.round.ttl);
        let term = HeldTerm::new(term, Arc::clone(engine));
        engine.wake(wakeup);
        metrics::lease_handed_on(before.caller.counts, now);
        telemetry::handed_on(before);
        // Watchers of the lease term before learn that it is over.
        self.handle_changed();
        let held = self.held(&request.asked.caller, token);
        let waited = now.saturating_since(request.acquisition.started());
        telemetry::acquired(held, request.acquisition.lost_rounds(), waited);
        // If the caller is gone, the lease term is dropped here, which hands it on again.
        request.grant(term);
    }
}
