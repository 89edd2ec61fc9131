//! Elections: one of several candidates leads, for as long as its lease lasts, and others may see who.
//!
//! It decides what a campaign asks for, and nothing of votes: a leader is the holder of a lease, and its term is the token
//! of that. It must never release a lease while its work goes on, nor poll that work once the lease is over.

mod error;
mod health;
mod lead;
mod leadership;
mod observer;

use std::{
    fmt,
    sync::{Arc, MutexGuard},
    time::Duration,
};

pub use self::{
    error::{CampaignError, ProclaimError},
    health::ElectionHealth,
    leadership::Leadership,
    observer::{Observed, Observer},
};
use crate::{
    acquire::Acquire,
    engine::{Engine, Proclamation},
    error::{Ability, AcquireError, Unsupported},
    lease::Lease,
    lock::Lock,
    protocol::{LeaderText, Resource, ResourceError, Timestamp, WaitPolicy},
    telemetry,
};

/// An election, made by [`Redlock::election`](crate::Redlock::election): who campaigns here, leads, or looks who does.
///
/// A clone is the same candidate. The leader holds a lease on the resource of the election's name, which is renewed, and its
/// *term* is the fencing token of that lease: unique, and larger than that of every leader before. Two terms never hold at
/// once; what a former leader has sent still arrives, and a receiver that compares terms refuses it
/// ([`FenceGate`](crate::FenceGate), `docs/fencing.md`).
///
/// ```
/// # use quorlock::{Observed, Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let election = redlock.election("scheduler").text("10.0.0.7:80");
/// let report = election.lead(async |leadership| {
///     println!("leads in term {}", leadership.term());
///     Ok::<_, std::io::Error>("done")
/// });
/// assert_eq!(report.await?, "done");
/// assert!(matches!(election.leader().await?, Observed::Nobody));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Election {
    engine: Arc<Engine>,
    name: Arc<[u8]>,
    ttl: Duration,
    lock_delay: Duration,
    stop_within: Duration,
    /// Or its length, where it is too long.
    text: Result<LeaderText, usize>,
    shared: Arc<Shared>,
}

/// What the clones of one candidate have in common.
struct Shared {
    /// Leaderships of this candidate that have not ended: one, or several where an earlier one outlives its lease.
    at_work: Lock<Vec<Arc<Proclamation>>>,
    /// Since when too few nodes were seen to vote.
    undecided_since: Lock<Option<Timestamp>>,
}

impl Shared {
    fn at_work(&self) -> MutexGuard<'_, Vec<Arc<Proclamation>>> {
        self.at_work.lock()
    }
}

impl Election {
    pub(crate) fn new(engine: Arc<Engine>, name: &[u8]) -> Self {
        let config = &engine.config;
        let shared = Shared { at_work: Lock::default(), undecided_since: Lock::default() };
        Self {
            name: name.into(),
            ttl: config.ttl,
            lock_delay: config.lock_delay,
            stop_within: Duration::ZERO,
            text: Ok(LeaderText::default()),
            shared: Arc::new(shared),
            engine,
        }
    }

    /// What observers are told of this candidate when it leads, such as its address: any bytes, 1024 at most. By default it
    /// is empty. [`Leadership::proclaim`] changes it.
    ///
    /// It stands on the nodes, and everybody who can read them can read it: no secrets.
    #[must_use]
    pub fn text(mut self, text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        self.text = LeaderText::new(text).ok_or(text.len());
        self
    }

    /// The ttl of the leader's lease. The default is the builder's, 10 s.
    ///
    /// Behind a leader that crashed nobody leads for so long, and for the lock-delay if there is one, at most. Too short, and
    /// a pause of the process, or of the network, ends a term.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long others are kept out behind a term that was lost: see [`Acquire::lock_delay`](crate::Acquire::lock_delay).
    #[must_use]
    pub const fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = delay;
        self
    }

    /// The loss is told so much before the lease ends, for work that cannot be dropped at once, such as a blocking call: it
    /// has that long to end, and [`lead`](Election::lead) goes on polling it meanwhile, and releases nothing. By default it is
    /// told shortly before the end, and `lead` drops its work then.
    ///
    /// At most half of what the lease promises, which is the ttl without its drift, or the error is
    /// [`CampaignError::StopWithin`]. Renewals that fail end a term earlier by as much.
    #[must_use]
    pub const fn stop_within(mut self, time: Duration) -> Self {
        self.stop_within = time;
        self
    }

    /// Waits until this candidate leads, however long that takes, also through outages. Candidates lead in the order in which
    /// they came; a candidate in the leader's own process counts from the end of that term. It does not wait until observers
    /// may see it; that follows.
    ///
    /// Dropping the [`Leadership`] gives the term up. With [`lead`](Election::lead) work is begun and ended with a term.
    ///
    /// # Errors
    ///
    /// [`CampaignError`]. Nothing is left on the nodes.
    ///
    /// # Cancel safety
    ///
    /// A campaign that is dropped has given up, and leaves nothing behind.
    pub async fn campaign(&self) -> Result<Leadership, CampaignError> {
        let lease = self.request(WaitPolicy::Unlimited)?.await?;
        self.elected(lease)
    }

    /// [`campaign`](Election::campaign), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`campaign`](Election::campaign); and [`AcquireError::WouldDeadlock`] in [`CampaignError::Acquire`].
    pub fn blocking_campaign(&self) -> Result<Leadership, CampaignError> {
        let lease = self.request(WaitPolicy::Unlimited)?.blocking()?;
        self.elected(lease)
    }

    /// Asks once, and does not wait while somebody else leads.
    ///
    /// # Errors
    ///
    /// [`CampaignError`]; in [`CampaignError::Acquire`], [`AcquireError::is_contended`] says that somebody else leads.
    ///
    /// # Cancel safety
    ///
    /// As for [`campaign`](Election::campaign).
    pub async fn try_campaign(&self) -> Result<Leadership, CampaignError> {
        let lease = self.request(WaitPolicy::OneRound)?.await?;
        self.elected(lease)
    }

    /// [`try_campaign`](Election::try_campaign), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`try_campaign`](Election::try_campaign); and [`AcquireError::WouldDeadlock`] in [`CampaignError::Acquire`].
    pub fn blocking_try_campaign(&self) -> Result<Leadership, CampaignError> {
        let lease = self.request(WaitPolicy::OneRound)?.blocking()?;
        self.elected(lease)
    }

    /// The request for the leader's lease.
    fn request(&self, wait_policy: WaitPolicy) -> Result<Acquire, CampaignError> {
        let (config, ttl, stop_within) = (&self.engine.config, self.ttl, self.stop_within);
        self.engine.can(Ability::Elections).map_err(AcquireError::from)?;
        if let Err(bytes) = self.text {
            return Err(CampaignError::TextTooLong { bytes });
        }
        let promised = ttl.saturating_sub(config.drift().of(ttl));
        let max = promised / 2;
        if stop_within > max {
            return Err(CampaignError::StopWithin { stop_within, ttl, max });
        }
        // What is left when it is won must be worth leading for.
        let least = if stop_within.is_zero() { Duration::ZERO } else { stop_within + promised / 4 };
        let request = Acquire::new(Arc::clone(&self.engine), &self.name, wait_policy);
        let request = request.ttl(ttl).lock_delay(self.lock_delay).with_renewal().alone();
        let request = request.stop_within(stop_within).wait_through_outages();
        Ok(request.min_validity(config.min_validity.max(least)))
    }

    fn elected(&self, lease: Lease) -> Result<Leadership, CampaignError> {
        let (Ok(term), Ok(text)) = (lease.token(), self.text.clone()) else {
            // Both were seen to before anything was asked.
            let ability = Ability::Elections;
            return Err(AcquireError::from(Unsupported::Classic { ability }).into());
        };
        let held = lease.held_term().clone();
        telemetry::elected(held.target(), held.owner(), term);
        let proclamation = self.engine.proclaim(held, term, text);
        self.shared.at_work().push(Arc::clone(&proclamation));
        Ok(Leadership::new(lease, proclamation, Arc::clone(&self.shared)))
    }

    fn resource(&self) -> Result<Resource, ResourceError> {
        Resource::behind(&self.engine.config.key_prefix, &self.name)
    }
}

impl From<AcquireError> for CampaignError {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("name", &self.name.escape_ascii().to_string())
            .field("ttl", &self.ttl)
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}
