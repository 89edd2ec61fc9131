//! Requests of readers and writers.

use std::sync::Arc;

use super::Redlock;
use crate::{acquire::Acquire, kind::Shared, protocol::WaitPolicy};

impl Redlock {
    /// A request to read a resource together with other readers, while nobody writes. It waits for up to the builder's
    /// [`wait`](crate::Builder::wait), 15 s by default.
    ///
    /// Every holder of a plain lease on the resource is a writer, by [`acquire`](Redlock::acquire) or
    /// [`write`](Redlock::write), in this process, another process or another library. Readers and a writer do not hold
    /// it at the same time. Waiters are let in in the order of arrival, except that readers pass each other: readers
    /// that come later do not overtake a waiting writer.
    ///
    /// The lease has a [`ReadToken`](crate::ReadToken) in place of a fencing token: it says up to which write this reader may
    /// see.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let written = redlock.write("catalog").run(async |lease| lease.token()).await??;
    /// let (one, other) = (redlock.read("catalog").await?, redlock.read("catalog").await?);
    /// assert!(one.token().covers(written) && other.token().covers(written));
    /// assert!(redlock.try_write("catalog").await.unwrap_err().is_contended());
    /// drop((one, other));
    /// let later = redlock.write("catalog").await?;
    /// assert!(later.token()? > written);
    /// # later.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Awaited, those of [`acquire`](Redlock::acquire), and
    /// [`AcquireError::Unsupported`](crate::AcquireError::Unsupported): [`Builder::classic`](crate::Builder::classic),
    /// or a custom node without readers.
    #[doc(alias = "shared")]
    pub fn read(&self, resource: impl AsRef<[u8]>) -> Acquire<Shared> {
        let wait_policy = WaitPolicy::For(self.engine.config.wait);
        Acquire::read(Arc::clone(&self.engine), resource.as_ref(), wait_policy)
    }

    /// A request to [`read`](Redlock::read) in one round: it asks every node once, and does not wait while a writer
    /// holds the resource or waits for it.
    pub fn try_read(&self, resource: impl AsRef<[u8]>) -> Acquire<Shared> {
        let engine = Arc::clone(&self.engine);
        Acquire::read(engine, resource.as_ref(), WaitPolicy::OneRound)
    }

    /// The same as [`acquire`](Redlock::acquire): the holder of a plain lease writes, and keeps readers out: see
    /// [`read`](Redlock::read).
    #[doc(alias = "exclusive")]
    pub fn write(&self, resource: impl AsRef<[u8]>) -> Acquire {
        self.acquire(resource)
    }

    /// The same as [`try_acquire`](Redlock::try_acquire).
    pub fn try_write(&self, resource: impl AsRef<[u8]>) -> Acquire {
        self.try_acquire(resource)
    }
}
