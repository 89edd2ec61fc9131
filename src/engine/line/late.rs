//! Whose time is up in line, and who says in the log for whom it waits.
//!
//! It tells what `protocol::Client` decides.

use std::sync::Arc;

use super::Ahead;
use crate::{
    engine::Engine,
    protocol::{Late, Place, QueueId, Timestamp},
};

impl Engine {
    /// The time has come for one who waits, or will have within a moment.
    pub(in crate::engine) fn handle_waiter_due(
        self: &Arc<Self>,
        queue: QueueId,
        place: Place,
        now: Timestamp,
    ) {
        let times = (now, self.config.node_timeout);
        let late =
            self.client.lock().handle_waiter_due(queue, place, times, |request, held, here| {
                let ahead = Ahead { here, elsewhere: request.resource.on_nodes().rank() };
                request.says_for_whom(held.map(|kept| kept.owner), ahead, now)
            });
        match late {
            Late::Nothing => {}
            Late::Waits(said, wakeup) => {
                self.wake(wakeup);
                if let Some(said) = said {
                    said.tell(self, now);
                }
            }
            Late::InVain(request, told, holder) => {
                let holder = holder.and_then(|grant| self.grant(grant));
                let held = holder.and_then(|grant| Some((grant.owner(), grant.left().ok()?)));
                match held {
                    Some((owner, left)) => request.held_here(self, owner, left),
                    None => request.give_up(self, told),
                }
            }
        }
    }
}
