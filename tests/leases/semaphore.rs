//! Goal: a permit is a lease on one slot, had in one round trip where one is free; never more are held than there are;
//! a waiter, here or in another process, has one as soon as any slot is free, in the order of arrival; and waiters that
//! go away leave nothing.
//!
//! Method: virtual time, nodes that count what they are sent, hang, and lose keys.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{
    AcquireError, AcquireFuture, Permit, PermitAcquire, Redlock, RunError, Semaphore, Slot,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::fixture::{Fixture, MS, Manner, SECOND};

const TTL: Duration = Duration::from_secs(10);

fn semaphore(redlock: &Redlock, permits: usize) -> Semaphore {
    redlock.semaphore("s", permits).unwrap()
}

fn got(world: &Fixture, request: PermitAcquire) -> Result<Permit, AcquireError> {
    world.machine.sim.block_on(request.into_future())
}

type PermitFuture = AcquireFuture<Slot>;

fn poll(future: &mut PermitFuture) -> Poll<Result<Permit, AcquireError>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn waiting(semaphore: &Semaphore) -> PermitFuture {
    let mut future = semaphore.acquire().wait(60 * SECOND).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

#[track_caller]
fn ready(future: &mut PermitFuture) -> Permit {
    match poll(future) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("it waits"),
    }
}

/// On how many nodes each of so many slots stands.
fn standing(world: &Fixture, permits: usize) -> Vec<usize> {
    let on = |slot| world.nodes.iter().filter(|node| node.has(&format!("s/{slot}"))).count();
    (0..permits).map(on).collect()
}

#[test]
fn a_permit_costs_as_many_commands_as_a_lease() {
    let world = Fixture::new(TTL);
    let sent = world.sent();
    let permit = got(&world, semaphore(&world.redlock, 10).acquire()).unwrap();
    world.pass(MS);
    assert_eq!(world.sent() - sent, 3);
    world.pass(TTL);
    permit.check().unwrap();
    let renewals = world.nodes.iter().map(|node| node.extensions()).sum::<usize>();
    assert_eq!(world.sent() - sent, 3 + renewals);
    assert_eq!(permit.resource().to_string(), format!("s/{}", permit.slot()));
    drop(permit);
    world.pass(MS);
    assert_eq!(world.sent() - sent, 6 + renewals);
    assert_eq!(standing(&world, 10), [0; 10]);
}

#[test]
fn those_of_one_process_ask_beside_each_other_while_nobody_waits() {
    let world = Fixture::new(TTL);
    let semaphore = semaphore(&world.redlock, 8);
    let mut all: Vec<PermitFuture> = (0..8).map(|_| waiting(&semaphore)).collect();
    world.pass(5 * MS);
    let mut slots: Vec<u8> = all.iter_mut().map(|it| ready(it).slot()).collect();
    slots.sort_unstable();
    // They are dropped as they come, so that one may come back: no more than there are in any case.
    assert!(slots.iter().all(|slot| *slot < 8));
    world.pass(5 * MS);
    assert_eq!(standing(&world, 8), [0; 8]);
}

#[test]
fn never_more_are_held_than_there_are_and_all_are_served_in_every_process() {
    for (seed, lines) in [(1, false), (2, true), (3, true), (4, false)] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let others = [(); 2].map(|()| world.other_process(|it| it.ttl(TTL)));
        let all: Vec<Semaphore> =
            [&world.redlock, &others[0], &others[1]].map(|it| semaphore(it, 3)).into();
        let mut random = StdRng::seed_from_u64(seed);
        let mut waiting: Vec<PermitFuture> = Vec::new();
        let mut held: Vec<Permit> = Vec::new();
        let (mut served, mut most) = (0, 0);
        for _ in 0..4_000 {
            match random.random_range(0..4) {
                0 if waiting.len() < 12 => {
                    let mut future =
                        all[random.random_range(0..3)].acquire().wait(60 * SECOND).into_future();
                    assert!(poll(&mut future).is_pending());
                    waiting.push(future);
                }
                1 if !waiting.is_empty() && random.random_ratio(1, 8) => {
                    drop(waiting.swap_remove(random.random_range(0..waiting.len())));
                }
                2 if !held.is_empty() => {
                    drop(held.swap_remove(random.random_range(0..held.len())));
                }
                _ => world.pass(MS),
            }
            let mut index = 0;
            while index < waiting.len() {
                if let Poll::Ready(answer) = poll(&mut waiting[index]) {
                    held.push(answer.unwrap());
                    served += 1;
                    drop(waiting.swap_remove(index));
                } else {
                    index += 1;
                }
            }
            most = most.max(held.len());
            assert!(held.len() <= 3, "seed {seed}");
            let mut slots: Vec<u8> = held.iter().map(Permit::slot).collect();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), held.len(), "seed {seed}");
        }
        assert!(served > 200 && most == 3, "seed {seed}: {served} {most}");
        drop((held, waiting));
        world.pass(SECOND);
        assert_eq!(standing(&world, 3), [0; 3], "seed {seed}");
    }
}

#[test]
fn who_came_first_here_is_served_first_and_whoever_leaves_is_passed_over() {
    for lines in [false, true] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let semaphore = semaphore(&world.redlock, 2);
        let mut held = [(); 2].map(|()| Some(got(&world, semaphore.acquire()).unwrap()));
        let mut waiting: Vec<PermitFuture> = (0..6)
            .map(|_| {
                let future = waiting(&semaphore);
                world.pass(20 * MS);
                future
            })
            .collect();
        drop(waiting.remove(1));
        drop(waiting.remove(3));
        for (turn, mut next) in waiting.into_iter().enumerate() {
            assert!(poll(&mut next).is_pending());
            held[turn % 2] = None;
            world.pass(20 * MS);
            held[turn % 2] = Some(ready(&mut next));
        }
    }
}

#[test]
fn one_that_waits_elsewhere_is_woken_by_whichever_slot_is_released() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let (one, other) = (semaphore(&world.redlock, 3), world.other_process(|it| it.ttl(TTL)));
    let other = semaphore(&other, 3);
    for slot in 0..3 {
        let mut held: Vec<Permit> = (0..3).map(|_| got(&world, one.acquire()).unwrap()).collect();
        let mut future = waiting(&other);
        world.pass(100 * MS);
        let sent = world.sent();
        held.retain(|permit| permit.slot() != slot);
        world.pass(5 * MS);
        assert_eq!(ready(&mut future).slot(), slot);
        // The release, the round of the one that was woken, and its own release.
        world.pass(5 * MS);
        assert!(world.sent() - sent <= 12, "{}", world.sent() - sent);
        drop(held);
        world.pass(10 * MS);
    }
}

#[test]
fn what_a_node_picks_late_is_released_again_and_the_slot_that_was_won_filled_in() {
    let world = Fixture::new(TTL);
    let semaphore = semaphore(&world.redlock, 2);
    for turn in 0..12 {
        // Another program has taken one slot on one node, so that the node picks the other.
        let odd = &world.nodes[turn % 3];
        odd.hold("s/0");
        if turn % 2 == 0 {
            odd.hang();
        }
        let permit = got(&world, semaphore.acquire()).unwrap();
        // A slot whose place is taken is filled in once more, a moment later, and not again.
        world.pass(30 * MS);
        if turn % 2 == 0 {
            odd.resume();
            world.pass(30 * MS);
        }
        odd.delete("s/0");
        world.pass(5 * MS);
        let mut expected = [0; 2];
        let slot = usize::from(permit.slot());
        // Where the foreign key stood at the slot that was won it could not be filled in.
        expected[slot] = if slot == 0 { 2 } else { 3 };
        assert_eq!(standing(&world, 2), expected, "{turn}");
        permit.check().unwrap();
        drop(permit);
        world.pass(20 * MS);
        assert_eq!(standing(&world, 2), [0; 2], "{turn}");
    }
}

/// Where a node has picked the other slot: long before the first renewal, which would find the key missing there.
#[test]
fn a_slot_is_filled_in_as_soon_as_what_was_picked_in_its_place_is_released() {
    let world = Fixture::new(TTL);
    let semaphore = semaphore(&world.redlock, 2);
    let mut filled = 0;
    for _ in 0..16 {
        world.nodes[1].hold("s/0");
        let permit = got(&world, semaphore.acquire()).unwrap();
        world.nodes[1].delete("s/0");
        let picks_another = permit.slot() == 0;
        world.pass(50 * MS);
        if picks_another {
            filled += 1;
            assert_eq!(standing(&world, 2), [3, 0]);
        }
        world.pass(4 * TTL);
        let mut expected = [0; 2];
        expected[usize::from(permit.slot())] = 3;
        assert_eq!(standing(&world, 2), expected);
        drop(permit);
        world.pass(20 * MS);
    }
    assert!(filled > 0);
}

#[test]
fn a_caller_that_goes_away_at_any_moment_leaves_nothing() {
    for lines in [false, true] {
        for taken in 0..=2 {
            for step in 0..60 {
                let world = Fixture::new(TTL);
                if lines {
                    world.keep_lines();
                }
                let other = world.other_process(|it| it.ttl(TTL));
                let other = semaphore(&other, 2);
                let held: Vec<Permit> =
                    (0..taken).map(|_| got(&world, other.acquire()).unwrap()).collect();
                let semaphore = semaphore(&world.redlock, 2);
                let future = waiting(&semaphore);
                let second = waiting(&semaphore);
                (0..step).for_each(|_| _ = world.machine.sim.step());
                drop(future);
                (0..step % 7).for_each(|_| _ = world.machine.sim.step());
                drop(second);
                drop(held);
                world.pass(200 * MS);
                assert_eq!(standing(&world, 2), [0; 2], "lines {lines}, {taken}, {step}");
                // The next two find both permits free.
                let both = [(); 2].map(|()| got(&world, semaphore.try_acquire()).unwrap());
                drop(both);
            }
        }
    }
}

#[test]
fn a_close_turns_those_away_who_wait_and_a_quorum_that_is_gone_is_told() {
    let world = Fixture::new(TTL);
    let semaphore = semaphore(&world.redlock, 1);
    let held = got(&world, semaphore.acquire()).unwrap();
    let mut all: Vec<PermitFuture> = (0..3).map(|_| waiting(&semaphore)).collect();
    world.pass(50 * MS);
    let busy = got(&world, semaphore.try_acquire()).unwrap_err();
    assert!(busy.is_contended(), "{busy}");
    let closing = world.redlock.clone();
    drop(held);
    world.pass(20 * MS);
    let _held = ready(&mut all[0]);
    let closed = world.machine.sim.block_on(async move { closing.close().await });
    assert_eq!(closed.unwrap().held, 1);
    for future in &mut all[1..] {
        assert!(matches!(poll(future), Poll::Ready(Err(AcquireError::Closed))));
    }
}

/// Twelve clients for ten permits: a released permit goes to a waiter at once, and to each in turn.
#[test]
fn a_permit_that_is_released_is_in_use_again_at_once_while_anybody_waits() {
    const CLIENTS: usize = 12;
    let world = Fixture::new(TTL);
    world.keep_lines();
    let redlocks: Vec<Redlock> =
        (0..CLIENTS).map(|_| world.other_process(|it| it.ttl(TTL).wait(60 * SECOND))).collect();
    let all: Vec<Semaphore> = redlocks.iter().map(|it| semaphore(it, 10)).collect();
    let mut random = StdRng::seed_from_u64(7);
    let mut waiting: Vec<Option<PermitFuture>> = (0..CLIENTS).map(|_| None).collect();
    let mut held: Vec<Option<(Permit, u32)>> = (0..CLIENTS).map(|_| None).collect();
    let (mut used, mut got) = (0, [0_usize; CLIENTS]);
    let (steps, sent) = (6_000_u32, world.sent());
    for now in 0..steps {
        for client in 0..CLIENTS {
            if held[client].as_ref().is_some_and(|(_, until)| *until <= now) {
                held[client] = None;
            }
            if held[client].is_none() {
                let future =
                    waiting[client].get_or_insert_with(|| all[client].acquire().into_future());
                if let Poll::Ready(permit) = poll(future) {
                    waiting[client] = None;
                    got[client] += 1;
                    held[client] = Some((permit.unwrap(), now + random.random_range(40..80)));
                }
            }
        }
        used += held.iter().flatten().count();
        world.pass(MS);
    }
    let share = used as f64 / f64::from(steps * 10);
    let (sum, most) = (got.iter().sum::<usize>(), got.iter().max().unwrap());
    let each = (world.sent() - sent) as f64 / (3 * sum) as f64;
    println!("in use for {:.1} %; {got:?}; {each:.2} commands a grant and node", 100.0 * share);
    assert!(share > 0.95, "{share}");
    assert!(got.iter().all(|got| 10 * got >= 8 * most), "{got:?}");
}

#[test]
fn work_runs_under_a_permit_which_is_released_behind_it_and_is_dropped_when_that_is_lost() {
    let world = Fixture::new(TTL);
    let semaphore = semaphore(&world.redlock, 1);
    let slot = world.machine.sim.block_on(semaphore.acquire().run(async |permit| permit.slot()));
    assert_eq!(slot.unwrap(), 0);
    let request = semaphore.try_acquire().ttl(SECOND).without_renewal();
    let ran = world.machine.sim.block_on(request.run(async |_| std::future::pending::<()>().await));
    assert!(matches!(ran, Err(RunError::Lost(_))), "{ran:?}");
    drop(got(&world, semaphore.try_acquire()).unwrap());
}

/// `s/` is no slot: a lease on it neither waits for the waiters for permits nor takes their place.
#[test]
fn a_lease_on_a_name_that_looks_like_the_line_of_a_semaphore_has_nothing_to_do_with_it() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let other = world.other_process(|it| it.ttl(TTL));
    let (one, two) = (semaphore(&world.redlock, 1), semaphore(&other, 1));
    let held = got(&world, one.acquire()).unwrap();
    let mut here = waiting(&one);
    world.pass(50 * MS);
    let mut there = waiting(&two);
    world.pass(50 * MS);
    let sim = &world.machine.sim;
    for redlock in [&world.redlock, &other] {
        for name in ["s/", "s"] {
            let lease = sim.block_on(redlock.try_acquire(name).into_future()).unwrap();
            let mut next = redlock.acquire(name).wait(SECOND).into_future();
            assert!(Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            world.pass(MS);
            drop(next);
            drop(lease);
            world.pass(MS);
        }
    }
    // Their places are what they were: the first is served first, and at once.
    let sent = world.sent();
    drop(held);
    world.pass(5 * MS);
    let first = ready(&mut here);
    assert!(poll(&mut there).is_pending());
    assert!(world.sent() - sent <= 9, "{}", world.sent() - sent);
    drop(first);
    world.pass(5 * MS);
    drop(ready(&mut there));
}

/// It is woken when the release is sent, which its own round follows on every connection.
#[test]
fn whoever_is_next_here_has_a_permit_one_round_trip_after_the_release() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let semaphore = semaphore(&world.redlock, 1);
    let mut held = got(&world, semaphore.acquire()).unwrap();
    let come = |_| {
        let future = waiting(&semaphore);
        world.pass(50 * MS);
        future
    };
    let mut all: Vec<PermitFuture> = (0..4).map(come).collect();
    world.set_all(Manner::Far(10 * MS));
    world.pass(100 * MS);
    for next in &mut all {
        assert!(poll(next).is_pending());
        let sent = world.sent();
        drop(held);
        world.pass(11 * MS);
        held = ready(next);
        // The release and its round; the next waiter asks, takes its place in the line, and waits.
        world.pass(50 * MS);
        assert!(world.sent() - sent <= 12, "{}", world.sent() - sent);
    }
    held.check().unwrap();
}
