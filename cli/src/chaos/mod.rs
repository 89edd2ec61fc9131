//! `quorlock chaos`: the demonstration, on real servers and real processes.
//!
//! Workers take one lock over and over and write a counter back while they hold it (`worker`, or a command of the user's; `crew`, `fleet`).
//! They speak by lines (`protocol`, `converse`), which become leases of the record and uses of the counter (`heard`, `counter`). Servers and
//! workers are killed, stopped, emptied and cut off meanwhile (`scene`, `faults`). The checker of the crate's own tests searches
//! the record, which becomes a verdict (`story`) and a picture (`picture`). `--classic` and `--no-fence` show what the
//! same faults do without what this crate adds. The run must never be made to look better or worse than it was.

mod converse;
mod counter;
mod crew;
mod dice;
mod faults;
mod fleet;
mod handles;
mod heard;
mod last;
mod picture;
mod progress;
mod protocol;
mod scene;
mod story;
mod worker;

use std::{
    fs::File,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use clap::Args;
use quorlock_harness::history::{Verdict, record::now};

pub(crate) use self::worker::{Worker, work};
use self::{
    counter::Counter,
    crew::{Crew, Whose},
    faults::{Nemesis, Plan},
    fleet::Fleet,
    handles::Handles,
    progress::Progress,
    scene::{Scene, Which, which},
    story::{Setting, Story},
    worker::Client,
};
use crate::{
    args::{Form, duration},
    exit::{Failure, Status},
    output::{BAD, GOOD, json, line, say, styled},
    trial::{interrupted, possible},
};

/// Harms servers and workers while these fight for a lock, looks for anything that went wrong, and draws what happened: status 0
/// where nothing did, 1 where something did.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Workers take one lock over and over and write to a store while they hold it. Nodes are killed, stopped, emptied and cut off, \
workers are stopped for longer than their lease lives and killed while they hold the lock. Then the record of all of them is \
searched: for two holders at once, tokens that fall, late writes that were taken, and updates that are lost. The status is 0 where nothing was found, and 1 \
where something was.

  quorlock chaos               what this crate does
  quorlock chaos --no-fence    the same, with a store that compares no tokens
  quorlock chaos --classic     the same faults under plain Redlock
  quorlock chaos --worker 'python3 worker.py'
                               the same faults under a lock of yours

A worker of yours takes the lock over and over. It prints a JSON object a line, {\"event\":\"ask\"} and so on, and reads a line after each:

  ask      before it asks for the lock, or extends it
  got      it has it; with `token` where there is one, and `validity_ms` where that is not the ttl
  failed   it has not
  read     a counter is to be read
  write    what was read plus one is to be written back
  release  before it releases the lock
  lost     it has learned that it no longer holds the lock

The answer is `ok`, or `stale` where a larger token has been there. Then say `lost` where the lock says so too. It ends when its input ends. In its environment it finds \
CHAOS_NODES (addresses with commas between them), _RESOURCE, _TTL_MS, _WORKER (its number) and _SEED.")]
pub(crate) struct Chaos {
    /// For how long; it ends when the last fault is undone
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Determines the faults and their order; when exactly they come is the machine's to say. By default one that is printed
    #[arg(long)]
    seed: Option<u64>,
    /// How many servers to start, 3 to 15, or the addresses of servers that are yours, with commas between them. Those are not
    /// harmed, unless you say how: workers are, and the connections between both
    #[arg(long, value_name = "NUMBER|URLS", default_value = "5", value_parser = which)]
    nodes: Which,
    /// How many workers fight for the lock
    #[arg(long, default_value_t = 5, value_parser = workers)]
    workers: usize,
    /// How long a lease lives if it is not renewed
    #[arg(long, value_name = "TIME", default_value = "1500ms", value_parser = ttl)]
    ttl: Duration,
    /// Plain Redlock: nodes that forgot vote at once, and there are no tokens
    #[arg(long)]
    classic: bool,
    /// The store takes every write
    #[arg(long)]
    no_fence: bool,
    /// A worker for a lock of yours, which the shell runs for each worker; below is what it says
    #[arg(long, value_name = "COMMAND", conflicts_with = "classic")]
    worker: Option<String>,
    /// Where the picture goes
    #[arg(long, value_name = "FILE.svg", default_value = "quorlock-chaos.svg")]
    out: PathBuf,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    handles: Handles,
}

fn workers(text: &str) -> Result<usize, String> {
    let workers = text.parse().map_err(|_| "it is no number".to_owned())?;
    let some = (2..=30).contains(&workers);
    some.then_some(workers).ok_or_else(|| "take 2 to 30".to_owned())
}

fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    let fits = (Duration::from_millis(500)..=Duration::from_secs(30)).contains(&ttl);
    fits.then_some(ttl).ok_or_else(|| "take 500ms to 30s".to_owned())
}

const OWN: &str = "The nodes are servers of its own, unless --nodes has the addresses of yours";

pub(crate) fn run(asked: &Chaos) -> Result<ExitCode, Failure> {
    if asked.handles.are_given() && matches!(asked.nodes, Which::Own(_)) {
        let text = "--pause and --kill are for servers of yours: name these with --nodes, as in `--nodes redis://a,redis://b,redis://c`";
        return Err(Failure::new(Status::Usage, text));
    }
    if matches!(asked.nodes, Which::Own(_)) {
        possible(OWN)?;
    }
    // The picture must be writable before anything is done.
    let is_new = !asked.out.exists();
    let file = File::options().append(true).create(true).open(&asked.out);
    file.map_err(|error| unwritable(asked, &error))?;
    let seed = asked.seed.unwrap_or_else(|| now().as_nanos() as u64 % 100_000);
    let over = interrupted(mend_before_the_end)?;
    let story = last::mended(|| play(asked, seed, &over)).inspect_err(|_| {
        if is_new {
            let _ = std::fs::remove_file(&asked.out);
        }
    })?;
    let drawn = std::fs::write(&asked.out, picture::draw(&story));
    // What was found is told, also where there is no room for the picture.
    if asked.form.json {
        json(&story.json(drawn.is_ok().then_some(&asked.out), over.load(Relaxed)));
    } else {
        let style = if story.is_clean() { GOOD } else { BAD };
        line(&styled(style, &story.headline()));
        line(&story.mode());
        line(&story.figures());
        if drawn.is_ok() {
            line(&format!("picture: {}", asked.out.display()));
        }
    }
    drawn.map_err(|error| unwritable(asked, &error))?;
    Ok(if story.is_clean() { Status::Done } else { Status::No }.into())
}

fn unwritable(asked: &Chaos, error: &std::io::Error) -> Failure {
    let text = format!(
        "the picture cannot be written to {}: {error}. Name another place with --out",
        asked.out.display()
    );
    Failure::new(Status::Config, text)
}

/// All of it, from the first server to the verdict.
fn play(asked: &Chaos, seed: u64, over: &Arc<AtomicBool>) -> Result<Story, Failure> {
    let progress = Progress::start(asked.seconds, asked.form.json);
    progress.phase("the servers start");
    let scene = Scene::start(&asked.nodes, &asked.handles)?;
    let (own, nodes) = (scene.is_own(), scene.urls().to_vec());
    // Other locks wait for no quarantine, as plain Redlock does.
    let classic = asked.classic || asked.worker.is_some();
    let client = Client { nodes: nodes.clone(), ttl: asked.ttl, own, classic };
    if own && !classic {
        // As if they had been in use for long: new servers wait before they vote.
        quorlock_harness::admit(client.builder()?);
    }
    // The start of all of them keeps the machine busy, which says nothing of the nodes.
    let builder = client.builder()?.connect_timeout(Duration::from_secs(5));
    let observer = builder.blocking_connect();
    let observer = observer.map_err(|error| Failure::new(Status::Broken, error))?;
    let ready = observer.blocking_ready(Duration::from_secs(20));
    ready.map_err(|error| Failure::new(Status::Broken, error))?;

    progress.phase("the workers start");
    let crew = Crew {
        whose: asked.worker.clone().map_or(Whose::Ours { own, classic }, Whose::Theirs),
        count: asked.workers,
        nodes,
        // A name that nobody else uses: the servers may be the user's.
        resource: format!("quorlock-chaos:{}:{seed}", std::process::id()),
        ttl: asked.ttl,
        seed,
    };
    let fleet = Fleet::start(crew, Counter::new(!asked.no_fence), over)?;
    begun(&fleet, over)?;
    let (from, done, doing) = (now(), Mutex::default(), Mutex::default());
    let until = from + Duration::from_secs(asked.seconds);
    let ended = AtomicBool::new(false);
    let (raged, quarantined) = thread::scope(|scope| {
        let (ended, observer) = (&ended, &observer);
        let (scene, fleet, done, doing) = (&scene, &fleet, &done, &doing);
        let watch = scope.spawn({
            let progress = &progress;
            move || progress.watch(from, fleet, observer, doing, ended)
        });
        let ttl = asked.ttl;
        // Nodes of others may have to wait before they vote, as they do after a restart.
        let recovery = if scene.is_own() { 6 * ttl } else { Duration::from_secs(30) };
        let nemesis = Nemesis { scene, fleet, observer, ttl, recovery, done, doing, over };
        let plan = Plan::new(seed, asked.nodes.len(), |kind| kind.is_possible(scene));
        let ends = Ends(ended);
        let raged = nemesis.rage(plan, until);
        drop(ends);
        (raged, watch.join().unwrap_or_default())
    });
    progress.phase("the workers end");
    let to = now();
    let history = fleet.end();
    drop(observer.blocking_close());
    progress.end();
    raged?;
    let history = history?;

    let mut strikes = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    strikes.extend(quarantined);
    let found = fleet.counter().found();
    let mut verdict = Verdict::on(&history, found.falls);
    // A lease that is asked for again is the same one, with its token.
    verdict.wrong_tokens.retain(|(one, other)| one.owner != other.owner);
    // The store knows what was overwritten, also where there are no tokens.
    verdict.stale = found.overwrites;
    let (nodes, workers, ttl) = (asked.nodes.len(), asked.workers, asked.ttl);
    let fenced = fleet.counter().compares();
    let (classic, theirs) = (asked.classic, asked.worker.is_some());
    let setting = Setting { nodes, workers, ttl, seed, classic, fenced, theirs };
    Ok(Story { setting, from, to, history, strikes, verdict, lost: found.lost })
}

/// Says that it is over when it is dropped, so also when this thread panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Waits for the first lease.
fn begun(fleet: &Fleet, over: &AtomicBool) -> Result<(), Failure> {
    let end = now() + Duration::from_secs(30);
    while fleet.record().granted() == 0 {
        if let Some(failure) = fleet.trouble() {
            return Err(failure);
        }
        if over.load(Relaxed) {
            let text = "it was ended before the first lease: there is no verdict";
            return Err(Failure::new(Status::Broken, text));
        }
        if now() > end {
            return Err(fleet.nobody());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Mends the user's servers that were harmed, also where it ends at once.
fn mend_before_the_end() {
    handles::mend_before_the_end().iter().for_each(|failure| say(&failure.text));
}
