//! Requests for several resources at once.

use std::sync::Arc;

use super::Redlock;
use crate::{acquire::Acquire, protocol::WaitPolicy};

impl Redlock {
    /// A request for one lease on several resources: all of them, or none. Each node takes all of their keys in one
    /// step, so it is one round trip as for one resource. The lease has one fencing token, larger than that of every
    /// earlier lease on any of them. A waiting request holds nothing, so two requests in different orders do not wait
    /// for each other. The order of the names, and a repeated name, make no difference.
    ///
    /// Name at once everything that is needed at once. A process that asks for a lease while it holds another waits as
    /// any other does, and two such processes wait for each other until one of them gives up.
    ///
    /// A set waits in the line of each of its resources, and is let in when all of them are free. Requests for one of
    /// them alone go ahead meanwhile, so a large set beside resources that are nearly always held may wait for long.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let lease = redlock.acquire_all(["account:7", "account:4"]).await?;
    /// assert_eq!(lease.resources().len(), 2);
    /// assert_eq!(lease.resource().as_bytes(), b"account:4");
    /// let busy = redlock.try_acquire("account:7").await.unwrap_err();
    /// assert!(busy.is_contended());
    /// lease.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Awaited, those of [`acquire`](Redlock::acquire), [`AcquireError::Resource`](crate::AcquireError::Resource): no resource
    /// or more than 32, and [`AcquireError::Unsupported`](crate::AcquireError::Unsupported):
    /// [`Builder::classic`](crate::Builder::classic), or a custom node that takes one at a time.
    /// [`Contended`](crate::AcquireError::Contended) names the resource that is in the way for longest.
    #[doc(alias = "multilock")]
    pub fn acquire_all<I>(&self, resources: I) -> Acquire
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let wait_policy = WaitPolicy::For(self.engine.config.wait);
        Acquire::all(Arc::clone(&self.engine), resources, wait_policy)
    }

    /// A request for one lease on several resources in one round, as [`try_acquire`](Redlock::try_acquire) is for one:
    /// where one of them is held, none is taken.
    pub fn try_acquire_all<I>(&self, resources: I) -> Acquire
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        Acquire::all(Arc::clone(&self.engine), resources, WaitPolicy::OneRound)
    }
}
