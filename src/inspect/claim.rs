//! Nodes that belong to other members, taken for the list of a handle.
//!
//! It decides which nodes are taken: those that have just said whose they are. It must never take a node that belongs to
//! nobody, or to this list, nor one of members that the caller did not name.

use std::{fmt, sync::Arc};

use super::errand::{self, FleetError};
use crate::{
    engine::Engine,
    node::{NodeError, Refusal},
    protocol::{Claim, Errand, Marker, Members, NodeId},
};

/// What was done with one node: [`Redlock::claim_nodes`](crate::Redlock::claim_nodes).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claimed {
    /// Its place in the configuration.
    pub node: NodeId,
    /// Its address, without credentials.
    pub address: Arc<str>,
    /// What was done with it.
    pub outcome: Outcome,
}

/// What was done with a node that was to be taken, if it belongs to others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It belonged to these members, or was meant for them. It joins again, for this list, and votes after its quarantine.
    Taken {
        /// Whose it was.
        from: Members,
    },
    /// It belongs to this list already. Nothing was changed.
    Ours,
    /// No node of any list was let in here yet. Nothing was changed: it joins like any new node.
    Nobodys,
    /// It belongs to members that were not named. Nothing was changed.
    Left {
        /// Whose it is.
        of: Members,
    },
    /// It did not answer. Where it was about to be taken, it may have been.
    Failed(NodeError),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { from } => write!(f, "taken from {from}"),
            Self::Ours => f.write_str("belongs to this list already"),
            Self::Nobodys => f.write_str("belongs to nobody yet"),
            Self::Left { of } => write!(f, "left to {of}"),
            Self::Failed(error) => write!(f, "not taken: {error}"),
        }
    }
}

impl Claimed {
    /// Takes each node that belongs to others, or to these of them.
    pub(crate) async fn take(
        engine: &Arc<Engine>,
        from: Option<&[Members]>,
    ) -> Result<Vec<Self>, FleetError> {
        errand::tried(engine).await?;
        // A node of nobody's stays so.
        let answers = errand::send(engine, Errand::MeanNothing, |_| true).await?;
        let mut outcomes: Vec<Outcome> =
            answers.into_iter().map(|answer| seen(answer, from)).collect();
        let is_to_be_taken =
            |node: NodeId| matches!(outcomes.get(node.index()), Some(Outcome::Taken { .. }));
        let answers = errand::send(engine, Errand::TakeOver, is_to_be_taken).await?;
        engine.look_again();
        for (outcome, answer) in outcomes.iter_mut().zip(answers) {
            if let Some(Err(error)) = answer {
                *outcome = Outcome::Failed(error);
            }
        }
        let nodes = outcomes.into_iter().zip(engine.addresses()).enumerate();
        let claimed = nodes.map(|(index, (outcome, address))| Self {
            node: NodeId::new(index),
            address: Arc::clone(address),
            outcome,
        });
        Ok(claimed.collect())
    }
}

/// What is to be done with a node that has answered this.
fn seen(answer: Option<Result<Marker, NodeError>>, from: Option<&[Members]>) -> Outcome {
    match answer {
        Some(Ok(marker)) if marker.claim == Claim::Made => Outcome::Ours,
        Some(Ok(_)) => Outcome::Nobodys,
        Some(Err(NodeError::Refused(Refusal::OtherMembers { other, .. }))) => {
            if from.is_none_or(|from| from.contains(&other)) {
                Outcome::Taken { from: other }
            } else {
                Outcome::Left { of: other }
            }
        }
        Some(Err(error)) => Outcome::Failed(error),
        None => Outcome::Failed(NodeError::TimedOut),
    }
}
