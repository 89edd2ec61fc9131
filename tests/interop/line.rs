//! Goal: libraries that know nothing of the line barge in on its waiters, and break nothing: they get their turns, and
//! the waiters go on after each of them.
//!
//! Method: tasks of two clients of ours take one resource over and over, and another library does so beside them. All of them
//! note when they begin and end, in this process; a plain counter shows whether two were inside at once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use ::rslock::{Lock, LockManager};
use quorlock::Redlock;
use quorlock_harness::{Cluster, Server, eventually};

use super::{SECOND, SOON, foreign::Foreign, quorlock};

const RESOURCE: &str = "counter";
const MS: Duration = Duration::from_millis(1);
/// How long each of the others holds it.
const HOLD: Duration = Duration::from_millis(20);
const TIME: Duration = Duration::from_secs(6);
/// The least number of turns that the other library gets.
const TURNS: usize = 5;

/// What the lock guards.
#[derive(Default)]
struct Guarded {
    inside: AtomicUsize,
    /// When ours began, by task.
    ours: Mutex<Vec<(usize, Instant)>>,
    over: AtomicBool,
}

impl Guarded {
    fn enter(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
    }

    fn leave(&self) {
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1, "two holders at once");
    }
}

/// A client that does not wait in line.
trait Barges {
    fn gets_it(&mut self) -> bool;
    fn releases(&mut self);
}

struct Rslock {
    runtime: tokio::runtime::Runtime,
    locks: LockManager,
    held: Option<Lock>,
}

impl Barges for Rslock {
    fn gets_it(&mut self) -> bool {
        self.held = self.runtime.block_on(self.locks.lock(RESOURCE, 20 * SECOND)).ok();
        self.held.is_some()
    }

    fn releases(&mut self) {
        let lock = self.held.take().expect("it has it");
        self.runtime.block_on(self.locks.unlock(&lock));
    }
}

/// With the counter that it would increment, and does not.
struct NodeRedlock(Foreign, #[expect(dead_code, reason = "it is connected to it")] Server);

impl Barges for NodeRedlock {
    fn gets_it(&mut self) -> bool {
        self.0.ask("try 20000") == "got"
    }

    fn releases(&mut self) {
        assert_eq!(self.0.ask("release"), "released");
    }
}

async fn ours(redlock: Redlock, task: usize, guarded: Arc<Guarded>) {
    while !guarded.over.load(Ordering::Relaxed) {
        let lease = redlock.acquire(RESOURCE).ttl(20 * SECOND).wait(3 * SOON).await.unwrap();
        guarded.enter();
        guarded.ours.lock().unwrap().push((task, Instant::now()));
        tokio::time::sleep(2 * MS).await;
        guarded.leave();
        lease.release().await.unwrap();
    }
}

/// Takes it whenever it can, and returns when each of its turns ended.
fn barges_in(mut other: impl Barges, guarded: &Guarded) -> Vec<Instant> {
    let (began, mut ended) = (Instant::now(), Vec::new());
    // On a busy machine everybody gets fewer turns in that time, and it goes on until it has had them.
    while began.elapsed() < TIME || (ended.len() < TURNS && began.elapsed() < 10 * TIME) {
        if other.gets_it() {
            guarded.enter();
            std::thread::sleep(HOLD);
            guarded.leave();
            ended.push(Instant::now());
            other.releases();
            // The others shall have it too.
            std::thread::sleep(HOLD);
        } else {
            std::thread::sleep(MS);
        }
    }
    guarded.over.store(true, Ordering::Relaxed);
    ended
}

async fn a_barging(
    library: &str,
    clients: usize,
    start: impl FnOnce(&Cluster) -> Option<Box<dyn Barges + Send>>,
) {
    let cluster = Cluster::start(5);
    let guarded = Arc::<Guarded>::default();
    let mut redlocks = Vec::new();
    for _ in 0..clients {
        redlocks.push(quorlock(&cluster).connect().await.unwrap());
    }
    let Some(other) = start(&cluster) else { return };
    const TASKS: usize = 4;
    let spawn =
        |task: usize| tokio::spawn(ours(redlocks[task % clients].clone(), task, guarded.clone()));
    let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
    let barging = Arc::clone(&guarded);
    let ended = tokio::task::spawn_blocking(move || barges_in(other, &barging)).await.unwrap();
    for task in tasks {
        tokio::time::timeout(3 * SOON, task).await.expect("all go on").unwrap();
    }
    let began = guarded.ours.lock().unwrap().clone();
    let turns: Vec<usize> =
        (0..TASKS).map(|task| began.iter().filter(|(of, _)| *of == task).count()).collect();
    let next = |ended: &Instant| {
        let later = began.iter().map(|(_, at)| *at).filter(|at| at >= ended).min();
        later.map(|at| at - *ended)
    };
    let mut late: Vec<Duration> = ended.iter().filter_map(next).collect();
    late.sort();
    println!(
        "{library} beside {clients} clients of ours: {} turns of its own, ours {turns:?}; the next of ours after {:?} \
         ({:?} at most)",
        ended.len(),
        late.get(late.len() / 2),
        late.last(),
    );
    assert!(ended.len() >= TURNS, "it gets its turns: {}", ended.len());
    assert!(turns.iter().all(|turns| *turns >= 20), "{turns:?}");
    for redlock in redlocks {
        redlock.close().await.unwrap();
    }
    eventually("nothing is left", SOON, || cluster.locks_left().is_empty());
}

fn rslock(cluster: &Cluster) -> Option<Box<dyn Barges + Send>> {
    let mut locks = LockManager::new(cluster.urls());
    locks.set_retry(1, MS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Some(Box::new(Rslock { runtime, locks, held: None }))
}

fn node_redlock(cluster: &Cluster) -> Option<Box<dyn Barges + Send>> {
    let counter = Server::start();
    let foreign = Foreign::start("node-redlock", &counter, RESOURCE, cluster)?;
    Some(Box::new(NodeRedlock(foreign, counter)))
}

impl Barges for Box<dyn Barges + Send> {
    fn gets_it(&mut self) -> bool {
        (**self).gets_it()
    }

    fn releases(&mut self) {
        (**self).releases();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rslock_gets_its_turns_beside_those_in_line_who_go_on_after_each() {
    a_barging("rslock", 2, rslock).await;
}

/// Its tasks pass it on among themselves, but not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rslock_gets_its_turns_beside_a_process_that_passes_it_on_inside() {
    a_barging("rslock", 1, rslock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_redlock_gets_its_turns_beside_those_in_line_who_go_on_after_each() {
    a_barging("node-redlock", 2, node_redlock).await;
}
