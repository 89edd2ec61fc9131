//! A resource that an operator takes from its holder, knowing that this holder must not have it any more.
//!
//! It decides when there is a holder to take it from: one whom a quorum names, by a name of ours. It must never delete a key of
//! another program's, nor one of an owner whom nobody has named: all that it deletes is the key of that one owner.

use std::{fmt, sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    acquire::Acquire,
    engine::Engine,
    error::AcquireError,
    holder::{HeldBy, Holder, HolderError, NodeSighting},
    node::NodeError,
    protocol::{
        FencingToken, NodeId, NodeSet, Owner, Reply, Resource, ResourceError, Timestamp, WaitPolicy,
    },
    shield::shield,
    text::counted,
};

/// For how long a token of one's own is tried for, or the next holder is looked for, after the release, and keys are deleted that
/// the old one sets again. Those who wait and have died stand in its way for 4 s.
const TAKE_WITHIN: Duration = Duration::from_secs(8);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// A lease that was ended by force: the answer of [`Redlock::force_release`](crate::Redlock::force_release).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Forced {
    /// Who held it.
    pub was: HeldBy,
    /// On how many nodes its key was deleted.
    pub released: usize,
    /// Larger than every token of that holder: what is to be told to each store that compares tokens, so that whatever that
    /// holder still sends is refused. `None` in classic mode, which knows no tokens.
    pub fence: Option<FencingToken>,
    /// Who had it next, if a client waited for it: its token is the fence, and the store learns of it by that one's first
    /// write.
    pub next: Option<HeldBy>,
}

/// Why a resource was not released by force, or not all of it was done. It says which.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum ForceError {
    /// The name cannot be locked, so that nobody holds it. Nothing was sent.
    #[error("invalid resource, so it has no holder; nothing was sent: {0}")]
    Resource(ResourceError),
    /// Nobody holds it. Nothing was changed. A permit of a semaphore is held by the name of its slot, as in `api/0`.
    #[error(
        "nobody holds it; nothing was changed; a permit of a semaphore is held as a resource of its own, as in `api/0`"
    )]
    Free,
    /// No quorum of nodes names one and the same holder. Nothing was changed. What a minority has kept of a lease that is over
    /// ends by itself; where too few nodes answer, fix those first.
    #[error("no quorum of nodes names one holder; nothing was changed{}", said(.nodes))]
    Unclear {
        /// What each node says.
        nodes: Vec<NodeSighting>,
    },
    /// Readers share it, each under a name of its own, which nodes do not tell. Nothing was changed. End those processes, or wait
    /// for their leases to end.
    #[error("readers share it; nothing was changed; end their processes, or wait{}", at_most(.remaining))]
    Readers {
        /// For how long they have it at most, if none of them renews.
        remaining: Option<Duration>,
    },
    /// Its key belongs to another program or library. Nothing was changed. Only that program knows what it means; delete the
    /// key by hand only if nothing depends on it.
    #[error("its key belongs to another program or library; nothing was changed: {0}")]
    Foreign(Box<HeldBy>),
    /// It is held by another owner than the one from whom it was to be taken. Nothing was changed.
    #[error("another client holds it by now; nothing was changed: {0}")]
    Changed(Box<HeldBy>),
    /// Fewer nodes than a quorum have said that the key of that holder is gone. What was deleted stays so, and the holder may
    /// set it again there: fix the nodes, and try again.
    #[error("the key is gone on {gone} of {} only; the lease may go on; fix the other nodes, and try again{}", counted(*needed, "needed node"), failed(.nodes))]
    NotReleased {
        /// Who holds it.
        was: Box<HeldBy>,
        /// How many nodes have it no more.
        gone: usize,
        /// How many are needed.
        needed: usize,
        /// The nodes that did not say so, and why.
        nodes: Vec<(Arc<str>, NodeError)>,
    },
    /// Its keys were deleted, and that holder has set them again each time, for seconds: the lease may go on. End that process,
    /// or try again.
    #[error(
        "its holder set the deleted keys again each time, so the lease may go on; end that process, or try again"
    )]
    SetAgain {
        /// Who holds it.
        was: Box<HeldBy>,
    },
    /// The lease is ended, and no larger token was won in time: a store may still take what that holder sends. Try to acquire
    /// the resource once, which raises the counter.
    #[error(
        "its lease has ended, but no larger token was won; a store may still accept what its holder sends; acquire it \
         once: {error}"
    )]
    NotRaised {
        /// Who held it.
        was: Box<HeldBy>,
        /// What came of the last attempt.
        error: Box<AcquireError>,
    },
    /// The runtime has ended, or the process was forked since: make a new [`Redlock`](crate::Redlock).
    #[error(
        "the runtime of this Redlock ended, or this process was forked; connect a new one in the process that asks"
    )]
    RuntimeEnded,
    /// The thread that would have to give the answer was about to wait for it. Nothing was sent.
    #[error(
        "blocking here would stop the thread that has to answer it; nothing was sent; await it instead, or block another thread"
    )]
    WouldDeadlock,
}

debug_is_text! { enum ForceError {
    Resource(error),
    Free,
    Unclear { nodes },
    Readers { remaining },
    Foreign(error),
    Changed(error),
    NotReleased { was, gone, needed, nodes },
    SetAgain { was },
    NotRaised { was, error },
    RuntimeEnded,
    WouldDeadlock,
} }

impl From<HolderError> for ForceError {
    fn from(error: HolderError) -> Self {
        match error {
            HolderError::Resource(error) => Self::Resource(error),
            // No election is asked about.
            HolderError::Unsupported(_) | HolderError::RuntimeEnded => Self::RuntimeEnded,
            HolderError::WouldDeadlock => Self::WouldDeadlock,
        }
    }
}

impl Forced {
    /// Takes the resource from its holder.
    pub(crate) async fn take(
        engine: &Arc<Engine>,
        name: &[u8],
        from: Option<Owner>,
    ) -> Result<Self, ForceError> {
        let was = match Holder::ask(engine, name).await? {
            Holder::Held(by) => by,
            Holder::Free => return Err(ForceError::Free),
            Holder::Unclear { nodes } => return Err(ForceError::Unclear { nodes }),
        };
        if was.is_shared() {
            return Err(ForceError::Readers { remaining: was.remaining });
        }
        let Some(owner) = was.owner else { return Err(ForceError::Foreign(Box::new(was))) };
        if from.is_some_and(|from| from != owner) {
            return Err(ForceError::Changed(Box::new(was)));
        }
        let resource =
            Resource::behind(&engine.config.key_prefix, name).map_err(ForceError::Resource)?;
        let mut taking = Taking { engine, name, was, resource, owner, released: 0 };
        taking.release().await?;
        let until = engine.now().saturating_add(TAKE_WITHIN);
        let (fence, next) = if engine.config.classic {
            taking.stays_gone(until).await?;
            (None, None)
        } else {
            let (fence, next) = taking.raise(until).await?;
            (Some(fence), next)
        };
        Ok(Self { was: taking.was, released: taking.released, fence, next })
    }
}

/// What is being taken, and from whom.
struct Taking<'a> {
    engine: &'a Arc<Engine>,
    name: &'a [u8],
    was: HeldBy,
    resource: Resource,
    owner: Owner,
    /// On how many nodes its key was deleted, at most at once.
    released: usize,
}

impl Taking<'_> {
    /// Deletes that owner's key, and counts where it was.
    async fn release(&mut self) -> Result<(), ForceError> {
        let engine = self.engine;
        let answers = shield(engine.ask_release(self.resource.clone(), self.owner));
        let answers = engine.process().awaits(answers).await;
        let answers = answers.and_then(Result::ok).ok_or(ForceError::RuntimeEnded)?;
        // A node that has refused has no such key, or one of another owner: of that owner it is gone either way.
        let gone = answers.iter().enumerate().filter(|(_, answer)| answer.is_ok());
        let gone: NodeSet = gone.map(|(index, _)| NodeId::new(index)).collect();
        let quorum = engine.quorum;
        if !quorum.is_met_by(gone) {
            let (gone, needed) = (gone.len(), quorum.needed_beyond(gone));
            let nodes = engine.addresses().zip(answers);
            let nodes =
                nodes.filter_map(|(address, answer)| Some((Arc::clone(address), answer.err()?)));
            return Err(ForceError::NotReleased {
                was: Box::new(self.was.clone()),
                gone,
                needed,
                nodes: nodes.collect(),
            });
        }
        let granted = |answer: &&Result<Reply, NodeError>| matches!(answer, Ok(Reply::Granted(_)));
        self.released = self.released.max(answers.iter().filter(granted).count());
        Ok(())
    }

    /// A grant of one's own, which has a larger token than all before it, given back at once; or that of the client that
    /// came first.
    async fn raise(
        &mut self,
        until: Timestamp,
    ) -> Result<(FencingToken, Option<HeldBy>), ForceError> {
        let engine = self.engine;
        loop {
            let request = Acquire::new(Arc::clone(engine), self.name, WaitPolicy::OneRound);
            let error = match request.without_renewal().alone().await {
                Ok(lease) => {
                    let token = lease.token().ok();
                    // Where that is not confirmed it ends by itself after its ttl.
                    let _ = lease.release().await;
                    return token.map(|token| (token, None)).ok_or(ForceError::RuntimeEnded);
                }
                Err(error) => error,
            };
            let mut is_set_again = false;
            if let Holder::Held(next) = Holder::ask(engine, self.name).await? {
                is_set_again = next.owner == Some(self.owner);
                if is_set_again {
                    self.release().await?;
                } else if let (Some(_), Some(token)) = (next.owner, next.token) {
                    return Ok((token, Some(next)));
                }
            }
            let is_late = engine.now() >= until;
            let was = || Box::new(self.was.clone());
            match is_set_again {
                true if is_late => return Err(ForceError::SetAgain { was: was() }),
                false if is_late || !error.is_contended() => {
                    return Err(ForceError::NotRaised { was: was(), error: Box::new(error) });
                }
                _ => self.pause().await?,
            }
        }
    }

    /// A renewal that was under way may have set a key again where it was deleted before the others.
    async fn stays_gone(&mut self, until: Timestamp) -> Result<(), ForceError> {
        loop {
            match Holder::ask(self.engine, self.name).await? {
                Holder::Held(by) if by.owner == Some(self.owner) => {}
                _ => return Ok(()),
            }
            if self.engine.now() >= until {
                return Err(ForceError::SetAgain { was: Box::new(self.was.clone()) });
            }
            self.release().await?;
            self.pause().await?;
        }
    }

    async fn pause(&self) -> Result<(), ForceError> {
        let pause = self.engine.sleep_until(self.engine.now().saturating_add(PAUSE));
        let paused = self.engine.process().awaits(shield(pause)).await;
        paused.ok_or(ForceError::RuntimeEnded)
    }
}

fn at_most(remaining: &Option<Duration>) -> String {
    remaining.map_or_else(String::new, |left| format!(" for {left:?}"))
}

fn said(nodes: &[NodeSighting]) -> String {
    nodes.iter().map(|node| format!("; {node}")).collect()
}

fn failed(nodes: &[(Arc<str>, NodeError)]) -> String {
    nodes.iter().map(|(address, error)| format!("; {address}: {error}")).collect()
}

impl fmt::Display for Forced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "taken from {}, on {}", self.was, counted(self.released, "node"))?;
        if let Some(fence) = self.fence {
            write!(f, "; tell its stores {fence}: they refuse every smaller token from then on")?;
        }
        self.next.as_ref().map_or(Ok(()), |next| write!(f, "; it is held since by {next}"))
    }
}
