//! The operations themselves: each line runs for a while, one after the other.
//!
//! It decides how each is timed: from its call to its answer, in a task of this process. It must never begin an operation when
//! the user wants it to end, never exceed the rate that it may have, and never leave an operation half done.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use quorlock::Redlock;
use quorlock_harness::history::record::now;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    NAMES, SOME, TURNS,
    figures::Figures,
    floor::Floor,
    handover::{between, take_turns},
    lines::Line,
};

/// How many permits a semaphore has.
const PERMITS: usize = 10;
/// How long a holder holds it before it hands over, so that the other stands in line by then.
const HOLD: Duration = Duration::from_millis(5);
/// The pause after an error, so that nodes that fail are not asked faster than nodes that do not.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Work {
    pub(super) redlock: Redlock,
    pub(super) classic: Redlock,
    pub(super) floor: Result<Floor, String>,
    /// What all names begin with.
    pub(super) run: String,
    pub(super) clients: usize,
    /// From one operation to the next, at least.
    pub(super) gap: Option<Duration>,
    pub(super) over: Arc<AtomicBool>,
}

/// When the next operation may begin.
struct Pace {
    gap: Option<Duration>,
    next: Instant,
}

impl Pace {
    fn new(gap: Option<Duration>) -> Self {
        Self { gap, next: Instant::now() }
    }

    async fn turn(&mut self) {
        if let Some(gap) = self.gap {
            sleep_until(self.next).await;
            // A task that is late does not make up for it.
            self.next = self.next.max(Instant::now() - gap) + gap;
        }
    }
}

fn text(error: &impl ToString) -> String {
    error.to_string()
}

/// Acquires and releases.
async fn pair(redlock: &Redlock, name: &str) -> Result<(), String> {
    let lease = redlock.try_acquire(name).await.map_err(|error| text(&error))?;
    lease.release().await.map_err(|error| text(&error))
}

impl Work {
    /// Runs one line for so long. The first time each name is used once before, since a new name may cost more.
    pub(super) async fn slice(
        &mut self,
        line: Line,
        long: Duration,
        is_first: bool,
        into: &mut Figures,
    ) {
        match line {
            Line::Many => self.many(long, into).await,
            Line::Extend => self.extend(long, into).await,
            Line::Tasks => self.tasks(long, into).await,
            Line::Processes => {}
            _ => {
                if let (Line::Ping | Line::One | Line::FanOut, Err(why)) = (line, &self.floor) {
                    into.why = Some(format!("no connection of its own: {why}"));
                    return;
                }
                let mut pace = Pace::new(self.gap);
                for number in 0..if is_first { NAMES } else { 1 } {
                    if self.over.load(Relaxed) {
                        return;
                    }
                    pace.turn().await;
                    let _ = self.once(line, number).await;
                }
                let (begun, mut number) = (Instant::now(), 0);
                while begun.elapsed() < long && !self.over.load(Relaxed) {
                    pace.turn().await;
                    let from = Instant::now();
                    note(into, self.once(line, number % NAMES).await, from).await;
                    number += 1;
                }
                into.lasted += begun.elapsed();
            }
        }
    }

    async fn once(&mut self, line: Line, number: usize) -> Result<(), String> {
        let name = format!("{}{}/{number}", self.run, line.id());
        match (line, &mut self.floor) {
            (Line::Ping, Ok(floor)) => floor.ping().await,
            (Line::One, Ok(floor)) => floor.one().await,
            (Line::FanOut, Ok(floor)) => floor.every().await,
            (Line::Classic, _) => pair(&self.classic, &name).await,
            (Line::Permit, _) => {
                let semaphore = self.redlock.semaphore(&name, PERMITS);
                let permit = semaphore.map_err(|error| text(&error))?.try_acquire().await;
                permit.map_err(|error| text(&error))?.release().await.map_err(|error| text(&error))
            }
            (Line::Read, _) => {
                let lease = self.redlock.try_read(&name).await.map_err(|error| text(&error))?;
                lease.release().await.map_err(|error| text(&error))
            }
            _ => pair(&self.redlock, &name).await,
        }
    }

    /// Each task has a name of its own.
    async fn many(&self, long: Duration, into: &mut Figures) {
        let (begun, mut tasks) = (Instant::now(), JoinSet::new());
        let clients = u32::try_from(self.clients).unwrap_or(u32::MAX);
        for client in 0..clients {
            let (redlock, over) = (self.redlock.clone(), Arc::clone(&self.over));
            let name = format!("{}clients/{client}", self.run);
            let Some(mut figures) = Figures::new(Line::Many) else { return };
            let mut pace = Pace::new(self.gap.map(|gap| gap * clients));
            // The tasks start a gap apart.
            pace.next += self.gap.unwrap_or_default() * client;
            tasks.spawn(async move {
                while begun.elapsed() < long && !over.load(Relaxed) {
                    pace.turn().await;
                    let from = Instant::now();
                    note(&mut figures, pair(&redlock, &name).await, from).await;
                }
                figures
            });
        }
        while let Some(figures) = tasks.join_next().await {
            match figures {
                Ok(figures) => into.join(&figures),
                Err(error) => into.failed(error),
            }
        }
        into.lasted += begun.elapsed();
    }

    /// Renews one lease that is held all the time.
    async fn extend(&self, long: Duration, into: &mut Figures) {
        let lease = match self.redlock.try_acquire(format!("{}renewal", self.run)).await {
            Ok(lease) => lease,
            Err(error) => return into.failed(error),
        };
        let (begun, mut pace) = (Instant::now(), Pace::new(self.gap));
        while begun.elapsed() < long && !self.over.load(Relaxed) {
            pace.turn().await;
            let from = Instant::now();
            let done = lease.extend().await.map(drop).map_err(|error| text(&error));
            note(into, done, from).await;
        }
        into.lasted += begun.elapsed();
        if let Err(error) = lease.release().await {
            into.failed(error);
        }
    }

    /// How long a holder holds the lease before it hands over.
    pub(super) fn hold(&self) -> Duration {
        self.gap.unwrap_or_default().max(HOLD)
    }

    async fn tasks(&self, long: Duration, into: &mut Figures) {
        let (begun, name) = (now(), format!("{}tasks", self.run));
        let (mut one, mut other, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let (mut more, until) = (Vec::new(), begun + long.max(SOME / TURNS));
        let mine = take_turns(&self.redlock, &name, self.hold(), until, &self.over, |turn| {
            keep(turn, &mut one, &mut errors);
        });
        let theirs = take_turns(&self.redlock, &name, self.hold(), until, &self.over, |turn| {
            keep(turn, &mut other, &mut more);
        });
        tokio::join!(mine, theirs);
        between(&one, &other).into_iter().for_each(|took| into.add(took));
        errors.into_iter().chain(more).for_each(|why| into.failed(why));
        into.lasted += now().saturating_sub(begun);
    }

    /// How long each node takes by itself.
    pub(super) async fn trips(&mut self, nodes: usize) -> Vec<Option<Figures>> {
        let mut trips = Vec::new();
        let mut pace = Pace::new(self.gap);
        for node in 0..nodes {
            let (Ok(floor), Some(mut figures)) = (&mut self.floor, Figures::new(Line::Ping)) else {
                trips.push(None);
                continue;
            };
            for _ in 0..10 {
                if self.over.load(Relaxed) {
                    break;
                }
                pace.turn().await;
                let from = Instant::now();
                note(&mut figures, floor.ping_one(node).await, from).await;
            }
            trips.push(Some(figures));
        }
        trips
    }
}

/// Keeps a turn, or why there was none.
pub(super) fn keep<T>(turn: Result<T, String>, turns: &mut Vec<T>, errors: &mut Vec<String>) {
    match turn {
        Ok(turn) => turns.push(turn),
        Err(why) => errors.push(why),
    }
}

/// Writes down one operation.
async fn note(figures: &mut Figures, done: Result<(), String>, from: Instant) {
    match done {
        Ok(()) => figures.add(from.elapsed()),
        Err(why) => {
            figures.failed(why);
            sleep(PAUSE).await;
        }
    }
}
