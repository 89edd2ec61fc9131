//! What workers write down: one clock for all processes, events as lines of text, and what came of a run.
//!
//! It judges nothing; the checker does. A worker in another process prints its events, and the first process
//! reads them, so that a history does not depend on where its workers ran.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::checker::{Effect, Held, Seen};

/// The moment in which a worker learned that it had lost what it held.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    /// The worker's number.
    pub worker: usize,
    /// Just after it was told.
    pub at: Duration,
    /// Why, for people to read.
    pub why: String,
}

/// A lease that a worker was given by the one before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Passed {
    /// The worker's number.
    pub worker: usize,
    /// The resource's number.
    pub resource: usize,
    /// The token of the one before.
    pub before: u64,
    /// The token of the worker's own.
    pub token: u64,
}

/// What became of an element that a worker wanted to add to a set, which it had read under its lock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Addition {
    /// The worker's number.
    pub worker: usize,
    /// The number of the set, which is that of its lock.
    pub resource: usize,
    /// What was to be added. Nobody else adds the same.
    pub element: u64,
    /// What became of it.
    pub end: AdditionEnd,
}

/// How an addition can end.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum AdditionEnd {
    /// The store has said that the set is written.
    Acknowledged,
    /// The store has refused it: somebody with a larger token had been there.
    Refused,
    /// Not sent: the lock was lost by then, and its holder knew.
    NotSent,
}

const ADDITION_ENDS: [AdditionEnd; 3] =
    [AdditionEnd::Acknowledged, AdditionEnd::Refused, AdditionEnd::NotSent];

/// The time since the machine was started: the same for all of its processes, and it never goes back.
pub fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    Duration::new(
        time.tv_sec.try_into().expect("a time after the start"),
        time.tv_nsec.try_into().expect("a time after the start"),
    )
}

/// What is only counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Count {
    /// Others had it for as long as the worker waited.
    Contended,
    /// Too few nodes took part.
    NoQuorum,
    /// A round was over too late to be of use.
    TooLate,
    /// A lease that `check` called lost while it was held.
    Lost,
    /// A writer that went on as a reader.
    ReadsOn,
    /// A lease that was released before its least time was over.
    KeptBehind,
    /// A lease that was lost by its time, with a lock-delay behind it.
    Delayed,
    /// No quorum confirmed the release.
    ReleaseUnconfirmed,
    /// What was passed along was over, or somebody else had it.
    NotAdopted,
}

const COUNTS: [Count; 9] = [
    Count::Contended,
    Count::NoQuorum,
    Count::TooLate,
    Count::Lost,
    Count::ReadsOn,
    Count::KeptBehind,
    Count::Delayed,
    Count::ReleaseUnconfirmed,
    Count::NotAdopted,
];

/// What a worker says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A worker holds a lease from now on; the end is what it was promised by then.
    Granted(Held),
    /// The same, with a later end: it has been renewed since.
    Renewed(Held),
    /// The same, just before it is released.
    Held(Held),
    /// It has written, or tried to.
    Effect(Effect),
    /// It has seen who leads.
    Seen(Seen),
    /// It has added to a set, or not.
    Added(Addition),
    /// What it holds was passed to it.
    Passed(Passed),
    /// It has lost what it held, which counts as [`Count::Lost`].
    Lost(Loss),
    /// Something that is only counted.
    Count(Count),
}

/// All that was written down.
#[derive(Debug, Default)]
pub struct History {
    /// Leases that are over.
    pub leases: Vec<Held>,
    /// Writes, in the order in which they were written down.
    pub effects: Vec<Effect>,
    /// Leaders that were seen.
    pub seen: Vec<Seen>,
    /// What was to be added to sets.
    pub added: Vec<Addition>,
    /// Leases that were passed along.
    pub passed: Vec<Passed>,
    /// When what was held was lost, where that was said.
    pub losses: Vec<Loss>,
    /// How often workers were killed, by the first of them.
    pub kills: BTreeMap<usize, usize>,
    /// How many leases there were: of several resources it is one, and one of a writer that reads on.
    pub granted: usize,
    /// The owner and the token of the lease that each worker was granted last.
    granted_last: BTreeMap<usize, (String, Option<u64>)>,
    /// The worker that was granted a lease last.
    pub latest: Option<usize>,
    /// What each worker holds.
    held_now: BTreeMap<(usize, usize), Held>,
    counts: BTreeMap<Count, usize>,
}

impl History {
    /// Takes what a worker said.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Granted(held) => {
                let lease = (held.owner.clone(), held.token);
                let before = self.granted_last.insert(held.worker, lease.clone());
                self.granted += usize::from(before.is_none_or(|before| before != lease));
                self.latest = Some(held.worker);
                self.held_now.insert((held.worker, held.resource), held);
            }
            Event::Renewed(held) => {
                self.held_now.insert((held.worker, held.resource), held);
            }
            Event::Held(held) => {
                self.held_now.remove(&(held.worker, held.resource));
                self.leases.push(held);
            }
            Event::Effect(effect) => self.effects.push(effect),
            Event::Seen(seen) => self.seen.push(seen),
            Event::Added(addition) => self.added.push(addition),
            Event::Passed(passed) => self.passed.push(passed),
            Event::Lost(loss) => {
                self.losses.push(loss);
                *self.counts.entry(Count::Lost).or_default() += 1;
            }
            Event::Count(count) => *self.counts.entry(count).or_default() += 1,
        }
    }

    /// These workers have been killed: what they held they have not released, and keep until it ends.
    pub fn killed(&mut self, workers: Range<usize>) {
        *self.kills.entry(workers.start).or_default() += 1;
        let of = (workers.start, 0)..(workers.end, 0);
        let killed: Vec<(usize, usize)> = self.held_now.range(of).map(|(key, _)| *key).collect();
        self.leases.extend(killed.iter().filter_map(|worker| self.held_now.remove(worker)));
    }

    /// What is held as far as was said, the latest grant of each worker and resource.
    pub fn held_now(&self) -> impl Iterator<Item = &Held> {
        self.held_now.values()
    }

    /// How often this was.
    pub fn count(&self, count: Count) -> usize {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    /// How many workers got the lock at all.
    pub fn workers_served(&self) -> usize {
        let workers: std::collections::BTreeSet<_> =
            self.leases.iter().map(|held| held.worker).collect();
        workers.len()
    }

    /// Effects that were refused, of leases that were over by then.
    pub fn refused_late(&self) -> usize {
        self.effects.iter().filter(|effect| !effect.accepted && !effect.held).count()
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Duration =
            self.leases.iter().map(|held| held.end.saturating_sub(held.start)).sum();
        let (leases, workers) = (self.leases.len(), self.workers_served());
        writeln!(f, "{leases} leases of {workers} workers, held for {held:?} in all")?;
        let late = self.effects.iter().filter(|effect| effect.accepted && !effect.held).count();
        writeln!(
            f,
            "{} effects; {} late ones refused, {late} late ones accepted as nobody had come since",
            self.effects.len(),
            self.refused_late(),
        )?;
        write!(f, "{:?}", self.counts)
    }
}

/// A history that grows.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<History>>);

impl Record {
    /// What there is so far; it grows again when this is dropped.
    pub fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leases granted so far.
    pub fn granted(&self) -> usize {
        self.lock().granted
    }
}

/// Workers are numbered from this many times the number of their process on.
const WORKERS: usize = 100;

/// The process of a worker.
pub const fn process_of(worker: usize) -> usize {
    worker / WORKERS
}

/// The first worker of a process.
pub const fn first_of(process: usize) -> usize {
    process * WORKERS
}

/// Before each line, so that those of the test runner are not taken for one.
const PREFIX: &str = "chaos-event";

/// The digits of an owner.
const OWNER: usize = 32;

fn words(Held { owner, worker, resource, reads, token, asked, start, end, kept }: &Held) -> String {
    let (token, [asked, start, end, kept]) =
        (token.unwrap_or(0), [asked, start, end, kept].map(Duration::as_nanos));
    format!("{worker} {resource} {reads} {token} {asked} {start} {end} {kept} {owner}")
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(held) => write!(f, "{PREFIX} granted {}", words(held)),
            Self::Renewed(held) => write!(f, "{PREFIX} renewed {}", words(held)),
            Self::Held(held) => write!(f, "{PREFIX} held {}", words(held)),
            Self::Effect(Effect {
                worker,
                resource,
                reads,
                token,
                before,
                after,
                accepted,
                held,
            }) => {
                let [before, after] = [before, after].map(Duration::as_nanos);
                write!(
                    f,
                    "{PREFIX} effect {worker} {resource} {reads} {token} {before} {after} {accepted} {held}"
                )
            }
            Self::Seen(Seen { observer, worker, term, asked }) => {
                let asked = asked.as_nanos();
                write!(f, "{PREFIX} seen {observer} {worker} {term} {asked} .")
            }
            Self::Added(Addition { worker, resource, element, end }) => {
                write!(f, "{PREFIX} added {worker} {resource} {element} {end:?}")
            }
            Self::Passed(Passed { worker, resource, before, token }) => {
                write!(f, "{PREFIX} passed {worker} {resource} {before} {token} .")
            }
            Self::Lost(Loss { worker, at, why }) => {
                let why = why.replace('\n', " ");
                write!(f, "{PREFIX} lost {worker} {} {why} .", at.as_nanos())
            }
            Self::Count(count) => write!(f, "{PREFIX} count {count:?}"),
        }
    }
}

impl FromStr for Event {
    type Err = ();

    /// Anything else than such a line, whole, is an error.
    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        let time = |word: &str| word.parse().map(Duration::from_nanos).map_err(drop);
        match *words {
            [
                PREFIX,
                kind @ ("granted" | "renewed" | "held"),
                worker,
                resource,
                reads,
                token,
                asked,
                start,
                end,
                kept,
                owner,
            ] => {
                // All owners are alike, so that half of one is seen.
                if owner.len() != OWNER {
                    return Err(());
                }
                let held = Held {
                    owner: owner.to_owned(),
                    worker: worker.parse().map_err(drop)?,
                    resource: resource.parse().map_err(drop)?,
                    reads: reads.parse().map_err(drop)?,
                    token: Some(token.parse().map_err(drop)?).filter(|token| *token != 0),
                    asked: time(asked)?,
                    start: time(start)?,
                    end: time(end)?,
                    kept: time(kept)?,
                };
                Ok(match kind {
                    "held" => Self::Held(held),
                    "renewed" => Self::Renewed(held),
                    _ => Self::Granted(held),
                })
            }
            [PREFIX, "effect", worker, resource, reads, token, before, after, accepted, held] => {
                Ok(Self::Effect(Effect {
                    worker: worker.parse().map_err(drop)?,
                    resource: resource.parse().map_err(drop)?,
                    reads: reads.parse().map_err(drop)?,
                    token: token.parse().map_err(drop)?,
                    before: time(before)?,
                    after: time(after)?,
                    accepted: accepted.parse().map_err(drop)?,
                    held: held.parse().map_err(drop)?,
                }))
            }
            [PREFIX, "seen", observer, worker, term, asked, "."] => Ok(Self::Seen(Seen {
                observer: observer.parse().map_err(drop)?,
                worker: worker.parse().map_err(drop)?,
                term: term.parse().map_err(drop)?,
                asked: time(asked)?,
            })),
            [PREFIX, "added", worker, resource, element, end] => {
                let end = ADDITION_ENDS.into_iter().find(|it| format!("{it:?}") == end);
                Ok(Self::Added(Addition {
                    worker: worker.parse().map_err(drop)?,
                    resource: resource.parse().map_err(drop)?,
                    element: element.parse().map_err(drop)?,
                    end: end.ok_or(())?,
                }))
            }
            [PREFIX, "passed", worker, resource, before, token, "."] => Ok(Self::Passed(Passed {
                worker: worker.parse().map_err(drop)?,
                resource: resource.parse().map_err(drop)?,
                before: before.parse().map_err(drop)?,
                token: token.parse().map_err(drop)?,
            })),
            [PREFIX, "lost", worker, at, ref why @ .., "."] => Ok(Self::Lost(Loss {
                worker: worker.parse().map_err(drop)?,
                at: time(at)?,
                why: why.join(" "),
            })),
            [PREFIX, "count", name] => {
                let count = COUNTS.into_iter().find(|count| format!("{count:?}") == name);
                count.map(Self::Count).ok_or(())
            }
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_as_a_line_and_half_a_line_is_none() {
        let time = Duration::from_nanos;
        let held = Held {
            owner: "0af1".repeat(OWNER / 4),
            worker: 7,
            resource: 1,
            reads: true,
            token: Some(1_790_000_000_000_000),
            asked: time(1),
            start: time(22),
            end: time(3_000_000_000_333),
            kept: time(4),
        };
        let classic = Held { token: None, ..held.clone() };
        let effect = Effect {
            worker: 3,
            resource: 0,
            reads: false,
            token: 9,
            before: time(5),
            after: time(6),
            accepted: true,
            held: false,
        };
        let held = [
            Event::Held(held.clone()),
            Event::Held(classic),
            Event::Renewed(held.clone()),
            Event::Granted(held),
        ];
        let seen = Seen { observer: 77, worker: 3, term: 5, asked: time(6) };
        let lost = Loss { worker: 3, at: time(7), why: "too few nodes".to_owned() };
        let passed = Passed { worker: 3, resource: 2, before: 8, token: 9 };
        let others =
            [Event::Effect(effect), Event::Seen(seen), Event::Passed(passed), Event::Lost(lost)];
        let added = ADDITION_ENDS
            .map(|end| Event::Added(Addition { worker: 3, resource: 1, element: 300_004, end }));
        let events = held.into_iter().chain(others).chain(added);
        for event in events.chain(COUNTS.map(Event::Count)) {
            let line = event.to_string();
            assert_eq!(line.parse(), Ok(event));
            let shorter = line.rsplit_once(' ').unwrap().0;
            assert_eq!(shorter.parse::<Event>(), Err(()));
            assert_eq!(line[..line.len() - 1].parse::<Event>(), Err(()), "of one that was killed");
            assert_eq!(line[1..].parse::<Event>(), Err(()));
        }
    }

    #[test]
    fn whoever_is_killed_holds_what_he_has_until_it_ends() {
        let held = |worker, end| Held {
            owner: "0af1".repeat(OWNER / 4),
            worker,
            resource: 0,
            reads: false,
            token: Some(1),
            asked: Duration::ZERO,
            start: Duration::ZERO,
            end: Duration::from_secs(end),
            kept: Duration::ZERO,
        };
        let mut history = History::default();
        for event in [
            Event::Granted(held(99, 5)),
            Event::Granted(held(100, 6)),
            Event::Granted(held(199, 6)),
            Event::Renewed(held(199, 7)),
            Event::Granted(held(200, 8)),
            Event::Held(held(100, 3)),
        ] {
            history.take(event);
        }
        assert_eq!((history.granted, history.latest), (4, Some(200)));
        history.killed(100..200);
        assert_eq!(history.kills, BTreeMap::from([(100, 1)]));
        assert_eq!(history.leases, [held(100, 3), held(199, 7)]);
        history.killed(0..300);
        assert_eq!(history.leases.len(), 4);
    }

    #[test]
    fn a_lease_counts_once_whatever_it_is_of_and_becomes() {
        let held = |resource, reads, token| Held {
            owner: "0af1".repeat(OWNER / 4),
            worker: 7,
            resource,
            reads,
            token: Some(token),
            asked: Duration::ZERO,
            start: Duration::ZERO,
            end: Duration::from_secs(1),
            kept: Duration::ZERO,
        };
        let mut history = History::default();
        let mut granted = |held| {
            history.take(Event::Granted(held));
            history.granted
        };
        assert_eq!([0, 1, 2].map(|resource| granted(held(resource, false, 4))), [1; 3]);
        // Handed over in the process it has the same owner.
        assert_eq!([false, true].map(|reads| granted(held(0, reads, 5))), [2; 2]);
        assert_eq!(granted(Held { worker: 8, ..held(0, true, 5) }), 3);
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first && first > Duration::ZERO);
    }
}
