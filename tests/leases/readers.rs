//! Goal: a reader's lease is a lease: one round trip, renewed, restored and released as any other; several of one process have
//! it together, and stand in nobody's way here but a writer's.
//!
//! Method: virtual time, nodes that count what they are sent.

use std::{
    future::IntoFuture,
    task::Poll,
    time::{Duration, Instant},
};

use futures::future::join_all;
use quorlock::{ReadFuture, ReadLease, Redlock, node::MemoryNode};

use crate::{
    fixture::{Fixture, MS, SECOND},
    line::{poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);

fn read(world: &Fixture, redlock: &Redlock) -> ReadLease {
    world.machine.sim.block_on(redlock.read("r").into_future()).unwrap()
}

fn waits(redlock: &Redlock) -> ReadFuture {
    let mut future = redlock.read("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

fn got(future: &mut ReadFuture) -> ReadLease {
    match poll(future) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("it waits"),
    }
}

fn standing(world: &Fixture) -> usize {
    world.nodes.iter().filter(|node| node.has("r")).count()
}

#[test]
fn it_costs_as_many_commands_as_a_plain_lease_and_is_renewed() {
    let world = Fixture::new(TTL);
    let sent = world.sent();
    let (one, two) = (read(&world, &world.redlock), read(&world, &world.redlock));
    world.pass(MS);
    assert_eq!((world.sent() - sent, standing(&world)), (6, 3));
    world.pass(3 * TTL);
    assert!(one.check().is_ok() && two.check().is_ok());
    drop(one);
    world.pass(MS);
    assert_eq!(standing(&world), 3, "the other one has it");
    two.check().unwrap();
    drop(two);
    world.pass(MS);
    assert_eq!(standing(&world), 0);
}

#[test]
fn an_entry_that_a_node_has_lost_is_set_again_and_one_that_most_have_lost_is_lost() {
    let world = Fixture::new(TTL);
    let lease = read(&world, &world.redlock);
    world.pass(MS);
    world.nodes[0].delete("r");
    assert_eq!(standing(&world), 2);
    world.pass(TTL / 2);
    assert_eq!(standing(&world), 3);
    // It counts from then on.
    world.nodes[1].delete("r");
    world.pass(TTL / 2);
    lease.check().unwrap();
    world.nodes[..2].iter().for_each(|node| node.delete("r"));
    world.pass(TTL);
    assert!(lease.check().is_err());
    drop(lease);
    world.pass(MS);
    assert_eq!(standing(&world), 0, "nothing is left, also where it was restored");
}

#[test]
fn clones_are_one_lease_that_the_last_releases() {
    let world = Fixture::new(TTL);
    let lease = read(&world, &world.redlock);
    let other = lease.clone();
    world.pass(MS);
    assert_eq!((lease.owner(), lease.token()), (other.owner(), other.token()));
    world.machine.sim.block_on(lease.release()).unwrap();
    world.pass(MS);
    assert_eq!(standing(&world), 3);
    other.check().unwrap();
    world.machine.sim.block_on(other.release()).unwrap();
    world.pass(MS);
    assert_eq!(standing(&world), 0);
}

#[test]
fn readers_and_writers_of_one_process_and_others_wait_for_each_other() {
    for lines in [false, true] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let other = world.other_process(|it| it);
        let first = world.acquire("r");
        let mut readers = [waits(&world.redlock), waits(&world.redlock), waits(&other)];
        world.pass(500 * MS);
        let mut writer = waiter(&world, 60 * SECOND);
        world.pass(500 * MS);
        assert!(readers.iter_mut().all(|future| poll(future).is_pending()));
        let written = first.token().unwrap();
        drop(first);
        world.pass(5 * SECOND);
        // Where there is no line, the writer may have been the first.
        let mut write = None;
        if let Poll::Ready(answer) = poll(&mut writer) {
            assert!(!lines, "readers came before");
            drop(answer.unwrap());
            write = Some(());
            world.pass(5 * SECOND);
        }
        let leases = readers.each_mut().map(got);
        assert!(leases.iter().all(|lease| lease.token().covers(written)));
        if write.is_none() {
            assert!(poll(&mut writer).is_pending(), "it is read");
            // Nobody comes before a writer that waits.
            if lines {
                let mut late = world.redlock.try_read("r").into_future();
                assert!(poll(&mut late).is_pending());
                world.pass(MS);
                assert!(matches!(poll(&mut late), Poll::Ready(Err(error)) if error.is_contended()));
            }
            let last = leases.iter().map(ReadLease::token).max().unwrap();
            drop(leases);
            world.pass(5 * SECOND);
            let Poll::Ready(answer) = poll(&mut writer) else { panic!("it waits") };
            assert!(!last.covers(answer.unwrap().token().unwrap()));
        }
    }
}

#[test]
fn what_lingers_as_nobodys_is_given_back_to_readers() {
    let world = Fixture::with(TTL, |builder| builder.linger(TTL));
    drop(world.acquire("r"));
    world.pass(MS);
    assert_eq!(standing(&world), 3, "it is kept");
    let lease = read(&world, &world.redlock);
    lease.check().unwrap();
    drop(lease);
    world.pass(MS);
    assert_eq!(standing(&world), 0, "no reader's is");
}

#[test]
fn a_shutdown_ends_readers_too() {
    let world = Fixture::new(TTL);
    let lease = read(&world, &world.redlock);
    let mut waiting = {
        let _writer = waiter(&world, 60 * SECOND);
        waits(&world.redlock)
    };
    world.pass(100 * MS);
    let redlock = world.redlock.clone();
    drop(world.machine.sim.block_on(async move { redlock.shutdown().await }));
    assert!(lease.check().is_err());
    // It was let in before, or is told.
    drop(poll(&mut waiting));
    drop(waiting);
    drop(lease);
    world.pass(SECOND);
    assert_eq!(standing(&world), 0);
}

/// It was half a minute, by a look at each pair of them for each one that came or went.
#[tokio::test]
async fn two_thousand_readers_of_one_process_come_and_go_in_seconds() {
    let redlock = Redlock::connect([MemoryNode::new()]).await.unwrap();
    let begun = Instant::now();
    let all = join_all((0..2_000).map(|_| redlock.read("catalog").into_future())).await;
    assert_eq!(all.iter().filter(|lease| lease.is_ok()).count(), 2_000);
    join_all(all.into_iter().flatten().map(|lease| lease.release())).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(redlock.try_write("catalog").await.unwrap());
}
