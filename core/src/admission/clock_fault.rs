//! Whose clock has jumped: a node's, or our own.
//!
//! A jump between a node's clock and ours shows only that one of the two is wrong. The other nodes tell which: our
//! clock shifts against all of them at once. Shifts are comparable only over the same time. Therefore all clocks are
//! read together now and then, and the readings are kept.
//!
//! Where the others cannot tell, no node is blamed, as a blamed node is lost to the whole fleet. The node then does not
//! vote for this client until the others can tell, or until every lease from before the jump is over.
//!
//! It decides. It never blames a node for a shift that a majority shows or that the others cannot speak to. It forgives
//! no node while a lease may last that its jump has ended.

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::time::Duration;

use super::clock::{NodeClock, Reading};
use crate::{command::NodeId, node_set::NodeSet, round::Quorum, time::Timestamp};

/// A jump may deviate from a reading that is two looks old, and is compared by a look from before that one.
const LOOKS: usize = 3;

/// Two nodes have moved alike if they differ by at most this, in microseconds, and a hundredth of the time.
const ALIKE: i128 = 50_000;
const RATE: i128 = 100;

/// A shift below this, in microseconds, does not count: two good clocks may differ by as much in rate.
const SHIFT: i128 = 25_000;

/// Which clock is to blame for a jump.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ClockFault {
    /// The node's: it has moved against those of others.
    Node,
    /// Our own: the clocks of a majority have moved alike.
    Ours,
    /// Unknown: too few others could tell.
    Undecided,
    /// None: the question stayed open until no lease from before the jump lasts.
    Nobody,
}

/// What one node shows, once all nodes were asked for their clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witness {
    /// Whether its own clock is in question.
    pub(super) suspected: bool,
    /// Whether it has answered since the last jump was seen.
    pub(super) answered: bool,
    /// Its clock after a look at all nodes that began after the last jump was seen; `None` where it does not tell its
    /// clock. A second look must follow and show no further jump: our own clock may have stopped in the middle of the
    /// first.
    pub(super) clock: Option<NodeClock>,
}

impl Witness {
    /// What one node shows.
    pub(super) const fn new(suspected: bool, answered: bool, clock: Option<NodeClock>) -> Self {
        Self { suspected, answered, clock }
    }
}

/// The readings of all nodes' clocks that are needed to say which has jumped.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Clocks {
    quorum: Quorum,
    /// The readings of the last looks, the oldest first.
    looks: VecDeque<Vec<Option<Reading>>>,
    /// Per node, the last series whose beginning was judged.
    judged: Vec<Option<(u64, ClockFault)>>,
    /// Per undecided node, its series, and since when it is undecided.
    undecided: Vec<Option<(Option<u64>, Timestamp)>>,
}

impl Clocks {
    /// No clock is known yet.
    pub(super) fn new(quorum: Quorum) -> Self {
        let (judged, undecided) = (vec![None; quorum.nodes()], vec![None; quorum.nodes()]);
        Self { quorum, looks: VecDeque::new(), judged, undecided }
    }

    /// Takes the clocks of all nodes after a look that began at `since`. The caller takes no look while a jump is
    /// undecided: the readings from before it would be lost.
    pub(super) fn handle_look(&mut self, since: Timestamp, clocks: &[Option<NodeClock>]) {
        let read = |clock: &Option<NodeClock>| clock.and_then(|clock| clock.latest());
        let look = clocks.iter().map(|clock| read(clock).filter(|reading| reading.at >= since));
        self.looks.push_back(look.collect());
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    /// Whether the last look has a reading of this node.
    pub(super) fn has_seen(&self, node: NodeId) -> bool {
        self.looks.back().is_some_and(|look| matches!(look.get(node.index()), Some(Some(_))))
    }

    /// Judges each node in question, once all nodes were asked. A single node is always to blame. Of several, a node is
    /// to blame where at least as many others have moved unlike it as have moved like it, itself included. Our own
    /// clock is to blame where a majority of the configured nodes has moved alike. A jump is judged once; a later call
    /// repeats the verdict.
    ///
    /// `now` is the time of our steady clock, which may lag and never leads. After `quarantine` by it, no lease lasts
    /// that a node's jump may have ended, and an undecided jump becomes `Nobody`.
    pub(super) fn judge(
        &mut self,
        witnesses: &[Witness],
        now: Timestamp,
        quarantine: Duration,
    ) -> Vec<Option<ClockFault>> {
        let mut verdicts: Vec<Option<ClockFault>> = witnesses
            .iter()
            .enumerate()
            .map(|(node, witness)| {
                witness.suspected.then(|| self.clock_fault(node, witness, witnesses))
            })
            .collect();
        for ((verdict, witness), undecided) in
            verdicts.iter_mut().zip(witnesses).zip(&mut self.undecided)
        {
            *undecided = match (*verdict, *undecided) {
                // The node is not reachable at the moment.
                (None, since) if !witness.answered => since,
                (Some(ClockFault::Undecided), before) => {
                    let series = witness.clock.map(|clock| clock.series());
                    let since = before.filter(|(before, _)| *before == series);
                    let since = since.map_or(now, |(_, since)| since);
                    if now.saturating_since(since) >= quarantine {
                        *verdict = Some(ClockFault::Nobody);
                        None
                    } else {
                        Some((series, since))
                    }
                }
                _ => None,
            };
        }
        let mut decided = false;
        for ((verdict, witness), judged) in verdicts.iter().zip(witnesses).zip(&mut self.judged) {
            if let (Some(clock_fault), Some(clock)) = (verdict, witness.clock)
                && *clock_fault != ClockFault::Undecided
            {
                decided |= *judged != Some((clock.series(), *clock_fault));
                *judged = Some((clock.series(), *clock_fault));
            }
        }
        // Readings from before a jump must stay until it is decided, and must go then.
        if decided && !verdicts.contains(&Some(ClockFault::Undecided)) {
            let look = witnesses.iter().map(|witness| {
                witness.clock.filter(|_| witness.answered).and_then(|clock| clock.latest())
            });
            self.looks = VecDeque::from([look.collect()]);
        }
        verdicts
    }

    fn clock_fault(&self, node: usize, suspect: &Witness, witnesses: &[Witness]) -> ClockFault {
        if let (Some(Some((series, clock_fault))), Some(clock)) =
            (self.judged.get(node), suspect.clock)
            && clock.series() == *series
        {
            return *clock_fault;
        }
        // The node itself counts as alike.
        let (mut alike, mut unlike) = (NodeSet::NONE.with(NodeId::new(node)), NodeSet::NONE);
        for (other, witness) in witnesses.iter().enumerate() {
            if other == node || !witness.answered {
                continue;
            }
            match self.compare(node, suspect, other, witness) {
                // Of a clock that is not told, only a jump of its own is known.
                None if witness.suspected => alike.insert(NodeId::new(other)),
                Some(Moved::Alike) => alike.insert(NodeId::new(other)),
                None | Some(Moved::Unlike) => unlike.insert(NodeId::new(other)),
                Some(Moved::Unsure) => {}
            }
        }
        if self.quorum.nodes() == 1 || unlike.len() >= alike.len() {
            ClockFault::Node
        } else if self.quorum.is_met_by(alike) {
            ClockFault::Ours
        } else {
            ClockFault::Undecided
        }
    }

    /// Whether another node's clock has moved against ours as the suspect's has; `None` where one of them does not tell
    /// its clock. It may have moved by more than the suspect's jump, as it was read later.
    fn compare(
        &self,
        node: usize,
        suspect: &Witness,
        other: usize,
        witness: &Witness,
    ) -> Option<Moved> {
        let (suspect, other_clock) = (suspect.clock?, witness.clock?);
        let jump = suspect.jump()?;
        let seen = Shift::between(jump.from, jump.to).certain();
        let says_enough = |reading: Reading| 2 * reading.width() <= seen.abs();
        let Some((before, other_before)) = self.both_before(jump.from.at, node, other, says_enough)
        else {
            // No look has both nodes.
            return Some(Moved::Unsure);
        };
        let (now, other_now) = (suspect.latest()?, other_clock.latest()?);
        let (moved, other_moved) =
            (Shift::between(before, now), Shift::between(other_before, other_now));
        let passed = now.at.saturating_since(before.at).as_micros();
        let alike = ALIKE + i128::try_from(passed).unwrap_or(i128::MAX / 4) / RATE;
        if moved.least - other_moved.most > alike || other_moved.least - moved.most > alike {
            return Some(Moved::Unlike);
        }
        // A clock that has jumped and jumped back ends up like one that has not moved.
        let from = if before.at >= jump.from.at { before } else { jump.from };
        let shift = Shift::between(from, jump.to).certain();
        if shift.abs() < SHIFT {
            return Some(Moved::Alike);
        }
        // Has the other certainly moved by half as much at least, or certainly not?
        let (least, most) = if shift > 0 {
            (other_moved.least, other_moved.most)
        } else {
            (-other_moved.most, -other_moved.least)
        };
        match shift.abs() / 2 {
            half if least >= half => Some(Moved::Alike),
            half if most < half => Some(Moved::Unlike),
            // One of its replies was late, now or then.
            _ => Some(Moved::Unsure),
        }
    }

    /// The readings of both nodes at the last look before `at`, or else at the oldest look. A look in which the other's
    /// reply came soon enough is preferred.
    fn both_before(
        &self,
        at: Timestamp,
        node: usize,
        other: usize,
        says_enough: impl Fn(Reading) -> bool,
    ) -> Option<(Reading, Reading)> {
        let looks = || {
            self.looks.iter().rev().filter_map(|look| {
                let reading = |node: usize| look.get(node).copied().flatten();
                Some((reading(node)?, reading(other)?))
            })
        };
        let before = || looks().filter(|both| both.0.at <= at && both.1.at <= at);
        before()
            .find(|both| says_enough(both.1))
            .or_else(|| before().next())
            .or_else(|| looks().next_back())
    }
}

/// How another node's clock has moved, compared with the suspect's.
enum Moved {
    Alike,
    Unlike,
    /// Its replies took too long to tell, or no look has both nodes.
    Unsure,
}

/// How far a clock has moved against ours from one reading to another.
struct Shift {
    least: i128,
    most: i128,
}

impl Shift {
    const fn between(from: Reading, to: Reading) -> Self {
        Self { least: to.least - from.most, most: to.most - from.least }
    }

    /// The distance that it has certainly moved.
    fn certain(&self) -> i128 {
        self.least.max(0) + self.most.min(0)
    }
}

#[cfg(test)]
#[path = "clock_fault_test.rs"]
mod tests;
