//! From where the counters of a node go on that is admitted, what the others must have said first, and the hint by which
//! an acquire stays above it.
//!
//! It decides from markers that it is given. It never lets a node vote below a token that may have been given with a
//! vote of its earlier life.

use super::{Admission, Floor, Marker};
use crate::{command::NodeId, round::IMPLAUSIBLY_AHEAD};

/// A token may be this far ahead of the wall clocks, in microseconds: nodes cut hints that are further ahead, and
/// what runs ahead of the hints.
const TOKENS_AHEAD: u64 = 60_000_000;

/// A hint may be this far ahead of the wall clock, to be above a floor.
const HINT_AHEAD: u64 = 2 * TOKENS_AHEAD;

/// What this client has hinted before, and counters that it has seen, may lead its hints so far ahead. Nodes cut a hint
/// that is twice as far ahead, each by its own clock, and would then count to different numbers.
const RUN_AHEAD: u64 = TOKENS_AHEAD / 2;

/// What a fleet does about a node that may have forgotten.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
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

/// Why a node whose quarantine is over cannot be admitted yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AdmissionBlock {
    /// Too few of the others could be asked for their counters.
    TooFewOthers,
    /// A majority has forgotten, and the policy is strict.
    Strict,
    /// A node says that its counters are more than a day ahead of the wall clock. One that has been tampered with
    /// must not spread its numbers, and one that has not must not be passed over.
    Implausible,
    /// A node belongs to another list of nodes, and no majority of this one has been let in yet: their quorums need not meet.
    OtherMembers,
    /// A node that has answered was not held for this list in time, so that another one may have it.
    NotHeld,
}

impl Admission {
    /// The hint of an acquire of so many tokens at this wall clock, in microseconds. Where a node's floor is a little
    /// ahead of it, as for a minute after a majority has forgotten, or what this client has hinted before or seen is, a
    /// hint so many above that spares a confirmation: nodes whose counters are all below it agree at once.
    ///
    /// Counters run ahead of the clock where more than a million tokens a second are asked for of one resource. From half
    /// a minute on the hint does not follow them. Nothing rests on it: nodes that have the same counter agree without.
    pub fn hint(&mut self, wall_us: u64, count: u64) -> u64 {
        let above = self.floor.max(self.hinted);
        let next = above.saturating_add(count.max(1));
        let is_cut = above.saturating_sub(wall_us) >= HINT_AHEAD
            || self.hinted.saturating_sub(self.floor.max(wall_us)) >= RUN_AHEAD;
        self.hinted = if next > wall_us && !is_cut { next } else { wall_us };
        self.hinted
    }

    /// Takes note of a counter that a quorum has agreed on: the next hint is above it.
    pub fn handle_counter(&mut self, counter: u64, wall_us: u64) {
        if counter.saturating_sub(wall_us) < RUN_AHEAD {
            self.hinted = self.hinted.max(counter);
        }
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
        let high = markers().map(|marker| marker.high_water).max().unwrap_or(0);
        if high > wall_us.saturating_add(IMPLAUSIBLY_AHEAD) {
            return Err(AdmissionBlock::Implausible);
        }
        let own = self.record(node).and_then(|record| record.marker);
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
