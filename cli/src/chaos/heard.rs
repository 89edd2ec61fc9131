//! One worker as it is heard: what it says becomes a lease of the record or a use of the counter, and each line is answered.
//!
//! A lease is held from `got` on for as long as the lock had promised, counted from the answer to its `ask`, and up to `release`. All
//! these bounds lie inside what the worker was promised, so that no delay between two processes makes two holders of a lock that
//! had one. A write is on its way for a while, as by a client of the store in the worker's process: it stands still while the worker is
//! stopped, and is gone with a worker that is killed. It must never take anything into the record that a worker has not said.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::sleep,
    time::Duration,
};

use quorlock_harness::history::{
    checker::{Effect, Held},
    record::{Count, Event, Loss, Record, now},
};

use super::{
    counter::{By, Counter, Version},
    dice::Dice,
    protocol::{Answer, Said, validity},
};
use crate::shown::plain;

/// Between two leases, and how long a write is on its way, in milliseconds.
const REST: (f64, f64) = (10.0, 60.0);
const WAY: (f64, f64) = (30.0, 100.0);

/// What has been done to a worker.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) stopped: AtomicBool,
    pub(crate) killed: AtomicBool,
}

/// Why a worker failed to get the lock, the last that said so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failed(Arc<Mutex<Option<(usize, String)>>>);

impl Failed {
    pub(crate) fn why(&self) -> Option<String> {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        said.map(|(worker, why)| format!("worker {} has said: {why}", worker + 1))
    }
}

pub(crate) struct Heard {
    worker: usize,
    ttl: Duration,
    dice: Dice,
    record: Record,
    counter: Arc<Counter>,
    failed: Failed,
    fate: Arc<Fate>,
    /// The last answer to an `ask`.
    asked: Option<Duration>,
    held: Option<Holding>,
    /// What the store has just refused: whether the lock was held then shows in the next line.
    refused: Option<Effect>,
    /// Just before its last line was answered, and the same for the line before: the last line was said behind that.
    answered: Duration,
    said_after: Duration,
}

/// What it holds, and what it has read meanwhile.
struct Holding {
    lease: Held,
    read: Option<Version>,
}

impl Heard {
    pub(crate) fn new(
        worker: usize,
        ttl: Duration,
        dice: Dice,
        record: Record,
        counter: Arc<Counter>,
        failed: Failed,
        fate: Arc<Fate>,
    ) -> Self {
        let (asked, held, refused, at) = (None, None, None, now());
        let (answered, said_after) = (at, at);
        Self {
            worker,
            ttl,
            dice,
            record,
            counter,
            failed,
            fate,
            asked,
            held,
            refused,
            answered,
            said_after,
        }
    }

    /// Does what it says, and returns the answer; the error is what it may not say.
    pub(crate) fn take(&mut self, said: Said) -> Result<Answer, String> {
        let at = now();
        // A lock that tells of its loss has taken its promise back.
        self.note_refused(!matches!(said, Said::Lost { .. }));
        // Some give up the lock where an extension fails: `lost` then means the line before.
        let is_failed = matches!(said, Said::Failed { .. });
        let answer = match said {
            Said::Ask {} => self.ask(),
            Said::Got { token, validity_ms } => self.got(at, token, validity_ms),
            Said::Failed { why } => {
                if let Some(why) = why.map(|why| cut(&why)) {
                    let mut said = self.failed.0.lock().unwrap_or_else(PoisonError::into_inner);
                    *said = Some((self.worker, why));
                }
                self.say(Event::Count(Count::Contended));
                Ok(Answer::Done)
            }
            Said::Read {} => self.read(),
            Said::Write {} => self.write(),
            Said::Release {} => self.ends("release", at),
            Said::Lost { why } => self.lost(at, cut(&why.unwrap_or_default())),
        };
        if !is_failed {
            self.said_after = self.answered;
        }
        self.answered = now();
        answer
    }

    /// It was killed. Some locks are free at once where the connection of their holder is gone, and rightly so: what it held ends with
    /// its last line, as where it tells of a loss.
    pub(crate) fn was_killed(&mut self) {
        self.note_refused(false);
        let last = self.said_after;
        if let Some(Holding { lease, .. }) = &mut self.held {
            lease.end = lease.end.min(last).max(lease.start);
            let held = Event::Renewed(lease.clone());
            self.say(held);
        }
    }

    /// It is told to end, and gives back what it holds.
    pub(crate) fn told_to_end(&mut self) {
        self.note_refused(true);
        if self.held.is_some() {
            // It holds something, so that this is no error.
            let _ = self.ends("release", now());
        }
    }

    fn ask(&mut self) -> Result<Answer, String> {
        if self.held.is_none() {
            self.pause(REST);
        }
        // It begins no sooner than it is answered.
        self.asked = Some(now());
        Ok(Answer::Done)
    }

    fn got(&mut self, at: Duration, token: Option<u64>, ms: Option<f64>) -> Result<Answer, String> {
        let asked = self.asked.ok_or("it has said `got` before its `ask`")?;
        let until = asked + ms.map_or(Ok(self.ttl), validity)?;
        if let Some(Holding { lease, .. }) = &mut self.held {
            if lease.token != token {
                return Err(
                    "it has said `got` with another token before `release` or `lost`".to_owned()
                );
            }
            let before = lease.clone();
            // What was promised before stands. For a time without a promise it was not held.
            let is_new = lease.end < at;
            lease.end = lease.end.max(until).max(at);
            if is_new {
                lease.start = at;
                self.record.lock().take(Event::Held(before));
            }
            let (lease, new) =
                (lease.clone(), if is_new { Event::Granted } else { Event::Renewed });
            self.say(new(lease));
            return Ok(Answer::Done);
        }
        if !self.counter.is_alike(token) {
            return Err("some leases have a `token` and some have none: give it with each `got`, or with none".to_owned());
        }
        let (worker, kept) = (self.worker, Duration::ZERO);
        let owner = format!("{worker} at {}", at.as_nanos());
        // One that is over by now was not held.
        let (start, end) = (at, until.max(at));
        let lease =
            Held { owner, worker, resource: 0, reads: false, token, asked, start, end, kept };
        self.say(Event::Granted(lease.clone()));
        self.held = Some(Holding { lease, read: None });
        Ok(Answer::Done)
    }

    fn read(&mut self) -> Result<Answer, String> {
        let Holding { lease, read } = holding(&mut self.held, "read")?;
        match self.counter.read(&by(lease)) {
            Ok(version) => *read = Some(version),
            Err(refused) => {
                self.refused = Some(refused);
                return Ok(Answer::Stale);
            }
        }
        Ok(Answer::Done)
    }

    fn write(&mut self) -> Result<Answer, String> {
        let read = holding(&mut self.held, "write")?.read;
        let version = read.ok_or("it has said `write` before any `read` under this lease")?;
        self.is_on_its_way()?;
        let Holding { lease, read } = holding(&mut self.held, "write")?;
        let (effect, own) = self.counter.write(&by(lease), version);
        let Some(own) = own else {
            self.refused = Some(effect);
            return Ok(Answer::Stale);
        };
        *read = Some(own);
        self.say(Event::Effect(effect));
        Ok(Answer::Done)
    }

    fn is_on_its_way(&mut self) -> Result<(), String> {
        self.pause(WAY);
        // A worker stopped by now is late when it goes on, which no look of its own can prevent.
        while self.fate.stopped.load(Relaxed) && !self.fate.killed.load(Relaxed) {
            sleep(Duration::from_millis(1));
        }
        let killed = self.fate.killed.load(Relaxed);
        if killed { Err("it was killed".to_owned()) } else { Ok(()) }
    }

    fn note_refused(&mut self, held: bool) {
        if let Some(effect) = self.refused.take() {
            let held = effect.held && held;
            self.say(Event::Effect(Effect { held, ..effect }));
        }
    }

    /// It learned that before it said so. What is known is that it still held at its line before, which was said behind an answer.
    fn lost(&mut self, at: Duration, why: String) -> Result<Answer, String> {
        let answer = self.ends("lost", self.said_after)?;
        self.say(Event::Lost(Loss { worker: self.worker, at, why }));
        Ok(answer)
    }

    fn ends(&mut self, word: &str, at: Duration) -> Result<Answer, String> {
        holding(&mut self.held, word)?;
        if let Some(Holding { lease, .. }) = self.held.take() {
            let end = lease.end.min(at).max(lease.start);
            // The next has an `ask` of its own.
            self.asked = None;
            self.say(Event::Held(Held { end, ..lease }));
        }
        Ok(Answer::Done)
    }

    fn say(&self, event: Event) {
        self.record.lock().take(event);
    }

    fn pause(&mut self, (least, most): (f64, f64)) {
        sleep(Duration::from_millis(1).mul_f64(self.dice.between(least, most)));
    }
}

/// For people: no more than a line, on which no terminal acts.
fn cut(why: &str) -> String {
    plain(&why.chars().take(200).collect::<String>()).into_owned()
}

fn holding<'a>(held: &'a mut Option<Holding>, word: &str) -> Result<&'a mut Holding, String> {
    held.as_mut()
        .ok_or_else(|| format!("it has said `{word}`, and holds nothing: `got` comes first"))
}

const fn by(lease: &Held) -> By {
    By { worker: lease.worker, token: lease.token, until: lease.end }
}

#[cfg(test)]
#[path = "heard_test.rs"]
mod tests;
