//! Work that is to be done once in a period: which period a moment lies in, what is left on the nodes when the work is
//! done, and what they say of it together.
//!
//! It decides whether a period is done. A completion is no lock: it keeps nobody from working, and knows nobody who does.

use alloc::{string::String, vec::Vec};
use core::{fmt::Write, time::Duration};

use super::{
    command::NodeId, node_set::NodeSet, note::Label, owner::Owner, round::Quorum, validity::Drift,
};

/// The digits of a time on a node.
const DIGITS: usize = 16;
/// The digits of an owner.
const OWNER: usize = 32;
/// A leap year.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// One period of many that have the same length. Each begins half its length before a multiple of it, by the wall clock
/// in UTC: a day lasts from noon to noon, so that clocks that disagree about midnight agree about the day.
///
/// ```
/// use core::time::Duration;
/// use quorlock_core::Period;
///
/// let hour = |minutes: u64| Period::of(minutes * 60_000_000, Duration::from_secs(3_600));
/// assert_eq!(hour(31), hour(89));
/// assert!(hour(29) < hour(31));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Period {
    /// The last moment of it, in ms of a wall clock.
    through_ms: u64,
    /// In whole milliseconds.
    every: Duration,
}

impl Period {
    /// The period of this length in which this moment of the wall clock lies, in microseconds. `None` where the length is
    /// less than a millisecond, or more than 366 days.
    pub fn of(wall_us: u64, every: Duration) -> Option<Self> {
        let length = u64::try_from(every.as_millis()).ok().filter(|ms| *ms > 0)?;
        if every > LONGEST {
            return None;
        }
        let edge = length / 2;
        let begun = (wall_us / 1_000).saturating_add(edge) / length;
        let next = begun.saturating_add(1).saturating_mul(length);
        let every = Duration::from_millis(length);
        Some(Self { through_ms: next.saturating_sub(edge + 1), every })
    }

    /// Its length, in whole milliseconds: nodes tell the work of different lengths apart.
    pub const fn every(self) -> Duration {
        self.every
    }

    /// Whether whoever asked at this moment of the wall clock can still be sure what the nodes say so much later: they keep what
    /// is done for a length at least, and until the next period is over.
    pub fn is_remembered(self, asked_us: u64, since: Duration, drift: Drift) -> bool {
        let behind = Duration::from_millis((asked_us / 1_000).saturating_sub(self.through_ms));
        let age = behind.saturating_add(since);
        age.saturating_add(drift.of(self.every)) < self.every
    }

    /// What is left on the nodes when its work is done at this moment of the wall clock.
    ///
    /// It lives until the next period is over, so that a host whose clock is late finds it too; for one to two lengths,
    /// whatever the clock says.
    pub fn completed(self, owner: Owner, label: Option<Label>, wall_us: u64) -> Completed {
        let left = Duration::from_millis(self.through_ms.saturating_sub(wall_us / 1_000));
        let life = left.saturating_add(self.every).clamp(self.every, self.every * 2);
        let completion = Completion { through_ms: self.through_ms, life, owner, label };
        Completed { completion, left: life }
    }

    /// What the nodes say together of its work. The caller leaves out nodes that did not answer, or may not vote.
    ///
    /// One that knows of a completion is enough, since it is written by who has done the work. A quorum that knows of none
    /// is enough for the contrary: a quorum has taken each completion that was confirmed.
    pub fn found<'a>(
        self,
        quorum: Quorum,
        seen: impl IntoIterator<Item = (NodeId, Option<&'a Completed>)>,
    ) -> WorkFound {
        let (mut none, mut lacking) = (NodeSet::NONE, NodeSet::NONE);
        let mut best: Option<&Completed> = None;
        for (node, completed) in seen {
            match completed.filter(|it| it.completion.through_ms >= self.through_ms) {
                None => {
                    none.insert(node);
                    lacking.insert(node);
                }
                Some(completed) if best.is_none_or(|best| completed.left > best.left) => {
                    best = Some(completed);
                }
                Some(_) => {}
            }
        }
        match best {
            // In its own period it has more than that left. One that is told on behind it would live on from node to node.
            Some(best) if best.left <= self.every => {
                WorkFound::Done { completed: best.clone(), lacking: NodeSet::NONE }
            }
            Some(best) => WorkFound::Done { completed: best.clone(), lacking },
            None if quorum.is_met_by(none) => WorkFound::Due,
            None => WorkFound::Unclear,
        }
    }
}

/// What the nodes say of the work of a period.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorkFound {
    /// It is done.
    Done {
        /// By whom, by the node that keeps that for longest.
        completed: Completed,
        /// The nodes that have answered, do not know it and are to be told.
        lacking: NodeSet,
    },
    /// A quorum knows of no completion.
    Due,
    /// Neither.
    Unclear,
}

/// That work is done, up to the end of a period.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Completion {
    through_ms: u64,
    life: Duration,
    owner: Owner,
    label: Option<Label>,
}

impl Completion {
    /// The owner of the lease under which it was done.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// The name of the client that did it, where it has one.
    pub const fn label(&self) -> Option<&Label> {
        self.label.as_ref()
    }

    /// For how long a node keeps it from when it was done, in whole milliseconds.
    pub const fn life(&self) -> Duration {
        self.life
    }

    /// Whether it replaces `other`: it reaches further.
    pub const fn is_beyond(&self, other: &Self) -> bool {
        self.through_ms > other.through_ms
    }

    /// The form on a node: the last moment of the period and the life in ms, of 16 digits each, the owner, and the label.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::with_capacity(2 * DIGITS + OWNER);
        // To memory, which does not fail.
        let _ = write!(text, "{:016}{:016}{}", self.through_ms, self.life.as_millis(), self.owner);
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.label.as_ref().map_or(&[], |label| label.as_bytes()));
        bytes
    }

    /// Reads that form; `None` where it is another.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let number = |digits: &[u8]| -> Option<u64> {
            digits.iter().all(u8::is_ascii_digit).then_some(())?;
            core::str::from_utf8(digits).ok()?.parse().ok()
        };
        let (through, rest) = bytes.split_at_checked(DIGITS)?;
        let (life, rest) = rest.split_at_checked(DIGITS)?;
        let (owner, label) = rest.split_at_checked(OWNER)?;
        let owner = core::str::from_utf8(owner).ok()?.parse().ok()?;
        let label = match label {
            [] => None,
            label => Some(Label::new(label)?),
        };
        let life = Duration::from_millis(number(life)?);
        Some(Self { through_ms: number(through)?, life, owner, label })
    }
}

/// A completion, as it stands on a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Completed {
    /// What is completed, and by whom.
    pub completion: Completion,
    /// How long the node still keeps it.
    pub left: Duration,
}

impl Completed {
    /// For how long a node is to keep it that is told it now: whole milliseconds, and at least one.
    pub fn wire_left(&self) -> Duration {
        let ms = u64::try_from(self.left.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(ms.max(1))
    }

    /// How long ago it was done, by the clock of the node.
    pub fn ago(&self) -> Duration {
        self.completion.life.saturating_sub(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn hour(minutes: u64) -> Period {
        Period::of(minutes * 60_000_000, HOUR).unwrap()
    }

    fn done(period: Period, minutes: u64) -> Completed {
        period.completed(Owner::from_random([7; 16]), None, minutes * 60_000_000)
    }

    fn found(period: Period, seen: &[Option<&Completed>]) -> WorkFound {
        let seen = seen.iter().enumerate().map(|(at, seen)| (NodeId::new(at), *seen));
        period.found(Quorum::of(3), seen)
    }

    #[test]
    fn a_period_begins_half_its_length_before_a_multiple() {
        let edges = (0..240).filter(|minute| hour(*minute) != hour(minute + 1));
        assert_eq!(edges.collect::<Vec<_>>(), [29, 89, 149, 209]);
        assert_eq!(Period::of(1_799_999_999, HOUR), Period::of(0, HOUR));
        assert_ne!(Period::of(1_800_000_000, HOUR), Period::of(0, HOUR));
        let odd = Duration::from_millis(7);
        let of = |ms: u64| Period::of(ms * 1_000, odd).unwrap();
        assert!((0..70).all(|ms| (of(ms) != of(ms + 1)) == (ms % 7 == 3)));
    }

    #[test]
    fn no_length_and_no_clock_makes_it_panic() {
        assert_eq!(Period::of(0, Duration::ZERO), None);
        assert_eq!(Period::of(0, Duration::from_micros(999)), None);
        assert_eq!(Period::of(0, LONGEST + Duration::from_nanos(1)), None);
        assert_eq!(Period::of(0, Duration::MAX), None);
        for (asked, every) in [(1_000, 1_000), (1_999, 1_000), (2_500_000, 2_500_000)] {
            let [asked, every] = [asked, every].map(Duration::from_micros);
            for wall in [0, 1, u64::MAX / 2, u64::MAX] {
                let period = Period::of(wall, asked).unwrap();
                let owner = Owner::from_random([1; 16]);
                for at in [0, wall, u64::MAX] {
                    let life = period.completed(owner, None, at).completion.life();
                    assert!((every..=every * 2).contains(&life));
                }
            }
        }
    }

    #[test]
    fn one_node_that_knows_is_enough_and_a_quorum_that_does_not() {
        let (early, late) = (done(hour(60), 61), done(hour(120), 121));
        assert_eq!(found(hour(60), &[None, None]), WorkFound::Due);
        assert_eq!(found(hour(60), &[None]), WorkFound::Unclear);
        assert_eq!(found(hour(60), &[]), WorkFound::Unclear);
        let of = |seen: &[Option<&Completed>]| match found(hour(60), seen) {
            WorkFound::Done { completed, lacking } => (completed, lacking.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&[None, None, Some(&early)]), (early.clone(), 2));
        assert_eq!(of(&[Some(&early)]), (early.clone(), 0));
        assert_eq!(of(&[Some(&late), None]), (late.clone(), 1), "a later period");
        assert_eq!(found(hour(120), &[Some(&early), Some(&early)]), WorkFound::Due);
        assert_eq!(found(hour(120), &[Some(&early)]), WorkFound::Unclear);
        // Behind its period nobody is told.
        let behind = Completed { left: HOUR, ..early.clone() };
        assert_eq!(of(&[None, None, Some(&behind)]), (behind, 0));
        // Of two that know, the one that keeps it for longer.
        let shorter = Completed { left: Duration::ZERO, ..early.clone() };
        assert_eq!(of(&[Some(&shorter), Some(&early)]), (early, 0));
    }

    #[test]
    fn it_is_kept_until_the_next_period_is_over() {
        let period = hour(60);
        assert_eq!(done(period, 60).completion.life(), Duration::from_millis(90 * 60_000 - 1));
        assert_eq!(done(period, 200).completion.life(), HOUR, "it was done late");
        assert_eq!(done(period, 0).completion.life(), 2 * HOUR, "the clock went back");
        let half = Completed { left: HOUR / 2, ..done(period, 200) };
        assert_eq!(half.ago(), HOUR / 2);
        assert_eq!(Completed { left: Duration::ZERO, ..half }.wire_left().as_millis(), 1);
    }

    #[test]
    fn the_form_on_a_node_is_read_back_and_no_other() {
        let period = hour(60);
        for label in [None, Label::new(b"h/7/\xff"), Label::new([b'x'; Label::MAX_BYTES])] {
            let one = period.completed(Owner::from_random([7; 16]), label, 0).completion;
            let bytes = one.to_bytes();
            assert_eq!(Completion::read(&bytes), Some(one));
            assert_eq!(Completion::read(&bytes[..2 * DIGITS + OWNER - 1]), None);
            assert_eq!(Completion::read(&bytes[1..]), None);
            assert_eq!(Completion::read(&[b"+", &bytes[1..]].concat()), None);
        }
        let long = [&done(period, 0).completion.to_bytes()[..], &[b'x'; 129]].concat();
        assert_eq!(Completion::read(&long), None);
        assert_eq!(Completion::read(b""), None);
    }
}
