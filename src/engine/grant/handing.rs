//! A grant handed on: the next lease term begins where the one before ends, on the thread that releases.
//!
//! It carries out what `protocol::Client` decides: who is next, whether the grant will do for it, and under which token. No command
//! is sent, no timer is moved but where the next one asks for another ttl or renewal, and nothing is waited for.
//!
//! **Who may think that it holds, when.** The lease term changes in one step, under the lock of the client: before it, only
//! the number of the holder who releases is the current one, and after it only that of the next. A check, a signal or a
//! heartbeat of the one before finds its number past, whatever it had read. So no two holders are told at once that the
//! lease is theirs, and an effect of the holder before that still comes is refused by its older token.

use std::{mem, sync::Arc};

use super::{Grant, HeldTerm, LeaseTerm};
use crate::{
    engine::{Engine, Request},
    protocol::{Begun, Passed, Timestamp, Wakeup},
    telemetry::{self, Caller, Held, metrics},
};

impl Grant {
    /// Hands it on to the first in line, if there is one and it will do for that one, or keeps it where that was asked for.
    /// Then the lease term with this number is over, and nothing is to be released.
    pub(super) fn hand_on(self: &Arc<Self>, engine: &Arc<Engine>, number: u64) -> bool {
        if !self.client().may_pass(self.id) {
            return false;
        }
        // Read before the lock is taken: it is code of the user's, which may panic.
        let at = engine.moment();
        let now = at.now;
        let (passed, before, late, caller) = {
            let mut client = self.client();
            let Some((passed, before, late)) = client.hand_on(self.id, number, &at) else {
                return false;
            };
            // Whose it was before.
            let caller = client.data_mut(self.id).map(|kept| match &passed {
                Passed::To(request, ..) => {
                    mem::replace(&mut kept.caller, request.asked.caller.clone())
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
                // First: nobody else wakes the task before that.
                engine.wake(wakeup);
                metrics::released("kept");
                metrics::lease_given_back();
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
        // In its hands before the runtime is asked, which may panic: dropping it gives it back. It is no shorter than before:
        // others are not handed it.
        let term = LeaseTerm::new(Arc::clone(self), number, token, request.asked.round.ttl);
        let term = HeldTerm::new(term, Arc::clone(engine));
        engine.wake(wakeup);
        metrics::released("handed_on");
        telemetry::handed_on(before);
        // Those who look at the lease term before learn that it is over.
        self.handle_changed();
        let held = self.held(&request.asked.caller, token);
        let waited = now.saturating_since(request.acquisition.started());
        telemetry::acquired(held, request.acquisition.lost_rounds(), waited);
        // Where its caller has gone meanwhile, the lease term is dropped here, which hands it on again.
        request.grant(term);
    }
}
