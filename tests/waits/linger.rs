//! Grants that linger: taken again without a command, given back when another asks, and not left behind by a process
//! that ends.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock::Redlock;
use quorlock_harness::{Cluster, connected, eventually};

use super::{
    MS, POLL, RESOURCE, ROOM, SECOND, SOON, admitted, lines,
    process::Event,
    queue::{Lateness, Queue, expiry},
    settings,
};

/// Far longer than any of these tests.
const TTL: Duration = Duration::from_secs(60);
const LINGER: Duration = Duration::from_secs(50);

fn client(cluster: &Cluster) -> Redlock {
    connected(settings(&cluster.urls(), TTL))
}

/// Takes it and lets it linger: no caller has the lease, and its key stands on the nodes.
fn lingers(redlock: &Redlock, cluster: &Cluster) {
    let lease = redlock.acquire(RESOURCE).linger(LINGER).blocking().unwrap();
    lease.blocking_release().unwrap();
    assert!(cluster.locks_left().len() >= 3, "it is kept");
}

/// Over and over, by the same process, with tokens that rise.
#[test]
fn a_lingering_grant_is_taken_again_without_a_command() {
    const TIMES: u64 = 600;
    let cluster = admitted(TTL);
    let redlock = client(&cluster);
    lingers(&redlock, &cluster);
    let calls = || -> u64 { cluster.iter().map(|server| server.command_calls("evalsha")).sum() };
    let (before, mut token) = (calls(), None);
    for _ in 0..TIMES {
        let lease = redlock.acquire(RESOURCE).linger(LINGER).blocking().unwrap();
        assert!(lease.is_valid());
        let next = lease.token().ok();
        assert!(next > token, "{next:?} after {token:?}");
        token = next;
        lease.blocking_release().unwrap();
    }
    let each = (calls() - before) as f64 / (TIMES * cluster.len() as u64) as f64;
    println!("{TIMES} times the same resource: {each:.3} commands per grant and node");
    // One new range in 64, and its release and acquire.
    assert!(each <= 0.1, "{each:.3}");
    redlock.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

/// A client that asks gets it like a released one, and does not wait for the end of the linger.
#[test]
fn a_lingering_grant_is_given_back_to_whoever_asks() {
    let cluster = admitted(TTL);
    let (one, two) = (client(&cluster), client(&cluster));
    let mut lateness = Lateness::default();
    for turn in 0..20 {
        let (keeps, asks) = if turn % 2 == 0 { (&one, &two) } else { (&two, &one) };
        // For comparison, one that is released right when the other waits for it.
        let lease = keeps.acquire(RESOURCE).blocking().unwrap();
        thread::scope(|scope| {
            let waiting =
                scope.spawn(|| (asks.acquire(RESOURCE).blocking().unwrap(), Instant::now()));
            lines::stand(&cluster, 1);
            let ended = Instant::now();
            lease.blocking_release().unwrap();
            let (next, at) = waiting.join().unwrap();
            lateness.normal.push(at - ended);
            next.blocking_release().unwrap();
        });
        // A client that stands in line on a node is not kept waiting, also if it has just had the lease.
        lines::nothing_left(&cluster);

        lingers(keeps, &cluster);
        let asked = Instant::now();
        let next = asks.acquire(RESOURCE).blocking().unwrap();
        lateness.faulty.push(asked.elapsed());
        next.blocking_release().unwrap();
        eventually("it is free", SOON, || cluster.locks_left().is_empty());
    }
    println!("asked for while it lingers: {lateness}");
    lateness.assert_within(10 * MS);
    lateness.assert_each_within(POLL + ROOM);
    for redlock in [one, two] {
        redlock.blocking_close().unwrap();
    }
    lines::nothing_left(&cluster);
}

/// Clients that do not stand in line are told that it is held, and do not get it.
#[test]
fn a_lingering_grant_ends_by_itself() {
    let cluster = admitted(TTL);
    let redlock = client(&cluster);
    let lease = redlock.acquire(RESOURCE).linger(SECOND).blocking().unwrap();
    let ended = Instant::now();
    lease.blocking_release().unwrap();
    assert!(cluster.locks_left().len() >= 3, "it is kept");
    eventually("it is given back", SOON, || cluster.locks_left().is_empty());
    let after = ended.elapsed();
    assert!(after >= SECOND / 2, "it was not kept: {after:?}");
    redlock.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

/// It must be gone when a close or a shutdown returns: the test waits for nothing.
#[test]
fn a_close_and_a_shutdown_give_back_what_lingers_before_they_return() {
    let cluster = admitted(TTL);
    let other = client(&cluster);
    for (what, end) in [
        (
            "close",
            (|redlock: &Redlock| assert_eq!(redlock.blocking_close().unwrap().held, 0))
                as fn(&Redlock),
        ),
        ("shutdown", |redlock| assert_eq!(redlock.blocking_shutdown().unwrap().released, 0)),
    ] {
        let redlock = client(&cluster);
        for number in 0..20 {
            let name = format!("{what}:{number}");
            redlock.acquire(name).linger(LINGER).blocking().unwrap().blocking_release().unwrap();
        }
        lingers(&redlock, &cluster);
        end(&redlock);
        let lease = other.try_acquire(RESOURCE).blocking();
        lease.unwrap_or_else(|error| panic!("{what}: {error}")).blocking_release().unwrap();
        eventually(what, SOON, || cluster.locks_left().is_empty());
    }
    // So does the end of the last handle, though nobody waits for that.
    let redlock = client(&cluster);
    lingers(&redlock, &cluster);
    drop(redlock);
    eventually("it is given back when the client is dropped", SOON, || {
        cluster.locks_left().is_empty()
    });
    other.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}

/// It is not given back. No caller has the lease, and yet its keys stand for their ttl, like those of a holder.
#[test]
fn what_lingers_in_a_process_that_is_killed_costs_its_ttl_and_one_poll_at_most() {
    let ttl = 2 * SECOND;
    let cluster = admitted(ttl);
    let mut queue = Queue::of_nobody(&cluster, cluster.urls(), 2, ttl);
    queue.field.process(0).say("linger 7 50000");
    while !matches!(queue.field.next().event, Event::Ended { id: 7, .. }) {}
    queue.field.kill(0);
    assert!(cluster.locks_left().len() >= 3, "it is kept");
    let free = expiry(&cluster);
    queue.joins(1);
    let passed = queue.next_grant();
    let late = passed.at.saturating_sub(free);
    println!("killed while it lingered: late by {late:?} beyond the end of its keys");
    assert!(passed.at + 2 * MS >= free, "before the keys expired: {:?}", free - passed.at);
    assert!(late <= POLL + ROOM, "{late:?}");
    queue.drain();
}

/// It is renewed while it lingers for longer than its ttl, and given back in the end.
#[test]
fn what_lingers_for_longer_than_its_ttl_is_still_there_to_be_taken() {
    let ttl = SECOND;
    let cluster = admitted(ttl);
    let redlock = connected(settings(&cluster.urls(), ttl));
    let lease = redlock.acquire(RESOURCE).linger(LINGER).blocking().unwrap();
    let owner = lease.owner();
    lease.blocking_release().unwrap();
    thread::sleep(3 * ttl);
    assert!(cluster.locks_left().len() >= 3, "it is kept");
    let lease = redlock.acquire(RESOURCE).blocking().unwrap();
    assert_eq!(lease.owner(), owner, "the same grant");
    assert!(lease.is_valid());
    lease.blocking_release().unwrap();
    redlock.blocking_close().unwrap();
    lines::nothing_left(&cluster);
}
