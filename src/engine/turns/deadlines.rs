//! The task that turns away whoever has waited in a lane until the deadline.
//!
//! It sleeps until the first deadline. It must not keep the engine alive.

use std::sync::Weak;

use futures::future::select;
use tokio::sync::Notify;

use super::Lane;
use crate::engine::Engine;

/// Looks after the deadlines of a lane while there are any. It does not keep the engine alive.
pub(super) async fn attend(engine: &Weak<Engine>, lane: Lane, wake: &Notify) {
    loop {
        let sleep = {
            let Some(engine) = engine.upgrade() else { return };
            let Some(next) = engine.turn_away_late(lane) else { return };
            engine.runtime.sleep_until(next)
        };
        select(std::pin::pin!(wake.notified()), sleep).await;
    }
}

/// The task that looks after deadlines. When it ends in any other way than by having nothing left to do, as when the
/// runtime drops it, the next one who waits starts another.
pub(super) struct Attending {
    pub(super) engine: Weak<Engine>,
    pub(super) lane: Lane,
    pub(super) ended: bool,
}

impl Attending {
    pub(super) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        if !self.ended
            && let Some(engine) = self.engine.upgrade()
        {
            engine.turns(self.lane).state.lock().attended = false;
        }
    }
}
