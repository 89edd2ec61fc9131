//! When a node may vote: the quarantine of nodes that may have forgotten what they granted.
//!
//! A node that restarted, was flushed, replaced or rolled back may have lost locks and counters. Each node
//! carries a marker with the identity it was admitted under; a node without it is *joining*. A client waits
//! out the quarantine on its own clock, raises the node's floor to what a majority of the others has
//! issued, and lets it vote.
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
//! It decides. It never trusts a node's uptime or clock, which a step of the wall clock changes.

use alloc::{boxed::Box, vec, vec::Vec};
use core::time::Duration;

use super::{
    command::{Mark, NodeId},
    round::{IMPLAUSIBLY_AHEAD, Quorum},
    time::Timestamp,
};

/// What a node's marker says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Marker {
    /// Whether the node has been admitted under its present identity.
    pub ready: bool,
    /// The longest ttl of the fleet, as the node has been told.
    pub max_ttl: Duration,
    /// No counter ever issued by the node is above this.
    pub high: u64,
    /// Counters that the node begins are above this.
    pub floor: u64,
    /// A number that changes whenever the node is marked as joining, or admitted.
    pub era: u64,
    /// How often the node has been sealed in this era.
    pub seal: u64,
    /// Whether a node that is joining has lost nothing: its clock jumped. It votes no more, so that its `high` is the
    /// last word on what it voted for before.
    pub kept: bool,
    /// Whether a majority had forgotten while the node was joining in this era: then nobody can say how high its
    /// counters were.
    pub orphaned: bool,
}

impl Marker {
    /// A marker that says this, with a floor and an era of zero.
    pub const fn new(ready: bool, max_ttl: Duration, high: u64) -> Self {
        Self { ready, max_ttl, high, floor: 0, era: 0, seal: 0, kept: false, orphaned: false }
    }

    /// The same with this era.
    #[must_use]
    pub const fn in_era(self, era: u64) -> Self {
        Self { era, ..self }
    }

    /// The same, sealed so often.
    #[must_use]
    pub const fn sealed(self, seal: u64) -> Self {
        Self { seal, ..self }
    }

    /// The same, of a node that is joining and has lost nothing, or of one that may have.
    #[must_use]
    pub const fn kept(self, kept: bool) -> Self {
        Self { kept, ..self }
    }

    /// The same, of a node that was joining while a majority had forgotten, or not.
    #[must_use]
    pub const fn orphaned(self, orphaned: bool) -> Self {
        Self { orphaned, ..self }
    }

    /// Whether the node can say how high the counters of others may be.
    const fn knows(&self) -> bool {
        self.ready || self.kept
    }

    /// The era and the seal, for rounds that begin now.
    pub const fn mark(&self) -> Mark {
        Mark::new(self.era, self.seal)
    }

    /// The same with this floor; `high` is not below it.
    #[must_use]
    pub const fn above(self, floor: u64) -> Self {
        let high = if floor > self.high { floor } else { self.high };
        Self { floor, high, ..self }
    }
}

/// Where the counters of a node that is admitted go on.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct Floor {
    /// No counter that the other nodes know of is above this.
    pub known: u64,
    /// Where a majority has forgotten, above all that a token may have been by the wall clock of whoever admits,
    /// in microseconds; otherwise zero. The node cuts it to two minutes ahead of its own.
    pub wall_us: u64,
}

impl Floor {
    /// Above what the others know of, and above what a wall clock tells.
    pub const fn new(known: u64, wall_us: u64) -> Self {
        Self { known, wall_us }
    }
}

/// What a fleet does about a node that may have forgotten.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AdmissionPolicy {
    /// It waits the quarantine. Where a majority has forgotten, as in a new deployment, counters start a minute
    /// ahead of the wall clock, or at the largest that is left if that is more.
    #[default]
    Quarantine,
    /// It waits the quarantine. Where a majority has forgotten, an operator must say so.
    Strict,
    /// It does not wait, and gives up exclusion and tokens across restarts.
    DangerSkip,
}

/// Where one node stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Standing {
    /// Its marker has not been read since it was last connected, or it has to be admitted anew.
    Unknown,
    /// It may vote.
    Ready,
    /// It may have forgotten, and has been waiting since then, on the client's clock.
    Joining {
        /// When this client first saw it so.
        since: Timestamp,
        /// The era that it waits in. In another one, the wait begins again.
        era: u64,
    },
}

/// Why a node whose quarantine is over cannot be admitted yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AdmissionBlock {
    /// Too few of the others could be asked for their counters.
    TooFewOthers,
    /// A majority has forgotten, and the policy is strict.
    Strict,
    /// A node says that its counters are more than a day ahead of the wall clock. One that has been tampered with
    /// must not spread its numbers, and one that has not must not be passed over.
    Implausible,
}

/// The standing of all nodes, as one client sees it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Admission {
    quorum: Quorum,
    policy: AdmissionPolicy,
    /// The longest ttl of the fleet, as far as it is known.
    longest: Duration,
    /// The longest attempt, which may still count a vote of the node's earlier life.
    attempt: Duration,
    /// The highest floor of any node, as far as it is known.
    floor: u64,
    /// The hint that was given last.
    hinted: u64,
    nodes: Vec<Standing>,
    /// What the marker of each said last.
    markers: Vec<Option<Marker>>,
}

/// A token may be this far ahead of the wall clocks, in microseconds: nodes cut hints that are further ahead, and
/// what runs ahead of the hints.
const TOKENS_AHEAD: u64 = 60_000_000;

/// A hint may be this far ahead of the wall clock, to be above a floor.
const HINT_AHEAD: u64 = 2 * TOKENS_AHEAD;

impl Admission {
    /// A fleet of which nothing is known yet. `max_ttl` is this client's own longest ttl, and
    /// `attempt` the longest that one of its rounds can take.
    pub fn new(
        quorum: Quorum,
        policy: AdmissionPolicy,
        max_ttl: Duration,
        attempt: Duration,
    ) -> Self {
        let nodes = vec![Standing::Unknown; quorum.nodes()];
        let markers = vec![None; quorum.nodes()];
        Self { quorum, policy, longest: max_ttl, attempt, floor: 0, hinted: 0, nodes, markers }
    }

    /// Where a node stands.
    pub fn standing(&self, node: NodeId) -> Standing {
        self.nodes.get(node.index()).copied().unwrap_or(Standing::Unknown)
    }

    /// The longest ttl of the fleet, as far as it is known.
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// How long a node is kept from voting: the longest ttl, a tenth for clocks that run at other rates,
    /// and the longest attempt.
    pub fn quarantine(&self) -> Duration {
        match self.policy {
            AdmissionPolicy::DangerSkip => Duration::ZERO,
            _ => self.longest.saturating_add(self.longest / 10).saturating_add(self.attempt),
        }
    }

    /// How long a joining node still has to wait.
    pub fn remaining(&self, node: NodeId, now: Timestamp) -> Option<Duration> {
        match self.standing(node) {
            Standing::Joining { since, .. } => {
                Some(self.quarantine().saturating_sub(now.saturating_since(since)))
            }
            _ => None,
        }
    }

    /// The hint of an acquire at this wall clock, in microseconds. Where a node's floor is a little ahead of it, as
    /// for a minute after a majority has forgotten, or what this client has hinted before is, a hint above that
    /// spares a confirmation: nodes whose counters are all below it agree at once.
    pub fn hint(&mut self, wall_us: u64) -> u64 {
        let above = self.floor.max(self.hinted);
        let ahead = above.saturating_sub(wall_us);
        self.hinted = if above >= wall_us && ahead < HINT_AHEAD { above + 1 } else { wall_us };
        self.hinted
    }

    /// The era in which a node was last seen. A jump of its clock counts for that one only: whoever notices it
    /// late must not put a node in quarantine that has been through it.
    pub fn era(&self, node: NodeId) -> Option<u64> {
        self.marker(node).map(|marker| marker.era)
    }

    /// What is known of each node, for a round that begins now.
    pub fn marks(&self) -> Box<[Mark]> {
        let mark = |marker: &Option<Marker>| marker.as_ref().map(Marker::mark).unwrap_or_default();
        self.markers.iter().map(mark).collect()
    }

    fn marker(&self, node: NodeId) -> Option<Marker> {
        self.markers.get(node.index()).copied().flatten()
    }

    /// Takes from the marker of a node what it says of the fleet, and nothing of the node itself.
    pub fn handle_news(&mut self, marker: Marker) {
        self.longest = self.longest.max(marker.max_ttl);
        self.floor = self.floor.max(marker.floor);
    }

    /// Takes the marker of a node, read at `now`. False says that its data is older than what has been seen of the
    /// same era before: it has been restored from somewhere, must not vote, and has to join again.
    #[must_use]
    pub fn handle_marker(&mut self, node: NodeId, marker: Marker, now: Timestamp) -> bool {
        let went_back = self.marker(node).is_some_and(|before| {
            let fell = before.high > marker.high || before.seal > marker.seal;
            marker.ready && (before.era > marker.era || before.era == marker.era && fell)
        });
        if went_back {
            self.handle_forgotten(node);
            return false;
        }
        self.handle_news(marker);
        let slots = (self.markers.get_mut(node.index()), self.nodes.get_mut(node.index()));
        let (Some(known), Some(standing)) = slots else { return true };
        *known = Some(marker);
        *standing = match (*standing, marker.ready) {
            (_, true) => Standing::Ready,
            (Standing::Joining { since, era }, false) if era == marker.era => {
                Standing::Joining { since, era }
            }
            (_, false) => Standing::Joining { since: now, era: marker.era },
        };
        true
    }

    /// The node was disconnected, or refused to vote: whatever was known of it may be wrong.
    pub fn handle_forgotten(&mut self, node: NodeId) {
        if let Some(standing) = self.nodes.get_mut(node.index()) {
            *standing = Standing::Unknown;
        }
    }

    /// Another process is there: what was known of the one before says nothing of it.
    pub fn handle_replaced(&mut self, node: NodeId) {
        if let Some(marker) = self.markers.get_mut(node.index()) {
            *marker = None;
        }
        self.handle_forgotten(node);
    }

    /// When the next quarantine ends.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.nodes
            .iter()
            .filter_map(|standing| match standing {
                Standing::Joining { since, .. } => Some(since.saturating_add(self.quarantine())),
                _ => None,
            })
            .min()
    }

    /// The nodes whose quarantine is over at `now`.
    pub fn due(&self, now: Timestamp) -> Vec<NodeId> {
        (0..self.quorum.nodes())
            .map(NodeId::new)
            .filter(|node| self.remaining(*node, now) == Some(Duration::ZERO))
            .collect()
    }

    /// The floor for `node`, from the markers of the *other* nodes, sealed and read after it was marked as joining,
    /// and the wall clock in microseconds. The wall clock counts only where a majority has forgotten.
    ///
    /// A token that counts a vote from before the node forgot was voted for by a majority. That majority and the
    /// sealed one meet in a node that lost nothing, so the largest counter there is not below it.
    ///
    /// Where a majority has forgotten, tokens go on above whatever they may have been by the clock: nodes let them
    /// run a minute ahead of it.
    ///
    /// # Errors
    ///
    /// [`AdmissionBlock`] says why the node has to wait longer.
    pub fn floor(
        &self,
        node: NodeId,
        others: &[(NodeId, Option<Marker>)],
        wall_us: u64,
    ) -> Result<Floor, AdmissionBlock> {
        let markers =
            || others.iter().filter(|(other, _)| *other != node).filter_map(|(_, marker)| *marker);
        let high = markers().map(|marker| marker.high).max().unwrap_or(0);
        if high > wall_us.saturating_add(IMPLAUSIBLY_AHEAD) {
            return Err(AdmissionBlock::Implausible);
        }
        let own = self.marker(node);
        // What it voted for itself it knows: the node does not go below its own high-water mark.
        let kept = own.is_some_and(|marker| marker.kept);
        if kept || markers().filter(Marker::knows).count() >= self.quorum.needed() {
            return Ok(Floor::new(high, 0));
        }
        // The node itself has forgotten too. Where that was a majority, it stays so when some are admitted again.
        let forgotten = markers().filter(|marker| !marker.knows()).count() + 1;
        let orphaned = forgotten > self.quorum.spare() || own.is_some_and(|marker| marker.orphaned);
        if self.policy == AdmissionPolicy::DangerSkip || orphaned {
            return match self.policy {
                AdmissionPolicy::Strict => Err(AdmissionBlock::Strict),
                _ => Ok(Floor::new(high, wall_us.saturating_add(TOKENS_AHEAD))),
            };
        }
        Err(AdmissionBlock::TooFewOthers)
    }
}

#[cfg(test)]
#[path = "admission_test.rs"]
mod tests;
