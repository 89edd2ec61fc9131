//! Extensions, as those have them who wait for one.
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
    /// Extends one lease for its holder, and waits until it is known how that ended. `None` says that the runtime has ended, and
    /// so that nothing was extended.
    pub(crate) async fn extend_now(self: &Arc<Self>, grant: &Arc<Grant>) -> Option<ExtendOutcome> {
        let (done, ended) = oneshot::channel();
        let mut at = None;
        // It is code of the user's, which may panic, and is none of the caller's.
        shielded(|| at = Some(self.moment()));
        let at = at?;
        self.decide(|client| {
            let by = client.extend(grant.id(), &at);
            if let Some(kept) = client.data_mut(grant.id()) {
                kept.extending.push((by, done));
            }
        });
        ended.await.ok()
    }

    /// An extension has ended.
    pub(super) fn extended(
        &self,
        id: GrantId,
        by: RenewalId,
        outcome: ExtendOutcome,
        action: Option<LeaseAction>,
    ) {
        metrics::renewed(outcome);
        let (grant, done) = {
            let mut client = self.client.lock();
            let Some(kept) = client.data_mut(id) else { return };
            let grant = kept.grant.upgrade();
            let waits = kept.extending.iter().position(|(other, _)| *other == by);
            (grant, waits.map(|waits| kept.extending.swap_remove(waits).1))
        };
        match (grant, action) {
            (Some(grant), Some(action)) => grant.tell(action),
            // It is not in anybody's hands yet.
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
