//! Servers that let no client stand in line: a waiter there polls, as it did before there was a line.

use std::time::{Duration, Instant};

use quorlock::{
    Acquire, AcquireError, Redlock,
    node::{NodeState, NodeStatus},
};
use quorlock_harness::{
    Cluster, LINE_RIGHTS, RIGHTS, Server, admit, all_ready, chain, connected, eventually,
};

use super::{
    MS, POLL, RESOURCE, ROOM, SECOND, SOON, admitted, lines,
    queue::{Lateness, Queue},
    settings,
};

const TIMES: usize = 8;
const TTL: Duration = Duration::from_secs(20);

/// The keys of locks, and of their nodes.
const KEYS: [&str; 4] = ["~hot", "~quorlock:node", "~quorlock:counters", "~quorlock:older"];

const LINES: &str = "~quorlock:line:*";
const TRACKING: &str = "+client|tracking";

/// The address for a user who may lock, and not wait in line.
fn without_line(server: &Server) -> String {
    server.user(KEYS.into_iter().chain(RIGHTS))
}

/// Locks work as before, and waiters poll, in no order.
#[test]
fn without_the_rights_to_wait_in_line_a_waiter_polls() {
    let cluster = Cluster::start(5);
    admit(settings(&cluster.urls(), TTL));
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
    let cluster = Cluster::start(5);
    admit(settings(&cluster.urls(), TTL));
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
            // Where there is no line anybody may come first.
            late.extend((0..TIMES).map(|_| queue.turn_anyhow()));
            queue.drain();
        }
    }
    println!("two of five without rights: {lateness}");
    lateness.assert_within(5 * MS);
}

/// They stop voting, since they could not tell that their data was exchanged; the others vote, and wake the next.
#[test]
fn a_minority_that_begins_to_refuse_tracking_costs_one_poll_at_most() {
    let ttl = 2 * SECOND;
    let cluster = admitted(ttl);
    let rights = || KEYS.into_iter().chain([LINES]).chain(RIGHTS).chain(LINE_RIGHTS);
    let urls: Vec<String> = cluster.iter().map(|server| server.user(rights())).collect();
    let observer = connected(settings(&urls, ttl));
    let mut queue = Queue::start(&cluster, urls, 4, ttl);
    let fault = "two of five that refuse tracking";
    let lateness = queue.by_turns(fault, TIMES / 2, Queue::turn_anyhow, |queue, round| {
        let nodes = [round % 5, (round + 3) % 5].map(|node| &queue.cluster[node]);
        for node in nodes {
            node.user(rights().filter(|right| *right != TRACKING));
            assert!(node.kill_clients() >= 4);
        }
        let former = queue.holder();
        let late = queue.pass_anyhow();
        let refused = |node: &NodeStatus| matches!(node.state, NodeState::Refused(_));
        eventually("they are refused", SOON, || {
            observer.nodes().iter().filter(|node| refused(node)).count() == nodes.len()
        });
        for node in nodes {
            node.user(rights());
        }
        all_ready(&observer);
        queue.joins(former);
        late
    });
    lateness.assert_each_within(POLL + ROOM);
    queue.drain();
}

/// A client with tokens is refused, by name. In classic mode there is no line, and a waiter asks again and again.
#[test]
fn where_all_servers_refuse_tracking_those_who_wait_poll_in_classic_mode() {
    let cluster = Cluster::start(5);
    let rights = || {
        KEYS.into_iter()
            .chain([LINES])
            .chain(RIGHTS)
            .chain(LINE_RIGHTS)
            .filter(|right| *right != TRACKING)
    };
    let urls: Vec<String> = cluster.iter().map(|server| server.user(rights())).collect();
    let refused = settings(&urls, TTL).blocking_connect().expect_err("nobody may vote");
    let text = chain(&refused);
    assert!(text.contains("client|tracking"), "the command is named: {text}");

    let clients = [(); 4].map(|()| connected(settings(&urls, TTL).classic()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut late = Vec::new();
    for turn in 0..TIMES {
        let holder: &Redlock = &clients[turn % clients.len()];
        let lease = holder.acquire(RESOURCE).blocking().unwrap();
        let waiting: Vec<_> = clients
            .iter()
            .filter(|client| !std::ptr::eq(*client, holder))
            .map(|client| runtime.spawn(passes_it_on(client.acquire(RESOURCE))))
            .collect();
        // They have asked, and found it held.
        runtime.block_on(async { tokio::time::sleep(50 * MS).await });
        let mut ended = Instant::now();
        lease.blocking_release().unwrap();
        let times = runtime.block_on(futures::future::try_join_all(waiting)).unwrap();
        let mut times: Vec<(Instant, Instant)> = times.into_iter().map(Result::unwrap).collect();
        times.sort();
        for (granted, released) in times {
            late.push(granted.saturating_duration_since(ended));
            ended = released;
        }
    }
    println!("without tracking, in classic mode: late by {late:?}");
    assert!(late.iter().all(|late| *late <= POLL + ROOM), "{late:?}");
    clients.iter().for_each(|client| drop(client.blocking_close()));
    lines::nothing_left(&cluster);
}

/// When it was granted, and when it was given back.
async fn passes_it_on(request: Acquire) -> Result<(Instant, Instant), AcquireError> {
    let lease = request.await?;
    let granted = Instant::now();
    drop(lease.release().await);
    Ok((granted, Instant::now()))
}
