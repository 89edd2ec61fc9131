//! When a node may vote: the quarantine of nodes that may have forgotten what they granted.
//!
//! A node that restarted, was flushed, replaced or rolled back may have lost locks and counters. Each node
//! carries a marker with the identity it was admitted under; a node without it is *joining*. A client waits
//! out the quarantine, raises the node's floor to what a majority of the others has
//! issued, and lets it vote.
//!
//! Quarantines add up. Each client counts the time that it sees the node joining, by its own steady clock, and tells the
//! node, which keeps the longest time that it was told and tells it to those who come. A client begins with what it was
//! told, and adds the time since then. Each number is less than the true time since the node began to join in that
//! epoch, and so is the largest of them: nothing is added up that was counted by two.
//!
//! The wait is for exclusion: every lease that the node may have forgotten is over then. Tokens rest on no clock,
//! and so not on that wait. Whoever reads how high the counters of the others are *seals* them, and a vote counts
//! only under the seal that its round knew when it began:
//!
//! - A round that began before the seal cannot vote there behind it. What it voted there before, the reader has
//!   seen.
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
//! - **M1** A node may vote only if the last that was seen of it is a marker that says so: whatever takes its standing
//!   away, only a marker that was asked for after that gives it back.
//! - **M2** While a node's clock is in question, no answer of its lets it vote. The question ends by a verdict: it was
//!   ours, or nobody's; or the node is to blame, and has answered a look that makes it join again.
//! - **M3** What was asked of a node before its standing was taken away counts no more after that.
//! - **M4** A node is let in only in the epoch in which it has waited, and after the whole quarantine of the longest ttl
//!   that any node knows of by then. Data that is older than what was seen of the same process waits anew.
//! - **M5** Its counters go on above all that a majority of the others has said, each of which was sealed after the node
//!   was seen joining in this epoch; or above the wall clock, where a majority has forgotten and all that were joining
//!   were told so before.
//! - **M6** A node is made to join again only for a jump that is its own, in the epoch in which that was seen, or because
//!   its data went back.
//! - **M7** The others are sealed once for each node and epoch, and not before they could tell.
//! - **M8** Who is blamed is decided by all clocks, read together twice since the last jump was seen.
//! - **M9** What a client counts of a wait, and tells, is no longer than the true time since the node began to join in that
//!   epoch, by the steady clocks of those who saw it. A new epoch begins with nothing, and what is told of an epoch that is
//!   older than another that was seen of the same process is not believed.
//! - **M10** Of two lists of nodes that share one which answers both, at most one lets its first node in: before that, every
//!   node that answers is held for the list, and what is held for one list is never held for another.
//!
//! They are tested, each by name, in `tests/proof/protocol/admission`.

mod admitting;
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
use self::{clock_fault::Clocks, standing::NodeRecord};
use crate::{
    command::{EpochMark, NodeId},
    round::Quorum,
    time::Timestamp,
};

/// The standing of all nodes, as one client sees it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Admission {
    quorum: Quorum,
    policy: AdmissionPolicy,
    /// The longest ttl of this client.
    own: Duration,
    /// Whether it has been said that a node knew of a shorter one.
    raised: bool,
    /// The longest round, which may still count a vote of the node's earlier life.
    longest_round: Duration,
    /// The highest floor of any node, as far as it is known.
    floor: u64,
    /// The hint that was given last.
    hinted: u64,
    nodes: Vec<NodeRecord>,
    clocks: Clocks,
    /// When all nodes are looked at next, whatever else there is to see to.
    next_look: Option<Timestamp>,
    news: VecDeque<AdmissionNews>,
}

impl Admission {
    /// A fleet of which nothing is known yet. `max_ttl` is this client's own longest ttl, and
    /// `longest_round` the longest that one of its rounds can take.
    pub fn new(
        quorum: Quorum,
        policy: AdmissionPolicy,
        max_ttl: Duration,
        longest_round: Duration,
    ) -> Self {
        Self {
            quorum,
            policy,
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

    /// Where a node stands.
    pub fn standing(&self, node: NodeId) -> Standing {
        self.record(node).map(|record| record.standing).unwrap_or_default()
    }

    /// The longest ttl of the fleet, as far as it is known.
    pub fn longest(&self) -> Duration {
        self.nodes.iter().map(|record| record.max_ttl).fold(self.own, Duration::max)
    }

    /// A look that says what this client is set to. Where a node belongs to another list, and no majority has been let in for
    /// this one, the client gives up what it has meant: its list may be the wrong one.
    pub(super) fn look(&self) -> Join {
        let look = Join::look(self.own);
        let made =
            |record: &&NodeRecord| record.marker.is_some_and(|marker| marker.claim == Claim::Made);
        let is_made = self.nodes.iter().filter(made).count() >= self.quorum.needed();
        if is_made || !self.has_others() { look } else { look.errand(Errand::Withdraw) }
    }

    /// Whether this client has said on a node that it means to use it, and no node was let in there yet.
    pub fn has_meant(&self) -> bool {
        let meant =
            |record: &NodeRecord| record.marker.is_some_and(|marker| marker.claim != Claim::Made);
        self.nodes.iter().any(meant)
    }

    /// Whether a node belongs to another list, by the last that it said.
    pub(super) fn has_others(&self) -> bool {
        self.nodes.iter().any(|record| record.of_others)
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

    /// The epoch in which a node was last seen. A jump of its clock counts for that one only: whoever notices it
    /// late must not put a node in quarantine that has been through it.
    pub fn epoch(&self, node: NodeId) -> Option<u64> {
        Some(self.record(node)?.marker?.epoch)
    }

    /// What is known of each node, for a round that begins now.
    pub fn marks(&self) -> Box<[EpochMark]> {
        let mark = |record: &NodeRecord| record.marker.map(|m| m.mark()).unwrap_or_default();
        self.nodes.iter().map(mark).collect()
    }

    /// Whether the clock of this node was read when those of all were read together last, so that a jump can be judged
    /// by it.
    pub fn has_seen_clock(&self, node: NodeId) -> bool {
        self.clocks.has_seen(node)
    }

    /// Takes from the marker of a node what it says of the fleet, and nothing of the node itself.
    pub fn handle_news(&mut self, node: NodeId, marker: Marker) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.max_ttl = record.max_ttl.max(marker.max_ttl);
        }
        self.floor = self.floor.max(marker.floor);
    }

    /// Takes the marker of a node, read at `now`. False says that its data is older than what has been seen of the
    /// same epoch before: it has been restored from somewhere, must not vote, and has to join again. Of a node whose
    /// clock is in question nothing is taken.
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

    /// The node was disconnected, or refused to vote: whatever was known of it may be wrong.
    pub fn handle_forgotten(&mut self, node: NodeId) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.lapse();
        }
    }

    /// Another process is there: what was known of the one before says nothing of it.
    pub fn handle_replaced(&mut self, node: NodeId) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.handle_replaced();
        }
    }

    /// The node has said that it is not admitted, or not in the state that was asked for. True says that it has to be
    /// looked at: one that is joining has said so before, and goes on waiting.
    #[must_use]
    pub fn handle_not_admitted(&mut self, node: NodeId) -> bool {
        self.nodes.get_mut(node.index()).is_some_and(NodeRecord::lapse_if_ready)
    }

    /// The node's clock was seen to jump. `seen` is the epoch in which its session has seen it ready last: a look that
    /// is under way may have told of a newer one. A node of which no epoch is known has voted for nobody here.
    pub fn handle_clock_jumped(&mut self, node: NodeId, seen: Option<u64>) {
        let epoch = self.epoch(node).max(seen).unwrap_or(u64::MAX);
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.handle_jump(epoch);
        }
    }

    /// The node's marker could not be read or set, for a reason that does not pass by itself. It would not vote
    /// either. True says that this is new.
    pub fn handle_unreadable(&mut self, node: NodeId) -> bool {
        let Some(record) = self.nodes.get_mut(node.index()) else { return false };
        record.lapse_if_ready();
        !core::mem::replace(&mut record.unreadable, true)
    }

    /// The node belongs to another list of nodes.
    pub fn handle_other_members(&mut self, node: NodeId) {
        if let Some(record) = self.nodes.get_mut(node.index()) {
            record.of_others = true;
        }
        let _ = self.handle_unreadable(node);
    }

    /// A node that is in use knew of no ttl as long as this client's: from now on it does.
    fn tell_raised(&mut self, node: NodeId, marker: Marker) {
        let in_use = marker.claim == Claim::Made && !marker.max_ttl.is_zero();
        if in_use && marker.max_ttl < self.own && !core::mem::replace(&mut self.raised, true) {
            let (from, to) = (marker.max_ttl, self.own);
            self.news.push_back(AdmissionNews::MaxTtlRaised { node, from, to });
        }
    }

    /// What has happened since this was asked last, one after the other.
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
