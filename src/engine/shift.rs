//! How long an engine's task is at work, and which task follows it.
//!
//! It decides nothing of locks. A task that ends with work undone has one successor; if that ends too, the waiters are
//! dropped.

use std::sync::{Arc, Weak};

use tokio::task::unconstrained;

use super::{
    Engine, after_panic,
    driver::{Driver, attend},
};
use crate::{
    runtime::Process,
    shield::{persist, shielded},
};

impl Engine {
    pub(super) fn begin_shift(self: &Arc<Self>, is_second: bool) {
        let shift = Shift {
            engine: Arc::downgrade(self),
            driver: Arc::clone(&self.driver),
            process: self.process,
            is_second,
            ended: false,
        };
        self.spawn_uncounted(unconstrained(async move {
            let engine = Weak::clone(&shift.engine);
            persist(|| attend(&engine, &shift.driver), || after_panic(&engine)).await;
            shift.end();
        }));
    }
}

/// The time of one task at work. If the task ends before its engine, as when the runtime drops it, another one is
/// started, once. If that fails too, the waiters learn that nothing is left to wake them, and the next lease starts
/// another one.
pub(super) struct Shift {
    pub(super) engine: Weak<Engine>,
    pub(super) driver: Arc<Driver>,
    pub(super) process: Process,
    pub(super) is_second: bool,
    pub(super) ended: bool,
}

impl Shift {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // In a forked child the lock may be held for ever.
        let process = self.process;
        let kept = self.driver.kept.lock_if(|| process.is_here()).and_then(|mut kept| kept.take());
        let Some(engine) = self.engine.upgrade().or(kept) else { return };
        if self.is_second || !engine.is_served() {
            engine.abandon();
            if engine.is_served() {
                shielded(|| engine.carry_out());
            }
        } else {
            engine.keep_for_driver();
            engine.begin_shift(true);
        }
    }
}
