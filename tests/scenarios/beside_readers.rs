//! Goal: foreign values where the nodes keep the readers count as if not there, and cost other clients nothing.
//!
//! Method: values of other types, sizes and ends at `quorlock:readers:..`, before readers come and while they hold, beside
//! readers of other resources in the same process.

use std::time::Instant;

use super::*;
use quorlock::ReadLease;

const TTL: Duration = Duration::from_secs(3);
const READERS: &str = "quorlock:readers:r";

/// What others may put there. Each is as if the set were gone.
const FOREIGN: [(&str, &[&str]); 5] = [
    ("a value", &["SET", READERS, "somebody's"]),
    ("64 MB", &["SETRANGE", READERS, "67108863", "x"]),
    ("a list", &["RPUSH", READERS, "a", "b"]),
    ("a hash", &["HSET", READERS, "a", "b"]),
    ("a set", &["SADD", READERS, "a", "b"]),
];

fn read(redlock: &Redlock, resource: &str) -> ReadLease {
    redlock.read(resource).blocking().unwrap_or_else(|error| panic!("{error}"))
}

/// The processor time that the servers have had for commands.
fn spent(cluster: &Cluster) -> Duration {
    let of = |server: &Server| {
        let info: String = redis::from_redis_value(server.run(&["INFO", "cpu"])).unwrap();
        let used = |kind: &str| {
            // Before version 7 it is not told by threads.
            let named = |name: String| info.lines().find_map(|line| line.strip_prefix(&*name));
            let told = named(format!("used_cpu_{kind}_main_thread:"));
            told.or_else(|| named(format!("used_cpu_{kind}:")))
                .unwrap()
                .trim()
                .parse::<f64>()
                .unwrap()
        };
        Duration::from_secs_f64(used("user") + used("sys"))
    };
    cluster.iter().map(of).sum()
}

#[test]
fn what_others_have_put_there_before_keeps_no_reader_out() {
    let cluster = admitted(3, TTL);
    let redlock = ready(settings(&cluster, TTL));
    for (what, command) in FOREIGN {
        for server in &cluster {
            server.run(command);
        }
        let lease =
            redlock.try_read("r").blocking().unwrap_or_else(|error| panic!("{what}: {error}"));
        lease.check().unwrap();
        lease.blocking_release().unwrap();
        eventually(what, SOON, || cluster.locks_left().is_empty());
        redlock.acquire("r").blocking().unwrap().blocking_release().unwrap();
    }
}

/// On one node: the readers go on by the other nodes, and the node serves clients that come.
#[test]
fn what_others_put_in_the_place_of_the_readers_of_one_node_costs_nobody_anything() {
    let cluster = admitted(3, TTL);
    let redlock = ready(settings(&cluster, TTL));
    for (what, command) in FOREIGN {
        let others: Vec<ReadLease> =
            (0..20).map(|n| read(&redlock, &format!("other:{n}"))).collect();
        let lease = read(&redlock, "r");
        eventually("all have it", SOON, || cluster.iter().all(|node| node.get("r").is_some()));
        cluster[0].del(READERS);
        cluster[0].run(command);
        let beside = redlock.try_read("r").blocking();
        let beside = beside.unwrap_or_else(|error| panic!("{what}: {error}"));
        std::thread::sleep(TTL + TTL / 4);
        lease.check().unwrap_or_else(|lost| panic!("{what}: {lost}"));
        beside.check().unwrap_or_else(|lost| panic!("{what}: {lost}"));
        for other in others {
            other.check().unwrap_or_else(|lost| panic!("{what}: {lost}"));
            other.blocking_release().unwrap();
        }
        assert!(redlock.nodes().iter().all(|node| node.state == NodeState::Ready), "{what}");
        beside.blocking_release().unwrap();
        lease.blocking_release().unwrap();
        eventually(what, SOON, || cluster.locks_left().is_empty());
    }
}

/// On all nodes: the readers have lost it, as where the key was deleted, and are told so; the next client gets it, and
/// a release frees it at once.
#[test]
fn what_others_put_in_the_place_of_the_readers_of_all_nodes_is_a_loss_that_is_told() {
    let cluster = admitted(3, TTL);
    let redlock = ready(settings(&cluster, TTL));
    for (what, command) in FOREIGN {
        let lease = read(&redlock, "r");
        eventually("all have it", SOON, || cluster.iter().all(|node| node.get("r").is_some()));
        for server in &cluster {
            server.del(READERS);
            server.run(command);
        }
        let next = redlock.try_read("r").blocking();
        let next = next.unwrap_or_else(|error| panic!("{what}: {error}"));
        eventually("it is told", SOON, || lease.check().is_err());
        println!("{what}: {:?}", lease.check());
        next.check().unwrap();
        next.blocking_release().unwrap();
        drop(lease);
        let since = Instant::now();
        drop(redlock.write("r").wait(SOON).blocking().unwrap());
        println!("{what}: written after {:?}", since.elapsed());
        eventually(what, SOON, || cluster.locks_left().is_empty());
    }
}

/// A set of others with far more members than there are readers, such as one restored from elsewhere. It costs
/// the servers less than freeing it at once does.
#[test]
fn a_huge_set_there_keeps_no_reader_out() {
    let cluster = admitted(3, TTL);
    let redlock = ready(settings(&cluster, TTL));
    // By parts, each of them done in time by a busy machine, too.
    let fill = "for n = ARGV[2], ARGV[2] + 1999 do redis.call('ZADD', KEYS[1], ARGV[1], n) end";
    for (what, score) in [("ended", "1"), ("without an end", "inf"), ("for ages", "1e18")] {
        for key in [READERS, "freed"] {
            for server in &cluster {
                for part in 0..25 {
                    let from = (part * 2_000).to_string();
                    server.run(&["EVAL", fill, "1", key, score, &from]);
                }
            }
        }
        all_ready(&redlock);
        let held = redlock.acquire("held").blocking().unwrap();
        let cost = |act: &mut dyn FnMut()| {
            let before = spent(&cluster);
            act();
            spent(&cluster) - before
        };
        let freed = cost(&mut || assert!(cluster.iter().all(|server| server.del("freed"))));
        let mut readers = Vec::new();
        let read = cost(&mut || readers = (0..2).map(|_| read(&redlock, "r")).collect());
        let released = cost(&mut || {
            readers.drain(..).for_each(|reader| reader.blocking_release().unwrap());
        });
        println!("{what}: freed {freed:?}, read twice {read:?}, released {released:?}");
        assert!(
            2 * read < freed && 2 * released < freed,
            "{what}: {read:?}, {released:?}, {freed:?}"
        );
        held.check().unwrap();
        held.blocking_release().unwrap();
        eventually(what, SOON, || cluster.locks_left().is_empty());
    }
}

/// Members of a sorted set that no script of ours has put there: with halves of a millisecond, and without an end. They
/// count as readers that do not come back.
#[test]
fn odd_members_fail_no_release() {
    let cluster = admitted(3, TTL);
    let redlock = ready(settings(&cluster, TTL));
    let soon = "local time = redis.call('TIME') \
        return redis.call('ZADD', KEYS[1], (time[1] * 1000 + 500) .. '.5', 'half')";
    for odd in [&["EVAL", soon, "1", READERS][..], &["ZADD", READERS, "inf", "never"]] {
        for persists in [false, true] {
            let (lease, beside) = (read(&redlock, "r"), read(&redlock, "r"));
            eventually("all have it", SOON, || cluster.iter().all(|node| node.get("r").is_some()));
            for server in &cluster {
                server.run(odd);
                if persists {
                    server.run(&["PERSIST", "r"]);
                }
            }
            lease.blocking_release().unwrap();
            beside.blocking_extend().unwrap();
            beside.blocking_release().unwrap();
            eventually("it has an end", SOON, || cluster.locks_left().is_empty());
            redlock.write("r").blocking().unwrap().blocking_release().unwrap();
        }
    }
}
