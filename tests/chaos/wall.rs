//! A runtime whose wall clock is wrong by so much, and right in everything else.
//!
//! Fencing tokens start from it, and must not rest on it: without such clients every token would rise by itself.

use std::sync::Arc;

use quorlock::runtime::{Runtime, TokioRuntime};
use quorlock_harness::{Alter, Altered};

#[derive(Debug)]
pub(crate) struct WrongWall {
    inner: TokioRuntime,
    ahead_ms: i64,
}

impl WrongWall {
    pub(crate) fn ahead_by(ahead_ms: i64) -> Arc<Altered<Self>> {
        Arc::new(Altered(Self { inner: TokioRuntime::dedicated().unwrap(), ahead_ms }))
    }
}

impl Alter for WrongWall {
    fn inner(&self) -> &dyn Runtime {
        &self.inner
    }

    fn wall_us(&self) -> u64 {
        self.inner.wall_us().saturating_add_signed(self.ahead_ms * 1000)
    }
}
