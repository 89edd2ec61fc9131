//! Runtimes that do one thing in another way than the usual one.
//!
//! A test says what is different. It must never have to repeat the rest, which would hide that, and would miss whatever
//! is added to the trait.

use std::{fmt, ops::Deref};

use quorlock::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};

/// What differs: `inner` does whatever is not overridden.
pub trait Alter: Send + Sync + fmt::Debug + 'static {
    /// The runtime that does the rest.
    fn inner(&self) -> &dyn Runtime;

    /// As [`Runtime::now`].
    fn now(&self) -> Timestamp {
        self.inner().now()
    }

    /// As [`Runtime::steady`].
    fn steady(&self) -> Timestamp {
        self.inner().steady()
    }

    /// As [`Runtime::wall_us`].
    fn wall_us(&self) -> u64 {
        self.inner().wall_us()
    }

    /// As [`Runtime::sleep_until`].
    fn sleep_until(&self, at: Timestamp) -> Task {
        self.inner().sleep_until(at)
    }

    /// As [`Runtime::serves`].
    fn serves(&self) -> bool {
        self.inner().serves()
    }

    /// As [`Runtime::random`].
    fn random(&self) -> [u8; 16] {
        self.inner().random()
    }
}

/// The runtime that is altered so.
#[derive(Debug)]
pub struct Altered<A>(pub A);

/// So that a test reaches the knobs of what it has altered.
impl<A> Deref for Altered<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

impl<A: Alter> Runtime for Altered<A> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn steady(&self) -> Timestamp {
        self.0.steady()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.0.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.0.inner().spawn(task);
    }

    fn serves(&self) -> bool {
        self.0.serves()
    }

    fn runs_here(&self) -> bool {
        self.0.inner().runs_here()
    }

    fn random(&self) -> [u8; 16] {
        self.0.random()
    }
}
