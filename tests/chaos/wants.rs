//! What workers want: which kind of lease, on which resources. It decides nothing of how long they hold it, and judges nothing.

use std::time::Duration;

use super::IDLE;

/// What workers want.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wants {
    /// Most of them the same resource.
    One,
    /// All of them the one resource: they wait for it in line, and let go of it at once.
    Brisk,
    /// One, two or three at once of the same few.
    Sets,
    /// The one resource, most of them to read it; some writers read on.
    Readers,
    /// The planted bug: the same, but a writer that reads on has released it.
    Unheld,
    /// One of a few permits, and to let go of it soon.
    Permits,
    /// To lead, and to resign.
    Elections,
    /// The one resource, with a lock-delay after a loss.
    Delayed,
    /// The planted bug: the same, but the nodes are not told of the delay.
    Undelayed,
    /// Two resources, each lease longer than the one before and of the same owner: `climb` says how.
    Climbs,
    /// A lease of a few chains, which processes pass along: `chains` says how.
    Chains,
    /// To add to sets: `locking_set` says how.
    Additions(Stand),
}

/// Where an adder's process is to be stopped, once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stand {
    /// Nowhere in particular.
    Nowhere,
    /// When the set has been read.
    Read,
    /// When the lock has been looked at too, where it can be.
    Checked,
}

/// For how long no one gets a resource that was lost.
pub(crate) const DELAY: Duration = Duration::from_millis(250);

impl Wants {
    /// They let go at once, and write to no register.
    pub(crate) const fn is_brisk(self) -> bool {
        matches!(self, Self::Brisk)
    }

    /// Most of them read.
    pub(crate) const fn may_read(self) -> bool {
        matches!(self, Self::Readers | Self::Unheld)
    }

    const ALL: [Self; 14] = [
        Self::One,
        Self::Brisk,
        Self::Sets,
        Self::Readers,
        Self::Unheld,
        Self::Permits,
        Self::Elections,
        Self::Delayed,
        Self::Undelayed,
        Self::Climbs,
        Self::Chains,
        Self::Additions(Stand::Nowhere),
        Self::Additions(Stand::Read),
        Self::Additions(Stand::Checked),
    ];

    pub(crate) fn from_text(text: &str) -> Self {
        Self::ALL.into_iter().find(|wants| format!("{wants:?}") == text).expect("what it wants")
    }

    /// For how long no one is to get a lost resource.
    pub(crate) const fn promised(self) -> Duration {
        match self {
            Self::Delayed | Self::Undelayed => DELAY,
            _ => Duration::ZERO,
        }
    }

    /// The resources of the next lease.
    pub(crate) fn next(self) -> Vec<usize> {
        match self {
            // Which slot it is turns out later.
            Self::Brisk | Self::Readers | Self::Unheld | Self::Permits => vec![0],
            Self::Elections | Self::Delayed | Self::Undelayed => vec![0],
            // Each worker has its own.
            Self::Climbs | Self::Chains | Self::Additions(_) => {
                unreachable!("they are no workers of this kind")
            }
            // Most want the same; the others are left alone for seconds, while nodes forget one after the other.
            Self::One if rand::random_ratio(1, 5) => vec![rand::random_range(1..=IDLE)],
            Self::One => vec![0],
            Self::Sets => {
                // In whatever order.
                let mut all: Vec<usize> = (0..FEW).collect();
                (0..FEW).for_each(|at| all.swap(at, rand::random_range(0..FEW)));
                all.truncate(rand::random_range(1..=3));
                all
            }
        }
    }
}

/// So many permits there are, fewer than workers.
pub(crate) const PERMITS: usize = 3;

/// From so many resources sets are made.
const FEW: usize = 4;
