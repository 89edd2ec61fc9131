//! Goal: a writer that reads on is a reader at once, whatever has become of it, and keeps all that it was asked for.
//!
//! Method: virtual time; nodes that do not answer, or forget; a runtime that panics at each of its calls.

use std::{
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::Duration,
};

use quorlock::{
    AcquireFuture, CloseError, FenceGate, LossReason, ReadLease, Redlock, Shared,
    node::{MemoryNode, NodeSpec},
    protocol::FencingToken,
    runtime::Runtime,
};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{self, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);

fn waits(redlock: &Redlock) -> AcquireFuture<Shared> {
    let mut future = redlock.read("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

fn standing(world: &Fixture) -> usize {
    world.nodes.iter().filter(|node| node.has("r")).count()
}

fn shared(world: &Fixture) -> usize {
    let is_shared =
        |value: Option<Vec<u8>>| value.is_some_and(|value| value.starts_with(b"shared"));
    world.nodes.iter().filter(|node| is_shared(node.value("r"))).count()
}

#[test]
fn whoever_waits_for_the_end_of_the_writer_is_told_at_once() {
    let world = Fixture::new(TTL);
    let writer = world.acquire("r");
    let (signal, told) = (writer.signal(), Arc::new(Mutex::new(None)));
    let of_task = Arc::clone(&told);
    world.machine.sim.spawn(Box::pin(async move {
        let reason = signal.lost().await.reason;
        *of_task.lock().unwrap() = Some(reason);
    }));
    world.pass(SECOND);
    assert_eq!(*told.lock().unwrap(), None);
    // The nodes are not needed for that.
    world.set_all(Manner::Deaf);
    let lease = writer.downgrade().unwrap();
    world.pass(MS);
    assert_eq!(*told.lock().unwrap(), Some(LossReason::Released));
    lease.check().unwrap();
}

/// A lost lease stays lost for its reason, and the writer's signal tells the same.
#[test]
fn a_writer_that_was_lost_stays_lost_for_the_same_reason() {
    for told in [true, false] {
        let world = Fixture::new(TTL);
        let writer = world.acquire("r");
        let signal = writer.signal();
        world.pass(MS);
        if told {
            world.set_all(Manner::Refusing);
            world.pass(TTL);
        } else {
            // The process stood still, and no code has looked at the lease since.
            world.machine.suspend(2 * TTL);
        }
        let reason = told.then(|| signal.check().unwrap_err().reason);
        let lease = writer.downgrade().unwrap();
        let lost = lease.check().unwrap_err().reason;
        assert!(lost.is_loss(), "{lost}");
        assert_eq!(signal.check().unwrap_err().reason, lost);
        assert!(reason.is_none_or(|reason| reason == lost));
        world.set_all(Manner::Sound);
        drop(lease);
        world.pass(SECOND);
        assert_eq!(standing(&world), 0);
    }
}

#[test]
fn what_was_asked_for_stays_so() {
    let world = Fixture::new(TTL);
    // Others are kept out for so long, whatever becomes of it.
    let request = world.redlock.acquire("r").hold_at_least(5 * SECOND);
    let lease = world.request(request).downgrade().unwrap();
    world.pass(SECOND);
    assert_eq!(shared(&world), 3);
    drop(lease);
    world.pass(3 * SECOND);
    assert_eq!(standing(&world), 3);
    world.pass(2 * SECOND);
    assert_eq!(standing(&world), 0);
    // Where nodes have not followed.
    let lease = world.request(world.redlock.acquire("r").hold_at_least(5 * SECOND));
    world.set_all(Manner::Deaf);
    drop(lease.downgrade().unwrap());
    world.pass(4 * SECOND);
    assert_eq!((standing(&world), shared(&world)), (3, 0));
    world.pass(2 * SECOND);
    assert_eq!(standing(&world), 0);
    world.set_all(Manner::Sound);
    // Beyond its limit nothing is extended.
    let lease = world.request(world.redlock.acquire("r").max_hold(2 * SECOND));
    world.pass(3 * SECOND);
    let lease = lease.downgrade().unwrap();
    world.pass(SECOND);
    assert_eq!((standing(&world), shared(&world)), (3, 0));
    lease.check().unwrap();
    world.pass(TTL);
    assert_eq!(lease.check().unwrap_err().reason, LossReason::MaxHold);
    drop(lease);
    // Nor is one renewed that was not to be, but for the extension by which the nodes follow.
    let lease = world.request(world.redlock.acquire("r").without_renewal()).downgrade().unwrap();
    world.pass(SECOND);
    assert_eq!(shared(&world), 3);
    world.pass(TTL);
    assert_eq!(lease.check().unwrap_err().reason, LossReason::NotRenewed);
}

#[test]
fn a_runtime_that_panics_meanwhile_leaves_a_reader_and_keeps_nobody_out() {
    let mut panicked = 0;
    for nth in 1..30 {
        let world = Fixture::new(TTL);
        world.keep_lines();
        let other = world.other_process(|it| it);
        let hot = line::hot(&world);
        let (mut next, mut reader) = (waiter(&world, 300 * SECOND), waits(&other));
        let signal = hot.signal();
        world.pass(SECOND);
        let mut lease = None;
        panicked += usize::from(world.machine.with_a_panic(nth, || {
            lease = catch_unwind(AssertUnwindSafe(|| hot.downgrade().unwrap())).ok();
        }));
        let lease = lease.unwrap_or_else(|| panic!("{nth}: it has unwound"));
        assert_eq!(signal.check().unwrap_err().reason, LossReason::Released, "{nth}");
        lease.check().unwrap();
        world.pass(TTL / 2);
        let Poll::Ready(beside) = poll(&mut reader) else { panic!("{nth}: nodes have followed") };
        drop((beside, lease));
        world.pass(TTL);
        let Poll::Ready(next) = poll(&mut next) else { panic!("{nth}: nobody has it") };
        drop(next);
        world.pass(SECOND);
        assert_eq!(standing(&world), 0, "{nth}");
    }
    println!("{panicked} panics");
    assert!(panicked > 3, "{panicked}");
}

#[test]
fn clones_of_it_are_one_reader_whichever_goes_first() {
    for order in 0..6 {
        let world = Fixture::new(TTL);
        let lease = world.acquire("r").downgrade().unwrap();
        let mut all = vec![lease.clone(), lease.clone(), lease];
        all.swap(0, order % 3);
        all.swap(1, 1 + order % 2);
        if order % 2 == 0 {
            world.pass(SECOND);
        }
        let mut extension = Box::pin(async { all[0].extend().await });
        assert!(poll(&mut extension).is_pending());
        drop(extension);
        for (left, one) in [2, 1, 0].into_iter().zip(all) {
            let one: ReadLease = one;
            one.check().unwrap();
            if order < 3 {
                drop(one)
            } else {
                drop(one.release())
            }
            world.pass(SECOND);
            assert_eq!(standing(&world), if left > 0 { 3 } else { 0 }, "{order}, {left}");
        }
    }
}

#[test]
fn nodes_that_forget_are_told_again_and_other_readers_stay_where_they_are() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it);
    let lease = world.acquire("r").downgrade().unwrap();
    world.pass(SECOND);
    let beside = world.machine.sim.block_on(other.read("r").into_future()).unwrap();
    for node in &world.nodes {
        node.delete("r");
        // Both renew, and are set again there.
        world.pass(TTL);
        assert_eq!(shared(&world), 3);
    }
    lease.check().unwrap();
    drop(lease);
    world.pass(SECOND);
    assert_eq!(shared(&world), 3);
    beside.check().unwrap();
    drop(beside);
    world.pass(SECOND);
    assert_eq!(standing(&world), 0);
}

/// From two threads at once: whichever thread is first, the lease is ended, and the shutdown waits for nothing.
#[test]
fn a_shutdown_beside_it_ends_the_lease() {
    const TIMES: usize = 1_000;
    for time in 0..TIMES {
        let node = MemoryNode::new();
        let redlock = Redlock::builder()
            .nodes([NodeSpec::from(&node)])
            .close_timeout(10 * SECOND)
            .blocking_connect()
            .unwrap();
        let lease = redlock.acquire("r").blocking().unwrap();
        let both = Arc::new(Barrier::new(2));
        let beside = {
            let (redlock, both) = (redlock.clone(), Arc::clone(&both));
            thread::spawn(move || {
                both.wait();
                redlock.blocking_shutdown()
            })
        };
        both.wait();
        let lease = lease.downgrade().unwrap();
        let ended = beside.join().unwrap();
        let ended = ended.unwrap_or_else(|error: CloseError| panic!("{time}: {error}"));
        assert_eq!(ended.released, 1, "{time}");
        assert!(lease.check().is_err());
        drop(lease);
    }
}

/// A waiter that wants to read need not wait for a poll: its node tells it, or here its own process does.
#[test]
fn readers_that_are_next_are_let_in_at_once() {
    for (lines, elsewhere) in [(true, true), (true, false), (false, false)] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let other = world.other_process(|it| it);
        let writer = world.acquire("r");
        let by = if elsewhere { &other } else { &world.redlock };
        let mut readers = [waits(by), waits(by), waits(by)];
        // So that it pauses for long between its tries.
        world.pass(SECOND);
        let mut next = waiter(&world, 60 * SECOND);
        world.pass(SECOND);
        let lease = writer.downgrade().unwrap();
        world.pass(2 * MS);
        for reader in &mut readers {
            let Poll::Ready(answer) = poll(reader) else { panic!("{lines} {elsewhere}: it waits") };
            answer.unwrap().check().unwrap();
        }
        assert!(poll(&mut next).is_pending());
        drop(lease);
    }
}

/// A command of the writer is executed after the downgrade: then one more node follows, or is released.
#[test]
fn a_restore_of_the_writer_that_comes_late_follows_or_is_undone() {
    for (released, slow) in
        [(false, 400 * MS), (true, 400 * MS), (true, 30 * MS), (true, 120 * MS), (false, 30 * MS)]
    {
        let world = Fixture::with(TTL, |builder| builder.node_timeout(SECOND / 2));
        let writer = world.acquire("r");
        world.pass(MS);
        world.nodes[0].delete("r");
        world.nodes[0].set(Manner::SlowToRestore(slow));
        // Step by step until it is under way.
        let before = world.nodes[0].sent();
        while world.nodes[0].sent() < before + 2 {
            world.pass(MS);
        }
        let lease = writer.downgrade().unwrap();
        world.pass(MS);
        world.nodes[0].set(Manner::Sound);
        assert_eq!(shared(&world), 2);
        if released {
            drop(lease.release());
            world.pass(3 * SECOND);
            assert_eq!(standing(&world), 0, "{slow:?}");
            continue;
        }
        world.pass(TTL);
        assert_eq!(shared(&world), 3, "{slow:?}");
        lease.check().unwrap();
        drop(lease);
        world.pass(SECOND);
        assert_eq!(standing(&world), 0);
    }
}

/// The writer's acquire is executed after the downgrade, on a node that hung.
#[test]
fn an_acquire_of_the_writer_that_comes_late_follows_or_is_undone() {
    for released in [false, true] {
        for hangs in [50 * MS, 300 * MS, 2 * SECOND] {
            let world = Fixture::new(TTL);
            world.nodes[0].hang();
            let lease = world.acquire("r").downgrade().unwrap();
            world.pass(hangs);
            if released {
                drop(lease.release());
                world.pass(50 * MS);
                world.nodes[0].resume();
                world.pass(10 * SECOND);
                assert_eq!(standing(&world), 0, "{hangs:?}");
                continue;
            }
            world.nodes[0].resume();
            world.pass(TTL);
            assert_eq!(shared(&world), 3, "{hangs:?}");
            lease.check().unwrap();
            drop(lease);
            world.pass(SECOND);
            assert_eq!(standing(&world), 0, "{hangs:?}");
        }
    }
}

/// Threads of two processes, all on one resource, in real time: no thread writes beside a reader or waits for ever, and
/// nothing is left.
#[test]
fn threads_that_write_read_on_and_read_never_meet_where_they_must_not() {
    const THREADS: usize = 6;
    const TIMES: usize = 150;
    let nodes = [(); 3].map(|()| MemoryNode::new());
    let handles = [false, true].map(|lingers| {
        let builder = Redlock::builder().nodes(nodes.iter().map(NodeSpec::from));
        let builder = builder.linger(if lingers { 50 * MS } else { Duration::ZERO });
        builder.wait(60 * SECOND).blocking_connect().unwrap()
    });
    // Writers count by a thousand.
    let (inside, newest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (redlock, inside) = (handles[number % 2].clone(), Arc::clone(&inside));
            let newest = Arc::clone(&newest);
            thread::spawn(move || {
                for time in 0..TIMES {
                    let reads = |lease: &ReadLease| {
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 1_000, "beside a writer");
                        let written = newest.load(Ordering::SeqCst);
                        assert!(lease.token() >= FencingToken::new(written).into());
                        thread::yield_now();
                        lease.check().unwrap();
                        assert_eq!(newest.load(Ordering::SeqCst), written, "others have written");
                        inside.fetch_sub(1, Ordering::SeqCst);
                    };
                    if (number + time).is_multiple_of(3) {
                        reads(&redlock.read("r").blocking().unwrap());
                        continue;
                    }
                    let writer = redlock.write("r").blocking().unwrap();
                    assert_eq!(inside.fetch_add(1_000, Ordering::SeqCst), 0, "not alone");
                    let token = writer.token().unwrap().get();
                    assert!(newest.swap(token, Ordering::SeqCst) < token);
                    thread::yield_now();
                    inside.fetch_sub(1_000, Ordering::SeqCst);
                    match time % 4 {
                        0 => drop(writer),
                        1 => reads(&writer.downgrade().unwrap()),
                        2 => {
                            let lease = writer.downgrade().unwrap();
                            let beside = lease.clone();
                            drop(lease);
                            reads(&beside);
                            beside.blocking_release().unwrap();
                        }
                        _ => {
                            let lease = writer.downgrade().unwrap();
                            lease.blocking_extend().unwrap();
                            reads(&lease);
                            // Those who wait come in beside it.
                            drop(redlock.try_read("r").blocking());
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    handles.iter().for_each(|redlock| assert_eq!(redlock.blocking_close().unwrap().held, 0));
    assert!(nodes.iter().all(|node| node.get("r").is_none()));
}

#[test]
fn a_store_takes_no_late_write_behind_the_first_read_and_no_read_behind_a_later_write() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it);
    let gate = FenceGate::new();
    let writer = world.acquire("r");
    let written = writer.token().unwrap();
    gate.admit(written).unwrap();
    let lease = writer.downgrade().unwrap();
    // What the writer has sent may still come, up to the first read.
    gate.admit(written).unwrap();
    gate.admit_read(lease.token()).unwrap();
    assert!(gate.admit(written).is_err());
    world.pass(MS);
    let beside = world.machine.sim.block_on(other.read("r").into_future()).unwrap();
    gate.admit_read(beside.token()).unwrap();
    gate.admit_read(lease.token()).unwrap();
    let tokens = [lease.token(), beside.token()];
    drop((lease, beside));
    world.pass(MS);
    let next = world.acquire("r").token().unwrap();
    gate.admit(next).unwrap();
    assert!(tokens.into_iter().all(|token| gate.admit_read(token).is_err()));
}
