//! When a log line is written about a state that lasts or comes back: at once, and then once a minute with a count.
//!
//! It decides for the log, and nothing of locks. It must never tell an event more than once a minute for long, however
//! often it happens. It must never keep silent for longer than that about a trouble that lasts.
//!
//! - [`Watch`] follows the state of one thing, such as a node. A trouble is told at once when it begins, up to three
//!   times in a row. After that, a flapping thing costs one line for each trouble and minute. The end of a trouble is
//!   told at once where the trouble was told, and otherwise not: so lines come in pairs.
//! - [`Pacer`] counts repeated events, such as an unconfirmed release, and limits how many different events are told
//!   where they may be endless.

use alloc::vec::Vec;
use core::time::Duration;

use super::{acquisition::WaitPolicy, time::Timestamp};

/// The pause before a line is told again.
const EVERY: Duration = Duration::from_secs(60);

/// How many more lines about a recurring trouble are told before that, so that an earlier trouble does not delay a new
/// one by a minute.
const SPARE: u32 = 2;

/// A waiter says what it waits for after this time, or after a quarter of its wait if that is less.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a state is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Manner {
    /// All is well: told where it ends a trouble that was told.
    Over,
    /// The same, and when it begins for the first time.
    Once,
    /// Not at all: another log line tells of this trouble, and it counts as told.
    Silent,
    /// A trouble: told when it has lasted for this time, and again every minute while it lasts. Until then it does not
    /// count, and the state before it goes on.
    Lasting(Duration),
}

/// What to tell of a state.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Notice {
    /// How often the state has begun since it was last told: zero where it has lasted since then.
    pub times: u64,
    /// How long it has lasted, as far as seen.
    pub lasted: Duration,
}

/// The state of one thing that is looked at now and then, and what was told of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Watch<S> {
    /// The last state seen, and since when.
    seen: Option<(S, Timestamp)>,
    /// The state that counts, and since when.
    state: Option<(S, Timestamp)>,
    told: Vec<Told<S>>,
    /// Whether a trouble was told, and not yet its end.
    is_open: bool,
    next: Option<Timestamp>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Told<S> {
    state: S,
    last: Option<Timestamp>,
    /// The time up to which the told lines have used up the minutes, one each.
    used_until: Timestamp,
    /// How often it has begun since it was last told.
    begun: u64,
}

impl<S> Told<S> {
    const fn new(state: S) -> Self {
        Self { state, last: None, used_until: Timestamp::ORIGIN, begun: 0 }
    }

    /// When it may be told.
    fn due(&self) -> Timestamp {
        let Some(last) = self.last else { return Timestamp::ORIGIN };
        if self.begun == 0 {
            return last.saturating_add(EVERY);
        }
        let spare = EVERY.saturating_mul(SPARE);
        Timestamp::from_origin(self.used_until.since_origin().saturating_sub(spare))
    }

    /// Marks it as told now. Returns how often it has begun since it was last told.
    fn tell(&mut self, now: Timestamp) -> u64 {
        self.last = Some(now);
        self.used_until = self.used_until.max(now).saturating_add(EVERY);
        core::mem::take(&mut self.begun)
    }
}

impl<S> Default for Watch<S> {
    fn default() -> Self {
        Self { seen: None, state: None, told: Vec::new(), is_open: false, next: None }
    }
}

impl<S: Clone + PartialEq> Watch<S> {
    /// Takes the state seen at `now`, and the manner of telling it. Returns the notice, if it is to be told now.
    #[must_use]
    pub fn handle(&mut self, state: &S, manner: Manner, now: Timestamp) -> Option<Notice> {
        self.next = None;
        let since = match &self.seen {
            Some((seen, since)) if seen == state => *since,
            _ => {
                self.seen = Some((state.clone(), now));
                now
            }
        };
        let from = match manner {
            Manner::Lasting(time) => since.saturating_add(time),
            Manner::Over | Manner::Once | Manner::Silent => since,
        };
        if now < from {
            self.next = Some(from);
            return None;
        }
        let new = self.state.as_ref().is_none_or(|(before, _)| before != state);
        if new {
            self.state = Some((state.clone(), since));
        }
        let was_open = self.is_open;
        let told = self.told(state);
        told.begun = told.begun.saturating_add(u64::from(new));
        let (is_told, is_open) = match manner {
            Manner::Silent => {
                // So that a later notice does not count it.
                (told.begun, told.last) = (0, Some(now));
                (false, true)
            }
            Manner::Over | Manner::Once => {
                let first = told.last.is_none();
                let is_told = told.begun > 0 && (was_open || first && manner == Manner::Once);
                if first && !is_told {
                    // It ends no trouble, and is not counted as an end.
                    (told.begun, told.last) = (0, Some(now));
                }
                (is_told, was_open && !is_told)
            }
            Manner::Lasting(_) => {
                let due = told.due();
                let is_told = now >= due;
                let again = if is_told { now.saturating_add(EVERY) } else { due };
                self.next = Some(again);
                (is_told, was_open || is_told)
            }
        };
        self.is_open = is_open;
        if !is_told {
            return None;
        }
        let times = self.told(state).tell(now);
        // The state may have begun before: one that did not last long enough does not interrupt it.
        let since = self.state.as_ref().map_or(now, |(_, since)| *since);
        Some(Notice { times, lasted: now.saturating_since(since) })
    }

    /// When to call [`handle`](Self::handle) again even if nothing changes.
    pub const fn poll_timeout(&self) -> Option<Timestamp> {
        self.next
    }

    /// The state that counts.
    pub fn state(&self) -> Option<&S> {
        self.state.as_ref().map(|(state, _)| state)
    }

    fn told(&mut self, state: &S) -> &mut Told<S> {
        let place = self.told.iter().position(|told| told.state == *state);
        let place = place.unwrap_or_else(|| {
            self.told.push(Told::new(state.clone()));
            self.told.len() - 1
        });
        #[allow(clippy::indexing_slicing, reason = "it was found there, or put there")]
        &mut self.told[place]
    }
}

/// Tells a line about a repeated event at most once a minute.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pacer<L> {
    lines: Vec<(L, Timestamp, u64)>,
    /// How many different lines are told in a minute.
    most: usize,
}

impl<L> Default for Pacer<L> {
    fn default() -> Self {
        Self::of_at_most(usize::MAX)
    }
}

impl<L> Pacer<L> {
    /// For endlessly many lines, such as one for each resource: at most `most` different lines are told in a minute and
    /// remembered.
    #[must_use]
    pub const fn of_at_most(most: usize) -> Self {
        Self { lines: Vec::new(), most }
    }
}

impl<L: PartialEq> Pacer<L> {
    /// The event has happened at `now`. Returns `Some` if it is to be told, with how often it has happened since it was
    /// last told, this time included.
    #[must_use]
    pub fn handle(&mut self, line: L, now: Timestamp) -> Option<u64> {
        let Some((_, last, times)) = self.lines.iter_mut().find(|(known, ..)| *known == line)
        else {
            return self.handle_first(line, now);
        };
        *times = times.saturating_add(1);
        if now < last.saturating_add(EVERY) {
            return None;
        }
        *last = now;
        Some(core::mem::take(times))
    }

    /// Takes an unknown line. Without a free place, it replaces the line that was told the longest ago, after its
    /// minute.
    fn handle_first(&mut self, line: L, now: Timestamp) -> Option<u64> {
        if self.lines.len() < self.most {
            self.lines.push((line, now, 0));
            return Some(1);
        }
        let oldest = self.lines.iter_mut().min_by_key(|(_, last, _)| *last)?;
        if now < oldest.1.saturating_add(EVERY) {
            return None;
        }
        *oldest = (line, now, 0);
        Some(1)
    }
}

/// When a waiter that began at `started` says, once, what it waits for; never where it does not wait.
pub fn says_at(policy: WaitPolicy, started: Timestamp) -> Option<Timestamp> {
    match policy {
        WaitPolicy::OneRound => None,
        WaitPolicy::For(wait) => Some(started.saturating_add(PATIENCE.min(wait / 4))),
        WaitPolicy::Unlimited => Some(started.saturating_add(PATIENCE)),
    }
}

#[cfg(test)]
#[path = "notice_test.rs"]
mod tests;
