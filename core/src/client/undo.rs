//! What a round leaves on the nodes beside its win: keys to release, slots to fill in, and places in lines without a
//! waiter.
//!
//! It decides that each is undone in the step in which it becomes known, or, if a round is heard out, when its answer
//! comes. The footprint knows where something may stand.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::time::Duration;

use super::{
    AskId, Asks, AttemptId, Client, Fails, FootprintId, Said, attempts::Attempt, calls::Purpose,
    predecessor::lasting, undone::Undone,
};
use crate::{
    command::{Command, NodeId},
    line::Ticket,
    resource::Resource,
    round::Verdict,
    target::Target,
};

/// The limit on commands under way at one node that give up a place. Thousands of places may be given up at once, and
/// must leave room for renewals.
const MOST_LEAVING: usize = 1024;

/// Places to give up in one node's lines.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Leaving {
    open: usize,
    /// Places that wait for others to be done.
    next: BTreeMap<Resource, Vec<Ticket>>,
}

impl Leaving {
    /// How much is left: open commands, and resources with more places to give up.
    pub(super) fn len(&self) -> usize {
        self.open.saturating_add(self.next.len())
    }
}

impl<G: Default, W: Asks<E>, R, E: Fails> Client<G, W, R, E> {
    /// Orders the releases that follow from what is known so far.
    pub(super) fn undo(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(id.0) else { return };
        let is_won = attempt.round.verdict() == Verdict::Won;
        if let Some(footprint) = attempt.footprint {
            if attempt.round.is_any() && !is_won {
                self.undo_slots(id, footprint);
            } else {
                let undone = attempt.undone(footprint, self.settings.max_ttl);
                self.release_unwatched(undone, None);
            }
        }
        let others = self.attempts.get(id.0).and_then(|attempt| attempt.others);
        others.into_iter().for_each(|others| self.undo_slots(id, others));
    }

    /// Undoes slots: a node took one, and not every node's is known.
    fn undo_slots(&mut self, id: AttemptId, footprint: FootprintId) {
        for order in self.orders(footprint) {
            let Some(attempt) = self.attempts.get(id.0) else { return };
            let (filled_in, won) = (attempt.round.is_filled_in(order.node), attempt.won);
            let (until, key_life) = (attempt.round.deadline(), attempt.round.spec().key_life());
            if let Some(target) = attempt.round.undone_at(order.node) {
                let undone = Undone { target, ..attempt.undone(footprint, self.settings.max_ttl) };
                self.release_ordered(undone, vec![order], None);
            }
            // Gives a node that took another slot the won one, so that the nodes stay in agreement.
            if let Some(won) = won.filter(|_| filled_in) {
                self.restore(won, order.node, key_life, until);
            }
        }
    }

    /// Gives up the client's place where a won round was denied. Nodes that granted have removed it; elsewhere, later
    /// clients would wait for one that does not.
    pub(super) fn leave_where_denied(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get(id.0) else { return };
        let spec = attempt.round.spec();
        let Some(ticket) = spec.stand.and_then(|stand| stand.ticket) else { return };
        if attempt.round.verdict() != Verdict::Won {
            return;
        }
        let stands = |said: &Said<E>| matches!(said, Said::Denied(denial) if denial.rank.is_some());
        let nodes = (0..).map(NodeId::new).zip(&attempt.said);
        let nodes: Vec<NodeId> =
            nodes.filter(|(_, said)| stands(said)).map(|(node, _)| node).collect();
        let target = spec.target.clone();
        self.leave_lines(&target, ticket, nodes);
    }

    /// Leaves a lost round's open acquires until they are answered, or its request begins another round.
    pub(super) fn hear_out(&mut self, ask: AskId, id: AttemptId, footprint: FootprintId) {
        if let Some(traced) = self.footprints.get_mut(footprint.0) {
            traced.footprint.handle_heard_out();
        }
        if let Some(asking) = self.asking.get_mut(ask.0) {
            asking.heard_out.push(id);
        }
    }

    /// Ends the hearing out of these rounds: their open acquires are undone at once, out of the way of what follows.
    pub(super) fn hear_no_longer(&mut self, all: Vec<AttemptId>) {
        for id in all {
            let footprint = self.attempts.get(id.0).and_then(|attempt| attempt.footprint);
            if let Some(traced) = footprint.and_then(|id| self.footprints.get_mut(id.0)) {
                traced.footprint.handle_heard_no_longer();
                self.undo(id);
            }
        }
    }
}

impl<G, W, R, E> Client<G, W, R, E> {
    /// Gives up a place in these nodes' lines that has no waiter here any more. Nobody waits for it: without it, the
    /// next client has to find out that the first does not come.
    pub(super) fn leave_lines(&mut self, target: &Target, ticket: Ticket, nodes: Vec<NodeId>) {
        for node in nodes {
            let Some(leaving) = self.leaving.get_mut(node.index()) else { continue };
            for resource in target.lines() {
                let tickets = leaving.next.entry(resource.clone()).or_default();
                if !tickets.contains(&ticket) {
                    tickets.push(ticket);
                }
            }
            self.send_leaving(node);
        }
    }

    /// A command to give up a place is done or has failed: there is room for the next.
    pub(super) fn handle_left(&mut self, node: NodeId) {
        if let Some(leaving) = self.leaving.get_mut(node.index()) {
            leaving.open = leaving.open.saturating_sub(1);
        }
        self.send_leaving(node);
    }

    /// Gives up places before a round for the same target, which would be denied for its own client's sake.
    pub(super) fn leave_before(&mut self, target: &Target) {
        for node in (0..self.leaving.len()).map(NodeId::new) {
            for resource in target.lines() {
                let leaving = self.leaving.get_mut(node.index());
                let tickets = leaving.and_then(|leaving| leaving.next.remove(resource));
                tickets.into_iter().for_each(|all| self.leave_line(node, resource, all));
            }
        }
    }

    fn send_leaving(&mut self, node: NodeId) {
        while let Some(leaving) = self.leaving.get_mut(node.index())
            && leaving.open < MOST_LEAVING
            && let Some((resource, tickets)) = leaving.next.pop_first()
        {
            self.leave_line(node, &resource, tickets);
        }
    }

    fn leave_line(&mut self, node: NodeId, resource: &Resource, tickets: Vec<Ticket>) {
        let Some(leaving) = self.leaving.get_mut(node.index()) else { return };
        leaving.open = leaving.open.saturating_add(tickets.len());
        let client = self.settings.client;
        for ticket in tickets {
            let leave = Command::Leave { resource: resource.clone(), client, ticket };
            self.send(Purpose::Leave(node), node, leave);
        }
    }
}

impl<E> Attempt<E> {
    fn undone(&self, footprint: FootprintId, max_ttl: Duration) -> Undone {
        let spec = self.round.spec();
        Undone {
            target: spec.target.clone(),
            owner: spec.owner,
            key_life: lasting(spec.key_life(), spec.from, max_ttl),
            footprint,
            from: spec.from,
            // Nobody has held it.
            hold: None,
        }
    }
}
