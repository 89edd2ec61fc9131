//! How a grant ends other than by being lost: given back, left to expire, or ended because the process shuts down.
//!
//! Each grant ends once, and is then in no list any more. It must never release what work still goes on under: that
//! gives it back itself.

use std::sync::Arc;

use super::{Grant, ReleaseAnswer, State};
use crate::{
    engine::{Engine, footprint::Released, held::Outcomes},
    error::ReleaseError,
    protocol::LossReason,
    telemetry::metrics,
};

impl Grant {
    /// Starts the release, once, if there is anybody to carry it out.
    pub(super) fn release(&self, engine: &Arc<Engine>) -> Result<ReleaseAnswer, ReleaseError> {
        // Asked before any lock is taken: in a forked process a thread that is not there may have it.
        if !engine.is_served() {
            return Err(ReleaseError::RuntimeEnded);
        }
        // From before it is out of the list: a shutdown that waits for both finds one of them.
        let _counted = engine.count();
        let (released, report) = self.end(engine, None)?;
        let answer = engine.release(
            released,
            Arc::clone(&self.resource),
            self.token,
            self.caller.clone(),
            report,
        );
        self.changed.notify_waiters();
        Ok(answer)
    }

    /// Ends it without a release: the keys that stand expire. A restore that is under way is undone all the same.
    pub(super) fn let_expire(&self, engine: &Arc<Engine>) {
        if !engine.is_served() {
            return;
        }
        // Its end wakes a shutdown that waits until none is held.
        let _counted = engine.count();
        if self.end(engine, Some(LossReason::LeftToExpire)).is_ok() {
            self.changed.notify_waiters();
        }
    }

    /// Ends it because the process is shutting down. Where work goes on under it, that is told, and releases it when it
    /// has come to its end: others must not be let in before.
    pub(in crate::engine) fn shut_down(self: &Arc<Self>, engine: &Arc<Engine>) {
        let has_work = {
            let mut state = self.state();
            if state.released || state.report.is_some() {
                return;
            }
            state.report = Some(engine.held.end_one());
            state.lifecycle.handle_ended(LossReason::ShutDown);
            self.footprint.lock().handle_over();
            state.has_work
        };
        if has_work {
            self.schedule(engine);
            self.changed.notify_waiters();
        } else {
            drop(self.release(engine));
        }
    }

    /// Takes it out of all lists, once. What is returned says what is to be released.
    fn end(
        &self,
        engine: &Engine,
        reason: Option<LossReason>,
    ) -> Result<(Released, Option<Arc<Outcomes>>), ReleaseError> {
        let (key, place, held, ended) = {
            let mut state = self.state();
            if std::mem::replace(&mut state.released, true) {
                // Nobody but a shutdown releases what somebody else holds.
                return Err(ReleaseError::ShutDown);
            }
            let held = matches!(state.lifecycle.lost(), None | Some(LossReason::ShutDown));
            if let Some(reason) = reason {
                state.lifecycle.handle_ended(reason);
                self.footprint.lock().handle_over();
            }
            let ended = (self.released(&state), state.report.clone());
            (state.scheduled.take(), state.place.take(), held, ended)
        };
        // One that was lost was counted when that was told.
        if held {
            metrics::lease_given_back();
        }
        if let Some(key) = key {
            engine.cancel(key);
        }
        if let Some(place) = place {
            engine.held.remove(place);
        }
        Ok(ended)
    }

    /// What is to be released of it.
    pub(in crate::engine) fn to_release(&self) -> Released {
        self.released(&self.state())
    }

    fn released(&self, state: &State) -> Released {
        Released {
            resource: self.resource().clone(),
            owner: self.owner,
            ttl: state.lifecycle.ttl(),
            footprint: Arc::clone(&self.footprint),
            hold: state.hold,
        }
    }
}
