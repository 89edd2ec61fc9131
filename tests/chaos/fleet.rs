//! Workers in processes of their own, which can be stopped and go on, and what all of them wrote down.
//!
//! A process is this test binary, run again for the same test; an environment variable tells it its part. It
//! prints its events and ends with its input. Nothing here judges, but that no process ends badly.

use std::{
    io::{BufRead, BufReader, Read},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use quorlock::{Builder, Redlock};
use quorlock_harness::{Companion, Server};

use super::{
    SECOND,
    chains::CHAINS,
    climb::RESOURCES,
    locking_set,
    record::{Event, History, Record, first_of, process_of},
    settings,
    wall::WrongWall,
    wants::Wants,
    worker::{Orders, Worker, watch},
};

/// The variable that tells a process its part.
const PART: &str = "QUORLOCK_CHAOS_PART";

/// Threads of a process: together they fight for the lock as those of other processes do.
const THREADS: usize = 3;
/// Those of one that is brisk.
const BRISK_THREADS: usize = 4;

/// What a process does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) nodes: Vec<String>,
    /// The list before a change, where one is under way.
    pub(crate) before: Vec<String>,
    pub(crate) register: String,
    pub(crate) ttl: Duration,
    /// The longest ttl, or classic mode.
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) careless: bool,
    /// How many clients it has. With more than one, each has two threads, which let go soon.
    pub(crate) clients: usize,
    /// Where all want one resource, and let go of it at once, nothing is written to the register.
    pub(crate) wants: Wants,
    /// By how many milliseconds its wall clock is ahead.
    pub(crate) wall_ahead: i64,
}

/// A client, as soon as enough nodes are there.
fn connected(builder: impl Fn() -> Builder) -> Redlock {
    let deadline = Instant::now() + 40 * SECOND;
    loop {
        match builder().blocking_connect() {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < deadline, "not enough nodes: {error:?}"),
        }
    }
}

impl Part {
    fn to_text(&self, number: usize) -> String {
        let (ttl, max_ttl) = (self.ttl.as_millis(), self.max_ttl.map_or(0, |max| max.as_millis()));
        let Self { register, careless, clients, wants, wall_ahead, .. } = self;
        let (nodes, before) = (self.nodes.join(","), self.before.join(","));
        format!(
            "{number} {ttl} {max_ttl} {careless} {clients} {wants:?} {wall_ahead} {register} {nodes} {before}"
        )
    }

    fn from_text(text: &str) -> (usize, Self) {
        let words: Vec<&str> = text.split(' ').collect();
        let [number, ttl, max_ttl, careless, clients, wants, wall_ahead, register, nodes, before] =
            words[..]
        else {
            panic!("no part: {text}")
        };
        let millis = |word: &str| Duration::from_millis(word.parse().unwrap());
        let part = Self {
            nodes: nodes.split(',').map(str::to_owned).collect(),
            before: before.split(',').filter(|url| !url.is_empty()).map(str::to_owned).collect(),
            register: register.to_owned(),
            ttl: millis(ttl),
            max_ttl: Some(millis(max_ttl)).filter(|max_ttl| !max_ttl.is_zero()),
            careless: careless.parse().unwrap(),
            clients: clients.parse().unwrap(),
            wants: Wants::from_text(wants),
            wall_ahead: wall_ahead.parse().unwrap(),
        };
        (number.parse().unwrap(), part)
    }

    /// The settings of a client of this fleet.
    pub(crate) fn builder(&self) -> Builder {
        let builder = settings().ttl(self.ttl).nodes(&self.nodes).nodes_before(&self.before);
        match self.max_ttl {
            Some(max_ttl) => builder.max_ttl(max_ttl),
            None => builder.classic(),
        }
    }

    /// A patient client of this fleet: on a busy machine servers may not answer at once.
    pub(crate) fn connected(&self) -> Redlock {
        connected(|| self.builder())
    }

    /// Works until the input ends, in several threads.
    fn play(&self, number: usize) {
        if let Wants::Additions(stand) = self.wants {
            return locking_set::play(self, number, stand);
        }
        let builder = || self.builder().runtime(WrongWall::ahead_by(self.wall_ahead));
        // A replacement may start while nodes are away.
        let clients: Vec<Redlock> = (0..self.clients).map(|_| connected(builder)).collect();
        let brief = self.clients > 1;
        let stop = Arc::<AtomicBool>::default();
        let spawn = |thread: usize| {
            let worker = Worker {
                number: first_of(number) + thread,
                orders: Orders {
                    ttl: self.ttl,
                    register: Some(self.register.clone()).filter(|_| !self.wants.is_brisk()),
                    careless: self.careless,
                    brief,
                    wants: self.wants,
                },
                client: clients[thread % self.clients].clone(),
                // The runner may have begun a line.
                write_down: |event: Event| println!("\n{event}"),
                stop: Arc::clone(&stop),
            };
            std::thread::spawn(move || worker.work())
        };
        if self.wants == Wants::Elections {
            let (client, ttl) = (clients[0].clone(), self.ttl);
            std::thread::spawn(move || watch(&client, ttl, |event| println!("\n{event}")));
        }
        let threads = match () {
            () if brief => 2 * self.clients,
            () if self.wants.is_brisk() => BRISK_THREADS,
            () if self.wants == Wants::Climbs => RESOURCES,
            () if self.wants == Wants::Chains => CHAINS,
            () => THREADS,
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("a worker panicked"));
        // Some nodes may be down at the end, and then a key stays for its ttl.
        clients.iter().for_each(|client| drop(client.blocking_close()));
    }
}

/// Whether this process is one of a fleet; if so, it has played its part now.
pub(crate) fn played_a_part() -> bool {
    let Ok(part) = std::env::var(PART) else { return false };
    let (number, part) = Part::from_text(&part);
    part.play(number);
    true
}

/// One of them, and the thread that reads what it says.
struct Process {
    companion: Companion,
    reader: JoinHandle<()>,
}

/// The processes at work.
pub(crate) struct Fleet {
    test: &'static str,
    parts: Vec<Mutex<Part>>,
    processes: Vec<Mutex<Option<Process>>>,
    record: Record,
    stopped: AtomicUsize,
    stopped_long: AtomicUsize,
}

impl Fleet {
    /// Starts one process for each part. `test` is the whole name of the test that calls this.
    pub(crate) fn start(test: &'static str, parts: &[Part]) -> Self {
        let (record, (stopped, stopped_long)) = (Record::default(), Default::default());
        let mut fleet = Self {
            test,
            parts: parts.iter().cloned().map(Mutex::new).collect(),
            processes: Vec::new(),
            record,
            stopped,
            stopped_long,
        };
        let launch = |number| Mutex::new(Some(fleet.launch(number)));
        fleet.processes = (0..parts.len()).map(launch).collect();
        fleet
    }

    fn launch(&self, number: usize) -> Process {
        let text = self.part(number).to_text(number);
        let mut companion = Companion::start(self.test, PART, text);
        let (record, output) = (self.record.clone(), BufReader::new(companion.output()));
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Ok(event) = line.parse() {
                    record.lock().take(event);
                }
            }
        });
        Process { companion, reader }
    }

    fn part(&self, number: usize) -> MutexGuard<'_, Part> {
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills a process, and starts another in its place that plays this part.
    pub(crate) fn replace(&self, number: usize, part: Part) {
        *self.part(number) = part;
        self.kill(number);
    }

    /// Kills a process, which does not release what it held, and starts another in its place.
    pub(crate) fn kill(&self, number: usize) {
        let mut process = self.process(number);
        let Process { companion, reader } = process.take().expect("one that lives");
        companion.kill();
        reader.join().unwrap();
        self.record.lock().killed(first_of(number)..first_of(number + 1));
        *process = Some(self.launch(number));
    }

    pub(crate) fn len(&self) -> usize {
        self.processes.len()
    }

    pub(crate) const fn record(&self) -> &Record {
        &self.record
    }

    /// The process that was granted a lease last.
    pub(crate) fn latest(&self) -> Option<usize> {
        self.record.lock().latest.map(process_of)
    }

    fn process(&self, number: usize) -> MutexGuard<'_, Option<Process>> {
        self.processes[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops some processes, waits, and lets them go on.
    pub(crate) fn pause(&self, numbers: &[usize], long: bool, wait: impl FnOnce()) {
        let each = |work: fn(&mut Companion)| {
            let one =
                |number| work(&mut self.process(number).as_mut().expect("it lives").companion);
            numbers.iter().copied().for_each(one);
        };
        each(Companion::pause);
        wait();
        each(Companion::resume);
        let counter = if long { &self.stopped_long } else { &self.stopped };
        counter.fetch_add(numbers.len(), Ordering::Relaxed);
    }

    /// How many were stopped and have gone on, for less than the ttl and for more.
    pub(crate) fn stops(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (count(&self.stopped), count(&self.stopped_long))
    }

    /// Ends all processes, and returns what they wrote down.
    #[track_caller]
    pub(crate) fn end(self) -> History {
        // All of them first: they wait for each other's leases.
        let end =
            |number| self.process(number).as_mut().map(|process| process.companion.end_input());
        (0..self.len()).for_each(|number| end(number).expect("it lives"));
        for process in self.processes {
            let process = process.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Process { mut companion, reader } = process.expect("it lives");
            let status = companion.end(30 * SECOND);
            assert!(status.ends_with(": 0"), "a process of workers ended with {status}");
            reader.join().unwrap();
        }
        std::mem::take(&mut *self.record.lock())
    }
}

/// So many parts alike, against these nodes.
pub(crate) fn parts(
    processes: usize,
    nodes: &[String],
    register: &Server,
    ttl: Duration,
    max_ttl: Option<Duration>,
) -> Vec<Part> {
    let (nodes, register) = (nodes.to_vec(), register.url());
    let part = Part {
        nodes,
        before: Vec::new(),
        register,
        ttl,
        max_ttl,
        careless: false,
        clients: 1,
        wants: Wants::One,
        wall_ahead: 0,
    };
    vec![part; processes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_survives_as_text() {
        let part = Part {
            nodes: vec!["redis://127.0.0.1:1".to_owned(), "redis://127.0.0.1:2".to_owned()],
            before: vec!["redis://127.0.0.1:4".to_owned()],
            register: "redis://127.0.0.1:3".to_owned(),
            ttl: Duration::from_millis(500),
            max_ttl: Some(SECOND),
            careless: true,
            clients: 2,
            wants: Wants::Brisk,
            wall_ahead: -20_000,
        };
        assert_eq!(Part::from_text(&part.to_text(4)), (4, part.clone()));
        let classic = Part { max_ttl: None, wants: Wants::Sets, before: Vec::new(), ..part };
        assert_eq!(Part::from_text(&classic.to_text(0)), (0, classic));
    }
}
