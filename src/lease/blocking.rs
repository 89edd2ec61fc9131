//! The blocking forms of a holder's waits.
//!
//! Each blocks on the asynchronous form, and is an error on the thread that would have to answer it.

use std::time::Duration;

use super::{Lease, LeaseSignal};
use crate::{
    error::{ExtendError, LeaseLost, WouldDeadlock},
    kind::Kind,
    protocol::LossReason,
    runtime::block_on,
};

impl<K: Kind> Lease<K> {
    /// [`lost`](Lease::lost), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`], unless the lease is lost already.
    pub fn blocking_lost(&self) -> Result<LeaseLost, WouldDeadlock> {
        self.signal().blocking_lost()
    }

    /// [`ending`](Lease::ending), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`], unless the lease is lost or about to be already.
    pub fn blocking_ending(&self) -> Result<LossReason, WouldDeadlock> {
        match self.is_ending() {
            Some(reason) => Ok(reason),
            None if self.held.engine.runs_here() => Err(WouldDeadlock),
            None => Ok(block_on(self.ending())),
        }
    }

    /// [`extend`](Lease::extend), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`extend`](Lease::extend), and [`ExtendError::WouldDeadlock`].
    pub fn blocking_extend(&self) -> Result<Duration, ExtendError> {
        if self.held.engine.runs_here() {
            self.check()?;
            return Err(ExtendError::WouldDeadlock);
        }
        block_on(self.extend())
    }
}

impl LeaseSignal {
    /// [`lost`](LeaseSignal::lost), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`], unless the lease is lost already.
    pub fn blocking_lost(&self) -> Result<LeaseLost, WouldDeadlock> {
        match self.check() {
            Err(lost) => Ok(lost),
            Ok(_) if self.term.runs_here() => Err(WouldDeadlock),
            Ok(_) => Ok(block_on(self.lost())),
        }
    }
}
