//! Whose clock has jumped: that of a node, or our own.
//!
//! A node's clock is compared with ours, so a reading that does not go with those before says only that one of the
//! two has misbehaved. The other nodes tell which: what our own clock loses, it loses against all of them at once.
//! To be compared, shifts must begin and end at the same time; therefore all clocks are read together now and
//! then, and what they showed is kept.
//!
//! Where they cannot tell, nobody is blamed: a node that is blamed is lost to the whole fleet. The node does not vote for
//! this client then, until the others can tell, or until every lease from before the jump is over.
//!
//! It decides. It never blames a node for a shift that a majority shows or that the others cannot speak to, and forgives
//! none while a lease may last that its jump has ended.

use alloc::{collections::VecDeque, vec, vec::Vec};
use core::time::Duration;

use super::clock::{NodeClock, Reading};
use crate::{command::NodeId, round::Quorum, time::Timestamp};

/// A jump is seen by a reading that may be two looks old, and compared by a look from before that one.
const LOOKS: usize = 3;

/// Two nodes have moved alike if they differ by no more than this, in microseconds, and a hundredth of the time.
const ALIKE: i128 = 50_000;
const RATE: i128 = 100;

/// A shift below this, in microseconds, is none: it cannot be told from the rates of two good clocks.
const SHIFT: i128 = 25_000;

/// Who is to blame for a jump.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ClockFault {
    /// The node: its clock has moved against those of others.
    Node,
    /// We are: the clocks of a majority have moved alike.
    Ours,
    /// Too few others could tell.
    Undecided,
    /// It could not be told for so long that no lease from before the jump lasts.
    Nobody,
}

/// What a node has to say, once all have been asked whose clock it was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Witness {
    /// Its own clock is the one in question, or one of those.
    pub(super) suspected: bool,
    /// It has answered since the last jump was seen.
    pub(super) answered: bool,
    /// Its clock after a look at all of them that began after the last jump was seen, and that was followed by
    /// another one that showed no further jump; `None` where it does not tell its clock. Without the second look,
    /// our own clock may have stopped in the middle of the first.
    pub(super) clock: Option<NodeClock>,
}

impl Witness {
    /// What a node has to say.
    pub(super) const fn new(suspected: bool, answered: bool, clock: Option<NodeClock>) -> Self {
        Self { suspected, answered, clock }
    }
}

/// The clocks of all nodes, as far as they are needed to say whose has jumped.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Clocks {
    quorum: Quorum,
    /// What the clocks showed at the last looks, the oldest first.
    looks: VecDeque<Vec<Option<Reading>>>,
    /// Of each node, the last series whose beginning has been judged.
    judged: Vec<Option<(u64, ClockFault)>>,
    /// Of each node that is in question and could not be judged, the series, and since when.
    undecided: Vec<Option<(Option<u64>, Timestamp)>>,
}

impl Clocks {
    /// Nodes of whose clocks nothing is known yet.
    pub(super) fn new(quorum: Quorum) -> Self {
        let (judged, undecided) = (vec![None; quorum.nodes()], vec![None; quorum.nodes()]);
        Self { quorum, looks: VecDeque::new(), judged, undecided }
    }

    /// Takes the clocks of all nodes after a look at them that began at `since`. While a jump is not decided on,
    /// none is taken: what was before it would be lost.
    pub(super) fn handle_look(&mut self, since: Timestamp, clocks: &[Option<NodeClock>]) {
        let read = |clock: &Option<NodeClock>| clock.and_then(|clock| clock.latest());
        let look = clocks.iter().map(|clock| read(clock).filter(|reading| reading.at >= since));
        self.looks.push_back(look.collect());
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    /// Whether the last look was at this node too.
    pub(super) fn has_seen(&self, node: NodeId) -> bool {
        self.looks.back().is_some_and(|look| matches!(look.get(node.index()), Some(Some(_))))
    }

    /// Says of each node in question who is to blame, once all have been asked. A single node always is. Of several
    /// a node is to blame where at least as many others have moved in another way as have moved like it, itself
    /// included; our own clock is where a majority of the configured nodes has moved alike. The same jump is judged
    /// once: who asks again is told the same.
    ///
    /// `now` is the time of our steady clock, which may lag and never leads. After `quarantine` by it, no lease lasts
    /// that a node's jump may have ended, and nobody is to blame who has not been found to be by then.
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
                // It is not there just now.
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
        // What was before a jump must not be compared with once it has been dealt with, nor be lost before that.
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
        // The node itself has moved like itself.
        let (mut alike_with_it, mut unlike) = (1usize, 0usize);
        for (other, witness) in witnesses.iter().enumerate() {
            if other == node || !witness.answered {
                continue;
            }
            match self.compare(node, suspect, other, witness) {
                // Of a clock that is not shown, no more is known than whether it has jumped too.
                None => *(if witness.suspected { &mut alike_with_it } else { &mut unlike }) += 1,
                Some(Moved::Alike) => alike_with_it += 1,
                Some(Moved::Unlike) => unlike += 1,
                Some(Moved::Unsure) => {}
            }
        }
        if self.quorum.nodes() == 1 || unlike >= alike_with_it {
            ClockFault::Node
        } else if alike_with_it >= self.quorum.needed() {
            ClockFault::Ours
        } else {
            ClockFault::Undecided
        }
    }

    /// Whether the clock of another node has moved against ours as that of the suspect has; `None` where one of them
    /// does not show it. It may have moved by more than the suspect had when its jump was seen, as it has been read
    /// later.
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
            // They were never looked at together before.
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
        // A clock that has jumped there and back has moved now like one that has not.
        let from = if before.at >= jump.from.at { before } else { jump.from };
        let shift = Shift::between(from, jump.to).certain();
        if shift.abs() < SHIFT {
            return Some(Moved::Alike);
        }
        // Is it certain that the other has moved by half as much at least, or that it has not?
        let (least, most) = if shift > 0 {
            (other_moved.least, other_moved.most)
        } else {
            (-other_moved.most, -other_moved.least)
        };
        match shift.abs() / 2 {
            half if least >= half => Some(Moved::Alike),
            half if most < half => Some(Moved::Unlike),
            // Its reply has come late now, or it had then.
            _ => Some(Moved::Unsure),
        }
    }

    /// What both nodes showed at the last look that was before `at`, or else at the oldest that there is. One whose
    /// replies came soon enough is preferred.
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

/// How another node's clock has moved, beside that of the suspect.
enum Moved {
    Alike,
    Unlike,
    /// Its replies took too long to tell, or it has been met too late.
    Unsure,
}

/// By how much a clock has moved against ours from one reading to another.
struct Shift {
    least: i128,
    most: i128,
}

impl Shift {
    const fn between(from: Reading, to: Reading) -> Self {
        Self { least: to.least - from.most, most: to.most - from.least }
    }

    /// What it has certainly moved by.
    fn certain(&self) -> i128 {
        self.least.max(0) + self.most.min(0)
    }
}

#[cfg(test)]
#[path = "clock_fault_test.rs"]
mod tests;
