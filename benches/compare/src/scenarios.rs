//! What is measured, and in which order: fresh servers for each scenario, all contenders connected
//! before the first measurement, then turns.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use quorlock_harness::Cluster;

use crate::{
    contenders::{Contender, Kind, Outcome},
    cpu,
    options::{Options, Scenario, Turns},
    results::{Line, Measured},
    settle::Quiet,
    stats::{Phase, Row},
    waiting::Calls,
};

const TASKS: usize = 256;

/// Unmeasured pairs at the start of each turn, which find caches and branch predictors as the contender
/// before left them.
const UNMEASURED: usize = 5;

/// How long background releases may take before a key counts as left behind.
const TIDY: Duration = Duration::from_secs(2);

struct Entrant {
    kind: Kind,
    contender: Arc<dyn Contender>,
    /// The number of the next resource.
    next: usize,
}

/// Whether a contender has rows in a scenario.
fn takes_part(kind: Kind, scenario: Scenario) -> bool {
    // Kinds of leases stand beside each other, and nowhere else.
    if scenario == Scenario::Kinds || kind.is_of_kinds() {
        return scenario == Scenario::Kinds && (kind.is_of_kinds() || kind == Kind::Quorlock);
    }
    match kind {
        // It blocks a thread for each pair and opens ten connections: there is nothing to learn.
        Kind::Redlock => {
            matches!(scenario, Scenario::Sequential | Scenario::Hung | Scenario::Dead)
        }
        // Their quorum is that of five.
        Kind::FloorCaller | Kind::FloorThread => scenario.nodes() == 5,
        // It knows of one server.
        Kind::Rlock => scenario.nodes() == 1,
        // Elsewhere the runtime has many threads.
        Kind::QuorlockCurrent | Kind::ClassicCurrent => scenario == Scenario::Current,
        _ => true,
    }
}

/// Runs one scenario from the start of its servers to their end, in the runtime that it is called in.
pub(crate) async fn run(scenario: Scenario, options: Options) -> Measured {
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(scenario.nodes()))
        .await
        .expect("servers that start");
    let cluster = Arc::new(cluster);
    let (mut entrants, mut absent) = (Vec::new(), Vec::new());
    for &kind in options.contenders.iter().filter(|kind| takes_part(**kind, scenario)) {
        match kind.connect(&cluster.urls()).await {
            Ok(contender) => {
                entrants.push(Entrant { kind, contender: Arc::from(contender), next: 0 });
            }
            Err(why) => {
                eprintln!("{}: {why}", kind.name());
                let mut row = Row::new(kind, Phase::Healthy);
                row.skipped = Some("not run: it cannot be had here");
                absent.push(row);
            }
        }
    }
    let mut quiet = Quiet::new(Arc::clone(&cluster));
    let rows = match scenario {
        Scenario::Sequential | Scenario::Current | Scenario::One | Scenario::Kinds => {
            warm(&mut entrants, options.warming()).await;
            let turns = options.sequential();
            take_turns(&mut entrants, turns, scenario, Phase::Healthy, &mut quiet).await
        }
        Scenario::Tasks | Scenario::OneTasks => many_tasks(&entrants, &options, &mut quiet).await,
        Scenario::Hung | Scenario::Dead => {
            warm(&mut entrants, options.warming()).await;
            let turns = options.faulty();
            let mut rows =
                take_turns(&mut entrants, turns, scenario, Phase::Healthy, &mut quiet).await;
            if scenario == Scenario::Hung {
                cluster[scenario.nodes() - 1].pause();
            } else {
                cluster[scenario.nodes() - 1].kill();
            }
            entrants.retain(|entrant| entrant.kind != Kind::Redlock);
            warm(&mut entrants, options.settling()).await;
            rows.extend(
                take_turns(&mut entrants, turns, scenario, Phase::Faulty, &mut quiet).await,
            );
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
    let lines = rows.into_iter().chain(absent).map(Line::from).collect();
    let (unsettled, left) = (quiet.missed(), keys_left(cluster, &options.contenders).await);
    Measured { scenario, lines, left, unsettled }
}

/// Runs each contender for a while without measuring.
async fn warm(entrants: &mut [Entrant], long: Duration) {
    for entrant in entrants {
        let until = Instant::now() + long;
        while Instant::now() < until {
            let _ = entrant.pair().await;
        }
    }
}

/// One turn for each contender, and again, and again.
///
/// The processor time of a turn is read after its unmeasured pairs and after its last. So it includes the work that
/// those left under way, and not the work that the last one leaves, which is waited for and not billed.
async fn take_turns(
    entrants: &mut [Entrant],
    turns: Turns,
    scenario: Scenario,
    phase: Phase,
    quiet: &mut Quiet,
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
            quiet.wait().await;
            let sent = scripts(scenario, quiet).await;
            for _ in 0..unmeasured {
                let outcome = entrant.pair().await;
                if outcome.is_err() {
                    row.add(outcome);
                }
            }
            let (before, done) = (cpu::used(), row.pair.len());
            for _ in 0..pairs {
                row.add(entrant.pair().await);
            }
            row.bill(cpu::used() - before, row.pair.len() - done);
            if let Some(sent) = sent {
                quiet.wait().await;
                let now = scripts(scenario, quiet).await.unwrap_or_default();
                #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
                row.scripts.push(now.scripts(&sent) / (unmeasured + pairs) as f64);
            }
        }
    }
    rows
}

/// What the servers have been sent so far, where that is counted.
async fn scripts(scenario: Scenario, quiet: &Quiet) -> Option<Calls> {
    let cluster = Arc::clone(quiet.cluster());
    let count = move || (scenario == Scenario::Kinds).then(|| Calls::of(&cluster));
    tokio::task::spawn_blocking(count).await.expect("servers that answer")
}

/// Each contender in turn with a loop of pairs in each of many tasks.
async fn many_tasks(entrants: &[Entrant], options: &Options, quiet: &mut Quiet) -> Vec<Row> {
    let new = |entrant: &Entrant| Row::new(entrant.kind, Phase::Healthy);
    let mut rows: Vec<_> = entrants.iter().map(new).collect();
    let (rounds, long) = options.tasks();
    for entrant in entrants {
        at_once(entrant, long / 4).await;
    }
    for _ in 0..rounds {
        for (entrant, row) in entrants.iter().zip(&mut rows) {
            quiet.wait().await;
            row.extend(at_once(entrant, long).await);
        }
    }
    rows
}

/// One turn. The work that its last pairs leave under way is waited for and not billed: some hundred replies of a
/// hundred thousand.
async fn at_once(entrant: &Entrant, long: Duration) -> Row {
    let mut total = Row::new(entrant.kind, Phase::Healthy);
    let (before, started) = (cpu::used(), Instant::now());
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
    total.bill(cpu::used() - before, total.pair.len());
    total
}

/// Waits until the servers that answer are empty, and counts what stays.
async fn keys_left(cluster: Arc<Cluster>, kinds: &[Kind]) -> Vec<(Kind, usize)> {
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
    /// A pair of a new resource.
    async fn pair(&mut self) -> Outcome {
        self.next += 1;
        let resource = format!("compare:{}:{}", self.kind.id(), self.next);
        self.contender.pair(&resource).await
    }
}
