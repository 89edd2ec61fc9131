//! The keys of an owner that has let go, on the nodes where an adoption did not take them over.
//!
//! It decides that they are released once the adoption is won, where a node denied it, where one denies a renewal, and when the
//! grant is given back: nobody can adopt them any more, and they would keep the new owner, and everybody behind it, from those
//! nodes. It must never release them for a round that is not won.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Asks, Client, Fails, Grant, GrantId, Said, attempts::AttemptId, undone::Undone};
use crate::{
    command::{Granted, NodeId, Reply},
    footprint::Footprint,
    owner::Owner,
    round::Verdict,
    target::Target,
};

/// How long a node keeps keys that live for so long by themselves: those taken over end no sooner than before.
pub(super) fn lasting(key_life: Duration, from: Option<Owner>, max_ttl: Duration) -> Duration {
    if from.is_some() { key_life.max(max_ttl) } else { key_life }
}

impl<G, E> Grant<G, E> {
    /// How long a node may keep its keys.
    pub(super) fn key_life(&self, max_ttl: Duration) -> Duration {
        lasting(self.leases.key_life(), self.from, max_ttl)
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// An adoption was won: what earlier rounds took of it is released, and no longer given back.
    pub(super) fn consume(&mut self, from: Owner) {
        let consume = |undone: &mut Undone| undone.from = undone.from.filter(|it| *it != from);
        self.releasing.iter_mut().for_each(|(_, releasing)| consume(releasing.undone_mut()));
        self.again.iter_mut().for_each(|again| again.each(consume));
    }

    /// All nodes have answered a round, or their time is up. Where it was won, those that denied have it still.
    pub(super) fn release_predecessor(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(id.0) else { return };
        let Some(before) = attempt.round.spec().from else { return };
        if attempt.round.verdict() != Verdict::Won {
            return;
        }
        let target = attempt.round.spec().target.clone();
        // Of several keys the first that is missing is told.
        let may_be_left = |said: &Said<E>| match said {
            Said::Denied(denial) => !denial.gone || target.len() > 1,
            _ => false,
        };
        let nodes = (0..).map(NodeId::new).zip(&attempt.said);
        let nodes: Vec<NodeId> =
            nodes.filter(|(_, said)| may_be_left(said)).map(|(node, _)| node).collect();
        self.release_of(before, target, nodes);
    }

    /// A grant is given back: where it has not got the keys, its predecessor may still have them.
    pub(super) fn release_predecessor_of(&mut self, id: GrantId) {
        let Some(grant) = self.grants.get(id.0) else { return };
        let Some(before) = grant.from else { return };
        let (target, footprint) = (grant.target.clone(), grant.footprint);
        let has = |node: &NodeId| {
            let traced = self.footprints.get(footprint.0);
            traced.is_some_and(|traced| traced.footprint.has_been_set(*node))
        };
        let all = (0..self.settings.quorum.nodes()).map(NodeId::new);
        let nodes: Vec<NodeId> = all.filter(|node| !has(node)).collect();
        self.release_of(before, target, nodes);
    }

    /// Releases on these nodes what they have of it. A node that does not answer is followed for as long as it may.
    pub(super) fn release_of(
        &mut self,
        before: Owner,
        target: Target,
        nodes: impl IntoIterator<Item = NodeId>,
    ) {
        let mut footprint = Footprint::new(self.settings.quorum.nodes());
        for node in nodes {
            footprint.handle_acquire_sent(node);
            footprint.handle_acquire(node, &Ok(Reply::Granted(Granted::DONE)));
        }
        footprint.handle_given_back();
        let footprint = self.add_footprint(footprint);
        let undone = Undone {
            target,
            owner: before,
            key_life: self.settings.max_ttl,
            footprint,
            from: None,
            hold: None,
        };
        self.release_unwatched(undone, None);
        self.let_go_of(footprint);
    }
}
