//! A resource that is taken from its holder, by somebody who knows that this holder must not have it any more.
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
    protocol::{FencingToken, Owner, Quorum, Resource, ResourceError, WaitPolicy},
    shield::shield,
};

/// For how long a token of one's own is tried for, or the next holder is looked for, after the release. Those who wait and
/// have died stand in its way for 4 s.
const RAISE_WITHIN: Duration = Duration::from_secs(8);

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
    /// Who had it next, if somebody waited for it: its token is the fence, and the store learns of it by that one's first
    /// write.
    pub next: Option<HeldBy>,
}

/// Why a resource was not released by force, or not all of it was done. It says which.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ForceError {
    /// The name cannot be locked, so that nobody holds it. Nothing was sent.
    #[error("this resource cannot be locked, so that nobody holds it: {0}")]
    Resource(ResourceError),
    /// Nobody holds it. Nothing was changed. A permit of a semaphore is held by the name of its slot, as in `api/0`.
    #[error(
        "nobody holds it, nothing was changed; a permit of a semaphore is held as a resource of its own, as in `api/0`"
    )]
    Free,
    /// No quorum of nodes names one and the same holder. Nothing was changed. What a minority has kept of a lease that is over
    /// ends by itself; where too few nodes answer, see to those first.
    #[error("no quorum of nodes names one holder, nothing was changed{}", said(.nodes))]
    Unclear {
        /// What each node says.
        nodes: Vec<NodeSighting>,
    },
    /// Readers share it, each with a name of its own, which nobody is told. Nothing was changed. End those processes, or wait
    /// for their leases to end.
    #[error("readers share it, and nothing was changed; end their processes, or wait{}", at_most(.remaining))]
    Readers {
        /// For how long they have it at most, if none of them renews.
        remaining: Option<Duration>,
    },
    /// Its key is of another program or library. Nothing was changed. What it means is known there; delete the key by hand only
    /// if nothing depends on it.
    #[error("its key is of another program or library, and nothing was changed: {0}")]
    Foreign(Box<HeldBy>),
    /// Fewer nodes than a quorum have said that the key of that holder is gone. What was deleted stays so, and the holder may
    /// have it set again there: see to the nodes, and try again.
    #[error("only {gone} nodes have said that the key is gone, and {needed} are needed; the lease may go on; see to the others and try again{}", failed(.nodes))]
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
    /// The lease is ended, and no larger token was won in time: a store may still take what that holder sends. Try to acquire
    /// the resource once, which raises the counter.
    #[error(
        "its lease is ended, but no larger token was won, so that a store may still take what its holder sends; acquire it once: {error}"
    )]
    NotRaised {
        /// Who held it.
        was: Box<HeldBy>,
        /// What came of the last attempt.
        error: Box<AcquireError>,
    },
    /// The runtime has ended, or the process was forked since: make a new [`Redlock`](crate::Redlock).
    #[error(
        "the runtime of this redlock has ended, or this process was forked; connect another in the process that asks"
    )]
    RuntimeEnded,
    /// The thread that would have to give the answer was about to wait for it. Nothing was sent.
    #[error(
        "blocking here would stop the thread that has to answer it; nothing was sent; await it instead, or block another thread"
    )]
    WouldDeadlock,
}

impl From<HolderError> for ForceError {
    fn from(error: HolderError) -> Self {
        match error {
            HolderError::Resource(error) => Self::Resource(error),
            HolderError::RuntimeEnded => Self::RuntimeEnded,
            HolderError::WouldDeadlock => Self::WouldDeadlock,
        }
    }
}

impl Forced {
    /// Takes the resource from its holder.
    pub(crate) async fn take(engine: &Arc<Engine>, name: &[u8]) -> Result<Self, ForceError> {
        let was = match Holder::ask(engine, name).await? {
            Holder::Held(by) => by,
            Holder::Free => return Err(ForceError::Free),
            Holder::Unclear { nodes } => return Err(ForceError::Unclear { nodes }),
        };
        if was.is_shared() {
            return Err(ForceError::Readers { remaining: was.remaining });
        }
        let Some(owner) = was.owner else { return Err(ForceError::Foreign(Box::new(was))) };
        let resource =
            Resource::behind(&engine.config.key_prefix, name).map_err(ForceError::Resource)?;
        let released = release(engine, &was, resource, owner).await?;
        if engine.config.classic {
            return Ok(Self { was, released, fence: None, next: None });
        }
        let (fence, next) = raise(engine, name, &was).await?;
        Ok(Self { was, released, fence: Some(fence), next })
    }
}

/// Deletes that owner's key, and counts where it was.
async fn release(
    engine: &Arc<Engine>,
    was: &HeldBy,
    resource: Resource,
    owner: Owner,
) -> Result<usize, ForceError> {
    let answers = shield(engine.ask_release(resource, owner));
    let answers = engine.process().awaits(answers).await;
    let answers = answers.and_then(Result::ok).ok_or(ForceError::RuntimeEnded)?;
    let needed = Quorum::of(answers.len()).needed();
    // A node that has refused has no such key, or one of somebody else's: of that owner it is gone either way.
    let gone = answers.iter().filter(|answer| answer.is_ok()).count();
    if gone < needed {
        let nodes = engine.addresses().zip(answers);
        let nodes =
            nodes.filter_map(|(address, answer)| Some((Arc::clone(address), answer.err()?)));
        return Err(ForceError::NotReleased {
            was: Box::new(was.clone()),
            gone,
            needed,
            nodes: nodes.collect(),
        });
    }
    let granted =
        |answer: &Result<_, NodeError>| matches!(answer, Ok(crate::protocol::Reply::Granted(_)));
    Ok(answers.iter().filter(|answer| granted(answer)).count())
}

/// A grant of one's own, which has a larger token than all before it, given back at once; or that of whoever came first.
async fn raise(
    engine: &Arc<Engine>,
    name: &[u8],
    was: &HeldBy,
) -> Result<(FencingToken, Option<HeldBy>), ForceError> {
    let until = engine.now().saturating_add(RAISE_WITHIN);
    loop {
        let request = Acquire::new(Arc::clone(engine), name, WaitPolicy::OneRound);
        let error = match request.without_renewal().alone().await {
            Ok(lease) => {
                let token = lease.token().ok();
                // Where that is not confirmed it ends by itself after its ttl.
                let _ = lease.release().await;
                if let Some(token) = token {
                    return Ok((token, None));
                }
                return Err(ForceError::RuntimeEnded);
            }
            Err(error) => error,
        };
        if let Holder::Held(next) = Holder::ask(engine, name).await?
            && next.owner.is_some_and(|owner| Some(owner) != was.owner)
            && let Some(token) = next.token
        {
            return Ok((token, Some(next)));
        }
        if engine.now() >= until || !error.is_contended() {
            return Err(ForceError::NotRaised {
                was: Box::new(was.clone()),
                error: Box::new(error),
            });
        }
        let pause = engine.sleep_until(engine.now().saturating_add(PAUSE));
        let paused = engine.process().awaits(shield(pause)).await;
        paused.ok_or(ForceError::RuntimeEnded)?;
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
        write!(f, "taken from {}, on {} nodes", self.was, self.released)?;
        if let Some(fence) = self.fence {
            write!(f, "; tell its stores {fence}: they refuse every smaller token from then on")?;
        }
        self.next.as_ref().map_or(Ok(()), |next| write!(f, "; it is held since by {next}"))
    }
}
