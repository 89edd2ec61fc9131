//! Where the counters of an admitted node go on, what the others must say first, and the hint that keeps an acquire
//! above.
//!
//! It decides from markers that it is given. It never lets a node vote below a token that may have been given with a
//! vote from before the node forgot.

use alloc::vec::Vec;

use super::{Admission, Floor, Marker};
use crate::{command::NodeId, node_set::NodeSet, round::IMPLAUSIBLY_AHEAD};

/// A token may be this far ahead of the wall clocks, in microseconds. Nodes cut hints that are further ahead, and
/// counters that run ahead of the hints.
const TOKENS_AHEAD: u64 = 60_000_000;

/// A hint may be this far ahead of the wall clock, to be above a floor.
const HINT_AHEAD: u64 = 2 * TOKENS_AHEAD;

/// Earlier hints and seen counters may lead a client's hints so far ahead. Nodes cut a hint that is twice as far ahead,
/// each by its own clock, and would then count to different numbers.
const RUN_AHEAD: u64 = TOKENS_AHEAD / 2;

/// What a fleet does about a node that may have forgotten.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum AdmissionPolicy {
    /// The node waits the quarantine. Where a majority has forgotten, as in a new deployment, counters start a minute
    /// ahead of the wall clock, or at the largest counter left if that is more.
    #[default]
    Quarantine,
    /// The node waits the quarantine. Where a majority has forgotten, an operator must say so.
    Strict,
    /// The node does not wait. Exclusion and tokens are given up across restarts.
    DangerSkip,
}

/// Why a node whose quarantine is over cannot be admitted yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AdmissionBlock {
    /// Too few of the others could be asked for their counters.
    TooFewOthers,
    /// A majority has forgotten, and the policy is strict.
    Strict,
    /// A node's counters are more than a day ahead of the wall clock. A node that was tampered with must not spread its
    /// numbers, and a sound node must not be passed over.
    Implausible,
    /// A node belongs to another list of nodes, and no majority of this list was let in yet: their quorums need not
    /// meet.
    OtherMembers,
    /// The fleet is about to change to this list. Clients with both lists, or an operator, end that.
    NotOpen,
    /// The fleet has left this list.
    Left,
    /// A node that answered was not held for this list in time, so that another list may have it.
    NotHeld,
}

impl Admission {
    /// The hint for an acquire of `count` tokens at this wall clock, in microseconds. A node's floor may be a little
    /// ahead of the clock, as for a minute after a majority has forgotten. So may an earlier hint of this client or a
    /// counter that it saw. A hint of `count` above these spares a confirmation: nodes whose counters are all below it
    /// agree at once.
    ///
    /// Counters run ahead of the clock where one resource uses more than a million tokens a second. Beyond half a
    /// minute the hint does not follow them. No safety rests on the hint: nodes with the same counter agree without.
    pub fn hint(&mut self, wall_us: u64, count: u64) -> u64 {
        let above = self.floor.max(self.hinted);
        let next = above.saturating_add(count.max(1));
        let is_cut = above.saturating_sub(wall_us) >= HINT_AHEAD
            || self.hinted.saturating_sub(self.floor.max(wall_us)) >= RUN_AHEAD;
        self.hinted = if next > wall_us && !is_cut { next } else { wall_us };
        self.hinted
    }

    /// Takes a counter that a quorum has agreed on: the next hint is above it, unless it is half a minute ahead.
    pub fn handle_counter(&mut self, counter: u64, wall_us: u64) {
        if counter.saturating_sub(wall_us) < RUN_AHEAD {
            self.hinted = self.hinted.max(counter);
        }
    }

    /// The floor for `node`, from the markers of the *other* nodes, sealed and read after it was marked as joining,
    /// and the wall clock in microseconds. The wall clock counts only where a majority has forgotten.
    ///
    /// A token with a vote from before the node forgot was voted for by a majority. That majority and the sealed one
    /// share a node that lost nothing, so the largest sealed counter is not below the token.
    ///
    /// Where a majority has forgotten, tokens go on above the largest that the clock allows: nodes let them run a
    /// minute ahead of it.
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
        let high = markers().map(|marker| marker.high_water).max().unwrap_or(0);
        if high > wall_us.saturating_add(IMPLAUSIBLY_AHEAD) {
            return Err(AdmissionBlock::Implausible);
        }
        let own = self.record(node).and_then(|record| record.marker);
        // A node that kept its data knows its own votes: it does not go below its high-water mark.
        let kept = own.is_some_and(|marker| marker.kept);
        let heard = |is: fn(&Marker) -> bool| -> NodeSet {
            let others = others.iter().filter(|(other, _)| *other != node);
            others
                .filter(|(_, marker)| marker.as_ref().is_some_and(is))
                .map(|(other, _)| *other)
                .collect()
        };
        let knows = heard(Marker::knows);
        // Before the old list is sealed, each token has a vote of a majority of it.
        let read: Vec<(NodeId, Marker)> = others
            .iter()
            .filter_map(|(other, marker)| Some((*other, (*marker)?)))
            .filter(|(other, _)| *other != node)
            .collect();
        let counts_after = self.sees_seal(&read);
        let quorum = self.quorum;
        let is_met = |nodes| {
            quorum.is_met_before_by(nodes) && (!counts_after || quorum.is_met_after_by(nodes))
        };
        if kept || is_met(knows) {
            return Ok(Floor::new(high, 0));
        }
        // The node itself has forgotten too. A forgetful majority stays noted when some nodes are admitted again.
        let forgotten = heard(|marker| !marker.knows()).with(node);
        let orphaned = !is_met(quorum.everyone().without(forgotten))
            || own.is_some_and(|marker| marker.orphaned);
        if self.policy == AdmissionPolicy::DangerSkip || orphaned {
            return match self.policy {
                AdmissionPolicy::Strict => Err(AdmissionBlock::Strict),
                _ => Ok(Floor::new(high, wall_us.saturating_add(TOKENS_AHEAD))),
            };
        }
        Err(AdmissionBlock::TooFewOthers)
    }
}
