//! How often the engine's thread is woken while nothing is asked of it, beside a thread that is woken each millisecond.

use std::{fs, path::PathBuf, thread, time::Duration};

use quorlock::runtime::TokioRuntime;
use quorlock_harness::connected;

use super::{admitted, settings};

/// The threads of this process that have the name of the engine's.
fn engines() -> Vec<PathBuf> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let name = |thread: &PathBuf| fs::read_to_string(thread.join("comm")).unwrap_or_default();
    threads.filter(|thread| name(thread).trim() == "quorlock").collect()
}

/// How often a thread has gone to sleep.
fn sleeps(thread: &PathBuf) -> u64 {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn the_engine_sleeps_while_a_lease_is_held() {
    const BESIDE: u64 = 2_000;
    let cluster = admitted();
    let redlock = connected(settings(&cluster).runtime(TokioRuntime::dedicated().unwrap()));
    let lease = redlock.acquire("held").blocking().unwrap();
    let engines = engines();
    let [engine] = &engines[..] else { panic!("one engine: {engines:?}") };
    let before = sleeps(engine);
    for _ in 0..BESIDE {
        thread::sleep(Duration::from_millis(1));
    }
    let woken = sleeps(engine) - before;
    println!("woken {woken} times, beside {BESIDE} times");
    assert!(woken <= BESIDE / 10, "the engine was woken {woken} times, beside {BESIDE} times");
    lease.blocking_release().unwrap();
}
