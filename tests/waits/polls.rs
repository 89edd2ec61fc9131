//! What a waiter costs the nodes while nothing happens.

use std::{
    future::IntoFuture as _,
    thread,
    time::{Duration, Instant},
};

use quorlock::Redlock;
use quorlock_harness::{Cluster, Server, connected, eventually, redis};

use super::{RESOURCE, SECOND, SOON, admitted, cost::requests, lines, settings};

/// With renewals that are few beside the polls.
const TTL: Duration = Duration::from_secs(20);

/// The most that any node was asked per second in so much time.
fn rate(cluster: &Cluster, time: Duration) -> f64 {
    let (before, began) = (requests(cluster), Instant::now());
    thread::sleep(time);
    let took = began.elapsed().as_secs_f64();
    let more = requests(cluster).into_iter().zip(before).map(|(now, before)| now - before);
    more.max().expect("nodes") as f64 / took
}

fn client(cluster: &Cluster) -> Redlock {
    connected(settings(&cluster.urls(), TTL))
}

/// However many wait in one process: only its head speaks.
#[test]
fn one_who_waits_behind_a_renewed_lease_costs_a_command_per_node_and_second_at_most() {
    let cluster = admitted(TTL);
    let holder = client(&cluster);
    let lease = holder.acquire(RESOURCE).blocking().unwrap();
    let idle = rate(&cluster, 3 * SECOND);
    for (processes, tasks) in [(1, 1), (1, 200), (6, 1)] {
        let clients: Vec<Redlock> = (0..processes).map(|_| client(&cluster)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = |number: usize| clients[number % processes].acquire(RESOURCE);
        let waiting: Vec<_> = (0..processes * tasks)
            .map(|number| runtime.spawn(request(number).into_future()))
            .collect();
        runtime.block_on(tokio::task::yield_now());
        lines::stand(&cluster, processes);
        let time = 8 * SECOND;
        let each = (rate(&cluster, time) - idle) / processes as f64;
        println!(
            "{processes} processes with {tasks} waiters: {each:.2} commands per process, node and second beside {idle:.2}"
        );
        // One renewal more or less in this time, and a look of each client at the node, which it takes every ten seconds.
        let room = (2.0 + 1.0 + processes as f64) / time.as_secs_f64();
        assert!(each <= 1.0 + room / processes as f64, "{each:.2}");
        lease.check().unwrap();
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        for client in &clients {
            client.blocking_shutdown().unwrap();
        }
    }
    lease.blocking_release().unwrap();
    lines::nothing_left(&cluster);
}

/// The keys of whose change the server is to tell.
fn tracked_keys(server: &Server) -> u64 {
    let stats: String = redis::from_redis_value(server.run(&["INFO", "stats"])).unwrap();
    let keys = stats.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
    keys.expect("it counts them").parse().unwrap()
}

/// The value that another program has set may be any string, also an empty one.
#[test]
fn one_who_waits_behind_a_key_of_another_program_costs_no_more_and_is_told_of_its_end() {
    let cluster = admitted(TTL);
    for value in ["theirs", ""] {
        cluster.iter().for_each(|server| server.set(RESOURCE, value, Some(60_000)));
        let waiter = client(&cluster);
        let idle = rate(&cluster, 2 * SECOND);
        let late = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lease = waiter.acquire(RESOURCE).blocking().unwrap();
                (lease, Instant::now())
            });
            lines::stand(&cluster, 1);
            eventually("every node is to tell of its end", SOON, || {
                cluster.iter().all(|server| tracked_keys(server) == 1)
            });
            let time = 5 * SECOND;
            let each = rate(&cluster, time) - idle;
            println!("behind {value:?}: {each:.2} commands per node and second beside {idle:.2}");
            cluster.iter().for_each(|server| assert!(server.del(RESOURCE)));
            let ended = Instant::now();
            let (lease, granted) = waiting.join().unwrap();
            lease.blocking_release().unwrap();
            assert!(each <= 1.0 + 2.0 / time.as_secs_f64(), "behind {value:?}: {each:.2}");
            granted.saturating_duration_since(ended)
        });
        println!("behind {value:?}: it has it {late:?} after the end");
        waiter.blocking_shutdown().unwrap();
        lines::nothing_left(&cluster);
    }
}

/// How often it was asked by a script.
fn asked(server: &Server) -> u64 {
    let stats: String = redis::from_redis_value(server.run(&["INFO", "commandstats"])).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// A value that is no string may be written to a thousand times a second, and each write would wake the waiters.
#[test]
fn one_who_waits_behind_another_programs_list_does_not_hear_of_every_write_to_it() {
    let cluster = admitted(TTL);
    let push =
        || cluster.iter().for_each(|server| drop(server.run(&["RPUSH", RESOURCE, "theirs"])));
    push();
    let waiter = client(&cluster);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.read(RESOURCE).blocking().unwrap());
        lines::stand(&cluster, 1);
        let (before, began): (Vec<u64>, _) = (cluster.iter().map(asked).collect(), Instant::now());
        while began.elapsed() < 3 * SECOND {
            push();
            thread::sleep(Duration::from_millis(5));
        }
        let most = began.elapsed().as_secs() + 3;
        for (server, before) in cluster.iter().zip(before) {
            let asked = asked(server) - before;
            println!("asked {asked} times, at most {most}");
            assert!(asked <= most, "{asked} times, and not {most}");
        }
        cluster.iter().for_each(|server| assert!(server.del(RESOURCE)));
        waiting.join().unwrap().blocking_release().unwrap();
    });
    waiter.blocking_shutdown().unwrap();
    lines::nothing_left(&cluster);
}
