//! Who is due when: one entry for each lease that is held and each request that waits, in the order of time.
//!
//! It decides what is taken out together, and whether whoever sees to the entries has to be woken. It looks at no clock
//! and calls nobody: what has to be done comes out as a [`Wakeup`].

use alloc::{collections::BTreeMap, vec::Vec};
use core::time::Duration;

use super::time::{Nanos, Timestamp};

/// The most keys that share one command: leases, unless one has several.
const BATCH: usize = 128;

/// What is due this soon after something that is due now is seen to with it.
pub(super) const TOGETHER: Duration = Duration::from_millis(2);

/// Somebody looks at the clock at least this often while a lease is held: timers stand still while the
/// machine is suspended, and afterwards a loss must be told soon.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// What a new entry asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[must_use]
pub enum Wakeup {
    /// Nothing: the entries are being looked at, or there is nothing to look at.
    Silent,
    /// Nothing, unless the clock shows this time already: from then on the entry is due sooner than the whole sleep takes
    /// in which whoever sees to the entries is. Before that they are looked at early enough, though the clock had jumped
    /// by any time since the sleep began: its timer has not, and ends within the whole of it.
    WakeFrom(Timestamp),
    /// Whoever sees to the entries sleeps for too long, and has to be woken.
    Wake,
    /// Nobody sees to the entries. Whoever was told this has to start a task that does.
    Start,
}

/// Entries by time, each of which has one place. It may be moved or cancelled until it has been taken out.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TimerQueue<T> {
    /// Each with how much before its time it may be taken out together with another one.
    by_time: BTreeMap<(Timestamp, T), Nanos>,
    /// Whether somebody sees to the entries.
    attended: bool,
    /// When they are looked at next; the origin while they are.
    next_look: Timestamp,
    /// How long after the last look that is.
    rest: Duration,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        let (next_look, rest) = (Timestamp::ORIGIN, Duration::ZERO);
        Self { by_time: BTreeMap::new(), attended: false, next_look, rest }
    }
}

impl<T: Copy + Ord> TimerQueue<T> {
    /// Adds an entry that is due at `at`, and may be taken along up to `slack` before that, in place of the one that was due
    /// at `old`.
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
            // One wake-up is enough, however many entries come before somebody looks.
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Wake
        } else if self.next_look == Timestamp::ORIGIN {
            Wakeup::Silent
        } else {
            Wakeup::WakeFrom(Timestamp::from_origin(at.since_origin().saturating_sub(self.rest)))
        }
    }

    /// There is something to do now.
    pub fn attend(&mut self) -> Wakeup {
        if !core::mem::replace(&mut self.attended, true) {
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Start
        } else if self.next_look == Timestamp::ORIGIN {
            Wakeup::Silent
        } else {
            // One wake-up is enough, however much there is before somebody looks.
            self.next_look = Timestamp::ORIGIN;
            Wakeup::Wake
        }
    }

    /// Takes an entry out that is not wanted any more. That is no reason to wake anybody.
    pub fn cancel(&mut self, at: Timestamp, item: T) {
        self.by_time.remove(&(at, item));
    }

    /// Takes out what is due at `now` or within 2 ms, and with it what may be taken along, up to one batch of 128.
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
            // Enough to fill the batch in the usual case, and few enough to be looked at each time.
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

    /// When to look again; `None` where there is nothing to look at, up to the next entry.
    pub fn next_look(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first = self.by_time.first_key_value().map(|((at, _), _)| *at);
        let next = first.map(|first| first.min(now.saturating_add(LONGEST_SLEEP)));
        // Decided together with the look at the entries, so that the next one added wakes whoever sees to them.
        self.next_look = next.unwrap_or(Timestamp::NEVER);
        self.rest = self.next_look.saturating_since(now);
        next
    }

    /// Whether nothing has been added since the last look that would have come before the next one.
    pub fn rests(&self) -> bool {
        self.next_look != Timestamp::ORIGIN
    }

    /// Whoever saw to the entries has ended with the work undone: the next entry starts somebody else.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// The most entries that are taken along with others, and so the most keys that share one command.
    pub const fn batch() -> usize {
        BATCH
    }
}

#[cfg(test)]
#[path = "timers_test.rs"]
mod tests;
