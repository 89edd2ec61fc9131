//! When the renewals has to look at each lease: one entry for each that is held, in the order of time.
//!
//! It decides what is taken out together, and whether the renewals has to be woken. It is used under the lock of
//! a lease, and so it must never call anybody: what has to be done comes out as an [`Wakeup`].

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use crate::{engine::Grant, protocol::Timestamp};

/// The most leases that share one command.
pub(super) const BATCH: usize = 128;

/// What is due this soon after something that is due now is seen to with it.
const TOGETHER: Duration = Duration::from_millis(2);

/// The renewals looks at the clock at least this often while a lease is held: timers stand still while the
/// machine is suspended, and afterwards a loss must be told soon.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// A place in the queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct TimerKey {
    at: Timestamp,
    /// Tells tickets for the same time apart.
    number: u64,
}

/// What a new entry asks for. It is to be heeded once no lock is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(crate) enum Wakeup {
    /// Nothing: the renewals looks at the queue early enough.
    Silent,
    /// The renewals sleeps for too long.
    Wake,
    /// There is no renewals at work. Whoever was told this has to start it.
    Start,
}

#[derive(Debug, Default)]
pub(super) struct TimerQueue {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_time: BTreeMap<TimerKey, Entry>,
    tickets: u64,
    /// Whether the renewals is at work.
    attended: bool,
    /// When the renewals looks at the queue next; the origin while it does.
    next_look: Timestamp,
}

#[derive(Debug)]
struct Entry {
    grant: Weak<Grant>,
    /// How much before its time it may be taken out together with another one.
    slack: Duration,
}

impl TimerKey {
    pub(crate) const fn at(self) -> Timestamp {
        self.at
    }
}

impl TimerQueue {
    /// Puts a lease into the queue, in place of the entry under the key `old`.
    pub(super) fn put(
        &self,
        old: Option<TimerKey>,
        at: Timestamp,
        slack: Duration,
        grant: Weak<Grant>,
    ) -> (TimerKey, Wakeup) {
        let mut entries = self.lock();
        if let Some(old) = old {
            entries.by_time.remove(&old);
        }
        entries.tickets = entries.tickets.wrapping_add(1);
        let key = TimerKey { at, number: entries.tickets };
        entries.by_time.insert(key, Entry { grant, slack });
        let alarm = if !std::mem::replace(&mut entries.attended, true) {
            entries.next_look = Timestamp::ORIGIN;
            Wakeup::Start
        } else if at < entries.next_look {
            // One wake-up is enough, however many entries come before the renewals runs.
            entries.next_look = Timestamp::ORIGIN;
            Wakeup::Wake
        } else {
            Wakeup::Silent
        };
        (key, alarm)
    }

    /// Takes out a lease that is over. That is no reason to wake anybody.
    pub(super) fn remove(&self, key: TimerKey) {
        let entry = self.lock().by_time.remove(&key);
        drop(entry);
    }

    /// Takes out what is due at `now`, and with a renewal those that may be taken along, up to one batch.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<(TimerKey, Weak<Grant>)> {
        let mut entries = self.lock();
        entries.next_look = Timestamp::ORIGIN;
        let limit = now.saturating_add(TOGETHER);
        let (mut due, mut reach) = (Vec::new(), Duration::ZERO);
        while let Some(first) = entries.by_time.first_entry()
            && first.key().at <= limit
        {
            let (key, entry) = first.remove_entry();
            reach = reach.max(entry.slack);
            due.push((key, entry.grant));
        }
        let along: Vec<TimerKey> = entries
            .by_time
            .range(..=TimerKey { at: now.saturating_add(reach), number: u64::MAX })
            // Enough to fill the batch in the usual case, and few enough to be looked at each time.
            .take(BATCH)
            .filter(|(key, entry)| key.at <= now.saturating_add(entry.slack))
            .map(|(key, _)| *key)
            .take(BATCH.saturating_sub(due.len()))
            .collect();
        for key in along {
            due.extend(entries.by_time.remove(&key).map(|entry| (key, entry.grant)));
        }
        due
    }

    /// When the renewals has to look again; `None` when it may go home.
    pub(super) fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        let mut entries = self.lock();
        let first = entries.by_time.first_key_value().map(|(key, _)| key.at);
        entries.attended = first.is_some();
        entries.next_look = first?.min(now.saturating_add(LONGEST_SLEEP));
        Some(entries.next_look)
    }

    /// The renewals's task has ended with its work undone: the next entry starts another one.
    pub(super) fn abandon(&self) {
        self.lock().attended = false;
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "timers_test.rs"]
mod tests;
