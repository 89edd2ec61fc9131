//! When a line is written to a log about something that lasts, or comes back: at once, and then once a minute with a
//! count.
//!
//! It decides for the log, and nothing of locks. However often something happens, it must never let that be told more than
//! once a minute for long, nor keep silent for longer than that about a trouble that lasts.
//!
//! - [`Watch`] follows the state of one thing, such as a node. A trouble that begins is told at once, up to three times in a
//!   row; then a thing that goes to and fro costs one line for each trouble and minute. Its end is told at once where the
//!   trouble was told, and not where it was not: so lines come in pairs.
//! - [`Pacer`] counts what happens again and again, such as a release that was not confirmed, and limits how many such
//!   things are told where there is no end of them.

use alloc::vec::Vec;
use core::time::Duration;

use super::{acquisition::WaitPolicy, time::Timestamp};

/// How long a line is not told again.
const EVERY: Duration = Duration::from_secs(60);

/// How many lines more about a trouble that begins again are told before that, so that it is not told a minute late only
/// because there was one before.
const SPARE: u32 = 2;

/// A waiter says for whom it waits after this time, or after a quarter of its wait if that is less.
const PATIENCE: Duration = Duration::from_secs(1);

/// How a state is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Manner {
    /// All is well: told where a trouble that was told is over.
    Over,
    /// The same, and when it begins for the first time.
    Once,
    /// Not at all: it is a trouble of which something else tells, and it counts as told.
    Silent,
    /// A trouble: told when it has lasted for this time, and again every minute for as long as it lasts. Until then it
    /// counts for nothing, and the state before it goes on.
    Lasting(Duration),
}

/// What to tell of a state.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Notice {
    /// How often the state has begun since this was told last: zero where it has lasted since then.
    pub times: u64,
    /// For how long it has lasted, as far as it was seen.
    pub lasted: Duration,
}

/// One thing that is looked at now and then, with what has been told of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Watch<S> {
    /// What was seen last, and since when.
    seen: Option<(S, Timestamp)>,
    /// What counts, and since when.
    state: Option<(S, Timestamp)>,
    told: Vec<Told<S>>,
    /// A trouble was told, and not yet that it is over.
    is_open: bool,
    next: Option<Timestamp>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Told<S> {
    state: S,
    last: Option<Timestamp>,
    /// Up to when the lines that were told have used up the minutes, one each.
    used_until: Timestamp,
    /// How often it has begun since it was told.
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

    /// It is told now. Returns how often it has begun since it was told before.
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
    /// The state in which it is seen at `now`, and how that is told. Returns what to tell of it, if that is now.
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
                // So that it is not made up for when it would be told.
                (told.begun, told.last) = (0, Some(now));
                (false, true)
            }
            Manner::Over | Manner::Once => {
                let first = told.last.is_none();
                let is_told = told.begun > 0 && (was_open || first && manner == Manner::Once);
                if first && !is_told {
                    // It is the end of nothing, and not counted as one.
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
        // The state before may have gone on meanwhile.
        let since = self.state.as_ref().map_or(now, |(_, since)| *since);
        Some(Notice { times, lasted: now.saturating_since(since) })
    }

    /// When it has to be looked at again though nothing changes.
    pub const fn poll_timeout(&self) -> Option<Timestamp> {
        self.next
    }

    /// What counts as its state.
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

/// Keeps lines about what happens again and again from being told more than once a minute each.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pacer<L> {
    lines: Vec<(L, Timestamp, u64)>,
    /// How many different ones are told in a minute.
    most: usize,
}

impl<L> Default for Pacer<L> {
    fn default() -> Self {
        Self::of_at_most(usize::MAX)
    }
}

impl<L> Pacer<L> {
    /// For lines that may be about anything, such as a resource: in a minute so many different ones are told, and as
    /// many are remembered.
    #[must_use]
    pub const fn of_at_most(most: usize) -> Self {
        Self { lines: Vec::new(), most }
    }
}

impl<L: PartialEq> Pacer<L> {
    /// It has happened at `now`. `Some` says to tell it, and how often it has happened since it was told last, this
    /// time included.
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

    /// It is not known, and takes the place of the one that was told the longest ago if there is no other.
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

/// When a waiter that began at `started` says for whom it waits, once; never where it waits for nobody.
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
