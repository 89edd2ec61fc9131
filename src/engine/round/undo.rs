//! What a round leaves behind its verdict: releases of what it has not won, and places in line that nobody waits in.
//!
//! It sends what the footprint orders, and nothing else.

use std::sync::{Arc, Weak};

use super::AcquireRound;
use crate::{
    engine::{
        Engine,
        footprint::{Released, SharedFootprint},
        restore::LostKey,
    },
    error::NodeOutcome,
    protocol::{Footprint, NodeId},
};

/// A lost round that is heard out: what is still under way is not undone before it is answered. It ends with this.
pub(in crate::engine) struct HeardOut {
    engine: Arc<Engine>,
    released: Released,
}

impl Drop for HeardOut {
    fn drop(&mut self) {
        // Where nobody serves it, as in a forked process, its lock may be kept for ever.
        if self.engine.is_served() {
            self.released.footprint.with(Footprint::handle_heard_no_longer);
            self.engine.release_unwatched(&self.released);
        }
    }
}

impl AcquireRound {
    /// The nodes that have granted it have taken the client out of their lines. On those that have denied it, whoever comes
    /// would wait for a client that does not.
    pub(super) fn leave_where_denied(&self) {
        let spec = self.round.spec();
        let Some(ticket) = spec.stand.and_then(|stand| stand.ticket) else { return };
        let stands = |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::Denied(denial) if denial.rank.is_some());
        let nodes = self.outcomes.iter().enumerate();
        let nodes: Vec<NodeId> = nodes
            .filter(|(_, outcome)| self.is_won() && stands(outcome))
            .map(|(index, _)| NodeId::new(index))
            .collect();
        if !nodes.is_empty() {
            self.engine.leave_lines(&spec.target, ticket, nodes);
        }
    }

    /// Sends the releases that have to follow what is known so far.
    pub(in crate::engine) fn undo(&self) {
        if let Some(footprint) = &self.footprint {
            if self.round.is_any() && !self.is_won() {
                self.undo_slots(footprint);
            } else {
                let orders = footprint.orders();
                if !orders.is_empty() {
                    self.engine.release_ordered(self.released(footprint), orders);
                }
            }
        }
        self.others.iter().for_each(|others| self.undo_slots(others));
    }

    /// A node took one slot, and which one is not known of all nodes.
    fn undo_slots(&self, footprint: &Arc<SharedFootprint>) {
        for order in footprint.orders() {
            if let Some(target) = self.round.undone_at(order.node) {
                let released = Released { target, ..self.released(footprint) };
                self.engine.release_ordered(released, vec![order]);
            }
            self.fill_in(order.node);
        }
    }

    /// Has a node that took another slot keep the one that was won, as the others do, so that they go on agreeing.
    fn fill_in(&self, node: NodeId) {
        let won = self.won.get().and_then(Weak::upgrade);
        if let Some(grant) = won.filter(|_| self.round.is_filled_in(node)) {
            let (key_life, until) = (self.round.spec().key_life(), self.round.deadline());
            self.engine.restore([LostKey { grant, node, key_life, until }]);
        }
    }

    fn released(&self, footprint: &Arc<SharedFootprint>) -> Released {
        let spec = self.round.spec();
        Released {
            target: spec.target.clone(),
            owner: spec.owner,
            key_life: spec.key_life(),
            footprint: Arc::clone(footprint),
            // Nobody has held it.
            hold: None,
        }
    }

    /// It was lost, and may be heard out: for as long as what is returned lives, nothing is undone that may yet be denied.
    pub(in crate::engine) fn hear_out(&self) -> Option<HeardOut> {
        let footprint = self.footprint.as_ref()?;
        footprint.with(Footprint::handle_heard_out);
        Some(HeardOut { engine: Arc::clone(&self.engine), released: self.released(footprint) })
    }
}
