//! Processes and nodes that are killed or stopped while somebody waits: how late the next grant is.

use std::{thread, time::Duration};

use quorlock_harness::all_ready;

use super::{
    GRACE, MS, POLL, ROOM, SECOND, admitted, alone, lines,
    process::now,
    queue::{Lateness, Queue, expiry},
    settings,
};

/// So often each fault is done, with as many hand-overs without it in between.
const TIMES: usize = 10;
const TTL: Duration = Duration::from_secs(20);

/// The kernel closes the connections of a process that is killed, so that the nodes know at once that nobody hears.
#[test]
fn a_killed_head_costs_those_behind_it_nothing() {
    let _turn = alone();
    let cluster = admitted(TTL);
    let mut queue = Queue::start(&cluster, cluster.urls(), 4, TTL);
    let mut lateness = Lateness::default();
    for _ in 0..TIMES {
        let (former, late) = (queue.holder(), queue.pass());
        lateness.normal.push(late);
        queue.joins(former);
        lines::stand(&cluster, 3);

        let head = queue.head();
        queue.field.kill(head);
        queue.without(head);
        let former = queue.holder();
        lateness.faulty.push(queue.pass());
        // The one behind the dead was the head, and is not any more.
        queue.joins(former);
        let new = queue.field.add();
        queue.joins(new);
        lines::stand(&cluster, 3);
    }
    println!("a killed head: {lateness}");
    lateness.assert_within(5 * MS);
    queue.drain();
}

/// The next one that lives is found in one step: were each given a grace, or waited for, that would be seen here.
#[test]
fn many_killed_heads_cost_those_behind_them_nothing() {
    let _turn = alone();
    const KILLED: usize = 6;
    const ALL: usize = KILLED + 3;
    let cluster = admitted(TTL);
    let mut queue = Queue::start(&cluster, cluster.urls(), ALL, TTL);
    let mut lateness = Lateness::default();
    for _ in 0..TIMES / 2 {
        let (former, late) = (queue.holder(), queue.pass());
        lateness.normal.push(late);
        queue.joins(former);
        lines::stand(&cluster, ALL - 1);
        for _ in 0..KILLED {
            let head = queue.head();
            queue.field.kill(head);
            queue.without(head);
        }
        let former = queue.holder();
        lateness.faulty.push(queue.pass());
        queue.joins(former);
        for _ in 0..KILLED {
            let new = queue.field.add();
            queue.joins(new);
        }
        lines::stand(&cluster, ALL - 1);
    }
    println!("{KILLED} killed heads: {lateness}");
    lateness.assert_within(5 * MS);
    queue.drain();
}

/// Its connections stay open, and it does not come: it is passed over after a grace, and is the first again when it goes on.
#[test]
fn a_stopped_head_costs_one_grace_and_gets_its_turn() {
    let _turn = alone();
    let cluster = admitted(TTL);
    let mut queue = Queue::start(&cluster, cluster.urls(), 4, TTL);
    let mut lateness = Lateness::default();
    for _ in 0..TIMES {
        let (former, late) = (queue.holder(), queue.pass());
        lateness.normal.push(late);
        queue.joins(former);
        lines::stand(&cluster, 3);

        let head = queue.head();
        queue.field.process(head).pause();
        let stopped = now();
        queue.without(head);
        let former = queue.holder();
        lateness.faulty.push(queue.pass());
        queue.joins(former);
        // It is stopped for a second in all, while the resource is held.
        thread::sleep((stopped + SECOND).saturating_sub(now()));
        queue.field.process(head).resume();
        // By its ticket, which is older than those of all the others.
        queue.order.insert(1, head);
        lines::stand(&cluster, 3);
        let former = queue.holder();
        queue.pass();
        queue.joins(former);
        lines::stand(&cluster, 3);
    }
    println!("a stopped head: {lateness}");
    // The grace, two round trips where that is more, and the round of the next.
    lateness.assert_within(4 * GRACE);
    queue.drain();
}

/// It is stopped while nobody lets go, and goes on before anybody does: it has lost nothing.
#[test]
fn a_head_that_was_stopped_while_the_resource_was_held_is_still_the_first() {
    let _turn = alone();
    let cluster = admitted(TTL);
    let mut queue = Queue::start(&cluster, cluster.urls(), 3, TTL);
    let head = queue.head();
    queue.field.process(head).pause();
    thread::sleep(SECOND);
    queue.field.process(head).resume();
    lines::stand(&cluster, 2);
    queue.pass();
    queue.drain();
}

/// Nobody releases what it held. The next has it when its keys have expired on a quorum.
#[test]
fn a_killed_holder_costs_its_ttl_and_one_poll_at_most() {
    let _turn = alone();
    let ttl = 2 * SECOND;
    let cluster = admitted(ttl);
    let mut queue = Queue::start(&cluster, cluster.urls(), 3, ttl);
    let mut late = Vec::new();
    for _ in 0..3 {
        let holder = queue.holder();
        queue.field.kill(holder);
        // From now on nobody extends it.
        let free = expiry(&cluster);
        queue.order.pop_front();
        let passed = queue.next_grant();
        queue.has_got_it(passed.to);
        // PTTL is in whole milliseconds, rounded.
        assert!(passed.at + 2 * MS >= free, "before the keys expired: {:?}", free - passed.at);
        late.push(passed.at.saturating_sub(free));
        let new = queue.field.add();
        queue.joins(new);
        lines::stand(&cluster, 2);
    }
    println!("a killed holder: late by {late:?} beyond the end of its keys");
    assert!(late.iter().all(|late| *late <= POLL + ROOM), "{late:?}");
    queue.drain();
}

/// One or two of five, right before the release, in turn. A node that comes back has to be told the line again, and until then
/// there is no order.
#[test]
fn killed_nodes_cost_one_poll_at_most() {
    let _turn = alone();
    let ttl = SECOND;
    let cluster = quorlock_harness::Cluster::start_with(5, |_, builder| builder.append_only(true));
    super::admit(&cluster.urls(), ttl);
    let observer = quorlock_harness::connected(settings(&cluster.urls(), ttl));
    let mut queue = Queue::start(&cluster, cluster.urls(), 4, ttl);
    let mut lateness = Lateness::default();
    for round in 0..TIMES {
        let (former, late) = (queue.holder(), queue.pass_anyhow());
        lateness.normal.push(late);
        queue.joins(former);
        lines::stand(&cluster, 3);

        let nodes = [round % 5, (round + 2) % 5];
        let nodes = &nodes[..1 + round % 2];
        nodes.iter().for_each(|node| cluster[*node].kill());
        let former = queue.holder();
        lateness.faulty.push(queue.pass_anyhow());
        queue.joins(former);
        // Every other time it has forgotten everything, and is quarantined.
        for node in nodes {
            if round % 4 < 2 { cluster[*node].restart() } else { cluster[*node].restart_empty() }
        }
        all_ready(&observer);
        lines::stand(&cluster, 3);
    }
    println!("killed nodes: {lateness}");
    lateness.assert_each_within(POLL + ROOM);
    queue.drain();
}
