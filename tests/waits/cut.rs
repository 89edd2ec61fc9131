//! Connections closed and lines lost during a wait: grants are late by one poll at most, and no waiter is lost.

use std::{thread, time::Duration};

use quorlock_harness::{Server, all_ready, connected, eventually, redis};

use super::{
    POLL, ROOM, SECOND, SOON, lines,
    process::now,
    queue::{Queue, in_line},
    settings,
};

const TIMES: usize = 8;
const TTL: Duration = Duration::from_secs(20);

/// Hand-overs with a fault right before each other one, of which each may be late by one poll.
fn each_late_by_one_poll(what: &str, fault: impl Fn(&Queue<'_>)) {
    in_line(4, TTL, |queue| {
        let lateness = queue.by_turns(what, TIMES, Queue::turn, |queue, _| {
            fault(queue);
            queue.turn_anyhow()
        });
        lateness.assert_each_within(POLL + ROOM);
    });
}

#[test]
fn closed_connections_cost_one_poll_at_most() {
    each_late_by_one_poll("CLIENT KILL of every connection", |queue| {
        // All clients have come back since the last time, and so has the one that asks here.
        let connected = |server: &Server| {
            let info = server.run(&["INFO", "clients"]);
            let info: String = redis::from_redis_value(info).unwrap();
            let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
            line.unwrap().trim().parse::<usize>().unwrap()
        };
        eventually("all are connected", SOON, || {
            queue.cluster.iter().all(|node| connected(node) > 4)
        });
        let closed: Vec<u64> = queue.cluster.iter().map(Server::kill_clients).collect();
        assert!(closed.iter().all(|closed| *closed >= 4), "{closed:?}");
    });
}

#[test]
fn lines_that_are_removed_cost_one_poll_at_most() {
    each_late_by_one_poll("DEL of every line", |queue| {
        assert!(lines::remove(queue.cluster) >= 5, "there was a line on each node");
    });
}

/// They stand in line again, by the tickets that they have.
#[test]
fn those_whose_lines_were_removed_stand_in_the_old_order_again() {
    in_line(5, TTL, |queue| {
        // Of so many hand-overs a quarter may be out of turn, as where the head is slow for a moment.
        for _ in 0..4 {
            assert!(lines::remove(queue.cluster) >= 5);
            queue.all_stand();
            for _ in 0..4 {
                queue.turn();
            }
        }
    });
}

/// Two of five nodes forget everything: the locks, the lines, and that they may vote.
#[test]
fn a_minority_that_is_flushed_costs_one_poll_at_most() {
    let ttl = SECOND;
    in_line(4, ttl, |queue| {
        let observer = connected(settings(&queue.cluster.urls(), ttl));
        let fault = "FLUSHALL of two of five";
        let lateness = queue.by_turns(fault, TIMES / 2, Queue::turn_anyhow, |queue, round| {
            [round % 5, (round + 1) % 5].into_iter().for_each(|node| queue.cluster[node].flush());
            let former = queue.holder();
            let late = queue.pass_anyhow();
            queue.joins(former);
            // They have noticed, and vote again after the quarantine.
            thread::sleep(2 * SECOND);
            all_ready(&observer);
            late
        });
        lateness.assert_each_within(POLL + ROOM);
    });
}

/// All nodes forget everything. The lease is lost, nobody may vote, and after the quarantine the next has it.
#[test]
fn a_flush_of_all_nodes_costs_a_quarantine_and_one_poll_at_most() {
    let ttl = SECOND;
    in_line(4, ttl, |queue| {
        let flushed = now();
        queue.cluster.flush();
        // A look every 500 ms finds it, and then the longest ttl, a tenth of it, and two node timeouts.
        let quarantine = SECOND / 2 + ttl + ttl / 10 + SECOND;
        queue.order.pop_front();
        let passed = queue.next_grant();
        let after = passed.at - flushed;
        let late = after.saturating_sub(quarantine);
        println!("FLUSHALL of all: {after:?} after it, {late:?} after the quarantine");
        assert!(late <= POLL + ROOM, "{late:?}");
        queue.has_got_it(passed.to);
    });
}
