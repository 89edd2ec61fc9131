//! The lines as they stand on the nodes, read from outside.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Server, eventually, redis};

use super::{MS, RESOURCE, SOON};

/// Every line that there is.
pub(crate) const LINES: &str = "quorlock:line:*";

/// The keys of lines.
pub(crate) fn keys(server: &Server) -> Vec<String> {
    redis::from_redis_value(server.run(&["KEYS", LINES])).unwrap()
}

/// How many wait, in all lines of one node: a holder that wants to be told leaves a score below zero.
fn waiting(server: &Server) -> usize {
    let count = |key: String| {
        let count = server.run(&["ZCOUNT", &key, "0", "+inf"]);
        redis::from_redis_value::<usize>(count).unwrap()
    };
    keys(server).into_iter().map(count).sum()
}

/// Whether so many stand in line, on a quorum of the nodes at least. A node that is down is not asked.
pub(crate) fn are(cluster: &Cluster, waiters: usize) -> bool {
    let answers = cluster.iter().filter(|server| server.is_running() && !server.is_paused());
    let agree = answers.filter(|server| waiting(server) == waiters);
    agree.count() > cluster.len() / 2
}

/// Who is the first that waits for the resource on a quorum of the nodes, if anybody is.
pub(crate) fn first(cluster: &Cluster) -> Option<Vec<u8>> {
    let line = format!("quorlock:line:{RESOURCE}");
    let first = |server: &Server| {
        let range = ["ZRANGEBYSCORE", &line, "0", "+inf", "LIMIT", "0", "1"];
        redis::from_redis_value::<Vec<Vec<u8>>>(server.run(&range)).unwrap().pop()
    };
    let firsts: Vec<Option<Vec<u8>>> = cluster.iter().map(first).collect();
    let named = |one: &&Option<Vec<u8>>| firsts.iter().filter(|other| other == one).count();
    firsts.iter().find(|one| named(one) > cluster.len() / 2).cloned().flatten()
}

/// Waits until so many do.
#[track_caller]
pub(crate) fn stand(cluster: &Cluster, waiters: usize) {
    eventually(&format!("{waiters} stand in line"), SOON, || are(cluster, waiters));
}

/// A line lives for so long after the last one has stood in it.
pub(crate) const LIFE: Duration = Duration::from_secs(4);

/// Waits until nobody stands there: a client that leaves says so, and others need not wait for the line's end.
#[track_caller]
pub(crate) fn left(cluster: &Cluster) {
    eventually("nobody stands in line", LIFE / 2, || are(cluster, 0));
}

/// Removes the lines from all nodes, and says how many there were.
pub(crate) fn remove(cluster: &Cluster) -> usize {
    let remove = |server: &Server| {
        let keys = keys(server);
        keys.iter().for_each(|key| assert!(server.del(key)));
        keys.len()
    };
    cluster.iter().map(remove).sum()
}

/// Waits until nothing is left of locks and lines.
#[track_caller]
pub(crate) fn nothing_left(cluster: &Cluster) {
    let left = || {
        let lines: Vec<Vec<String>> = cluster.iter().map(keys).collect();
        (cluster.locks_left(), lines)
    };
    let is_empty = || {
        let (locks, lines) = left();
        locks.is_empty() && lines.iter().all(Vec::is_empty)
    };
    let deadline = Instant::now() + SOON;
    while !is_empty() {
        assert!(Instant::now() < deadline, "left: {:?}", left());
        thread::sleep(MS);
    }
}
