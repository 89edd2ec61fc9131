//! Why a handle is not ready, and what to do.
//!
//! It decides nothing but its words, and when quarantines alone would be over.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(doc)]
use crate::Redlock;
use crate::{error::NodeStates, node::NodeState, text::counted};

/// [`Redlock::ready`] ran out of time: too few nodes vote for anything to be acquired. Nothing is left on any node.
/// Where quarantines are why, call it again with a longer limit; otherwise see to the nodes that are down or refused.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct NotReady {
    /// For how long it has waited.
    pub waited: Duration,
    /// The nodes that vote.
    pub votes: usize,
    /// The nodes that are needed.
    pub needed: usize,
    /// The runtime that the engine runs in has ended, or this process was forked: no time is long enough.
    pub runtime_ended: bool,
    /// How each node is; none where the runtime has ended.
    pub nodes: NodeStates,
}

debug_is_text! { struct NotReady { waited, votes, needed, runtime_ended, nodes } }

impl NotReady {
    /// When quarantines that end by themselves will have ended on as many nodes as are missing, if those alone are why.
    /// A node that votes before, or a process that is told of a longer ttl, makes it earlier or later.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let wait = |(_, state): &(Arc<str>, NodeState)| match state {
            NodeState::Quarantined { remaining } => Some(*remaining),
            _ => None,
        };
        let mut waits: Vec<Duration> = self.nodes.iter().filter_map(wait).collect();
        waits.sort_unstable();
        waits.get(self.needed.checked_sub(self.votes)?.checked_sub(1)?).copied()
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waited, votes, needed, runtime_ended, nodes } = self;
        if *runtime_ended {
            return f.write_str(
                "nobody runs the engine any more, since its runtime has ended or this process was forked; nothing can be \
                 acquired by this handle, make another one",
            );
        }
        write!(f, "{votes} of {} voted after {waited:?}; ", counted(*needed, "needed node"))?;
        match self.remaining() {
            Some(remaining) if !remaining.is_zero() => write!(
                f,
                "the others may have forgotten leases, as new ones may, and enough of them vote in {remaining:.1?}: wait \
                 for longer than that"
            )?,
            Some(_) => f.write_str(
                "their quarantine is over, and they are held back until others can be asked",
            )?,
            None => f.write_str("see to the nodes that are not ready, and to their addresses")?,
        }
        write!(f, ": {nodes}")
    }
}

impl std::error::Error for NotReady {}
