//! The workers as processes of this binary, which can be stopped and killed, and what they wrote down.
//!
//! It judges nothing. A worker dies with this process.

use std::{
    io::{BufRead, BufReader},
    process::Command,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use quorlock_harness::{
    Companion,
    history::record::{History, Record},
};

use super::worker::Part;
use crate::{
    exit::{Failure, Status},
    shown::counted,
};

/// One worker, and the thread that reads what it says.
struct Process {
    companion: Companion,
    /// Returns how many lines it could not read: a record with gaps must not be called good.
    reader: JoinHandle<usize>,
}

/// The workers.
pub(crate) struct Fleet {
    parts: Vec<Part>,
    processes: Vec<Mutex<Option<Process>>>,
    record: Record,
    /// Lines that nobody could read.
    unread: AtomicUsize,
}

impl Fleet {
    /// Starts one process for each part.
    pub(crate) fn start(parts: Vec<Part>) -> Result<Self, Failure> {
        let record = Record::default();
        let launch = |part: &Part| Ok(Mutex::new(Some(launch(part, &record)?)));
        let processes = parts.iter().map(launch).collect::<Result<_, Failure>>()?;
        Ok(Self { parts, processes, record, unread: AtomicUsize::new(0) })
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    /// Stops a worker, waits, and lets it go on.
    pub(crate) fn pause(&self, worker: usize, wait: impl FnOnce()) {
        let with = |work: fn(&mut Companion)| {
            if let Some(process) = self.process(worker).as_deref_mut().and_then(Option::as_mut) {
                work(&mut process.companion);
            }
        };
        with(Companion::pause);
        wait();
        with(Companion::resume);
    }

    /// Kills a worker, which does not release what it held.
    pub(crate) fn kill(&self, worker: usize) {
        let process = self.process(worker).as_deref_mut().and_then(Option::take);
        if let Some(Process { companion, reader }) = process {
            companion.kill();
            // The last may be half a line.
            let unread = reader.join().unwrap_or(usize::MAX).saturating_sub(1);
            self.unread.fetch_add(unread, Relaxed);
            self.record.lock().killed(worker..worker + 1);
        }
    }

    /// Starts a process in the place of one that was killed.
    pub(crate) fn replace(&self, worker: usize) -> Result<(), Failure> {
        if let Some((mut process, part)) = self.process(worker).zip(self.parts.get(worker)) {
            *process = Some(launch(part, &self.record)?);
        }
        Ok(())
    }

    fn process(&self, worker: usize) -> Option<MutexGuard<'_, Option<Process>>> {
        Some(self.processes.get(worker)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all workers, and returns what they wrote down. An error if one ended badly: it may have left something out.
    pub(crate) fn end(self) -> Result<History, Failure> {
        let processes = self.processes.into_iter();
        let processes =
            processes.map(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut processes: Vec<Process> = processes.flatten().collect();
        // All inputs end first: the workers wait for each other's leases.
        processes.iter_mut().for_each(|process| process.companion.end_input());
        for Process { mut companion, reader } in processes {
            let status = companion.end(Duration::from_secs(30));
            self.unread.fetch_add(reader.join().unwrap_or(1), Relaxed);
            if !status.ends_with(": 0") {
                return Err(Failure::new(Status::Failed, format!("a worker ended with {status}")));
            }
        }
        let history = std::mem::take(&mut *self.record.lock());
        whole(history, self.unread.load(Relaxed))
    }
}

/// There is no verdict on what has gaps.
fn whole(history: History, unread: usize) -> Result<History, Failure> {
    let open = history.held_now().count();
    if unread + open > 0 {
        let text = format!(
            "the record has gaps, so that there is no verdict: of what the workers wrote {} cannot be read, and the end of {} is \
             not in it",
            counted(unread, "line"),
            counted(open, "lease")
        );
        return Err(Failure::new(Status::Failed, text));
    }
    Ok(history)
}

fn launch(part: &Part, record: &Record) -> Result<Process, Failure> {
    let failed = |error: &dyn ToString| Failure::new(Status::Failed, error.to_string());
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let part = serde_json::to_string(part).map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.arg("chaos-worker");
    let mut companion = Companion::run(command);
    companion.say(&part);
    let (record, output) = (record.clone(), BufReader::new(companion.output()));
    let reader = std::thread::spawn(move || read(output, &record));
    Ok(Process { companion, reader })
}

/// Takes down all lines, and returns how many cannot be read.
fn read(output: impl BufRead, record: &Record) -> usize {
    let mut unread = 0;
    for line in output.split(b'\n') {
        // No lines follow a read error, and more than half a line is missing.
        let Ok(line) = line else { return unread + 2 };
        match str::from_utf8(&line).map_err(drop).and_then(str::parse) {
            Ok(event) => record.lock().take(event),
            Err(()) => unread += 1,
        }
    }
    unread
}

#[cfg(test)]
mod tests {
    use quorlock_harness::history::record::{Count, Event};

    use super::*;
    use crate::chaos::story::tests::held;

    #[test]
    fn what_cannot_be_read_is_counted_and_what_follows_is_read() {
        let said = Event::Count(Count::TooLate);
        let lines =
            [format!("{said}\n").as_bytes(), b"\xff\n", format!("{said}\nno").as_bytes()].concat();
        let record = Record::default();
        assert_eq!(read(&lines[..], &record), 2);
        assert_eq!(record.lock().count(Count::TooLate), 2);
    }

    #[test]
    fn there_is_no_verdict_on_what_has_gaps() {
        let mut open = History::default();
        open.take(Event::Granted(held(0, 1, 100, 200)));
        assert!(whole(open, 0).is_err(), "nobody said how it ended");
        assert!(whole(History::default(), 1).is_err());
        assert!(whole(History::default(), 0).is_ok());
    }
}
