//! Goal: a right that only waiting needs may be missing, or be taken away at any moment, on one node or on all: no lock
//! fails, and a waiter gets the resource within a poll.
//!
//! Method: for each command of the line a user who may not run it, from the start or once a client waits.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock::{Redlock, node::LineState};
use quorlock_harness::{Cluster, connected};

use super::{MS, SECOND, patient};

/// What the scripts and connections of a line run, beside what locks need.
const COMMANDS: [&str; 10] = [
    "exists",
    "zcard",
    "zrank",
    "zrangebyscore",
    "zadd",
    "zrem",
    "zrange",
    "publish",
    "subscribe",
    "client|caching",
];

/// A poll, and a round on a busy machine.
const POLL: Duration = Duration::from_millis(1_500 + 1_500);

struct User {
    name: String,
    urls: Vec<String>,
}

impl User {
    fn of(cluster: &Cluster, name: String) -> Self {
        for server in cluster.iter() {
            let mut command = vec!["ACL", "SETUSER", &name, "reset", "on", ">sesame", "~*", "&*"];
            command.push("+@all");
            server.run(&command);
        }
        let url = |port| format!("redis://{name}:sesame@127.0.0.1:{port}");
        let urls = cluster.iter().map(|server| url(server.port())).collect();
        Self { name, urls }
    }

    fn may_not(&self, cluster: &Cluster, nodes: usize, command: &str) {
        for server in cluster.iter().take(nodes) {
            server.run(&["ACL", "SETUSER", &self.name, &format!("-{command}")]);
        }
    }

    fn connect(&self) -> Redlock {
        connected(patient().nodes(self.urls.clone()))
    }
}

/// One waits, and gets it when the other one gives it back; then the other way round.
fn passes(from: &Redlock, to: &Redlock, resource: &str, meanwhile: impl FnOnce()) {
    let held = from.acquire(resource).wait(10 * SECOND).ttl(60 * SECOND).blocking();
    let held = held.unwrap_or_else(|error| panic!("{resource}: {error}"));
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let lease = to.acquire(resource).wait(20 * SECOND).ttl(60 * SECOND).blocking().unwrap();
            (lease, Instant::now())
        });
        thread::sleep(300 * MS);
        meanwhile();
        held.blocking_release().unwrap();
        let released = Instant::now();
        let (lease, got) = waits.join().unwrap();
        assert!(got - released < POLL, "{resource}: after {:?}", got - released);
        lease.blocking_release().unwrap();
    });
}

fn for_each_command(nodes: usize, before: bool) {
    let cluster = Cluster::start(3);
    thread::scope(|scope| {
        for command in COMMANDS.iter() {
            let cluster = &cluster;
            scope.spawn(move || {
                let user = User::of(cluster, command.replace('|', "-"));
                let resource = user.name.as_str();
                if before {
                    user.may_not(cluster, nodes, command);
                }
                let (one, two) = (user.connect(), user.connect());
                for (node, status) in two.nodes().iter().enumerate().filter(|_| before) {
                    let is_off = matches!(&status.line, LineState::Off { reason } if reason.contains(command.split('|').next().unwrap()));
                    assert_eq!(is_off, node < nodes, "{command}: {:?}", status.line);
                }
                passes(&one, &two, resource, || {
                    if !before {
                        user.may_not(cluster, nodes, command);
                    }
                });
                passes(&two, &one, resource, || {});
                let lease = one.try_acquire(resource).blocking();
                lease.unwrap_or_else(|error| panic!("{command}: {error}")).blocking_release().unwrap();
            });
        }
    });
}

#[test]
fn each_command_of_a_line_may_be_forbidden_on_one_node() {
    for_each_command(1, true);
}

#[test]
fn each_command_of_a_line_may_be_forbidden_on_all_nodes() {
    for_each_command(3, true);
}

#[test]
fn each_right_to_a_line_may_be_taken_away_while_somebody_waits_on_one_node() {
    for_each_command(1, false);
}

#[test]
fn each_right_to_a_line_may_be_taken_away_while_somebody_waits_on_all_nodes() {
    for_each_command(3, false);
}

/// The rights that `docs/deploying.md` lists for waiting are enough for readers.
#[test]
fn who_may_wait_may_read_and_others_are_told_why_not() {
    let cluster = Cluster::start(1);
    let plain = "-@all +set +getrange +del +pttl +pexpire +hget +hmget +hset +time +unlink +rename +eval +evalsha +info \
                 +client|tracking";
    let waits = "&quorlock:wake:* +exists +zadd +zrem +zcard +zrank +zrange +zrangebyscore +publish +subscribe +client|caching";
    let client = |name: &str, more: &str| {
        let rules =
            format!("ACL SETUSER {name} on >pw ~lock:* ~quorlock:* resetchannels {plain} {more}");
        cluster[0].run(&rules.split_whitespace().collect::<Vec<_>>());
        let url = format!("redis://{name}:pw@127.0.0.1:{}", cluster[0].port());
        connected(patient().nodes([url]))
    };
    let (may, may_not) = (client("may", waits), client("not", ""));
    let lease = may.try_read("lock:r").ttl(60 * SECOND).blocking().unwrap();
    lease.blocking_extend().unwrap();
    assert!(may_not.try_write("lock:r").blocking().unwrap_err().is_contended());
    let denied = may_not.try_read("lock:r").blocking().unwrap_err().to_string();
    // In the words of the server, which differ from one version to the next.
    assert!(denied.contains("the server refused the command"), "{denied}");
    lease.blocking_release().unwrap();
    may_not.try_write("lock:r").blocking().unwrap().blocking_release().unwrap();
}
