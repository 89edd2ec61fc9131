//! When a node may vote: the quarantine of nodes that may have forgotten what they granted.
//!
//! A node that restarted, was flushed, replaced or rolled back may have lost locks and counters. Each node carries a
//! marker with the identity it was admitted under; a node without it is *joining*. A client waits out the quarantine,
//! raises the node's floor to the largest counter that a majority of the others has issued, and lets it vote.
//!
//! Quarantine time accumulates across clients. Each client counts, by its own steady clock, how long it sees the node
//! joining, and tells the node. The node keeps the longest time that it was told, and tells it to later clients. A
//! client begins with the time that it was told, and adds the time since then. No number exceeds the true time since
//! the node began to join in that epoch: no moment is counted twice.
//!
//! The wait serves exclusion: after it, every lease that the node may have forgotten is over. Tokens rest on no clock,
//! and so not on that wait. A client *seals* the other nodes before it trusts how high their counters are. A vote
//! counts only under the seal that its round knew when it began:
//!
//! - A round that began before the seal cannot vote there behind it. The client that seals has seen its votes from
//!   before.
//! - A round that began behind the seal began after the node had forgotten, and so has no vote of its earlier life.
//!
//! A quorum with a vote of the node's earlier life shares a node with the sealed majority. So the floor is not below
//! its token, however late its other votes arrive.
//!
//! It decides, and has one answer to whether a node may vote: [`Admission::may_vote`]. It never trusts a node's uptime
//! or clock, which a step of the wall clock changes.
//!
//! ```text
//!                  begin_probe(now)                        handle_not_admitted   handle_clock_jumped
//!                       |                                  handle_unreadable
//!   poll(views, now)   v                                              |
//!   ------------> [ Probe ] --> Look(node, Join)..  --> the node       v
//!                     | ^                                |        [ Admission ] --> may_vote  vote guard, counts  marks, hint
//!                     | +---- handle_marker(node, ..) <--+             ^
//!                     |       handle_admitted(..)                      |
//!                     +--> Admit(node, epoch, floor), Done(pause) -------+  poll_news
//! ```
//!
//! # Invariants
//!
//! - **M1** A node may vote only if the last seen of it is a marker that says so. Once its standing is taken away, only
//!   a marker that was asked for after that gives it back.
//! - **M2** While a node's clock is in question, none of its answers lets it vote. The question ends by a verdict: our
//!   own clock jumped, or nobody's; or the node is to blame, and has answered a look that makes it join again.
//! - **M3** Once a node's standing is taken away, answers to earlier commands no longer count.
//! - **M4** A node is let in only in the epoch in which it has waited, and after the whole quarantine of the longest
//!   ttl that any node knows of by then. A node with older data than was seen of the same process waits anew.
//! - **M5** Its counters go on above every counter told by a majority of the others, each sealed after the node was
//!   seen joining in this epoch; or above the wall clock, where a majority has forgotten and all joining nodes were
//!   told so before.
//! - **M6** A node is made to join again only for a jump that is its own, in the epoch in which that was seen, or
//!   because its data went back.
//! - **M7** The others are sealed once for each node and epoch, and not before they could tell.
//! - **M8** Blame is decided by all clocks, read together twice since the last jump was seen.
//! - **M9** The wait that a client counts and tells is no longer than the true time since the node began to join in
//!   that epoch, by the steady clocks of the clients that saw it. A new epoch begins at zero. A marker of an older
//!   epoch than one seen of the same process is not believed.
//! - **M10** Of two lists that share a node which answers both, at most one lets its first node in. Before that, every
//!   node that answers is held for the list, and a node held for one list is never held for another.
//!
//! They are tested, each by name, in `tests/proof/protocol/admission`.

mod admitting;
mod changing;
mod clock;
mod clock_fault;
mod clock_survey;
mod connection_view;
mod floor;
mod marker;
mod news;
mod probe;
mod schedule;
mod standing;
mod step;

use alloc::{boxed::Box, collections::VecDeque, vec, vec::Vec};
use core::time::Duration;

pub(super) use self::schedule::READ_EVERY;
use self::{changing::Change, clock_fault::Clocks, standing::NodeRecord};
pub use self::{
    clock::NodeClock,
    clock_fault::ClockFault,
    connection_view::ConnectionView,
    floor::{AdmissionBlock, AdmissionPolicy},
    marker::{Claim, Errand, Floor, Join, Marker},
    news::AdmissionNews,
    probe::Probe,
    standing::{Standing, VoteBlock, VoteGuard},
    step::ProbeStep,
};
use crate::{
    command::{EpochMark, NodeId},
    members::{Belongs, Members, Relation, Serves},
    node_set::NodeSet,
    round::Quorum,
    time::Timestamp,
};

/// The standing of all nodes, as one client sees it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Admission {
    quorum: Quorum,
    policy: AdmissionPolicy,
    /// The list or lists of this client, in the generation that the nodes told. `None` where nodes keep no list.
    members: Option<Members>,
    /// Whether a node has proven the generation of that list.
    proven: bool,
    /// The fleet has left that list. A later change back to it is for processes that are started with it then.
    left: bool,
    change: Change,
    /// The longest ttl of this client.
    own: Duration,
    /// Whether `MaxTtlRaised` was already reported.
    raised: bool,
    /// The longest duration of a round, which may still count a vote of the node's earlier life.
    longest_round: Duration,
    /// The highest known floor of any node.
    floor: u64,
    /// The last hint.
    hinted: u64,
    nodes: Vec<NodeRecord>,
    clocks: Clocks,
    /// When all nodes are looked at next.
    next_look: Option<Timestamp>,
    news: VecDeque<AdmissionNews>,
}

impl Admission {
    /// A fleet with no node known yet. `max_ttl` is this client's own longest ttl, and `longest_round` the longest that
    /// one of its rounds can take.
    pub fn new(
        quorum: Quorum,
        policy: AdmissionPolicy,
        max_ttl: Duration,
        longest_round: Duration,
    ) -> Self {
        Self {
            quorum,
            policy,
            members: None,
            proven: false,
            left: false,
            change: Change::default(),
            own: max_ttl,
            raised: false,
            longest_round,
            floor: 0,
            hinted: 0,
            nodes: vec![NodeRecord::default(); quorum.nodes()],
            clocks: Clocks::new(quorum),
            next_look: None,
            news: VecDeque::new(),
        }
    }

    /// The same for a client with this list, or with both lists of a change.
    #[must_use]
    pub fn with_members(self, members: Members) -> Self {
        Self { members: Some(members), ..self }
    }

    /// The standing of a node.
    pub fn standing(&self, node: NodeId) -> Standing {
        self.record(node).map(|record| record.standing).unwrap_or_default()
    }

    /// The longest known ttl of the fleet.
    pub fn longest(&self) -> Duration {
        self.nodes.iter().map(|record| record.max_ttl).fold(self.own, Duration::max)
    }

    /// A look with this client's longest ttl. If a node belongs to another list and no majority was let in for this
    /// list, the look withdraws this list's claims: the list may be wrong.
    pub(super) fn look(&self) -> Join {
        let proven = self.proven && self.members.is_some();
        let look = Join::look(self.own).generation(self.generation(), proven);
        let is_made = |marker: &Marker| marker.claim == Claim::Made;
        let is_made = self.quorum.is_met_before_by(self.marked(is_made));
        if is_made || !self.has_others() { look } else { look.errand(Errand::Withdraw) }
    }

    /// Whether a node has a claim of this list that is not made yet.
    pub fn has_meant(&self) -> bool {
        let meant =
            |record: &NodeRecord| record.marker.is_some_and(|marker| marker.claim != Claim::Made);
        self.nodes.iter().any(meant)
    }

    /// Whether a node belongs to another list, by its last answer.
    pub(super) fn has_others(&self) -> bool {
        self.nodes.iter().any(|record| record.relation.is_some())
    }

    /// Whether a node has said so of its record.
    pub(super) fn is_told(&self, relation: impl Fn(Relation) -> bool) -> bool {
        self.nodes.iter().filter_map(|record| record.relation).any(relation)
    }

    /// The nodes whose last marker is so.
    pub(super) fn marked(&self, is: impl Fn(&Marker) -> bool) -> NodeSet {
        let is = |record: &NodeRecord| record.marker.as_ref().is_some_and(&is);
        let nodes = self.nodes.iter().enumerate().filter(|(_, record)| is(record));
        nodes.map(|(index, _)| NodeId::new(index)).collect()
    }

    /// The generation of this client's list, by what the nodes have told.
    pub fn generation(&self) -> u32 {
        self.members.as_ref().map_or(0, Members::generation)
    }

    /// How long a node is kept from voting: the longest ttl, a tenth for clocks that run at other rates,
    /// and the longest round.
    pub fn quarantine(&self) -> Duration {
        match self.policy {
            AdmissionPolicy::DangerSkip => Duration::ZERO,
            _ => {
                let longest = self.longest();
                longest.saturating_add(longest / 10).saturating_add(self.longest_round)
            }
        }
    }

    /// How long a joining node still has to wait.
    pub fn remaining(&self, node: NodeId, now: Timestamp) -> Option<Duration> {
        self.record(node)?.remaining(self.quarantine(), now)
    }

    /// The epoch in which a node was last seen. A jump of its clock counts for that epoch only: a client that notices
    /// it late must not put the node into a second quarantine.
    pub fn epoch(&self, node: NodeId) -> Option<u64> {
        Some(self.record(node)?.marker?.epoch)
    }

    /// The epoch and seal of each node, for a round that begins now.
    pub fn marks(&self) -> Box<[EpochMark]> {
        let mark = |record: &NodeRecord| record.marker.map(|m| m.mark()).unwrap_or_default();
        self.nodes.iter().map(mark).collect()
    }

    /// Whether the last look at all clocks has read this node's, so that a jump can be judged by it.
    pub fn has_seen_clock(&self, node: NodeId) -> bool {
        self.clocks.has_seen(node)
    }

    /// Takes from a node's marker what it says of the fleet, and not the node's standing.
    pub fn handle_news(&mut self, node: NodeId, marker: Marker) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.max_ttl = record.max_ttl.max(marker.max_ttl);
        }
        self.floor = self.floor.max(marker.floor);
    }

    /// Takes the marker of a node, read at `now`. Returns false if its data is older than was seen of the same process
    /// before: the node was restored from a backup, must not vote, and has to join again. While a node's clock is in
    /// question, its marker is ignored.
    #[must_use]
    pub fn handle_marker(&mut self, node: NodeId, marker: Marker, now: Timestamp) -> bool {
        let Some(record) = self.nodes.get_mut(node.index()) else { return true };
        if record.jumped_in.is_some() {
            return true;
        }
        let before = record.standing;
        if !record.handle_marker(marker, now) {
            return false;
        }
        self.proven |= marker.ready;
        let epoch = |standing: Standing| standing.waited(now).map(|(epoch, _)| epoch);
        let after = epoch(record.standing);
        self.floor = self.floor.max(marker.floor);
        self.tell_raised(node, marker);
        if after.is_some() && after != epoch(before) {
            let quarantine = self.remaining(node, now).unwrap_or_default();
            self.news.push_back(AdmissionNews::Quarantined { node, quarantine });
        }
        true
    }

    /// Takes away the standing of a node that was disconnected or refused to vote: what was known of it may be wrong.
    pub fn handle_forgotten(&mut self, node: NodeId) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.lapse();
        }
    }

    /// Takes note of another process behind the node: what was known of the former says nothing of it.
    pub fn handle_replaced(&mut self, node: NodeId) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.handle_replaced();
        }
    }

    /// The node has said that it is not admitted, or not in the expected state. Returns true if it has to be looked at.
    /// A joining node goes on waiting instead.
    #[must_use]
    pub fn handle_not_admitted(&mut self, node: NodeId) -> bool {
        self.nodes.get_mut(node.index()).is_some_and(NodeRecord::lapse_if_ready)
    }

    /// The node's clock was seen to jump. `seen` is the epoch in which its session last saw it ready: a look under way
    /// may have told of a newer one. A node without a known epoch has not voted for this client.
    pub fn handle_clock_jumped(&mut self, node: NodeId, seen: Option<u64>) {
        let epoch = self.epoch(node).max(seen).unwrap_or(u64::MAX);
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.handle_jump(epoch);
        }
    }

    /// The node's marker could not be read or set, for a reason that does not pass by itself. It would not vote either.
    /// Returns true the first time.
    pub fn handle_unreadable(&mut self, node: NodeId) -> bool {
        let Some(record) = self.nodes.get_mut(node.index()) else { return false };
        record.lapse_if_ready();
        !core::mem::replace(&mut record.unreadable, true)
    }

    /// The node's record says that it serves another list, or that a client with another list claims it. Returns what that
    /// means. A later generation of our own list is the one from now on: what was known of all nodes was of an earlier one.
    pub fn handle_other_members(
        &mut self,
        node: NodeId,
        record: &Members,
        told: Belongs,
    ) -> Relation {
        let ours = self.members.as_ref();
        let relation = ours.map_or(Relation::Others, |ours| ours.relation(record));
        let relation = match relation {
            Relation::Left | Relation::Into(_) if told == Belongs::Claim => Relation::Claimed,
            // The change is over, and this node has missed it.
            Relation::Into(_) if told == Belongs::Announced && self.proven => Relation::Earlier,
            // This client has seen the end of its change, or of its list.
            Relation::Later(generation)
                if generation > self.generation() && (self.left || self.has_ended()) =>
            {
                Relation::Left
            }
            Relation::Into(_) if self.left => Relation::Left,
            relation => relation,
        };
        self.left |= relation == Relation::Left;
        if let Relation::Later(generation) | Relation::Into(generation) = relation
            && generation > self.generation()
        {
            self.proven = matches!(relation, Relation::Later(_));
            self.members = self.members.take().map(|ours| ours.at(generation));
            self.change = Change::default();
            self.nodes.iter_mut().for_each(NodeRecord::handle_replaced);
        }
        if let Some(known) = self.nodes.get_mut(node.index()) {
            known.relation = Some(relation);
        }
        match relation {
            Relation::Left | Relation::Others => {
                let _ = self.handle_unreadable(node);
            }
            // It is looked at again: with the later generation, or to see whether it is open, or to take it.
            Relation::Later(_) | Relation::Into(_) | Relation::Earlier | Relation::Claimed => {
                let _ = self.handle_not_admitted(node);
            }
        }
        relation
    }

    /// Whether this client has two lists, and was served as one with the new list.
    fn has_ended(&self) -> bool {
        let [before, after] = self.quorum.lists();
        let is_open = |marker: &Marker| marker.ready && marker.serves == Some(Serves::After);
        before != after && !self.marked(is_open).is_empty()
    }

    /// Reports once that a node in use knew no ttl as long as this client's.
    fn tell_raised(&mut self, node: NodeId, marker: Marker) {
        let in_use = marker.claim == Claim::Made && !marker.max_ttl.is_zero();
        if in_use && marker.max_ttl < self.own && !core::mem::replace(&mut self.raised, true) {
            let (from, to) = (marker.max_ttl, self.own);
            self.news.push_back(AdmissionNews::MaxTtlRaised { node, from, to });
        }
    }

    /// The next event, in the order of their occurrence.
    pub fn poll_news(&mut self) -> Option<AdmissionNews> {
        self.news.pop_front()
    }

    fn everyone(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.quorum.nodes()).map(NodeId::new)
    }

    fn record(&self, node: NodeId) -> Option<&NodeRecord> {
        self.nodes.get(node.index())
    }
}

#[cfg(test)]
#[path = "admission_test.rs"]
mod tests;
