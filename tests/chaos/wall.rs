//! A runtime whose wall clock is wrong by so much, and right in everything else.
//!
//! Fencing tokens start from it, and must not rest on it: without such clients every token would rise by itself.

use std::sync::Arc;

use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task, TokioRuntime},
};

#[derive(Debug)]
pub(crate) struct WrongWall {
    inner: TokioRuntime,
    ahead_ms: i64,
}

impl WrongWall {
    pub(crate) fn ahead_by(ahead_ms: i64) -> Arc<Self> {
        Arc::new(Self { inner: TokioRuntime::dedicated().unwrap(), ahead_ms })
    }
}

impl Runtime for WrongWall {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn steady(&self) -> Timestamp {
        self.inner.steady()
    }

    fn wall_us(&self) -> u64 {
        self.inner.wall_us().saturating_add_signed(self.ahead_ms * 1000)
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.inner.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.inner.spawn(task);
    }

    fn random(&self) -> [u8; 16] {
        self.inner.random()
    }
}
