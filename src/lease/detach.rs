//! A holder that lets go of its lease without giving the resource back: whoever adopts it goes on.
//!
//! It decides which leases can be detached. It must never leave a holder that may still believe in its lease.

use std::time::Duration;

use thiserror::Error;

use super::Lease;
use crate::{
    error::{Ability, LeaseLost, Unsupported},
    kind::Exclusive,
    protocol::{DetachedLease, FencingToken, LossReason, Target},
    shield::shield,
};

impl Lease<Exclusive> {
    /// Ends the lease for its holder, without a release, as a value that another process can adopt:
    /// [`Redlock::adopt`](crate::Redlock::adopt). Until then nobody holds the resource, and its keys keep all others
    /// out for what is left of the ttl and any lock-delay. Nobody renews it.
    ///
    /// It asks no node. From whoever adopts it on, the fencing token is above this one, and nobody else has had the
    /// resource in between. Several may try to adopt it, from copies of its text: one succeeds at most. A lease that
    /// nobody adopts is free when its time is over.
    ///
    /// [`hold_at_least`](crate::Acquire::hold_at_least) ends with it: who adopts the lease may ask for its own.
    ///
    /// There is no other way to a [`DetachedLease`]: of a lease that its holder still believes in
    /// it would make two holders. So a process that has crashed cannot take its resource back before its ttl is over.
    ///
    /// ```
    /// # use quorlock::{DetachedLease, Redlock, node::MemoryNode};
    /// # futures::executor::block_on(async {
    /// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
    /// let lease = redlock.acquire("invoice:42").await?;
    /// let token = lease.token()?;
    /// let text = lease.detach()?.to_string(); // to a file, or to another process
    ///
    /// let lease = redlock.adopt(&text.parse()?).await?;
    /// assert!(lease.token()? > token);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`DetachError::Lost`]: it is over. With any other, the error has the lease as it was, and nothing was sent.
    pub fn detach(self) -> Result<DetachedLease, DetachError> {
        let (lease, fenced) = self.detachable()?;
        let left = lease.check().map_err(DetachError::Lost)?;
        let (target, owner) = (lease.target().clone(), lease.owner());
        let fleet = &lease.engine().config.fleet;
        let detached = DetachedLease::new(target, owner, fenced, fleet, left);
        // In the step in which it ends, and only if it ends by this.
        if lease.held().let_expire() {
            return Ok(detached);
        }
        let lost = lease.check().err();
        Err(DetachError::Lost(lost.unwrap_or_else(|| LeaseLost::new(LossReason::Released))))
    }

    /// [`detach`](Lease::detach) after an extension, so that it can be adopted for `time`. More than
    /// [`max_ttl`](crate::Builder::max_ttl) less the lock-delay is cut to that, and less than what is left changes
    /// nothing. [`DetachedLease::left`](crate::DetachedLease::left) says what has come of it: where too few nodes
    /// confirm the extension, or [`max_hold`](crate::Acquire::max_hold) allows none, it is what was left before.
    ///
    /// # Errors
    ///
    /// As for [`detach`](Lease::detach).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lease.
    pub async fn detach_for(self, time: Duration) -> Result<DetachedLease, DetachError> {
        let (lease, _) = self.detachable()?;
        let left = lease.check().map_err(DetachError::Lost)?;
        let engine = lease.engine();
        let longest = engine.config.most_ttl().saturating_sub(lease.lock_delay());
        let time = time.min(longest);
        if time > left && lease.term().may_be_extended(engine.now()) {
            lease.term().grant().lie_for(engine, time);
            let extension = shield(engine.extend_now(lease.term().grant()));
            engine.process().awaits(extension).await;
        }
        lease.detach()
    }

    /// The lease with its token, if it can be detached.
    fn detachable(self) -> Result<(Self, FencingToken), DetachError> {
        // A forked child has a copy, and its parent the lease.
        if !self.engine().is_served() {
            return Err(DetachError::RuntimeEnded { lease: Box::new(self) });
        }
        if let Target::Slot(_) = self.target() {
            return Err(DetachError::Permit { lease: Box::new(self) });
        }
        let can = self.engine().can(Ability::HandingOver);
        let token = can.and_then(|()| {
            let ability = Ability::HandingOver;
            self.term().token().ok_or(Unsupported::Classic { ability })
        });
        match token {
            Ok(token) => Ok((self, token)),
            Err(reason) => Err(DetachError::Unsupported { reason, lease: Box::new(self) }),
        }
    }
}

/// Why a lease was not detached.
#[derive(Error)]
#[non_exhaustive]
pub enum DetachError {
    /// The lease is over. Nothing was detached, and its keys stand for a ttl and any lock-delay at most.
    #[error("the lease was not detached: {0}")]
    Lost(LeaseLost),
    /// The runtime has ended, or this process was forked and the lease is its parent's. It is unchanged.
    #[error(
        "the lease was not detached and is unchanged: the runtime has ended, or this process was forked; detach it in \
         the process that holds it"
    )]
    RuntimeEnded {
        /// The lease, as before.
        lease: Box<Lease>,
    },
    /// The lease was a [`Permit`](crate::Permit), of which another can be acquired. It is unchanged.
    #[error(
        "the lease was not detached and is unchanged: it is a permit; release it and acquire another"
    )]
    Permit {
        /// The lease, which holds as before. Dropping it releases it.
        lease: Box<Lease>,
    },
    /// The nodes cannot give a key from one owner to another. The lease is unchanged. The field says why.
    #[error("the lease was not detached and is unchanged: {reason}")]
    Unsupported {
        /// Why not.
        reason: Unsupported,
        /// The lease, which holds as before. Dropping it releases it.
        lease: Box<Lease>,
    },
}

debug_is_text! { enum DetachError {
    Lost(error),
    RuntimeEnded { lease },
    Permit { lease },
    Unsupported { reason, lease },
} }
