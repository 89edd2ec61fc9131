//! What each request of a process has been told: who waits, asks, holds, has lost, or has been answered.
//!
//! Goal: a request that is answered twice, or let in out of turn or after it has gone, is found in that very step. The
//! driver of the client reports to it; it decides nothing.

use super::{
    TICK,
    kind::{Ask, Covers},
};
use crate::protocol::{Place, QueueId, Timestamp};

/// What has become of a request, as far as its caller knows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Fate {
    /// It comes in this step.
    Comes,
    Waits(Place),
    /// It asks the nodes, for itself or for all who wait.
    Asks(Place),
    Holds {
        attempt: usize,
        number: u64,
    },
    /// It has been told that its lease is lost, and has not dropped it.
    Lost {
        attempt: usize,
        number: u64,
    },
    Gone,
}

/// One request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Entry {
    pub(crate) ask: Ask,
    /// Until nothing of it is left.
    pub(crate) queue: Option<QueueId>,
    pub(crate) fate: Fate,
    /// The client has it no more.
    is_out: bool,
    /// It has stood back, behind those who were there.
    stood_back: bool,
    /// Up to when it stands in line.
    until: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Account {
    pub(crate) entries: Vec<Entry>,
    /// Those leases that have begun in this step.
    pub(crate) begun: Vec<(Covers, u16)>,
    pub(crate) wrong: Option<&'static str>,
}

pub(crate) const ONCE: &str = "each request is answered once, and each grant ends once";
pub(crate) const GONE: &str = "who has gone away is not let in, and nothing is left of it";
pub(crate) const FIRST: &str = "who came first is let in first";
pub(crate) const LATE: &str = "nobody begins a round when its time is up";
pub(crate) const HANDED: &str = "who asks once is handed nothing";

impl Entry {
    /// Whether it still waits a tick after its time was up: until then it shares what a round finds.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        let ticks = |at: Timestamp| at.since_origin().as_millis().div_ceil(u128::from(TICK));
        let is_over = self.until.is_some_and(|until| ticks(until) < ticks(now));
        matches!(self.fate, Fate::Waits(_)) && is_over
    }
}

impl Account {
    pub(super) fn comes(&mut self, ask: Ask, queue: QueueId, until: Option<Timestamp>) {
        self.entries.push(Entry {
            ask,
            queue: Some(queue),
            fate: Fate::Comes,
            is_out: false,
            stood_back: false,
            until,
        });
    }

    pub(super) fn fate(&self, index: usize) -> Fate {
        self.entries[index].fate
    }

    pub(super) fn queue(&self, index: usize) -> Option<QueueId> {
        self.entries[index].queue
    }

    /// Its place, while it has not been answered.
    pub(super) fn place(&self, index: usize) -> Option<(QueueId, Place)> {
        match self.fate(index) {
            Fate::Waits(place) | Fate::Asks(place) => Some((self.queue(index)?, place)),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, index: usize, fate: Fate) {
        self.entries[index].fate = fate;
    }

    /// The client has given it out, to be dropped.
    pub(super) fn comes_out(&mut self, index: usize) {
        self.entries[index].is_out = true;
    }

    /// Whether it is answered or has gone, and the client has it no more.
    pub(super) fn is_over(&self, index: usize) -> bool {
        self.fate(index) == Fate::Gone && self.entries[index].is_out
    }

    pub(super) fn say(&mut self, wrong: &'static str) {
        self.wrong = self.wrong.or(Some(wrong));
    }

    /// It asks the nodes from now on, as the next waiter, or beside the waiters.
    pub(super) fn asks(&mut self, index: usize, now: Timestamp) {
        match self.fate(index) {
            Fate::Waits(place) => {
                self.is_first(index, now);
                self.set(index, Fate::Asks(place));
            }
            Fate::Asks(_) => {}
            _ => self.say(GONE),
        }
    }

    /// It has asked, and stands in its queue now: where it came, or behind all others.
    pub(super) fn stands(&mut self, index: usize, behind: bool) {
        if let Fate::Asks(place) = self.fate(index) {
            self.set(index, Fate::Waits(place));
            self.entries[index].stood_back |= behind;
        }
    }

    /// A round begins for it.
    pub(super) fn begins(&mut self, index: usize, now: Timestamp) {
        let entry = self.entries[index];
        if !entry.ask.asks_once() && entry.until.is_some_and(|until| until <= now) {
            self.say(LATE);
        }
    }

    /// A lease of its begins.
    pub(super) fn holds(&mut self, index: usize, attempt: usize, number: u64) {
        if !matches!(self.fate(index), Fate::Comes | Fate::Waits(_) | Fate::Asks(_)) {
            self.say(GONE);
        }
        self.comes_out(index);
        self.set(index, Fate::Holds { attempt, number });
    }

    /// A lease of this process is handed on to it.
    pub(super) fn is_handed(&mut self, index: usize, now: Timestamp) {
        if self.entries[index].ask.asks_once() {
            self.say(HANDED);
        }
        self.is_first(index, now);
    }

    /// It is told that it gets nothing.
    pub(super) fn answer(&mut self, index: usize) {
        if !matches!(self.fate(index), Fate::Comes | Fate::Waits(_) | Fate::Asks(_)) {
            self.say(ONCE);
        }
        self.comes_out(index);
        self.set(index, Fate::Gone);
    }

    /// The holder of this attempt is told that it has lost.
    pub(super) fn lose(&mut self, of_it: usize) {
        let has = |entry: &&mut Entry| matches!(entry.fate, Fate::Holds { attempt, .. } if attempt == of_it);
        match self.entries.iter_mut().find(has) {
            Some(entry) => {
                if let Fate::Holds { attempt, number } = entry.fate {
                    entry.fate = Fate::Lost { attempt, number };
                }
            }
            None => self.say(ONCE),
        }
    }

    /// Whether it stands in line: not where it stood back, asks once, or its time is up.
    fn stands_in_line(&self, entry: &Entry, now: Timestamp) -> bool {
        let is_late = entry.until.is_some_and(|until| until <= now);
        let stands = matches!(entry.fate, Fate::Waits(_)) && !entry.stood_back;
        stands && !entry.ask.asks_once() && !is_late
    }

    /// A waiter is let in.
    fn is_first(&mut self, index: usize, now: Timestamp) {
        let one = self.entries[index];
        let is_before = |entry: &Entry| match (entry.fate, one.fate) {
            (Fate::Waits(other), Fate::Waits(place)) => {
                other < place && entry.queue == one.queue && self.stands_in_line(entry, now)
            }
            _ => false,
        };
        if self.entries.iter().any(is_before) {
            self.say(FIRST);
        }
    }
}
