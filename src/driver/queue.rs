//! When the keeper has to look at each lease: one entry for each that is held, in the order of time.
//!
//! It decides what is taken out together, and whether the keeper has to be woken. It is used under the lock of
//! a lease, and so it must never call anybody: what has to be done comes out as an [`Alarm`].

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use crate::{lease::Held, protocol::Timestamp};

/// The most leases that share one command.
pub(super) const BATCH: usize = 128;

/// What is due this soon after something that is due now is seen to with it.
const TOGETHER: Duration = Duration::from_millis(2);

/// The keeper looks at the clock at least this often while a lease is held: timers stand still while the
/// machine is suspended, and afterwards a loss must be told soon.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// A place in the queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Ticket {
    at: Timestamp,
    /// Tells tickets for the same time apart.
    number: u64,
}

/// What a new entry asks for. It is to be heeded once no lock is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(crate) enum Alarm {
    /// Nothing: the keeper looks at the queue early enough.
    Silent,
    /// The keeper sleeps for too long.
    Wake,
    /// There is no keeper at work. Whoever was told this has to start it.
    Start,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_time: BTreeMap<Ticket, Entry>,
    tickets: u64,
    /// Whether the keeper is at work.
    attended: bool,
    /// When the keeper looks at the queue next; the origin while it does.
    next_look: Timestamp,
}

#[derive(Debug)]
struct Entry {
    held: Weak<Held>,
    /// How much before its time it may be taken out together with another one.
    slack: Duration,
}

impl Ticket {
    pub(crate) const fn at(self) -> Timestamp {
        self.at
    }
}

impl Queue {
    /// Puts a lease into the queue, in place of the entry under the ticket `old`.
    pub(super) fn put(
        &self,
        old: Option<Ticket>,
        at: Timestamp,
        slack: Duration,
        held: Weak<Held>,
    ) -> (Ticket, Alarm) {
        let mut entries = self.lock();
        if let Some(old) = old {
            entries.by_time.remove(&old);
        }
        entries.tickets = entries.tickets.wrapping_add(1);
        let ticket = Ticket { at, number: entries.tickets };
        entries.by_time.insert(ticket, Entry { held, slack });
        let alarm = if !std::mem::replace(&mut entries.attended, true) {
            entries.next_look = Timestamp::ORIGIN;
            Alarm::Start
        } else if at < entries.next_look {
            // One wake-up is enough, however many entries come before the keeper runs.
            entries.next_look = Timestamp::ORIGIN;
            Alarm::Wake
        } else {
            Alarm::Silent
        };
        (ticket, alarm)
    }

    /// Takes out a lease that is over. That is no reason to wake anybody.
    pub(super) fn remove(&self, ticket: Ticket) {
        let entry = self.lock().by_time.remove(&ticket);
        drop(entry);
    }

    /// Takes out what is due at `now`, and with a renewal those that may be taken along, up to one batch.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<(Ticket, Weak<Held>)> {
        let mut entries = self.lock();
        entries.next_look = Timestamp::ORIGIN;
        let limit = now.saturating_add(TOGETHER);
        let (mut due, mut reach) = (Vec::new(), Duration::ZERO);
        while let Some(first) = entries.by_time.first_entry()
            && first.key().at <= limit
        {
            let (ticket, entry) = first.remove_entry();
            reach = reach.max(entry.slack);
            due.push((ticket, entry.held));
        }
        let along: Vec<Ticket> = entries
            .by_time
            .range(..=Ticket { at: now.saturating_add(reach), number: u64::MAX })
            // Enough to fill the batch in the usual case, and few enough to be looked at each time.
            .take(BATCH)
            .filter(|(ticket, entry)| ticket.at <= now.saturating_add(entry.slack))
            .map(|(ticket, _)| *ticket)
            .take(BATCH.saturating_sub(due.len()))
            .collect();
        for ticket in along {
            due.extend(entries.by_time.remove(&ticket).map(|entry| (ticket, entry.held)));
        }
        due
    }

    /// When the keeper has to look again; `None` when it may go home.
    pub(super) fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        let mut entries = self.lock();
        let first = entries.by_time.first_key_value().map(|(ticket, _)| ticket.at);
        entries.attended = first.is_some();
        entries.next_look = first?.min(now.saturating_add(LONGEST_SLEEP));
        Some(entries.next_look)
    }

    /// The keeper's task has ended with its work undone: the next entry starts another one.
    pub(super) fn abandon(&self) {
        self.lock().attended = false;
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "queue_test.rs"]
mod tests;
