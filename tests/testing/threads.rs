//! What a fleet has started ends with it.
#![cfg(target_os = "linux")]

use std::{fs, future::IntoFuture};

use futures::FutureExt;
use quorlock::testing::Fleet;
use quorlock_harness::eventually;

use super::{SECOND, one_thread};

/// How many threads of this process are a fleet's, or an engine's.
fn engines() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "quorlock").count()
}

/// Alone in a process of its own: others have fleets too.
#[test]
fn threads_end_with_their_fleets() {
    let alone = std::env::var_os("QUORLOCK_TEST_ALONE").is_some();
    if !alone {
        let me = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(me);
        child.args(["threads::threads_end_with_their_fleets", "--exact", "--nocapture"]);
        let ended = child.env("QUORLOCK_TEST_ALONE", "1").status().unwrap();
        assert!(ended.success());
        return;
    }
    assert_eq!(engines(), 0);
    let fleets: Vec<Fleet> = (0..5).map(|_| Fleet::new(5)).collect();
    eventually("they have started", 20 * SECOND, || engines() == 5);
    for fleet in &fleets {
        let redlock = fleet.redlock();
        let _held = fleet.blocking_hold("held");
        let _leases: Vec<_> =
            (0..10).map(|job| redlock.acquire(format!("{job}")).blocking().unwrap()).collect();
        drop(smol::block_on(redlock.acquire("r").into_future()).unwrap());
        fleet.blocking_advance(100 * SECOND);
        // An advance that is not waited for.
        let _ = fleet.advance(100 * SECOND).now_or_never();
    }
    drop(fleets);
    eventually("they have ended", 20 * SECOND, || engines() == 0);

    // Nor is there any where there is a runtime with one thread.
    one_thread(async {
        let fleet = Fleet::new(5);
        drop(fleet.redlock().acquire("r").await.unwrap());
        fleet.advance(SECOND).await;
        assert_eq!(engines(), 0);
    });

    // A service outlives the fleet that it came from, and its thread with it.
    let redlock = Fleet::new(3).redlock();
    drop(redlock.acquire("r").blocking().unwrap());
    assert_eq!(engines(), 1);
    redlock.blocking_close().unwrap();
    drop(redlock);
    eventually("it has ended", 20 * SECOND, || engines() == 0);
}
