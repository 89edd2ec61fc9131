//! Why a handle is not ready, and what to do.
//!
//! It decides only its words, and when quarantines alone would be over.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(doc)]
use crate::Redlock;
use crate::{error::NodeStates, node::NodeState, text::counted};

/// [`Redlock::ready`] ran out of time: too few nodes vote for anything to be acquired. Nothing is left on any node. If
/// quarantines are the cause, call it again with a longer limit; otherwise fix the nodes that are down or refused.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct NotReady {
    /// How long it has waited.
    pub waited: Duration,
    /// How many nodes vote.
    pub votes: usize,
    /// How many nodes are needed.
    pub needed: usize,
    /// The runtime that the engine runs in has ended, or this process was forked: no time is long enough.
    pub runtime_ended: bool,
    /// The state of each node; none where the runtime has ended.
    pub nodes: NodeStates,
}

debug_is_text! { struct NotReady { waited, votes, needed, runtime_ended, nodes } }

impl NotReady {
    /// The time until quarantines that end by themselves have ended on as many nodes as are missing. `None` where fewer
    /// nodes are in quarantine. A node that votes before, or a process that is told of a longer ttl, makes it shorter
    /// or longer.
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
                "the runtime of the engine ended, or this process was forked; this handle can acquire nothing; make a \
                 new one",
            );
        }
        write!(f, "{votes} of {} voted after {waited:?}; ", counted(*needed, "needed node"))?;
        match self.remaining() {
            Some(remaining) if !remaining.is_zero() => write!(
                f,
                "the others are new or may have forgotten leases; enough of them vote in {remaining:.1?}; wait longer \
                 than that"
            )?,
            Some(_) => f.write_str(
                "the quarantine of the others is over; they are held back until more nodes can be asked",
            )?,
            None => f.write_str("fix the nodes that are not ready, or their addresses")?,
        }
        write!(f, ": {nodes}")
    }
}

impl std::error::Error for NotReady {}
