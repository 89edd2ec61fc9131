//! The store that the work writes to: a counter that workers read and write back, one more than they have read.
//!
//! It counts what is lost: updates that it took and that are not in the value in the end. With tokens it refuses a read or a write
//! with a smaller one than it has seen, where it is to compare them; without tokens it takes every write, as such stores do.
//! It knows nothing of leases, and no fault touches it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorlock_harness::history::{checker::Effect, record::now};

/// Which value it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Version(usize);

/// Whoever reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    pub(crate) worker: usize,
    pub(crate) token: Option<u64>,
    /// Up to when it was promised the lock.
    pub(crate) until: Duration,
}

#[derive(Debug)]
pub(crate) struct Counter {
    /// Whether it compares tokens.
    fenced: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The writes that were taken, each with the value that it wrote.
    taken: Vec<(Effect, usize)>,
    /// The largest token that was seen.
    largest: Option<u64>,
    found: Found,
    /// Whether leases have tokens, once there is one.
    tokens: Option<bool>,
}

/// What is wrong in the order of the store itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Each behind the first update of somebody else that it overwrote: that one came after its own read.
    pub(crate) overwrites: Vec<(Effect, Effect)>,
    /// Neighbours among the writes that were taken of which the later has the smaller token.
    pub(crate) falls: Vec<(u64, u64)>,
    /// Updates that were taken, and that the value lacks.
    pub(crate) lost: usize,
}

impl Counter {
    pub(crate) fn new(fenced: bool) -> Self {
        Self { fenced, inner: Mutex::default() }
    }

    /// Whether this lease is like those before: all have tokens, or none has.
    pub(crate) fn is_alike(&self, token: Option<u64>) -> bool {
        *self.lock().tokens.get_or_insert_with(|| token.is_some()) == token.is_some()
    }

    /// Whether it has compared tokens.
    pub(crate) fn compares(&self) -> bool {
        self.fenced && self.lock().tokens == Some(true)
    }

    /// The value that is read; none where a larger token has been there. A read moves the fence as a write does: otherwise a write
    /// with a smaller token could come between a read and its write, and be lost.
    pub(crate) fn read(&self, by: &By) -> Result<Version, Effect> {
        let mut inner = self.lock();
        let before = now();
        if inner.admits(by.token, self.fenced) {
            return Ok(Version(inner.taken.len()));
        }
        Err(effect(by, before, true, false))
    }

    /// Writes one more than what was read, or nothing where a larger token has been there. Returns the value there is, where that is
    /// the writer's own.
    pub(crate) fn write(&self, by: &By, read: Version) -> (Effect, Option<Version>) {
        let mut inner = self.lock();
        let before = now();
        if !inner.admits(by.token, self.fenced) {
            return (effect(by, before, false, false), None);
        }
        let written = effect(by, before, false, true);
        let falls = inner.taken.last().and_then(|(last, _)| Some((last.token, by.token?)));
        inner.found.falls.extend(falls.filter(|(earlier, later)| earlier > later));
        let value = |at: Version| {
            at.0.checked_sub(1).and_then(|at| inner.taken.get(at)).map_or(0, |(_, value)| *value)
        };
        let value = value(read) + 1;
        // A late write that the holder overwrites is lost by its own fault: the holder did nothing out of turn.
        let is_wronged =
            |other: &Effect| other.worker != by.worker && (other.held || !written.held);
        let mut since = inner.taken.iter().skip(read.0);
        let overwritten = since.find(|(other, _)| is_wronged(other));
        let pair = overwritten.map(|(other, _)| (other.clone(), written.clone()));
        inner.found.overwrites.extend(pair);
        inner.taken.push((written.clone(), value));
        inner.found.lost = inner.taken.len().saturating_sub(value);
        (written, Some(Version(inner.taken.len())))
    }

    pub(crate) fn lost(&self) -> usize {
        self.lock().found.lost
    }

    pub(crate) fn found(&self) -> Found {
        self.lock().found.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn admits(&mut self, token: Option<u64>, fenced: bool) -> bool {
        let admits = !fenced || token.is_none() || token >= self.largest;
        if admits {
            self.largest = self.largest.max(token);
        }
        admits
    }
}

/// What it just did, or refused.
fn effect(by: &By, before: Duration, reads: bool, accepted: bool) -> Effect {
    let after = now();
    let (worker, token, held) = (by.worker, by.token.unwrap_or(0), after < by.until);
    Effect { worker, resource: 0, reads, token, before, after, accepted, held }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(worker: usize, token: impl Into<Option<u64>>) -> By {
        By { worker, token: token.into(), until: Duration::MAX }
    }

    #[test]
    fn updates_in_turn_are_all_there() {
        let counter = Counter::new(true);
        for turn in 0..10 {
            let by = by(turn % 3, Some(turn as u64));
            let read = counter.read(&by).unwrap();
            let (_, own) = counter.write(&by, read);
            // What it has written itself it need not read.
            assert!(counter.write(&by, own.unwrap()).0.accepted);
        }
        let found = counter.found();
        assert_eq!((found.lost, found.overwrites.len(), found.falls.len()), (0, 0, 0));
    }

    #[test]
    fn what_a_stopped_worker_overwrites_is_lost() {
        let counter = Counter::new(true);
        let [stopped, other] = [by(0, None), by(1, None)];
        let read = counter.read(&stopped).unwrap();
        let mut next = counter.read(&other).unwrap();
        for _ in 0..3 {
            next = counter.write(&other, next).1.unwrap();
        }
        assert!(counter.write(&stopped, read).0.accepted, "there is nothing to compare");
        let found = counter.found();
        assert_eq!((found.lost, found.overwrites.len()), (3, 1));
        // The other goes on with what it knows: its own are there again, and the late one is lost.
        counter.write(&other, next);
        assert_eq!((counter.found().lost, counter.found().overwrites.len()), (1, 2));
        assert!(!counter.compares());
    }

    #[test]
    fn a_holder_is_not_blamed_for_a_late_write_that_it_overwrites() {
        let counter = Counter::new(true);
        let (late, holder) = (By { until: Duration::ZERO, ..by(0, None) }, by(1, None));
        let read = [counter.read(&late).unwrap(), counter.read(&holder).unwrap()];
        counter.write(&late, read[0]);
        counter.write(&holder, read[1]);
        assert_eq!((counter.found().lost, counter.found().overwrites.len()), (1, 0));
    }

    #[test]
    fn a_late_write_that_read_late_too_loses_nothing() {
        let counter = Counter::new(true);
        let [late, other] = [by(0, None), by(1, None)];
        let read = counter.read(&other).unwrap();
        counter.write(&other, read);
        let read = counter.read(&late).unwrap();
        counter.write(&late, read);
        assert_eq!((counter.found().lost, counter.found().overwrites.len()), (0, 0));
    }

    /// Also where the later holder has read and not yet written, and where the late one reads anew.
    #[test]
    fn tokens_that_are_compared_lose_nothing() {
        let counter = Counter::new(true);
        let [late, other] = [by(0, 7), by(1, 8)];
        assert!(counter.is_alike(Some(7)) && !counter.is_alike(None));
        let first = counter.read(&late).unwrap();
        let second = counter.read(&other).unwrap();
        assert!(!counter.write(&late, first).0.accepted);
        assert!(!counter.read(&late).unwrap_err().accepted);
        assert!(counter.write(&other, second).0.accepted);
        let found = counter.found();
        assert_eq!((found.lost, found.overwrites.len(), found.falls.len()), (0, 0, 0));
        assert!(counter.compares());
    }

    #[test]
    fn tokens_that_are_not_compared_fall() {
        let counter = Counter::new(false);
        let [late, other] = [by(0, 7), by(1, 8)];
        let (first, second) = (counter.read(&late).unwrap(), counter.read(&other).unwrap());
        counter.write(&other, second);
        counter.write(&late, first);
        let found = counter.found();
        assert_eq!((found.lost, found.overwrites.len(), found.falls), (1, 1, vec![(8, 7)]));
    }
}
