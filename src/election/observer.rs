//! Who leads, for those who do not: asked once, or watched.
//!
//! It decides when nodes are asked. What may be reported, `protocol::Look` and `Observation` decide; it must never report
//! anything else.

use std::{fmt, sync::Arc, time::Duration};

use super::Election;
use crate::{
    engine::{Engine, answered},
    error::Ability,
    holder::{Holder, HolderError},
    protocol::{Leader, Look, Observation},
    runtime::block_on,
    shield::shield,
};

/// Between two looks of one observer.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// Who leads, as a quorum of all nodes says.
///
/// It was so at some time while the nodes were asked, and may be over by now. Never act on it where a former leader would do
/// harm: compare terms where orders are taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Observed {
    /// Nobody did, at a moment while the nodes were asked.
    Nobody,
    /// This one.
    Leads(Leader),
    /// Neither is certain: somebody is about to lead or has just resigned, too few nodes answer, or the key is of no election,
    /// such as that of a client of another library.
    Between(Holder),
}

impl Observed {
    /// The leader, where one is certain.
    pub const fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Leads(leader) => Some(leader),
            _ => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            // One that says the same again is no news.
            (Self::Leads(one), Self::Leads(other)) => {
                (one.term, &one.text) == (other.term, &other.text)
            }
            (Self::Nobody, Self::Nobody) | (Self::Between(_), Self::Between(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("nobody leads"),
            Self::Leads(Leader { term, text, .. }) => write!(f, "`{text}` leads, term={term}"),
            Self::Between(holder) => write!(f, "the leader is unclear: {holder}"),
        }
    }
}

impl Election {
    /// Who leads. Every node is asked once, for at most a node timeout; nothing is changed, and nobody waits for it.
    ///
    /// # Errors
    ///
    /// [`HolderError`]. Nodes that do not answer are no error: see [`Observed::Between`].
    ///
    /// # Cancel safety
    ///
    /// It may be dropped at any point.
    pub async fn leader(&self) -> Result<Observed, HolderError> {
        self.look(&mut Observation::default()).await
    }

    /// [`leader`](Election::leader), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`leader`](Election::leader); and [`HolderError::WouldDeadlock`].
    pub fn blocking_leader(&self) -> Result<Observed, HolderError> {
        if self.engine.runs_here() {
            return Err(HolderError::WouldDeadlock);
        }
        block_on(self.leader())
    }

    /// Watches who leads. Nothing is pushed to it: it asks all nodes while [`changed`](Observer::changed) is awaited, three
    /// times in a ttl, and so sees a change up to a third of the ttl later, and nothing of what has passed in between. To know
    /// earlier, set a shorter [`ttl`](Election::ttl) on the election that you observe by.
    pub fn observe(&self) -> Observer {
        Observer { election: self.clone(), observation: Observation::default(), last: None }
    }

    async fn look(&self, observation: &mut Observation) -> Result<Observed, HolderError> {
        self.engine.can(Ability::Elections)?;
        let resource = self.resource().map_err(HolderError::from)?;
        let seen = shield(self.engine.ask_who_holds(resource));
        let seen = self.engine.process().awaits(seen).await;
        let seen = seen.and_then(Result::ok).ok_or(HolderError::RuntimeEnded)?;
        Ok(match observation.handle_look(Look::of(self.engine.quorum, answered(&seen))) {
            Look::Nobody => Observed::Nobody,
            Look::Leads(leader) => Observed::Leads(leader),
            Look::Between => Observed::Between(Holder::of(&self.engine, seen)),
        })
    }

    /// When to look again: a third of the ttl, or up to a quarter less, so that many observers do not ask at once. Nobody has
    /// checked the ttl of one who does not campaign.
    fn pause(&self) -> Duration {
        let third = (self.ttl / 3).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        third - third / 4 * u32::from(self.engine.random_byte()) / 255
    }
}

/// One who watches who leads, made by [`Election::observe`]. It never reports a smaller term than before.
///
/// ```
/// # use quorlock::{Redlock, node::MemoryNode};
/// # futures::executor::block_on(async {
/// # let redlock = Redlock::connect([MemoryNode::new()]).await?;
/// let election = redlock.election("scheduler").text("10.0.0.7:80");
/// let mut observer = election.observe();
/// println!("{}", observer.changed().await?); // nobody leads
/// let leadership = election.campaign().await?;
/// let leader = loop {
///     if let Some(leader) = observer.changed().await?.leader() {
///         break leader.clone();
///     }
/// };
/// assert_eq!((leader.term, leader.text.as_bytes()), (leadership.term(), &b"10.0.0.7:80"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Observer {
    election: Election,
    observation: Observation,
    last: Option<Observed>,
}

impl Observer {
    /// What was seen last; nothing before the first [`changed`](Observer::changed).
    pub const fn last(&self) -> Option<&Observed> {
        self.last.as_ref()
    }

    /// Waits until something else is seen than the last time, and returns it; the first time at once, whatever is seen. It asks
    /// the nodes again and again for that, with pauses of a third of the ttl or a little less.
    ///
    /// # Errors
    ///
    /// [`HolderError`]: nothing will be seen by this handle any more.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again; no change is lost, unless it is changed back.
    pub async fn changed(&mut self) -> Result<&Observed, HolderError> {
        loop {
            if self.last.is_some() {
                let engine: &Arc<Engine> = &self.election.engine;
                let at = engine.now().saturating_add(self.election.pause());
                engine.process().awaits(shield(engine.sleep_until(at))).await;
            }
            let seen = self.election.look(&mut self.observation).await?;
            if !self.last.as_ref().is_some_and(|last| last.is_same(&seen)) {
                return Ok(self.last.insert(seen));
            }
        }
    }

    /// [`changed`](Observer::changed), blocking this thread. No runtime is needed.
    ///
    /// # Errors
    ///
    /// As for [`changed`](Observer::changed); and [`HolderError::WouldDeadlock`].
    pub fn blocking_changed(&mut self) -> Result<&Observed, HolderError> {
        if self.election.engine.runs_here() {
            return Err(HolderError::WouldDeadlock);
        }
        block_on(self.changed())
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("election", &self.election)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}
