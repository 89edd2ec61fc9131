//! Extensions, as their callers see them.
//!
//! It decides nothing.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Engine, Grant};
use crate::{
    protocol::{ExtendOutcome, GrantId, LeaseAction, RenewalId},
    shield::shielded,
    telemetry::metrics,
};

impl Engine {
    /// Extends one lease for its holder, and waits for the outcome. `None`: the runtime has ended, and the lease counts
    /// as not extended.
    pub(crate) async fn extend_now(self: &Arc<Self>, grant: &Arc<Grant>) -> Option<ExtendOutcome> {
        if !self.is_served() {
            return None;
        }
        let (done, ended) = oneshot::channel();
        let mut at = None;
        // The clock is user code, whose panic is none of the caller's.
        shielded(|| at = Some(self.moment()));
        let Some(at) = at else { return Some(ExtendOutcome::InDoubt) };
        self.decide(|client| {
            let by = client.extend(grant.id(), &at);
            if let Some(kept) = client.data_mut(grant.id()) {
                kept.extending.push((by, done));
            }
        });
        let outcome = ended.await.ok();
        // The driver's end fails what is under way.
        outcome.filter(|outcome| *outcome != ExtendOutcome::InDoubt || self.is_served())
    }

    /// Handles the end of an extension.
    pub(super) fn extended(
        &self,
        id: GrantId,
        by: RenewalId,
        outcome: ExtendOutcome,
        action: Option<LeaseAction>,
    ) {
        metrics::renewed(outcome);
        let (grant, done, extended) = {
            let mut client = self.client.lock();
            let Some(kept) = client.data_mut(id) else { return };
            let grant = kept.grant.upgrade();
            let waits = kept.extending.iter().position(|(other, _)| *other == by);
            let done = waits.map(|waits| kept.extending.swap_remove(waits).1);
            (grant, done, kept.extended.clone())
        };
        if let Some(extended) = extended
            && let ExtendOutcome::Extended(_) = outcome
        {
            extended.notify_waiters();
        }
        match (grant, action) {
            (Some(grant), Some(action)) => grant.tell(action),
            // No holder has it yet.
            (None, Some(LeaseAction::Lose(_))) => {
                self.client.lock().handle_grant_over(id);
            }
            _ => {}
        }
        // The holder may have gone away meanwhile.
        if let Some(done) = done {
            let _ = done.send(outcome);
        }
    }
}
