//! What operators do to a fleet as a whole: take nodes from other members, and lower the longest ttl.
//!
//! It decides nothing; `inspect` does. Nothing here acquires, and nothing that is heard here is a vote.

use super::Redlock;
use crate::{
    inspect::{Claimed, FleetError, MaxTtlWatch},
    protocol::Members,
};

impl Redlock {
    /// From now on this handle claims no node: while none of its list was let in yet, it leaves the nodes to others.
    /// Use it in a process that only looks, such as by [`inspect`](Redlock::inspect): call it right behind
    /// [`build`](crate::Builder::build). It sends nothing, and a fleet that is in use goes on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::{Redlock, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let redlock = Redlock::builder().node(MemoryNode::new()).build()?;
    /// redlock.look_only();
    /// println!("{}", redlock.inspect(Duration::ZERO).await.members);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn look_only(&self) {
        self.engine.look_only();
    }

    /// Takes every node that belongs to other members for the list of this handle, and returns what was done with each.
    /// Nodes that belong to this list, or to nobody, are not touched.
    ///
    /// **It ends the fleet of those members.** A taken node refuses their processes from then on, so their leases are
    /// lost at the latest when they are to be renewed. Two lists must not use nodes at once: call it where every
    /// process of the other list has ended. A taken node counts as one that has forgotten, and votes after its
    /// quarantine; wait for that by [`ready`](Redlock::ready). Where a majority of this list was taken or is new,
    /// tokens go on a minute above this client's wall clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorlock::{Redlock, inspect::Outcome, node::MemoryNode};
    ///
    /// # futures::executor::block_on(async {
    /// let redlock = Redlock::connect([MemoryNode::new(), MemoryNode::new(), MemoryNode::new()]).await?;
    /// for claimed in redlock.claim_nodes().await? {
    ///     println!("{}: {}", claimed.address, claimed.outcome);
    ///     assert!(matches!(claimed.outcome, Outcome::Ours));
    /// }
    /// redlock.ready(Duration::from_secs(30)).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`FleetError`]: nothing was taken. A node that did not answer is no error, but an outcome of its own.
    ///
    /// # Cancel safety
    ///
    /// Once polled, nodes may have been taken. Call it again to see which.
    pub async fn claim_nodes(&self) -> Result<Vec<Claimed>, FleetError> {
        Claimed::take(&self.engine, None).await
    }

    /// [`claim_nodes`](Redlock::claim_nodes), but only of nodes that belong to one of these members: for a caller that
    /// decides by an earlier look.
    ///
    /// # Errors
    ///
    /// As for [`claim_nodes`](Redlock::claim_nodes).
    ///
    /// # Cancel safety
    ///
    /// As for [`claim_nodes`](Redlock::claim_nodes).
    pub async fn claim_nodes_from(&self, members: &[Members]) -> Result<Vec<Claimed>, FleetError> {
        Claimed::take(&self.engine, Some(members)).await
    }

    /// Makes all nodes note, from now on, the longest ttl that any client tells them, so that [`MaxTtlWatch::lower`]
    /// can lower the fleet's longest ttl to it. The target is this handle's own `max_ttl`.
    ///
    /// Nodes keep the longest ttl that they were ever told, and quarantines last accordingly. Give all processes the
    /// shorter `max_ttl` first, and restart them.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use quorlock::Redlock;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let redlock = Redlock::builder().nodes(nodes).max_ttl(Duration::from_secs(10)).connect().await?;
    /// let watch = redlock.watch_max_ttl().await?;
    /// println!("{:?} are waited for", watch.remaining());
    /// let lowered = watch.lower().await?;
    /// if let Some(longer) = lowered.longer() {
    ///     println!("a process still uses {longer:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`FleetError::NotAll`] names the nodes that did not answer. Nothing was lowered.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, or without [`MaxTtlWatch::lower`], nothing is lowered.
    pub async fn watch_max_ttl(&self) -> Result<MaxTtlWatch, FleetError> {
        MaxTtlWatch::begin(&self.engine).await
    }
}
