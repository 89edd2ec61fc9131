//! The timers: one entry for each held lease and each waiting request, in the order of time.
//!
//! It decides which entries are taken out together, and whether the driver has to be woken. It looks at no clock and
//! calls nobody: its result is a [`Wakeup`].

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

use super::time::{Nanos, Timestamp};

/// The most keys that share one command: as many leases, unless a lease has several keys.
const BATCH: usize = 128;

/// An entry that is due this soon after `now` is taken out at once.
pub(super) const TOGETHER: Duration = Duration::from_millis(2);

/// The driver looks at the clock at least this often while there is an entry: timers stand still while the machine is
/// suspended, and a loss must be told soon afterwards.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// What a new entry needs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[must_use]
pub enum Wakeup {
    /// Nothing: the driver is looking at the entries, or was already woken, or there is nothing to look at.
    Silent,
    /// Nothing, unless the clock already shows this time: from then on the entry is due sooner than the driver's whole
    /// sleep takes. Before that, the driver looks early enough, even if the clock has jumped since the sleep began: the
    /// sleep's timer has not, and ends within the whole sleep.
    WakeFrom(Timestamp),
    /// The driver sleeps for too long, and has to be woken.
    Wake,
    /// No driver runs. The caller has to start one.
    Start,
}

/// Entries by time. Each has one place, and may be moved or cancelled until it is taken out.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TimerQueue<T> {
    /// Each with its slack: how much before its time it may be taken out along with another.
    by_time: BTreeMap<(Timestamp, T), Nanos>,
    /// Whether a driver runs.
    attended: bool,
    /// When the driver looks next; the origin while it looks, or was woken.
    next_look: Timestamp,
    /// How long after the last look `next_look` is.
    rest: Duration,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        let (next_look, rest) = (Timestamp::ORIGIN, Duration::ZERO);
        Self { by_time: BTreeMap::new(), attended: false, next_look, rest }
    }
}

impl<T: Copy + Ord> TimerQueue<T> {
    /// Adds an entry that is due at `at`, and may be taken along up to `slack` before that. It replaces the item's
    /// entry at `old`.
    pub fn schedule(
        &mut self,
        old: Option<Timestamp>,
        at: Timestamp,
        slack: Duration,
        item: T,
    ) -> Wakeup {
        if let Some(old) = old {
            self.cancel(old, item);
        }
        self.by_time.insert((at, item), Nanos::new(slack));
        if !core::mem::replace(&mut self.attended, true) {
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Start
        } else if at < self.next_look {
            // One wake-up is enough, however many entries come before the driver looks.
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Wake
        } else if self.next_look == Timestamp::ORIGIN {
            Wakeup::Silent
        } else {
            Wakeup::WakeFrom(Timestamp::from_origin(at.since_origin().saturating_sub(self.rest)))
        }
    }

    /// Work is due now.
    pub fn attend(&mut self) -> Wakeup {
        if !core::mem::replace(&mut self.attended, true) {
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Start
        } else if self.next_look == Timestamp::ORIGIN {
            Wakeup::Silent
        } else {
            // One wake-up is enough, however much work comes before the driver looks.
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Wake
        }
    }

    /// Removes an entry that is no longer wanted. The driver is not woken for it.
    pub fn cancel(&mut self, at: Timestamp, item: T) {
        self.by_time.remove(&(at, item));
    }

    /// Takes out all entries due at `now` or within 2 ms. Entries whose slack allows it come along, up to a batch of
    /// 128.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<(Timestamp, T)> {
        self.next_look = Timestamp::ORIGIN;
        let limit = now.saturating_add(TOGETHER);
        let (mut due, mut reach) = (Vec::new(), Duration::ZERO);
        while let Some(first) = self.by_time.first_entry()
            && first.key().0 <= limit
        {
            let (entry, slack) = first.remove_entry();
            reach = reach.max(slack.get());
            due.push(entry);
        }
        let until = now.saturating_add(reach);
        // Not due yet: each may come along only if its own slack reaches from now to its time.
        let along: Vec<(Timestamp, T)> = self
            .by_time
            .iter()
            .take_while(|((at, _), _)| *at <= until)
            // Enough to fill the batch in the usual case, and few enough to search each time.
            .take(BATCH)
            .filter(|((at, _), slack)| *at <= now.saturating_add(slack.get()))
            .map(|(entry, _)| *entry)
            .take(BATCH.saturating_sub(due.len()))
            .collect();
        for entry in along {
            self.by_time.remove(&entry);
            due.push(entry);
        }
        due
    }

    /// When to look again; `None` while there is no entry.
    pub fn next_look(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first = self.by_time.first_key_value().map(|((at, _), _)| *at);
        let next = first.map(|first| first.min(now.saturating_add(LONGEST_SLEEP)));
        // Set in one step with the look at the entries, so that the next entry wakes the driver.
        self.next_look = next.unwrap_or(Timestamp::NEVER);
        self.rest = self.next_look.saturating_since(now);
        next
    }

    /// Whether no entry that comes before the next look was added since the last one.
    pub fn rests(&self) -> bool {
        self.next_look != Timestamp::ORIGIN
    }

    /// The driver has ended with the work undone: the next entry starts another.
    pub const fn abandon(&mut self) {
        self.attended = false;
    }

    /// Whether this entry is there, for this time.
    pub fn contains(&self, at: Timestamp, item: T) -> bool {
        self.by_time.contains_key(&(at, item))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.by_time.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// The size up to which entries are taken along with others, and so the most keys that share one command.
    pub const fn batch() -> usize {
        BATCH
    }
}

#[cfg(test)]
#[path = "timers_test.rs"]
mod tests;
