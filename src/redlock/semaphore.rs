//! Semaphores of a handle.

use std::sync::Arc;

use super::Redlock;
use crate::{
    error::{Ability, AcquireError},
    protocol::Slots,
    semaphore::Semaphore,
};

impl Redlock {
    /// A semaphore of `permits` permits, from 1 to 256: at most that many are held at a time, over all processes.
    /// Nothing is sent, and handles of one name need not agree beforehand.
    ///
    /// Permit `i` of `name` is a lease on the resource `name/i`. All users of a semaphore should ask for the same
    /// number of permits: where they differ, the largest number counts.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let api = redlock.semaphore("api", 2)?;
    /// let (one, two) = (api.acquire().await?, api.acquire().await?);
    /// assert_ne!(one.slot(), two.slot());
    /// assert!(api.try_acquire().await.unwrap_err().is_contended());
    /// one.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError::Resource`]: none or too many permits, or a name that cannot be one. [`AcquireError::Unsupported`]:
    /// [`Builder::classic`](crate::Builder::classic), or a custom node that picks no slots.
    pub fn semaphore(
        &self,
        name: impl AsRef<[u8]>,
        permits: usize,
    ) -> Result<Semaphore, AcquireError> {
        let slots = Slots::new(&self.engine.config.key_prefix, name, permits)?;
        self.engine.can(Ability::Slots)?;
        Ok(Semaphore::new(Arc::clone(&self.engine), slots))
    }
}
