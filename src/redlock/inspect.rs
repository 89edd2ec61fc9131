//! What operators ask of a fleet.

use std::{sync::Arc, time::Duration};

use super::Redlock;
use crate::{
    error::WouldDeadlock,
    inspect::{FleetError, ForceError, Forced, Inspection, Lines, Resources},
    protocol::Owner,
    runtime::block_on,
};

impl Redlock {
    /// Looks at all nodes, over so long a time: versions, roles, memory, persistence, rights, round trips, clocks and their
    /// rates, markers. [`Inspection::findings`] says what is wrong, and what to do about it.
    ///
    /// Each server is asked on a connection of its own, so that one that must not vote says why too. It works on a handle that
    /// [`build`](crate::Builder::build) made, whose nodes are not connected yet, and on one that is closed. A clock is looked at
    /// ten times a second: a rate is known to about its round trip divided by `over`, so give it some seconds. It takes
    /// `over`, and longer where nodes do not answer.
    ///
    /// Nothing is changed by it; that this handle connects tells the nodes its `max_ttl`, as each client does. The user needs no right beyond those for locks; with `+config|get` more is known.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::{Redlock, inspect::Ill, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let redlock = Redlock::connect(&nodes).await?;
    /// assert!(redlock.inspect(Duration::ZERO).await.findings().is_empty());
    /// nodes[2].kill();
    /// let findings = redlock.inspect(Duration::ZERO).await.findings();
    /// assert_eq!(findings[0].ill, Ill::NotReached);
    /// println!("{}", findings[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any point.
    pub async fn inspect(&self, over: Duration) -> Inspection {
        Inspection::ask(&self.engine, over).await
    }

    /// [`inspect`](Redlock::inspect), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// [`WouldDeadlock`] on the very thread that runs the engine.
    pub fn blocking_inspect(&self, over: Duration) -> Result<Inspection, WouldDeadlock> {
        if self.runs_here() {
            return Err(WouldDeadlock);
        }
        Ok(block_on(self.inspect(over)))
    }

    /// The resources that look held and whose names match `pattern`, page by page, each with its holder. In a pattern `*`
    /// stands for any bytes, `?` for one, `[ab]` for one of these, and a backslash takes that from what follows it.
    ///
    /// Each node is asked for its keys in turn, by `SCAN`, with a pause after each page that is as long as the page took: the
    /// servers look at all of their keys, and at no more than some hundreds at a time. What is a lock is told by its value. Slots
    /// of semaphores are resources like any other. What is held does not depend on it: use [`holder`](Redlock::holder) to ask
    /// for one resource.
    ///
    /// The user needs the right `+scan`, which shows it the names of all keys.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let redlock = Redlock::connect([MemoryNode::new(), MemoryNode::new(), MemoryNode::new()]).await?;
    /// let lease = redlock.acquire("invoice:42").await?;
    /// let mut resources = redlock.resources("invoice:*");
    /// let mut found = Vec::new();
    /// while let Some(page) = resources.next_page().await? {
    ///     found.extend(page);
    /// }
    /// assert_eq!(found.len(), 1);
    /// assert_eq!(&*found[0].name, b"invoice:42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn resources(&self, pattern: impl AsRef<[u8]>) -> Resources {
        Resources::new(Arc::clone(&self.engine), pattern.as_ref())
    }

    /// The lines in which clients wait for resources and semaphores whose names match `pattern`, as of
    /// [`resources`](Redlock::resources): how many, who, and since when. The longest line is the first.
    ///
    /// All nodes are asked at once, each as for [`resources`](Redlock::resources), with the same right beside those for
    /// waiting. A client is told that stands in a line on a quorum of the nodes. It stands there once for reading and once for
    /// all else, however many of its callers wait, and not before its first attempt was in vain: who waits for some
    /// milliseconds may be missed. Since when is told by the clocks of the
    /// nodes.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let (holder, waiter) = (Redlock::connect(&nodes).await?, Redlock::connect(&nodes).await?);
    /// let lease = holder.acquire("invoice:42").await?;
    /// let mut waits = waiter.acquire("invoice:42").into_future();
    /// let lines = loop {
    ///     futures::select_biased! {
    ///         _ = futures::FutureExt::fuse(&mut waits) => unreachable!("it is held"),
    ///         lines = futures::FutureExt::fuse(Box::pin(holder.lines("invoice:*"))) => {
    ///             let lines = lines?.lines;
    ///             if !lines.is_empty() {
    ///                 break lines;
    ///             }
    ///         }
    ///     }
    /// };
    /// assert_eq!((&*lines[0].name, lines[0].waiting), (&b"invoice:42"[..], 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`FleetError::NotTold`] where no node tells its lines; those that do not are [`Lines::untold`].
    /// [`FleetError::Classic`]: in classic mode there are no lines.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any point.
    pub async fn lines(&self, pattern: impl AsRef<[u8]>) -> Result<Lines, FleetError> {
        Lines::ask(&self.engine, pattern.as_ref()).await
    }

    /// [`lines`](Redlock::lines), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`lines`](Redlock::lines), and [`FleetError::WouldDeadlock`] on the very thread that runs the engine.
    pub fn blocking_lines(&self, pattern: impl AsRef<[u8]>) -> Result<Lines, FleetError> {
        if self.runs_here() {
            return Err(FleetError::WouldDeadlock);
        }
        block_on(self.lines(pattern))
    }

    /// Takes `resource` from the holder that a quorum of the nodes names: deletes that holder's keys, and acquires it once, so
    /// that its counter is above that holder's token.
    ///
    /// A key that a renewal under way sets again is deleted again, for some seconds. Of several resources that were acquired
    /// together the lease of all ends, and the counter of this one is raised.
    ///
    /// **It breaks the lock.** That holder is not asked. It learns of it when it next renews, a third of its ttl later at most,
    /// and goes on until then; one that is not renewed goes on to its end. Somebody else may hold it meanwhile. What protects a
    /// store is [`Forced::fence`]: tell it that number before anything else depends on the release, and it refuses what the
    /// old holder still sends. Do it where that process is known to be gone, or to hang.
    ///
    /// Refused are: a resource that readers share, a key of another program's, and a holder whom no quorum names. A key whose
    /// end somebody has taken away is released like any other. A lease of this very process is ended as anybody's would be;
    /// release that instead.
    ///
    /// ```
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let hangs = Redlock::connect(&nodes).await?;
    /// let lease = hangs.acquire("invoice:42").await?;
    /// let operator = Redlock::connect(&nodes).await?;
    /// let forced = operator.force_release("invoice:42").await?;
    /// assert_eq!(forced.was.owner, Some(lease.owner()));
    /// assert!(forced.fence.unwrap() > lease.token()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ForceError`] says what was done by then.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the keys may have been deleted. Dropped before its end, the counter may not have been raised.
    pub async fn force_release(&self, resource: impl AsRef<[u8]>) -> Result<Forced, ForceError> {
        Forced::take(&self.engine, resource.as_ref(), None).await
    }

    /// The same where `owner` holds it, and nobody else: for an operator who has looked before, and may have thought for a while.
    ///
    /// # Errors
    ///
    /// As for [`force_release`](Redlock::force_release), and [`ForceError::Changed`].
    ///
    /// # Cancel safety
    ///
    /// As for [`force_release`](Redlock::force_release).
    pub async fn force_release_from(
        &self,
        resource: impl AsRef<[u8]>,
        owner: Owner,
    ) -> Result<Forced, ForceError> {
        Forced::take(&self.engine, resource.as_ref(), Some(owner)).await
    }

    /// [`force_release`](Redlock::force_release), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`force_release`](Redlock::force_release), and [`ForceError::WouldDeadlock`] on the very thread that runs the
    /// engine.
    pub fn blocking_force_release(&self, resource: impl AsRef<[u8]>) -> Result<Forced, ForceError> {
        if self.runs_here() {
            return Err(ForceError::WouldDeadlock);
        }
        block_on(self.force_release(resource))
    }
}
