//! What the nodes have said to a renewal, for those of its leases that it has not extended.
//!
//! It decides nothing: the tallies do. It must never say of a node what that has not said.

use std::{iter::repeat_with, sync::Arc};

use crate::{
    engine::Engine,
    error::NodeOutcome,
    node::NodeError,
    protocol::{NodeId, Reply},
};

/// What the nodes have said to a renewal that goes wrong: one that goes well allocates nothing for it but a word a node.
pub(super) struct Said {
    /// By node: whether it has answered at all, and what has kept it from any answer.
    nodes: Vec<(bool, Option<NodeError>)>,
    /// Of single leases.
    others: Vec<(NodeId, usize, NodeOutcome)>,
    /// The time for answers is up.
    pub(super) is_late: bool,
}

impl Said {
    pub(super) fn of(nodes: usize) -> Self {
        Self { nodes: vec![(false, None); nodes], others: Vec::new(), is_late: false }
    }

    pub(super) fn handle_reply(
        &mut self,
        node: NodeId,
        lease: usize,
        reply: &Result<Reply, NodeError>,
    ) {
        if let Some((has_answered, _)) = self.nodes.get_mut(node.index()) {
            *has_answered = true;
        }
        if !matches!(reply, Ok(Reply::Granted(_))) {
            self.others.push((node, lease, NodeOutcome::of(reply.clone())));
        }
    }

    pub(super) fn handle_failure(&mut self, node: NodeId, error: NodeError) {
        if let Some(of_node) = self.nodes.get_mut(node.index()) {
            *of_node = (true, Some(error));
        }
    }

    /// Where keys are gone: of which lease, on which node.
    pub(super) fn gone(&self) -> impl Iterator<Item = (usize, NodeId)> {
        let is_gone =
            |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::Denied(denial) if denial.gone);
        let gone = self.others.iter().filter(move |(_, _, outcome)| is_gone(outcome));
        gone.map(|(node, lease, _)| (*lease, *node))
    }

    /// What each node has said of this lease.
    pub(super) fn to(&self, lease: usize) -> Vec<NodeOutcome> {
        let of_node = |(index, (has_answered, failed)): (usize, &(bool, Option<NodeError>))| {
            let is_asked = |(node, of, _): &&(NodeId, usize, NodeOutcome)| {
                node.index() == index && *of == lease
            };
            match (failed, self.others.iter().find(is_asked)) {
                (Some(error), _) => NodeOutcome::Failed(error.clone()),
                (None, Some((_, _, outcome))) => outcome.clone(),
                (None, None) if *has_answered => NodeOutcome::Granted,
                (None, None) if self.is_late => NodeOutcome::Failed(NodeError::TimedOut),
                (None, None) => NodeOutcome::Unanswered,
            }
        };
        self.nodes.iter().enumerate().map(of_node).collect()
    }
}

/// The answers of one message, one for each command and more: where a transport returns too few, the rest is unknown.
/// A failure that takes the node's standing away takes the votes beside it along, which may be from before its cause.
pub(super) fn counted(
    engine: &Engine,
    node: NodeId,
    replies: Vec<Result<Reply, NodeError>>,
) -> impl Iterator<Item = Result<Reply, NodeError>> {
    let ballot = engine.ballot(node);
    let failures = replies.iter().filter_map(|reply| reply.as_ref().err());
    failures.for_each(|error| engine.node_failed(node, error, None));
    let lapsed = !engine.admission().counts(ballot);
    let missing = || {
        let message = Arc::from("fewer answers than commands");
        Err(NodeError::Unexpected { message })
    };
    let replies = replies.into_iter().chain(repeat_with(missing));
    replies.map(move |reply| if lapsed { reply.and(Err(NodeError::VoteLapsed)) } else { reply })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_has_said_of_one_lease_is_not_said_of_another() {
        let mut said = Said::of(4);
        let [one, other, failed] = [0, 1, 2].map(NodeId::new);
        let closed = Err(NodeError::TimedOut);
        said.handle_reply(one, 0, &closed);
        said.handle_reply(other, 1, &closed);
        said.handle_failure(failed, NodeError::TimedOut);
        let refused = NodeOutcome::Failed(NodeError::TimedOut);
        let granted = NodeOutcome::Granted;
        let last = NodeOutcome::Unanswered;
        let of = |said: &Said, lease| said.to(lease);
        assert_eq!(of(&said, 0), [refused.clone(), granted.clone(), refused.clone(), last.clone()]);
        assert_eq!(of(&said, 1), [granted.clone(), refused.clone(), refused.clone(), last.clone()]);
        assert_eq!(of(&said, 2), [granted.clone(), granted.clone(), refused.clone(), last]);
        said.is_late = true;
        assert_eq!(of(&said, 2), [granted.clone(), granted, refused.clone(), refused]);
    }
}
