//! How often the engine's thread is woken while nothing is asked of it, beside a thread that is woken each millisecond.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use quorlock::runtime::{Runtime, TokioRuntime};
use quorlock_harness::connected;

use super::{SECOND, admitted, settings};

/// Where the system tells of the thread that runs the tasks.
fn thread_of(runtime: &TokioRuntime) -> PathBuf {
    let (tells, told) = mpsc::channel();
    runtime.spawn(Box::pin(async move {
        tells.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
    }));
    Path::new("/proc").join(told.recv_timeout(20 * SECOND).unwrap())
}

/// How often a thread has gone to sleep.
fn sleeps(thread: &Path) -> u64 {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn the_engine_sleeps_while_a_lease_is_held() {
    const BESIDE: u64 = 1_000;
    let cluster = admitted();
    let runtime = Arc::new(TokioRuntime::dedicated().unwrap());
    let redlock = connected(settings(&cluster).runtime(Arc::clone(&runtime)));
    let lease = redlock.acquire("held").blocking().unwrap();
    let engine = thread_of(&runtime);
    let before = sleeps(&engine);
    for _ in 0..BESIDE {
        thread::sleep(Duration::from_millis(1));
    }
    let woken = sleeps(&engine) - before;
    println!("woken {woken} times, beside {BESIDE} times");
    assert!(woken <= BESIDE / 10, "the engine was woken {woken} times, beside {BESIDE} times");
    lease.blocking_release().unwrap();
}
