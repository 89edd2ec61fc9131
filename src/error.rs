//! What can go wrong with each verb, with what every node said.
//!
//! It keeps two things apart that users must treat differently: *busy*, where waiting helps, and
//! *broken*, where it does not.

use std::{fmt, sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    config::ConfigError,
    node::{NodeError, NodeState, Refusal},
    protocol::{Denial, LossReason, NodeId, Reply, ResourceError},
};

/// What one node said in a round.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// It did what it was asked. In a failed acquire it is being undone.
    Granted,
    /// The resource is held by somebody else there, or (in a release) is not ours any more.
    Denied(Denial),
    /// It gave no usable answer.
    Failed(NodeError),
    /// Its answer was not needed any more when the round ended.
    Unanswered,
    /// It was not asked: in a release, because it certainly had nothing of ours; in an acquire, because this
    /// process was busy with the resource itself.
    NotAsked,
}

impl NodeOutcome {
    /// What an answer amounts to.
    pub(crate) fn of(result: Result<Reply, NodeError>) -> Self {
        match result {
            Ok(Reply::Granted(_)) => Self::Granted,
            Ok(Reply::Denied(denial)) => Self::Denied(denial),
            Err(error) => Self::Failed(error),
        }
    }
}

/// One node's part in a failed round.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its place in the configuration.
    pub node: NodeId,
    /// Its address, without credentials.
    pub address: Arc<str>,
    /// What it said.
    pub outcome: NodeOutcome,
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.node, self.address)?;
        match &self.outcome {
            NodeOutcome::Granted => f.write_str("granted"),
            NodeOutcome::Denied(denial) => {
                f.write_str("held")?;
                if let Some(holder) = &denial.holder {
                    write!(f, " by `{}`", holder.escape_ascii())?;
                }
                match denial.remaining {
                    Some(remaining) => write!(f, " for {remaining:?}"),
                    None => Ok(()),
                }
            }
            NodeOutcome::Failed(error) => error.fmt(f),
            NodeOutcome::Unanswered => f.write_str("not waited for"),
            NodeOutcome::NotAsked => f.write_str("not asked"),
        }
    }
}

/// The reports of all nodes of a round, printed in one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reports(Box<[NodeReport]>);

impl Reports {
    pub(crate) fn new(reports: Vec<NodeReport>) -> Self {
        Self(reports.into_boxed_slice())
    }

    /// One report per configured node, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &NodeReport> {
        self.0.iter()
    }

    /// The reports of the nodes that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&NodeReport, &NodeError)> {
        self.0.iter().filter_map(|report| match &report.outcome {
            NodeOutcome::Failed(error) => Some((report, error)),
            _ => None,
        })
    }

    /// Whom most of the nodes name that say that somebody else holds the resource, as it stands in their keys.
    pub(crate) fn holder(&self) -> Option<String> {
        let named = || self.denials().filter_map(|(_, denial)| denial.holder.as_deref());
        let votes = |holder: &&[u8]| named().filter(|other| other == holder).count();
        named().max_by_key(votes).map(|holder| holder.escape_ascii().to_string())
    }

    /// The reports of the nodes on which somebody else holds the resource.
    pub fn denials(&self) -> impl Iterator<Item = (&NodeReport, &Denial)> {
        self.0.iter().filter_map(|report| match &report.outcome {
            NodeOutcome::Denied(denial) => Some((report, denial)),
            _ => None,
        })
    }
}

impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, report) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            report.fmt(f)?;
        }
        Ok(())
    }
}

/// Why a resource was not acquired.
///
/// Whatever a failed acquire had set on some nodes is being released in the background when this error is
/// returned; what cannot be released expires after the ttl.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Busy: somebody else holds the resource, or several asked at once and none got a quorum. Nothing of
    /// ours stays on the nodes. Try again after `retry_after`, or wait longer.
    #[error("the resource is held by somebody else, waited=`{waited:?}`, {nodes}")]
    Contended {
        /// How long the caller has waited.
        waited: Duration,
        /// When the resource will be free at the latest, if its holder neither extends nor releases it;
        /// `None` where the holder set no ttl, or nothing is known.
        retry_after: Option<Duration>,
        /// What each node said.
        nodes: Reports,
    },
    /// Broken: so many nodes failed that nobody could acquire anything. What was set elsewhere is being
    /// released. See to the nodes that the reports name; waiting alone does not help.
    #[error("too few nodes answered for a quorum, granted={granted}, needed={needed}, {nodes}")]
    NoQuorum {
        /// The nodes that granted.
        granted: usize,
        /// The nodes that were needed.
        needed: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// A quorum granted, so slowly that less than the minimum validity was left. It is being released. Use
    /// a longer ttl, or look for what delays the nodes or this process.
    #[error(
        "the quorum was reached too late, ttl=`{ttl:?}`, elapsed=`{elapsed:?}`, min_validity=`{min_validity:?}`"
    )]
    TooLate {
        /// The ttl that was asked for.
        ttl: Duration,
        /// The time from before the first send to the reply that made the quorum.
        elapsed: Duration,
        /// The least validity that was accepted.
        min_validity: Duration,
    },
    /// Busy, too, but with this process: it has more acquires under way than the nodes answer. The caller's time was up
    /// before its turn came, or its round timed out while others of this process were answered. Nothing was sent that
    /// stays, and nothing is known of the resource. Wait longer, start fewer acquires at once, or see what makes the
    /// nodes slow.
    #[error(
        "more acquires are under way in this process than the nodes answer, waited=`{waited:?}`, waiting={waiting}"
    )]
    Crowded {
        /// How long the caller has waited.
        waited: Duration,
        /// How many others were waiting for their turn.
        waiting: usize,
    },
    /// The name cannot be a resource. Nothing was sent. The source says what is accepted.
    #[error("the resource cannot be locked")]
    Resource(#[from] ResourceError),
    /// The ttl is out of range, or leaves nothing after drift and minimum validity. Nothing was sent.
    /// Ask for a ttl between `min` and `max` that is longer than the minimum validity.
    #[error(
        "the ttl must be between {min:?} and {max:?} and leave more than the minimum validity, ttl=`{ttl:?}`, min_validity=`{min_validity:?}`"
    )]
    Ttl {
        /// The ttl that was asked for.
        ttl: Duration,
        /// The minimum validity that was asked for.
        min_validity: Duration,
        /// The shortest ttl that is accepted.
        min: Duration,
        /// The longest ttl that is accepted.
        max: Duration,
    },
    /// The lease cannot be held for as long as [`hold_at_least`](crate::Acquire::hold_at_least) says: its key must outlive
    /// the process, so that its ttl must be longer, and `max_ttl` forbids that. Nothing was sent. Ask for `max` at most, or
    /// raise [`Builder::max_ttl`](crate::Builder::max_ttl) in every process of the fleet, and with it the quarantine.
    #[error(
        "the least hold needs a longer ttl than max_ttl allows, ask for {max:?} at most or raise max_ttl, hold_at_least=`{hold:?}`, max_ttl=`{max_ttl:?}`"
    )]
    HoldTooLong {
        /// What was asked for.
        hold: Duration,
        /// The longest that is accepted.
        max: Duration,
        /// The longest ttl.
        max_ttl: Duration,
    },
    /// The [`Redlock`](crate::Redlock) has been closed. Nothing was sent, or it is being undone. Acquire before closing.
    #[error("the redlock has been closed")]
    Closed,
    /// The runtime dropped the work, as one given by `Builder::runtime` may do when it ends. What had been
    /// set expires after the ttl. Keep that runtime alive. In a process that was forked it says that this handle is
    /// the parent's: build one there.
    #[error("the runtime ended before the answer")]
    RuntimeEnded,
    /// The blocking form was called on the very thread that has to answer it. Nothing was sent. Await it there, or
    /// block another thread.
    #[error("it would block the thread that has to answer it, await it instead")]
    WouldDeadlock,
}

impl AcquireError {
    /// One word for how an acquire ended, for a log.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Contended { .. } => "contended",
            Self::NoQuorum { .. } => "no_quorum",
            Self::TooLate { .. } => "too_late",
            Self::Crowded { .. } => "crowded",
            Self::Resource(_) | Self::Ttl { .. } | Self::HoldTooLong { .. } => "refused",
            Self::Closed => "closed",
            Self::RuntimeEnded | Self::WouldDeadlock => "not_run",
        }
    }

    /// Whether somebody else holds the resource: waiting or trying again helps.
    pub const fn is_contended(&self) -> bool {
        matches!(self, Self::Contended { .. })
    }

    /// Whether waiting or trying again helps, for whatever reason: somebody else holds the resource, or this process
    /// has too much under way. Only [`is_contended`](AcquireError::is_contended) says that somebody else is at work.
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Contended { .. } | Self::Crowded { .. })
    }

    /// What each node said in the last round, where there was one.
    pub const fn nodes(&self) -> Option<&Reports> {
        match self {
            Self::Contended { nodes, .. } | Self::NoQuorum { nodes, .. } => Some(nodes),
            _ => None,
        }
    }
}

/// Why a release was not confirmed. The lease is over in every case.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: its key was gone, or somebody else's, on too many nodes. Nothing of ours
    /// is left there. Check whether the work overlapped with somebody else's, and use a longer ttl.
    #[error("the lease had already ended on too many nodes, released={released}, {nodes}")]
    AlreadyEnded {
        /// The nodes that deleted the key.
        released: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// Too few nodes confirmed. The release goes on in the background, and what cannot be reached expires
    /// after the ttl. Nothing needs to be done; others may have to wait until then.
    #[error("too few nodes confirmed the release, released={released}, needed={needed}, {nodes}")]
    Unconfirmed {
        /// The nodes that deleted the key.
        released: usize,
        /// The nodes that were needed.
        needed: usize,
        /// What each node said.
        nodes: Reports,
    },
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) has released the lease before, and reports whether that was
    /// confirmed. Nothing needs to be done.
    #[error("the lease was released by the shutdown of this process")]
    ShutDown,
    /// The runtime dropped the work. The key expires after the ttl. Keep that runtime alive. In a process that was
    /// forked it says that the lease is the parent's, and nothing was sent.
    #[error("the runtime ended before the answer")]
    RuntimeEnded,
    /// The blocking form was called on the very thread that has to answer it. The release goes on in the background.
    /// Await it there, or block another thread.
    #[error("it would block the thread that has to answer it, await it instead")]
    WouldDeadlock,
}

/// A lease is over: somebody else may hold the resource now. Stop the work, and acquire anew. What is left on
/// the nodes expires, or has been released.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("the lease is lost, reason=`{reason}`")]
#[non_exhaustive]
pub struct LeaseLost {
    /// Why.
    pub reason: LossReason,
}

/// The lease has no fencing token: the builder was told [`classic`](crate::Builder::classic), where nodes count nothing.
/// Build without it, in every process; or let the store tell a repeat by something else than the token.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error(
    "in classic mode a lease has no fencing token: build without `classic()`, in every process"
)]
#[non_exhaustive]
pub struct NoToken;

/// Why a lease was not extended.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease is over. Stop the work, and acquire anew.
    #[error(transparent)]
    Lost(#[from] LeaseLost),
    /// Too few nodes answered. The lease is as valid as before, and its key stays on the nodes. Try again
    /// while there is time, or finish within what is left.
    #[error("too few nodes answered, the lease is as valid as before, validity=`{validity:?}`")]
    InDoubt {
        /// What is left of the validity that was promised before.
        validity: Duration,
    },
    /// The blocking form was called on the very thread that has to answer it. Nothing was sent. Await it there, or block
    /// another thread.
    #[error("it would block the thread that has to answer it, await it instead")]
    WouldDeadlock,
    /// The lease was held for as long as `max_hold` allows. Nothing was sent, and it is as valid as before.
    /// Finish within what is left, or raise the limit.
    #[error("the lease was held for as long as max_hold allows, validity=`{validity:?}`")]
    MaxHold {
        /// What is left of the validity.
        validity: Duration,
    },
}

/// Why work under a lease did not come to its end.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The resource was not acquired, and the work was not begun.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost, and the work was dropped where it stood. What it had done by then is done; a
    /// fencing token keeps late effects out.
    #[error(transparent)]
    Lost(#[from] LeaseLost),
}

/// Why [`Redlock::connect`](crate::Redlock::connect) gave up. Nothing is left on any node.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration cannot work. Nothing has been connected. The source says what to change.
    #[error("the configuration cannot be used")]
    Config(#[from] ConfigError),
    /// The blocking form was called on the very thread that has to answer it. Await it there, or block another thread.
    #[error("it would block the thread that has to answer it, await it instead")]
    WouldDeadlock,
    /// Nodes were reached that must not vote. Put them right, or build without waiting for the nodes. All others
    /// have been tried too, so that all that must not vote are named, but for those that did not answer in time.
    #[error("a node must not vote, refused={}, {nodes}", .nodes.refused().count())]
    Refused {
        /// How each node is.
        nodes: NodeStates,
    },
    /// A quorum could be reached and not all nodes, which `require_all_nodes` asks for. See to the nodes that are down,
    /// whose addresses may be wrong, or connect without that setting.
    #[error(
        "not all nodes could be reached, as require_all_nodes asks for, ready={ready}, needed={needed}, {nodes}"
    )]
    NotAllNodes {
        /// The nodes that are ready.
        ready: usize,
        /// The nodes that are configured.
        needed: usize,
        /// How each node is.
        nodes: NodeStates,
    },
    /// Too few nodes could be reached within the connect timeout. See to them, or build without waiting.
    #[error("too few nodes could be reached, ready={ready}, needed={needed}, {nodes}")]
    NoQuorum {
        /// The nodes that are ready.
        ready: usize,
        /// The nodes that are needed.
        needed: usize,
        /// How each node is.
        nodes: NodeStates,
    },
}

/// How each node was when connecting gave up, printed in one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeStates(pub(crate) Box<[(Arc<str>, NodeState)]>);

impl NodeStates {
    /// The address of each node, and how it is, in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &(Arc<str>, NodeState)> {
        self.0.iter()
    }

    /// The addresses of the nodes that must not vote, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&Arc<str>, &Refusal)> {
        self.0.iter().filter_map(|(address, state)| match state {
            NodeState::Refused(refusal) => Some((address, refusal)),
            _ => None,
        })
    }
}

impl fmt::Display for NodeStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (address, state)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}node {index} ({address}): ")?;
            match state {
                NodeState::Connecting => f.write_str("no answer yet")?,
                NodeState::Ready => f.write_str("ready")?,
                NodeState::Quarantined { remaining } => {
                    write!(f, "in quarantine, remaining=`{remaining:?}`")?;
                }
                NodeState::Down { reason } => write!(f, "down, reason=`{reason}`")?,
                NodeState::Refused(refusal) => refusal.fmt(f)?,
            }
        }
        Ok(())
    }
}

/// [`Redlock::close`](crate::Redlock::close) has ended: nothing is under way any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Closed {
    /// The leases that are still held, and keep others out until they are released, are dropped, or expire. Where this is
    /// not zero at the end of a process, [`Redlock::shutdown`](crate::Redlock::shutdown) is what was meant.
    pub held: usize,
}

/// Why [`Redlock::close`](crate::Redlock::close) did not see the end of everything. It is closed all the same.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum CloseError {
    /// `close_timeout` has passed. What is left on the nodes is still being released while the process lives, and
    /// expires after the ttl. Close earlier, or raise `close_timeout`; where a node is down nothing needs to be done.
    #[error(
        "releases are still under way after close_timeout, what is left on the nodes expires after the ttl, unfinished={unfinished}"
    )]
    Unfinished {
        /// The operations that had not ended.
        unfinished: usize,
    },
    /// The blocking form was called on the very thread that has to answer it. Await it there, or block another thread.
    #[error(
        "it is closed, but waiting would block the thread that has to answer, await it instead"
    )]
    WouldDeadlock,
}

/// [`Redlock::shutdown`](crate::Redlock::shutdown) has ended: this process keeps nobody out any more, but for leases with
/// [`hold_at_least`](crate::Acquire::hold_at_least).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Shutdown {
    /// The leases that were released, each confirmed by a quorum.
    pub released: usize,
    /// The leases that had ended before: on too many nodes the key was gone. See what overlapped with whom.
    pub gone: usize,
    /// Operations on single nodes that had not ended after `close_timeout`, as where a minority is down. Their keys
    /// expire, and keep nobody out.
    pub unfinished: usize,
}

/// Why [`Redlock::shutdown`](crate::Redlock::shutdown) did not see the end of every lease. All of them are lost to their
/// holders, and none is renewed.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// `close_timeout` has passed. What was not confirmed is still being released while the process lives, and expires
    /// after the ttl. Work that goes on under `run` keeps its key for so long at most. Raise `close_timeout`, see to the
    /// nodes, or end the work when it is told that its lease is lost.
    #[error(
        "not all leases were released in close_timeout, others may have to wait for the ttl, released={released}, gone={gone}, unconfirmed={unconfirmed}, working={working}"
    )]
    Unfinished {
        /// The leases that were released, each confirmed by a quorum.
        released: usize,
        /// The leases that had ended before.
        gone: usize,
        /// The leases that no quorum has confirmed as released.
        unconfirmed: usize,
        /// The leases under which the work of a `run` has not ended.
        working: usize,
    },
    /// The blocking form was called on the very thread that has to answer it. The leases are being released in the
    /// background. Await it there, or block another thread.
    #[error(
        "all leases are being released, but waiting would block the thread that has to answer, await it instead"
    )]
    WouldDeadlock,
}

/// A blocking form was called on the very thread that has to answer it, and has done nothing. Await it there, or block
/// another thread.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("it would block the thread that has to answer it, await it instead")]
#[non_exhaustive]
pub struct WouldDeadlock;
