//! The workers as processes, which can be stopped and killed, each with a thread that hears and answers it.
//!
//! Ours is this binary, and the user's any command; both speak the lines of `protocol`. A worker that says what it must not, or ends by
//! itself, ends the run, and there is no verdict. A worker dies with this process.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{JoinHandle, sleep},
    time::Duration,
};

use quorlock_harness::{
    Companion,
    history::record::{History, Record, now},
};

use super::{
    converse::converse,
    counter::Counter,
    crew::Crew,
    dice::Dice,
    heard::{Failed, Fate, Heard},
};
use crate::{
    exit::{Failure, Status},
    shown::counted,
};

/// How long a worker may take to end, beside two ttls.
const ENDS: Duration = Duration::from_secs(30);

/// How long its output may be open when it is gone.
const LINGERS: Duration = Duration::from_secs(10);

/// One worker, and the thread that hears it.
struct Process {
    companion: Companion,
    fate: Arc<Fate>,
    listener: JoinHandle<()>,
}

/// What is wrong with a worker, the first that is.
#[derive(Clone, Debug, Default)]
struct Trouble {
    first: Arc<Mutex<Option<(usize, String)>>>,
    /// Ends the run.
    over: Arc<AtomicBool>,
}

impl Trouble {
    fn is(&self, worker: usize, what: String) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert((worker, what));
        self.over.store(true, Relaxed);
    }

    fn found(&self) -> Option<(usize, String)> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The workers.
pub(crate) struct Fleet {
    crew: Crew,
    processes: Vec<Mutex<Option<Process>>>,
    record: Record,
    counter: Arc<Counter>,
    trouble: Trouble,
    failed: Failed,
    /// Whether whoever asks next is told to end.
    ends: Arc<AtomicBool>,
}

impl Fleet {
    /// Starts them. Where one fails, `over` is set.
    pub(crate) fn start(
        crew: Crew,
        counter: Counter,
        over: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let processes = (0..crew.count).map(|_| Mutex::default()).collect();
        let trouble = Trouble { over: Arc::clone(over), ..Trouble::default() };
        let (record, counter) = (Record::default(), Arc::new(counter));
        let (failed, ends) = (Failed::default(), Arc::default());
        let fleet = Self { crew, processes, record, counter, trouble, failed, ends };
        (0..fleet.crew.count).try_for_each(|worker| fleet.replace(worker))?;
        Ok(fleet)
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    pub(crate) fn counter(&self) -> &Counter {
        &self.counter
    }

    /// What one of them did that ends the run.
    pub(crate) fn trouble(&self) -> Option<Failure> {
        let (worker, what) = self.trouble.found()?;
        let status = if self.crew.is_theirs() { Status::Usage } else { Status::Failed };
        // Its output ends a little before it does.
        let limit = now() + Duration::from_millis(500);
        let exited = || self.process(worker)?.as_mut()?.companion.exited();
        let mut how = exited();
        while how.is_none() && now() < limit {
            sleep(Duration::from_millis(5));
            how = exited();
        }
        let how = how.map_or_else(String::new, |how| format!(" ({how})"));
        let text = format!("worker {}: {what}{how}. There is no verdict", worker + 1);
        Some(Failure::new(status, text))
    }

    /// Why there is no lease yet, as far as workers have said.
    pub(crate) fn nobody(&self) -> Failure {
        let said = self.failed.why();
        let why = match (said, self.crew.is_theirs()) {
            (Some(why), _) => why,
            (None, true) => {
                "none has printed `got`, nor why it `failed`. Each line is to be flushed".to_owned()
            }
            (None, false) => "`quorlock doctor` says what ails the nodes".to_owned(),
        };
        let text = format!("no worker was granted a lease within 30 s: {why}");
        let status = if self.crew.is_theirs() { Status::Usage } else { Status::Broken };
        Failure::new(status, text)
    }

    /// Stops a worker, waits, and lets it go on.
    pub(crate) fn pause(&self, worker: usize, wait: impl FnOnce()) {
        let with = |work: &dyn Fn(&mut Process)| {
            if let Some(process) = self.process(worker).as_deref_mut().and_then(Option::as_mut) {
                work(process);
            }
        };
        with(&|process| {
            process.fate.stopped.store(true, Relaxed);
            process.companion.pause_unless_gone();
        });
        wait();
        with(&|process| {
            if process.companion.exited().is_none() {
                process.companion.resume();
            }
            process.fate.stopped.store(false, Relaxed);
        });
    }

    /// Kills a worker, which does not release what it held.
    pub(crate) fn kill(&self, worker: usize) {
        let process = self.process(worker).as_deref_mut().and_then(Option::take);
        if let Some(Process { companion, fate, listener }) = process {
            fate.killed.store(true, Relaxed);
            companion.kill();
            self.heard_all(worker, listener, now() + LINGERS);
            self.record.lock().killed(worker..worker + 1);
        }
    }

    /// Starts a process, also in the place of one that was killed.
    pub(crate) fn replace(&self, worker: usize) -> Result<(), Failure> {
        let Some(mut place) = self.process(worker) else { return Ok(()) };
        let mut companion = Companion::run(self.crew.command(worker)?);
        let (input, output) = (companion.input(), companion.output());
        let fate = Arc::<Fate>::default();
        let mut heard = Heard::new(
            worker,
            self.crew.ttl,
            Dice::new(self.crew.seed(worker)),
            self.record.clone(),
            Arc::clone(&self.counter),
            self.failed.clone(),
            Arc::clone(&fate),
        );
        let (trouble, ends, is_theirs) =
            (self.trouble.clone(), Arc::clone(&self.ends), self.crew.is_theirs());
        let of = Arc::clone(&fate);
        let listener = std::thread::spawn(move || {
            let heard_all = converse(output, input, &mut heard, &ends);
            match (heard_all, of.killed.load(Relaxed)) {
                // Our own promise stands for a worker that is gone.
                (_, true) if !is_theirs => {}
                (_, true) => heard.was_killed(),
                (Err(what), false) => trouble.is(worker, what),
                (Ok(()), false) => {}
            }
        });
        *place = Some(Process { companion, fate, listener });
        Ok(())
    }

    /// Waits until all that a worker said is in the record. Something that it has started and that has left its group may hold its
    /// output open.
    fn heard_all(&self, worker: usize, listener: JoinHandle<()>, limit: Duration) {
        while now() < limit && !listener.is_finished() {
            sleep(Duration::from_millis(2));
        }
        if !listener.is_finished() {
            let what = "it is gone, and its output is open: something that it has started lives on";
            self.trouble.is(worker, what.to_owned());
        } else if listener.join().is_err() {
            self.trouble.is(worker, "what it said was not written down".to_owned());
        }
    }

    fn process(&self, worker: usize) -> Option<MutexGuard<'_, Option<Process>>> {
        Some(self.processes.get(worker)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all workers, and returns what they did. An error if there is no verdict on it.
    pub(crate) fn end(&self) -> Result<History, Failure> {
        // Where one is in trouble, nobody waits for the others.
        if let Some(failure) = self.trouble() {
            return Err(failure);
        }
        self.ends.store(true, Relaxed);
        let limit = now() + ENDS + 2 * self.crew.ttl;
        for worker in 0..self.processes.len() {
            let process = self.process(worker).as_deref_mut().and_then(Option::take);
            let Some(Process { mut companion, listener, .. }) = process else { continue };
            while now() < limit && companion.exited().is_none() {
                sleep(Duration::from_millis(2));
            }
            let status = companion.exited();
            if status.is_none() {
                let what = "it has not ended, though its input was to end: it reads no answer, or waits for a lock that nobody gives back";
                self.trouble.is(worker, what.to_owned());
            } else if !self.crew.is_theirs() && status.is_none_or(|status| !status.ends_with(": 0"))
            {
                self.trouble.is(worker, "it failed".to_owned());
            }
            // It is killed where it still runs.
            drop(companion);
            self.heard_all(worker, listener, now() + LINGERS);
        }
        if let Some(failure) = self.trouble() {
            return Err(failure);
        }
        whole(std::mem::take(&mut *self.record.lock()))
    }
}

/// There is no verdict on what has gaps.
fn whole(history: History) -> Result<History, Failure> {
    match history.held_now().count() {
        0 => Ok(history),
        open => {
            let open = counted(open, "lease");
            let text =
                format!("the end of {open} is not in the record, so that there is no verdict");
            Err(Failure::new(Status::Failed, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use quorlock_harness::history::record::Event;

    use super::*;
    use crate::chaos::story::tests::held;

    #[test]
    fn there_is_no_verdict_on_what_has_gaps() {
        let mut open = History::default();
        open.take(Event::Granted(held(0, 1, 100, 200)));
        assert!(whole(open).is_err(), "nobody said how it ended");
        assert!(whole(History::default()).is_ok());
    }
}
