//! Servers on which nobody may stand in line: whoever waits there polls, as he did before there was a line.

use std::time::Duration;

use quorlock_harness::{Cluster, Server};

use super::{
    MS, POLL, ROOM, admit, alone,
    queue::{Lateness, Queue},
};

const TIMES: usize = 8;
const TTL: Duration = Duration::from_secs(20);

/// What locks need, and nothing that waiting needs.
const RIGHTS: [&str; 15] = [
    "+set",
    "+getrange",
    "+del",
    "+pttl",
    "+pexpire",
    "+eval",
    "+evalsha",
    "+info",
    "+hget",
    "+hmget",
    "+hset",
    "+time",
    "+unlink",
    "+rename",
    "+client|tracking",
];

/// The address for a user who may lock, and not wait in line.
fn without_line(server: &Server) -> String {
    let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">sesame", "~hot"];
    command.extend(["~quorlock:node", "~quorlock:counters", "~quorlock:older", "resetchannels"]);
    command.push("-@all");
    command.extend(RIGHTS);
    server.run(&command);
    format!("redis://app:sesame@127.0.0.1:{}", server.port())
}

/// Locks work as before, and waiters poll, in no order.
#[test]
fn without_the_rights_to_wait_in_line_a_waiter_polls() {
    let _turn = alone();
    let cluster = Cluster::start(5);
    admit(&cluster.urls(), TTL);
    let urls: Vec<String> = cluster.iter().map(without_line).collect();
    let mut queue = Queue::of_nobody(&cluster, urls, 4, TTL);
    queue.in_line = false;
    queue.gets_it_first(0);
    (1..4).for_each(|process| queue.joins(process));
    let mut late = Vec::new();
    for _ in 0..TIMES {
        let former = queue.holder();
        late.push(queue.pass_anyhow());
        queue.joins(former);
    }
    println!("without rights: late by {late:?}");
    assert!(late.iter().all(|late| *late <= POLL + ROOM), "{late:?}");
    queue.drain();
}

/// A quorum of nodes that tell is enough.
#[test]
fn a_minority_without_these_rights_costs_nothing() {
    let _turn = alone();
    let cluster = Cluster::start(5);
    admit(&cluster.urls(), TTL);
    let url = |(node, server): (usize, &Server)| {
        if node % 2 == 1 { without_line(server) } else { server.url() }
    };
    let some: Vec<String> = cluster.iter().enumerate().map(url).collect();
    let mut lateness = Lateness::default();
    // By turns: a machine that is busy for a while is busy for both.
    for _ in 0..3 {
        for (urls, late) in
            [(cluster.urls(), &mut lateness.normal), (some.clone(), &mut lateness.faulty)]
        {
            let mut queue = Queue::start(&cluster, urls, 4, TTL);
            for _ in 0..TIMES {
                let former = queue.holder();
                // Where there is no line anybody may come first.
                late.push(queue.pass_anyhow());
                queue.joins(former);
                super::lines::stand(&cluster, 3);
            }
            queue.drain();
        }
    }
    println!("two of five without rights: {lateness}");
    lateness.assert_within(5 * MS);
}
