//! What waiting costs the nodes, in commands that they have counted.

use std::time::Duration;

use quorlock::Redlock;
use quorlock_harness::{Cluster, connected, eventually};

use super::{RESOURCE, SOON, admitted, lines, settings};

const TTL: Duration = Duration::from_secs(20);

/// Whatever a client sends while it is connected; what runs inside a script is not among it.
const SENT: [&str; 6] = ["evalsha", "eval", "ping", "subscribe", "client|tracking", "hello"];

/// The requests to each node so far.
pub(crate) fn requests(cluster: &Cluster) -> Vec<u64> {
    let sent = |server| SENT.iter().map(|command| calls(server, command)).sum();
    cluster.iter().map(sent).collect()
}

fn calls(server: &quorlock_harness::Server, command: &str) -> u64 {
    server.command_calls(command)
}

fn client(cluster: &Cluster) -> Redlock {
    connected(settings(&cluster.urls(), TTL))
}

/// Tasks of one process pass it on among themselves: the nodes hear of a few of these turns.
#[test]
fn a_hand_over_inside_a_process_costs_no_command() {
    const TASKS: usize = 16;
    const TURNS: usize = 50;
    let cluster = admitted(TTL);
    let redlock = client(&cluster);
    let before = requests(&cluster);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let task = || {
            let redlock = redlock.clone();
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    redlock.acquire(RESOURCE).await.unwrap().release().await.unwrap();
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| task()).collect();
        for task in tasks {
            tokio::time::timeout(3 * SOON, task).await.expect("in time").unwrap();
        }
    });
    redlock.blocking_close().unwrap();
    let more = requests(&cluster).into_iter().zip(before).map(|(now, before)| now - before);
    let each = more.max().expect("nodes") as f64 / (TASKS * TURNS) as f64;
    println!("{TASKS} tasks of one process: {each:.3} commands per grant and node");
    assert!(each <= 0.12, "{each:.3}");
    lines::nothing_left(&cluster);
}

/// One after the other, without any other client: two commands to each node, and none that only waiting needs.
#[test]
fn whoever_is_alone_pays_for_no_line() {
    const TIMES: u64 = 100;
    let cluster = admitted(TTL);
    let redlock = client(&cluster);
    // The scripts are loaded with the first one.
    redlock.acquire(RESOURCE).blocking().unwrap().blocking_release().unwrap();
    redlock.acquire("other").blocking().unwrap().blocking_release().unwrap();
    eventually("it has reached every node", SOON, || cluster.locks_left().is_empty());
    let all =
        |command: &str| cluster.iter().map(|server| calls(server, command)).collect::<Vec<_>>();
    let names = ["evalsha", "eval", "set", "zadd", "zrem", "publish", "subscribe"];
    let looks = ["exists", "zrange", "zrangebyscore", "zcard", "zrank"];
    let names = names.into_iter().chain(looks).collect::<Vec<_>>();
    let before: Vec<_> = names.iter().map(|name| all(name)).collect();
    for _ in 0..TIMES {
        redlock.acquire(RESOURCE).blocking().unwrap().blocking_release().unwrap();
    }
    redlock.blocking_close().unwrap();
    let more: Vec<Vec<u64>> = names
        .iter()
        .zip(&before)
        .map(|(name, before)| {
            all(name).iter().zip(before).map(|(now, before)| now - before).collect()
        })
        .collect();
    println!("{TIMES} acquires and releases: {:?}", names.iter().zip(&more).collect::<Vec<_>>());
    let [evalsha, eval, set, zadd, zrem, publish, subscribe, looks @ ..] = &more[..] else {
        unreachable!()
    };
    assert!(evalsha.iter().all(|calls| *calls == 2 * TIMES), "{evalsha:?}");
    assert!(set.iter().all(|calls| *calls == TIMES), "{set:?}");
    for none in [eval, zadd, zrem, publish, subscribe] {
        assert!(none.iter().all(|calls| *calls == 0), "{more:?}");
    }
    // One look whether there is a line, at each end, by whatever command.
    for node in 0..cluster.len() {
        let looks: u64 = looks.iter().map(|calls| calls[node]).sum();
        assert!(looks <= 2 * TIMES, "{looks} looks at node {node}: {more:?}");
    }
    lines::nothing_left(&cluster);
}

/// Two of five have denied the round by which it got the resource, as nodes do that hear of the release a bit later.
#[test]
fn whoever_has_got_it_stands_in_no_line_any_more_also_where_a_node_has_denied_it() {
    let cluster = admitted(TTL);
    let (holder, waiter) = (client(&cluster), client(&cluster));
    let lease = holder.acquire(RESOURCE).blocking().unwrap();
    // A node that was late to it is given it by the next renewal.
    eventually("all have it", SOON, || cluster.iter().all(|node| node.get(RESOURCE).is_some()));
    let next = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.acquire(RESOURCE).blocking().unwrap());
        lines::stand(&cluster, 1);
        // It stands there, and another client has the key.
        for denies in [&cluster[0], &cluster[4]] {
            eventually("it stands there too", SOON, || !lines::keys(denies).is_empty());
            denies.set(RESOURCE, "somebody else", None);
        }
        lease.blocking_release().unwrap();
        waiting.join().unwrap()
    });
    // Long before the line would end by itself.
    eventually("it has left", lines::LIFE / 2, || {
        cluster.iter().all(|server| lines::keys(server).is_empty())
    });
    next.blocking_release().unwrap();
    assert!(cluster[0].del(RESOURCE) && cluster[4].del(RESOURCE));
    lines::nothing_left(&cluster);
}
