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
    /// The line before this one.
    last: Duration,
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
        let (asked, held, last) = (None, None, now());
        Self { worker, ttl, dice, record, counter, failed, fate, asked, held, last }
    }

    /// Does what it says, and returns the answer; the error is what it may not say.
    pub(crate) fn take(&mut self, said: Said) -> Result<Answer, String> {
        let at = now();
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
            self.last = at;
        }
        answer
    }

    /// It was killed. Some locks are free at once where the connection of their holder is gone, and rightly so: what it held ends with
    /// its last line.
    pub(crate) fn was_killed(&mut self) {
        let last = self.last;
        if let Some(Holding { lease, .. }) = &mut self.held {
            lease.end = lease.end.min(last).max(lease.start);
            let held = Event::Renewed(lease.clone());
            self.say(held);
        }
    }

    /// It is told to end, and gives back what it holds.
    pub(crate) fn told_to_end(&mut self) {
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
        let asked = self.asked.ok_or("it has said `got` before any `ask`")?;
        let until = asked + ms.map_or(Ok(self.ttl), validity)?;
        if let Some(Holding { lease, .. }) = &mut self.held {
            if lease.token != token {
                return Err(
                    "it has said `got` with another token before `release` or `lost`".to_owned()
                );
            }
            // What was promised before stands.
            lease.end = lease.end.max(until);
            let renewed = Event::Renewed(lease.clone());
            self.say(renewed);
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
            Err(refused) => return Ok(self.refused(refused)),
        }
        Ok(Answer::Done)
    }

    fn write(&mut self) -> Result<Answer, String> {
        let read = holding(&mut self.held, "write")?.read;
        let version = read.ok_or("it has said `write` before any `read` under this lease")?;
        self.is_on_its_way()?;
        let Holding { lease, read } = holding(&mut self.held, "write")?;
        let (effect, own) = self.counter.write(&by(lease), version);
        let Some(own) = own else { return Ok(self.refused(effect)) };
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

    fn refused(&self, effect: Effect) -> Answer {
        self.say(Event::Effect(effect));
        Answer::Stale
    }

    /// It learned that before it said so, and believed in its lease no later than at its line before.
    fn lost(&mut self, at: Duration, why: String) -> Result<Answer, String> {
        let answer = self.ends("lost", self.last)?;
        self.say(Event::Lost(Loss { worker: self.worker, at, why }));
        Ok(answer)
    }

    fn ends(&mut self, word: &str, at: Duration) -> Result<Answer, String> {
        holding(&mut self.held, word)?;
        if let Some(Holding { lease, .. }) = self.held.take() {
            let end = lease.end.min(at).max(lease.start);
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
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(100);

    fn heard(worker: usize, record: &Record, counter: &Arc<Counter>) -> Heard {
        let (failed, fate) = Default::default();
        Heard::new(worker, TTL, Dice::new(1), record.clone(), Arc::clone(counter), failed, fate)
    }

    fn got(token: Option<u64>, validity_ms: Option<f64>) -> Said {
        Said::Got { token, validity_ms }
    }

    #[test]
    fn a_lease_lies_inside_what_was_promised() {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        let mut worker = heard(3, &record, &counter);
        let mut say = |said| worker.take(said).unwrap();
        say(Said::Ask {});
        let asked = now();
        say(got(None, None));
        let until = record.lock().held_now().next().unwrap().end;
        assert!(until <= asked + TTL && until + TTL / 2 > asked + TTL, "from the answer to `ask`");
        // It is extended by a later promise, and not shortened by an earlier one.
        say(Said::Ask {});
        say(got(None, Some(1.0)));
        assert_eq!(record.lock().held_now().next().unwrap().end, until);
        say(got(None, Some(200_000.0)));
        assert!(record.lock().held_now().next().unwrap().end > until);
        let before = now();
        say(Said::Release {});
        let lease = record.lock().leases.first().cloned().unwrap();
        assert!(lease.start < lease.end && before <= lease.end && lease.end <= now());
        // One that was over by the time in which it was said is not held.
        say(Said::Ask {});
        say(got(None, Some(0.0)));
        say(Said::Release {});
        let lease = record.lock().leases.last().cloned().unwrap();
        assert_eq!(lease.start, lease.end);
        assert_eq!(record.lock().granted, 2);
    }

    #[test]
    fn what_is_lost_was_held_up_to_the_line_before() {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        let mut worker = heard(0, &record, &counter);
        for said in [Said::Ask {}, got(Some(4), None), Said::Read {}] {
            worker.take(said).unwrap();
        }
        let before = now();
        worker.take(Said::Lost { why: Some("gone\u{1b}".repeat(99)) }).unwrap();
        let history = record.lock();
        assert!(history.leases[0].end < before && history.losses[0].why == r"gone\x1b".repeat(40));
    }

    #[test]
    fn a_late_write_is_refused_where_there_are_tokens_and_taken_where_there_are_none() {
        for (tokens, late) in [([Some(1), Some(2)], Answer::Stale), ([None, None], Answer::Done)] {
            let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
            let mut workers = [heard(0, &record, &counter), heard(1, &record, &counter)];
            for (worker, token) in workers.iter_mut().zip(tokens) {
                worker.take(Said::Ask {}).unwrap();
                worker.take(got(token, Some(0.0))).unwrap();
                worker.take(Said::Read {}).unwrap();
            }
            assert_eq!(workers[1].take(Said::Write {}), Ok(Answer::Done));
            assert_eq!(workers[0].take(Said::Write {}), Ok(late));
            let lost = usize::from(late == Answer::Done);
            assert_eq!((counter.found().lost, record.lock().effects.len()), (lost, 2));
            assert!(record.lock().effects.iter().all(|effect| !effect.held));
        }
    }

    #[test]
    fn a_write_stands_still_with_its_worker_and_is_gone_with_it() {
        for killed in [false, true] {
            let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
            let mut worker = heard(0, &record, &counter);
            let fate = Arc::clone(&worker.fate);
            for said in [Said::Ask {}, got(None, None), Said::Read {}] {
                worker.take(said).unwrap();
            }
            fate.stopped.store(true, Relaxed);
            let writing = std::thread::spawn(move || {
                let ended = worker.take(Said::Write {});
                worker.was_killed();
                ended
            });
            sleep(Duration::from_millis(150));
            assert!(!writing.is_finished() && record.lock().effects.is_empty());
            let fated = if killed { &fate.killed } else { &fate.stopped };
            fated.store(killed, Relaxed);
            assert_eq!(writing.join().unwrap().is_err(), killed);
            assert_eq!(record.lock().effects.len(), usize::from(!killed));
            // What is held ends with the last line, as nobody knows better.
            assert!(record.lock().held_now().next().unwrap().end < now());
        }
    }

    /// Some give up the lock where an extension fails, so that others may have it before that is said.
    #[test]
    fn a_lock_lost_by_a_failed_extension_was_held_up_to_the_question() {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        let mut worker = heard(0, &record, &counter);
        for said in [Said::Ask {}, got(None, None), Said::Ask {}] {
            worker.take(said).unwrap();
        }
        let asked = now();
        worker.take(Said::Failed { why: None }).unwrap();
        worker.take(Said::Lost { why: None }).unwrap();
        assert!(record.lock().leases[0].end < asked);
    }

    #[test]
    fn what_comes_out_of_turn_is_told() {
        let (record, counter) = (Record::default(), Arc::new(Counter::new(true)));
        for (said, why) in [
            (&[got(None, None)][..], "before any `ask`"),
            (&[Said::Read {}], "holds nothing"),
            (&[Said::Release {}], "holds nothing"),
            (&[Said::Lost { why: None }], "holds nothing"),
            (&[Said::Ask {}, got(None, None), Said::Write {}], "before any `read`"),
            (&[Said::Ask {}, got(None, None), Said::Release {}, Said::Write {}], "holds nothing"),
            (&[Said::Ask {}, got(None, None), got(Some(1), None)], "another token"),
            (&[Said::Ask {}, got(Some(1), None)], "with each `got`"),
            (&[Said::Ask {}, got(None, Some(-1.0))], "validity_ms"),
        ] {
            let mut worker = heard(0, &record, &counter);
            let mut told = said.iter().cloned().map(|said| worker.take(said));
            let last = told.by_ref().last().unwrap().unwrap_err();
            assert!(last.contains(why), "{last}");
        }
    }
}
