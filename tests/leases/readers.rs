//! Goal: a reader's lease is a lease: one round trip, renewed, restored and released as any other; several of one
//! process hold it together, and keep out only writers here.
//!
//! Method: virtual time, nodes that count what they are sent.

use std::{
    future::IntoFuture,
    task::Poll,
    time::{Duration, Instant},
};

use futures::future::join_all;
use quorlock::{
    AcquireFuture, DowngradeError, LossReason, ReadLease, ReadToken, Redlock, Shared,
    node::MemoryNode,
};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{self, poll, waiter},
};

/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(120);
const TTL: Duration = Duration::from_secs(10);

fn read(world: &Fixture, redlock: &Redlock) -> ReadLease {
    world.machine.sim.block_on(redlock.read("r").into_future()).unwrap()
}

fn waits(redlock: &Redlock) -> AcquireFuture<Shared> {
    let mut future = redlock.read("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

fn got(future: &mut AcquireFuture<Shared>) -> ReadLease {
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

/// Otherwise its place would keep them out for as long as the readers inside renew.
#[test]
fn a_writer_that_gave_up_keeps_no_reader_out_also_where_what_it_said_is_lost() {
    for (of_a_set, comes_back) in [(false, false), (true, false), (false, true)] {
        let world = Fixture::new(TTL);
        world.keep_lines();
        let other = world.other_process(|it| it);
        let inside = read(&world, &other);
        let writes = || {
            let together = of_a_set.then(|| world.redlock.acquire_all(["a", "r"]));
            let request = together.unwrap_or_else(|| world.redlock.write("r"));
            request.wait(60 * SECOND).into_future()
        };
        let mut writer = writes();
        assert!(poll(&mut writer).is_pending());
        world.pass(SECOND);
        world.nodes.iter().for_each(|node| node.set(Manner::KeepsPlaces));
        drop(writer);
        world.pass(MS);
        world.nodes.iter().for_each(|node| node.set(Manner::Sound));
        let mut again = comes_back.then(|| {
            let mut writer = world.redlock.write("r").wait(60 * SECOND).into_future();
            assert!(poll(&mut writer).is_pending());
            world.pass(SECOND);
            writer
        });
        let mut reader = waits(&other);
        world.pass(3 * SECOND);
        if let Some(writer) = &mut again {
            // It is not taken for the one that gave up.
            assert!(poll(&mut reader).is_pending() && poll(writer).is_pending());
            drop(inside);
            world.pass(SECOND);
            assert!(matches!(poll(writer), Poll::Ready(Ok(_))));
            world.pass(SECOND);
        } else {
            inside.check().unwrap();
        }
        got(&mut reader).check().unwrap();
    }
}

#[test]
fn what_lingers_as_nobodys_is_given_back_to_readers() {
    let world = Fixture::with(TTL, |builder| builder.linger(TTL));
    drop(world.acquire("r"));
    world.pass(MS);
    assert_eq!(standing(&world), 3, "it is kept");
    let lease = world.machine.sim.block_on(world.redlock.try_read("r").into_future()).unwrap();
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

/// Two thousand on one resource took half a minute, and on two thousand resources a second, when each that came or went
/// cost a look at each pair. Both run by turns, since the machine may be busy.
#[tokio::test]
async fn two_thousand_readers_of_one_resource_cost_about_what_as_many_of_others_do() {
    let redlock = Redlock::connect([MemoryNode::new()]).await.unwrap();
    let mut took = [Duration::ZERO; 2];
    for turn in 0..6 {
        let name = |n: usize| if turn % 2 == 0 { "one".to_owned() } else { format!("{turn}:{n}") };
        let begun = Instant::now();
        let all =
            join_all((0..2_000).map(|n| redlock.read(name(n)).wait(SOON).into_future())).await;
        assert_eq!(all.iter().filter(|lease| lease.is_ok()).count(), 2_000);
        join_all(all.into_iter().flatten().map(|lease| lease.release())).await;
        took[turn % 2] += begun.elapsed();
    }
    println!("of one resource {:?}, each of another {:?}", took[0], took[1]);
    assert!(took[0] < 12 * took[1], "{took:?}");
    drop(redlock.try_write("one").await.unwrap());
}

/// On how many nodes the key is a readers' key.
fn shared(world: &Fixture) -> usize {
    let is_shared =
        |value: Option<Vec<u8>>| value.is_some_and(|value| value.starts_with(b"shared"));
    world.nodes.iter().filter(|node| is_shared(node.value("r"))).count()
}

#[test]
fn a_writer_goes_on_as_a_reader_at_once_and_others_may_read_when_the_nodes_have_followed() {
    for lines in [false, true] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let other = world.other_process(|it| it);
        let writer = world.acquire("r");
        let (written, signal) = (writer.token().unwrap(), writer.signal());
        let mut readers = [waits(&world.redlock), waits(&other)];
        world.pass(SECOND);
        let mut next = waiter(&world, 60 * SECOND);
        world.pass(SECOND);
        assert!(readers.iter_mut().all(|future| poll(future).is_pending()));
        let lease = writer.downgrade().unwrap();
        assert_eq!(signal.check().unwrap_err().reason, LossReason::Released, "of the writer");
        lease.check().unwrap();
        assert_eq!(lease.token(), written.into());
        world.pass(5 * SECOND);
        assert_eq!(shared(&world), 3);
        if lines {
            // Those who came before the next writer.
            let beside = readers.each_mut().map(got);
            assert!(beside.iter().all(|one| one.token() >= lease.token()));
            assert!(poll(&mut next).is_pending(), "it is read");
            let last = beside.iter().map(ReadLease::token).max().unwrap();
            drop(beside);
            world.pass(5 * SECOND);
            assert!(poll(&mut next).is_pending(), "by one who wrote");
            lease.check().unwrap();
            world.machine.sim.block_on(lease.release()).unwrap();
            world.pass(5 * SECOND);
            let Poll::Ready(next) = poll(&mut next) else { panic!("it waits") };
            assert!(!last.covers(next.unwrap().token().unwrap()));
        } else {
            assert!(readers.iter_mut().any(|future| !poll(future).is_pending()));
            drop((readers, lease));
            world.pass(5 * SECOND);
            drop(next);
        }
        world.pass(5 * SECOND);
        assert_eq!(standing(&world), 0);
    }
}

#[test]
fn a_node_that_has_not_followed_follows_later_or_is_released_on_as_it_is() {
    for follows in [true, false] {
        let world = Fixture::new(TTL);
        let writer = world.acquire("r");
        world.pass(MS);
        world.nodes[0].set(Manner::Deaf);
        let lease = writer.downgrade().unwrap();
        world.pass(SECOND);
        assert_eq!((standing(&world), shared(&world)), (3, 2));
        world.nodes[0].set(Manner::Sound);
        if follows {
            world.pass(TTL / 2);
            assert_eq!(shared(&world), 3);
        }
        lease.check().unwrap();
        world.machine.sim.block_on(lease.release()).unwrap();
        world.pass(SECOND);
        assert_eq!(standing(&world), 0);
    }
}

#[test]
fn the_rest_of_the_tokens_of_a_writer_that_reads_is_nobodys() {
    for waits_before in [true, false] {
        let world = Fixture::with(TTL, |builder| builder.linger(TTL));
        world.keep_lines();
        let other = world.other_process(|it| it);
        let hot = line::hot(&world);
        let written = hot.token().unwrap();
        let mut reader = waits_before.then(|| waits(&other));
        world.pass(100 * MS);
        let mut next = waiter(&world, 60 * SECOND);
        let lease = hot.downgrade().unwrap();
        world.pass(SECOND);
        let seen = reader.as_mut().map(|reader| got(reader).token());
        // The waiter here stands in the line on the nodes by now, so that no other comes before it.
        let mut late = other.try_read("r").into_future();
        assert!(poll(&mut late).is_pending());
        world.pass(MS);
        assert!(matches!(poll(&mut late), Poll::Ready(Err(error)) if error.is_contended()));
        drop(lease);
        world.pass(5 * SECOND);
        let next = line::got(&mut next).unwrap().token().unwrap();
        assert!(!ReadToken::from(written).covers(next));
        assert!(seen.is_none_or(|seen| seen > written.into() && !seen.covers(next)));
    }
}

#[test]
fn an_extension_that_was_under_way_is_no_sign_of_a_loss() {
    let world = Fixture::new(TTL);
    let writer = world.acquire("r");
    world.pass(MS);
    // Sent before that of the reader, and executed behind it.
    world.set_all(Manner::Slow(20 * MS));
    {
        let mut extension = Box::pin(writer.extend());
        assert!(poll(&mut extension).is_pending());
        world.pass(MS);
    }
    world.set_all(Manner::Sound);
    let lease = writer.downgrade().unwrap();
    world.pass(10 * MS);
    assert_eq!(shared(&world), 3);
    world.pass(3 * TTL);
    lease.check().unwrap();
}

#[test]
fn what_cannot_be_shared_is_given_back_as_it_was() {
    let world = Fixture::new(TTL);
    let set = world.redlock.acquire_all(["a", "b"]).into_future();
    let set = world.machine.sim.block_on(set).unwrap();
    let refused = set.downgrade().unwrap_err();
    assert!(matches!(refused, DowngradeError::Several { resources: 2, .. }));
    refused.into_lease().check().unwrap();
    let semaphore = world.redlock.semaphore("s", 2).unwrap();
    let permit = world.machine.sim.block_on(semaphore.acquire().into_future()).unwrap();
    let refused = permit.into_lease().downgrade().unwrap_err();
    assert!(matches!(refused, DowngradeError::Permit { .. }));
    refused.into_lease().check().unwrap();
    let lost = world.acquire("r");
    world.nodes[..2].iter().for_each(|node| node.delete("r"));
    world.pass(TTL);
    assert!(lost.check().is_err());
    let lost = lost.downgrade().unwrap();
    assert!(lost.check().is_err(), "no lease comes back");
    drop(lost);
    world.pass(SECOND);
    assert_eq!(standing(&world), 0);
}

#[test]
fn it_says_of_itself_what_a_plain_lease_does() {
    let world = Fixture::new(TTL);
    let request = world.redlock.read("r").heartbeat_within(2 * SECOND);
    let lease = world.machine.sim.block_on(request.into_future()).unwrap();
    let signal = lease.signal();
    for _ in 0..30 {
        world.pass(SECOND);
        lease.heartbeat();
        assert_eq!(lease.ttl(), TTL);
        assert!(lease.is_valid() && !signal.is_lost());
        let left = lease.validity();
        assert!(TTL / 4 < left && left < TTL, "{left:?}");
        assert_eq!(signal.validity(), left);
    }
    assert_eq!(format!("{signal:?}"), "LeaseSignal { lost: false, .. }");
    let told = format!("{lease:?}");
    assert!(told.starts_with("ReadLease { resource: Resource(r), owner: "), "{told}");
    world.pass(3 * TTL);
    assert_eq!(lease.check().unwrap_err().reason, LossReason::NoHeartbeat);
    assert!(!lease.is_valid() && signal.is_lost());
    assert_eq!((lease.validity(), signal.validity()), (Duration::ZERO, Duration::ZERO));
    assert_eq!(format!("{signal:?}"), "LeaseSignal { lost: true, .. }");
}
