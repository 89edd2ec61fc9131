//! What is measured, and in which order: five fresh servers for each scenario, all contenders connected
//! before the first measurement, then turns.

use std::{
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use quorlock_harness::Cluster;

use crate::{
    contenders::{Contender, Kind},
    options::{Options, Turns},
    stats::{Phase, Row},
};

const NODES: usize = 5;
const TASKS: usize = 256;

/// Unmeasured pairs at the start of each turn, which find caches and branch predictors as the contender
/// before left them.
const UNMEASURED: usize = 5;

/// How long background releases may take before a key counts as left behind.
const TIDY: Duration = Duration::from_secs(2);

/// The scenarios by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scenario {
    Sequential,
    Hung,
    Dead,
    Tasks,
}

impl Scenario {
    pub(crate) const ALL: [Self; 4] = [Self::Sequential, Self::Tasks, Self::Hung, Self::Dead];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Sequential => "sequential, five nodes well",
            Self::Hung => "one of five nodes hung (SIGSTOP)",
            Self::Dead => "one of five nodes dead (SIGKILL)",
            Self::Tasks => "256 tasks on 256 resources",
        }
    }
}

impl FromStr for Scenario {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "sequential" => Ok(Self::Sequential),
            "hung" => Ok(Self::Hung),
            "dead" => Ok(Self::Dead),
            "tasks" => Ok(Self::Tasks),
            _ => Err(()),
        }
    }
}

/// The rows of one scenario, and the keys that were left on the servers.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) scenario: Scenario,
    pub(crate) rows: Vec<Row>,
    /// How many keys of whom were still there after all releases had time to end.
    pub(crate) left: Vec<(Kind, usize)>,
}

struct Entrant {
    kind: Kind,
    contender: Arc<dyn Contender>,
    /// The number of the next resource.
    next: usize,
}

/// Runs one scenario from the start of its servers to their end.
pub(crate) async fn run(scenario: Scenario, options: Options) -> Measured {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(NODES))
        .await
        .expect("five servers that start");
    let mut entrants = Vec::new();
    for &kind in &options.contenders {
        // It blocks a thread for each pair and opens ten connections: there is nothing to learn.
        if kind == Kind::Redlock && scenario == Scenario::Tasks {
            continue;
        }
        let contender = Arc::from(kind.connect(&cluster.urls()).await);
        entrants.push(Entrant { kind, contender, next: 0 });
    }
    let rows = match scenario {
        Scenario::Sequential => {
            warm(&mut entrants, options.warming()).await;
            take_turns(&mut entrants, options.sequential(), scenario, Phase::Healthy).await
        }
        Scenario::Tasks => many_tasks(&entrants, &options).await,
        Scenario::Hung | Scenario::Dead => {
            warm(&mut entrants, options.warming()).await;
            let turns = options.faulty();
            let mut rows = take_turns(&mut entrants, turns, scenario, Phase::Healthy).await;
            if scenario == Scenario::Hung {
                cluster[NODES - 1].pause();
            } else {
                cluster[NODES - 1].kill();
            }
            entrants.retain(|entrant| entrant.kind != Kind::Redlock);
            warm(&mut entrants, options.settling()).await;
            rows.extend(take_turns(&mut entrants, turns, scenario, Phase::Faulty).await);
            if options.contenders.contains(&Kind::Redlock) {
                let mut row = Row::new(Kind::Redlock, Phase::Faulty);
                row.skipped = Some(if scenario == Scenario::Hung {
                    "not run: a hung node blocks it for ever"
                } else {
                    "not run: a dead node makes every acquire an error"
                });
                rows.push(row);
            }
            rows
        }
    };
    let left = keys_left(cluster, &options.contenders).await;
    Measured { scenario, rows, left }
}

/// Runs each contender for a while without measuring.
async fn warm(entrants: &mut [Entrant], long: Duration) {
    for entrant in entrants {
        let until = Instant::now() + long;
        while Instant::now() < until {
            let resource = entrant.fresh();
            let _ = entrant.contender.pair(&resource).await;
        }
    }
}

/// One turn for each contender, and again, and again.
async fn take_turns(
    entrants: &mut [Entrant],
    turns: Turns,
    scenario: Scenario,
    phase: Phase,
) -> Vec<Row> {
    let mut rows: Vec<_> = entrants.iter().map(|entrant| Row::new(entrant.kind, phase)).collect();
    for _ in 0..turns.rounds {
        for (entrant, row) in entrants.iter_mut().zip(&mut rows) {
            let (unmeasured, pairs) = match (entrant.kind, scenario, phase) {
                // It opens ten connections for each pair.
                (Kind::Redlock, ..) => (1, turns.pairs / 20),
                // It waits half a second for the hung node, twice.
                (Kind::Rslock, Scenario::Hung, Phase::Faulty) => (0, 1),
                _ => (UNMEASURED, turns.pairs),
            };
            for index in 0..unmeasured + pairs {
                let resource = entrant.fresh();
                let outcome = entrant.contender.pair(&resource).await;
                if index >= unmeasured || outcome.is_err() {
                    row.add(outcome);
                }
            }
        }
    }
    rows
}

/// Each contender in turn with a loop of pairs in each of many tasks.
async fn many_tasks(entrants: &[Entrant], options: &Options) -> Vec<Row> {
    let new = |entrant: &Entrant| Row::new(entrant.kind, Phase::Healthy);
    let mut rows: Vec<_> = entrants.iter().map(new).collect();
    let (rounds, long) = options.tasks();
    for entrant in entrants {
        at_once(entrant, long / 4).await;
    }
    for _ in 0..rounds {
        for (entrant, row) in entrants.iter().zip(&mut rows) {
            row.extend(at_once(entrant, long).await);
        }
    }
    rows
}

async fn at_once(entrant: &Entrant, long: Duration) -> Row {
    let mut total = Row::new(entrant.kind, Phase::Healthy);
    let started = Instant::now();
    let until = started + long;
    let work = |index| {
        let (kind, contender) = (entrant.kind, Arc::clone(&entrant.contender));
        tokio::spawn(async move {
            let resource = format!("compare:{}:task:{index}", kind.id());
            let mut row = Row::new(kind, Phase::Healthy);
            while Instant::now() < until {
                row.add(contender.pair(&resource).await);
            }
            row
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(work).collect();
    for task in tasks {
        total.extend(task.await.expect("a task that ran to its end"));
    }
    total.elapsed = started.elapsed();
    total
}

/// Waits until the servers that answer are empty, and counts what stays.
async fn keys_left(cluster: Cluster, kinds: &[Kind]) -> Vec<(Kind, usize)> {
    let count = move || {
        let until = Instant::now() + TIDY;
        loop {
            let keys = cluster.locks_left();
            if keys.is_empty() || Instant::now() >= until {
                return keys;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let keys = tokio::task::spawn_blocking(count).await.expect("servers that answer");
    let of = |kind: &Kind| {
        let prefix = format!("compare:{}:", kind.id());
        (*kind, keys.iter().filter(|(_, key)| key.starts_with(prefix.as_bytes())).count())
    };
    kinds.iter().map(of).filter(|(_, count)| *count > 0).collect()
}

impl Entrant {
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("compare:{}:{}", self.kind.id(), self.next)
    }
}
