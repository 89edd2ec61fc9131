//! Goal: a lease that is released while a waiter is in line here is that waiter's at once, without a command; each is a
//! lease of its own; and no grant is handed on that might not hold.
//!
//! Method: virtual time, nodes that count what they are sent; each end that a lease can have, with a waiter in line.

use std::{
    future::{Future, IntoFuture},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use quorlock::{Acquire, AcquireError, AcquireFuture, Lease, LossReason, ReleaseError, RunError};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND, watched},
    hostile::{begin, ended},
    line::{got, hot, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);

fn world() -> Fixture {
    Fixture::new(TTL)
}

/// A waiter for `r` with settings of its own.
fn asks(world: &Fixture, request: impl FnOnce(Acquire) -> Acquire) -> AcquireFuture {
    let mut future = request(world.redlock.acquire("r").wait(60 * SECOND)).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

fn keys(world: &Fixture) -> usize {
    world.nodes.iter().filter(|node| node.has("r")).count()
}

fn number(lease: &Lease) -> u64 {
    lease.token().unwrap().get()
}

/// It is not handed on: a round grants it to the next waiter, if at all, with another owner.
#[track_caller]
fn not_handed_on(world: &Fixture, held: Lease, mut next: AcquireFuture) -> Lease {
    let (owner, token) = (held.owner(), number(&held));
    drop(held);
    assert!(poll(&mut next).is_pending(), "it is handed on");
    world.pass(20 * MS);
    let next = got(&mut next).unwrap();
    assert!(next.owner() != owner && number(&next) > token);
    next
}

#[test]
fn a_release_is_the_next_ones_lease_at_once_and_is_confirmed_without_a_command() {
    let world = world();
    let mut held = hot(&world);
    let first = number(&held);
    let mut waiting: Vec<AcquireFuture> = (0..10).map(|_| waiter(&world, SECOND)).collect();
    let (sent, owner) = (world.sent(), held.owner());
    for (place, next) in waiting.iter_mut().enumerate() {
        let signal = held.signal();
        let mut release = held.release();
        let Poll::Ready(Ok(())) = poll(&mut release) else { panic!("it is confirmed") };
        let Poll::Ready(Ok(lease)) = poll(next) else { panic!("it is handed on") };
        assert_eq!(signal.check().unwrap_err().reason, LossReason::Released);
        assert!(lease.check().unwrap() > 9 * SECOND);
        assert_eq!((lease.owner(), number(&lease)), (owner, first + 1 + place as u64));
        held = lease;
    }
    assert_eq!(world.sent(), sent);
    held.release_and_pass(&world);
    assert_eq!(keys(&world), 0);
}

trait ReleaseAndPass {
    fn release_and_pass(self, world: &Fixture);
}

impl ReleaseAndPass for Lease {
    fn release_and_pass(self, world: &Fixture) {
        world.machine.sim.block_on(self.release()).unwrap();
        world.pass(10 * MS);
    }
}

#[test]
fn a_lease_that_is_past_is_released_for_ever_whatever_becomes_of_the_grant() {
    let world = world();
    let held = hot(&world);
    let (signal, token) = (held.signal(), held.token().unwrap());
    let mut next = waiter(&world, SECOND);
    drop(held);
    let next = got(&mut next).unwrap();
    let second = next.signal();
    world.nodes.iter().for_each(|node| node.delete("r"));
    world.pass(TTL);
    assert_eq!(next.check().unwrap_err().reason, LossReason::Gone);
    assert_eq!(second.check().unwrap_err().reason, LossReason::Gone);
    assert_eq!(signal.check().unwrap_err().reason, LossReason::Released);
    assert_eq!((signal.token().unwrap(), signal.validity()), (token, Duration::ZERO));
    let mut lost = Box::pin(signal.lost());
    assert!(matches!(poll(&mut lost), Poll::Ready(lost) if lost.reason == LossReason::Released));
}

#[test]
fn whoever_waits_for_the_end_of_the_lease_before_is_woken_by_the_hand_over() {
    let world = world();
    let held = hot(&world);
    let signal = held.signal();
    let mut lost = Box::pin(async move { signal.lost().await.reason });
    assert!(poll(&mut lost).is_pending());
    let mut next = waiter(&world, SECOND);
    drop(held);
    assert_eq!(poll(&mut lost), Poll::Ready(LossReason::Released));
    let next = got(&mut next).unwrap();
    let signal = next.signal();
    let mut lost = Box::pin(async move { signal.lost().await.reason });
    assert!(poll(&mut lost).is_pending(), "that of the next goes on");
}

#[test]
fn a_renewal_that_is_under_way_across_a_hand_over_counts_and_the_next_ones_come_as_ever() {
    // A third of its validity is less than a turn.
    let world = Fixture::new(30 * MS);
    let held = hot(&world);
    let mut next = waiter(&world, 60 * SECOND);
    world.set_all(Manner::Slow(5 * MS));
    let before = world.nodes[0].extensions();
    while world.nodes[0].extensions() == before {
        world.pass(MS / 10);
    }
    let owner = held.owner();
    drop(held);
    let held = got(&mut next).unwrap();
    assert_eq!(held.owner(), owner);
    let before = held.validity();
    world.pass(6 * MS);
    assert!(held.validity() > before, "it counts");
    assert_eq!(world.nodes[0].extensions(), 1, "and is the only one");
    world.set_all(Manner::Sound);
    let before = world.nodes[0].extensions();
    world.pass(SECOND);
    held.check().unwrap();
    let more = world.nodes[0].extensions() - before;
    assert!((80..130).contains(&more), "{more} in a second, of one each 9.2 ms");
}

#[test]
fn an_extension_of_the_holders_own_that_ends_behind_the_hand_over_counts_for_the_next() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(SECOND));
    let held = hot(&world);
    world.set_all(Manner::Slow(100 * MS));
    let held = Arc::new(held);
    let extends = Arc::clone(&held);
    let mut extension = Box::pin(async move { extends.extend().await.map(drop) });
    assert!(poll(&mut extension).is_pending());
    let mut next = waiter(&world, SECOND);
    world.pass(MS);
    drop(extension);
    drop(Arc::into_inner(held).unwrap());
    let next = got(&mut next).unwrap();
    world.pass(90 * MS);
    let before = next.validity();
    world.pass(20 * MS);
    assert!(next.validity() + 20 * MS > before + MS, "its deadline has moved: {before:?}");
}

#[test]
fn a_row_ends_after_a_turn_and_those_who_may_wait_elsewhere_get_a_moment() {
    let world = world();
    let mut held = hot(&world);
    let owner = held.owner();
    let mut waiting: Vec<AcquireFuture> = (0..20).map(|_| waiter(&world, SECOND)).collect();
    let mut row = 1;
    for next in &mut waiting {
        world.pass(2 * MS);
        drop(held);
        if let Poll::Ready(lease) = poll(next) {
            held = lease.unwrap();
            assert_eq!(held.owner(), owner);
            row += 1;
            continue;
        }
        // The release has been sent, and no acquire: another program may take it.
        world.pass(MS / 2);
        assert_eq!(keys(&world), 0);
        world.pass(3 * MS);
        assert_ne!(got(next).unwrap().owner(), owner);
        break;
    }
    assert!((3..=6).contains(&row), "{row} leases of 2 ms in 10 ms");
}

/// For how long the resource is free before the next one has it.
#[track_caller]
fn left_for(world: &Fixture, next: &mut AcquireFuture) -> (Duration, Lease) {
    let mut left = Duration::ZERO;
    loop {
        if let Poll::Ready(lease) = poll(next) {
            return (left, lease.unwrap());
        }
        assert!(left < SECOND, "it waits");
        world.pass(MS / 10);
        if keys(world) == 0 {
            left += MS / 10;
        }
    }
}

#[test]
fn leases_that_are_longer_than_a_turn_follow_each_other_at_once() {
    // Nothing is known of other processes. No hand-over has taken a turn from them.
    let world = Fixture::with(TTL, |builder| builder.classic());
    let mut held = world.acquire("r");
    let mut waiting: Vec<AcquireFuture> = (0..20).map(|_| waiter(&world, 60 * SECOND)).collect();
    for next in &mut waiting {
        world.pass(12 * MS);
        let owner = held.owner();
        drop(held);
        let (left, lease) = left_for(&world, next);
        assert!(left <= MS / 5 && lease.owner() != owner, "{left:?}");
        held = lease;
    }
}

#[test]
fn others_of_whom_the_nodes_know_nothing_get_a_moment_now_and_then() {
    let world = world();
    world.keep_lines();
    let mut held = hot(&world);
    let mut waiting: Vec<AcquireFuture> = (0..1_000).map(|_| waiter(&world, 60 * SECOND)).collect();
    let mut moments = Vec::new();
    for next in &mut waiting {
        world.pass(2 * MS);
        drop(held);
        let (left, lease) = left_for(&world, next);
        held = lease;
        if left > MS / 5 {
            moments.push(left);
        }
    }
    assert!((6..=8).contains(&moments.len()), "{moments:?} in 2 s");
    let all: Duration = moments.iter().sum();
    assert!((10 * MS..26 * MS).contains(&all), "{all:?}: 1 % of 2 s");
}

#[test]
fn a_program_that_takes_it_in_such_a_moment_keeps_it_and_whoever_waits_here_goes_on_behind() {
    let world = world();
    world.keep_lines();
    let mut held = hot(&world);
    let mut waiting: Vec<AcquireFuture> = (0..200).map(|_| waiter(&world, 60 * SECOND)).collect();
    let mut waiting = waiting.iter_mut();
    let mut next = loop {
        let next = waiting.next().unwrap();
        world.pass(2 * MS);
        drop(held);
        world.pass(MS);
        match poll(next) {
            Poll::Ready(lease) => held = lease.unwrap(),
            Poll::Pending => break next,
        }
    };
    assert_eq!(keys(&world), 0);
    world.nodes.iter().for_each(|node| node.hold("r"));
    world.pass(SECOND);
    assert!(poll(next).is_pending());
    world.nodes.iter().for_each(|node| node.delete("r"));
    world.pass(2 * SECOND);
    for _ in 0..40 {
        drop(got(next).unwrap());
        next = waiting.next().unwrap();
    }
}

#[test]
fn where_the_nodes_say_that_nobody_else_waits_a_row_goes_on_and_ends_when_somebody_comes() {
    let world = world();
    world.keep_lines();
    let mut held = hot(&world);
    let owner = held.owner();
    let mut waiting: Vec<AcquireFuture> = (0..40).map(|_| waiter(&world, 60 * SECOND)).collect();
    let mut next = waiting.iter_mut();
    for future in next.by_ref().take(30) {
        world.pass(2 * MS);
        drop(held);
        held = got(future).unwrap();
        assert_eq!(held.owner(), owner);
    }
    let other = world.other_process(|builder| builder.ttl(TTL).max_ttl(TTL));
    let mut theirs = other.acquire("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut theirs).is_pending());
    world.pass(20 * MS);
    drop(held);
    world.pass(10 * MS);
    let theirs = got(&mut theirs).unwrap();
    drop(theirs);
    world.pass(10 * MS);
    assert_ne!(got(next.next().unwrap()).unwrap().owner(), owner);
}

/// Clients of other libraries stand in no line: once in 126 leases the next one here leaves them a moment.
#[test]
fn of_tasks_that_take_turns_one_hand_over_now_and_then_is_late_by_the_moment_for_other_libraries() {
    let world = world();
    world.keep_lines();
    let mut held = hot(&world);
    let mut late = Vec::new();
    for lease in 1..400 {
        let mut next = waiter(&world, 60 * SECOND);
        world.pass(30 * MS);
        drop(held);
        let mut gap = Duration::ZERO;
        held = loop {
            match poll(&mut next) {
                Poll::Ready(lease) => break lease.unwrap(),
                Poll::Pending => world.pass(MS),
            }
            gap += MS;
        };
        if gap > MS {
            late.push((lease, gap));
        }
    }
    println!("late: {late:?}");
    assert_eq!(late.len(), 3, "{late:?}");
    let moment = 20 * MS..=50 * MS;
    assert!(late.iter().all(|(lease, gap)| lease % 2 == 0 && moment.contains(gap)), "{late:?}");
    let apart = |two: &[(i32, Duration)]| (120..=136).contains(&(two[1].0 - two[0].0));
    assert!(late.windows(2).all(apart), "{late:?}");
}

#[test]
fn whoever_is_kept_out_by_hold_at_least_is_kept_out_in_this_process_too() {
    let world = world();
    drop(hot(&world));
    world.pass(10 * MS);
    let held = world.request(world.redlock.acquire("r").hold_at_least(500 * MS));
    let mut next = waiter(&world, 10 * SECOND);
    drop(held);
    world.pass(400 * MS);
    assert!(poll(&mut next).is_pending());
    world.pass(300 * MS);
    let held = got(&mut next).unwrap();
    drop(held);
    world.pass(10 * MS);
    // One to which it is handed on keeps others out from then on.
    let held = hot(&world);
    let mut keeps = asks(&world, |request| request.hold_at_least(300 * MS).ttl(TTL));
    drop(held);
    let keeps = got(&mut keeps).unwrap();
    let mut next = waiter(&world, 10 * SECOND);
    drop(keeps);
    world.pass(250 * MS);
    assert!(poll(&mut next).is_pending());
    world.pass(200 * MS);
    drop(got(&mut next).unwrap());
}

#[test]
fn keys_that_live_for_longer_than_was_asked_for_are_given_back() {
    let world = world();
    let shorter = |request: Acquire| request.ttl(9 * SECOND);
    let held = hot(&world);
    let next = asks(&world, shorter);
    let next = not_handed_on(&world, held, next);
    assert!(next.validity() <= 9 * SECOND);
    drop(next);
    world.pass(10 * MS);
    // A longer ttl is served by what is left, and extended soon.
    let world = Fixture::with(TTL, |builder| builder.max_ttl(2 * TTL));
    let held = hot(&world);
    let mut next = asks(&world, |request| request.ttl(16 * SECOND));
    drop(held);
    let next = got(&mut next).unwrap();
    assert_eq!(next.ttl(), 16 * SECOND);
    assert!(next.validity() < 10 * SECOND);
    world.pass(10 * MS);
    assert!(next.validity() > 15 * SECOND, "{:?}", next.validity());
}

#[test]
fn what_was_asked_for_as_the_least_validity_is_there_or_a_round_is_begun() {
    let world = world();
    let held = hot(&world);
    world.pass(4 * MS);
    let least = held.validity() + MS;
    let next = asks(&world, |request| request.min_validity(least));
    drop(not_handed_on(&world, held, next));
    // Of one that is not renewed, half must be left.
    let world = Fixture::new(20 * MS);
    let fast = |request: Acquire| request.without_renewal().ttl(20 * MS);
    let first = world.request(fast(world.redlock.acquire("r")));
    let mut second = asks(&world, fast);
    drop(first);
    world.pass(3 * MS);
    let second = got(&mut second).unwrap();
    world.pass(9 * MS);
    let third = asks(&world, fast);
    drop(not_handed_on(&world, second, third));
}

#[test]
fn limits_of_a_lease_count_from_its_own_beginning_and_end_with_it() {
    let world = world();
    let held = hot(&world);
    let limited = |request: Acquire| request.max_hold(5 * SECOND);
    let mut next = asks(&world, limited);
    drop(held);
    let next = got(&mut next).unwrap();
    world.pass(30 * SECOND);
    assert_eq!(next.check().unwrap_err().reason, LossReason::MaxHold);
    drop(next);
    world.pass(SECOND);
    // One without a limit behind one with.
    let held = world.request(limited(world.redlock.acquire("r")));
    let mut second = asks(&world, limited);
    drop(held);
    world.pass(5 * MS);
    let held = got(&mut second).unwrap();
    let mut third = asks(&world, |request| request);
    drop(held);
    let held = got(&mut third).unwrap();
    world.pass(60 * SECOND);
    held.check().unwrap();
}

#[test]
fn a_heartbeat_counts_for_the_lease_that_gives_it() {
    let world = world();
    let watched = |request: Acquire| request.heartbeat_within(2 * SECOND);
    let held = hot(&world);
    let mut next = asks(&world, watched);
    drop(held);
    let next = got(&mut next).unwrap();
    for _ in 0..30 {
        world.pass(SECOND);
        next.heartbeat();
    }
    next.check().unwrap();
    world.pass(30 * SECOND);
    assert_eq!(next.check().unwrap_err().reason, LossReason::NoHeartbeat);
}

#[test]
fn a_lease_whose_renewal_is_in_doubt_or_that_is_about_to_be_lost_is_not_handed_on() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(100 * MS));
    let held = hot(&world);
    world.set_all(Manner::Refusing);
    world.pass(3_500 * MS);
    assert!(held.is_valid());
    let next = waiter(&world, 60 * SECOND);
    world.set_all(Manner::Sound);
    drop(not_handed_on(&world, held, next));
}

#[test]
fn a_shutdown_ends_the_lease_that_was_handed_on_and_turns_those_behind_it_away() {
    let world = world();
    let held = hot(&world);
    let (mut next, mut behind) = (waiter(&world, SECOND), waiter(&world, SECOND));
    let before = held.signal();
    drop(held);
    let redlock = world.redlock.clone();
    let done = world.machine.sim.block_on(async move { redlock.shutdown().await }).unwrap();
    assert_eq!((done.released, keys(&world)), (1, 0));
    let lease = got(&mut next).unwrap();
    assert_eq!(lease.check().unwrap_err().reason, LossReason::ShutDown);
    assert_eq!(before.check().unwrap_err().reason, LossReason::Released);
    assert!(matches!(got(&mut behind), Err(AcquireError::Closed)));
    let again = world.machine.sim.block_on(lease.release());
    assert!(matches!(again, Err(ReleaseError::ShutDown)));
}

#[test]
fn work_under_run_hands_its_lease_on_and_a_shutdown_waits_for_that_which_has_it() {
    let world = world();
    let held = hot(&world);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut runs: Vec<_> = (0..4)
        .map(|number| {
            let (request, order) = (world.redlock.acquire("r"), Arc::clone(&order));
            let machine = world.machine.clone();
            Box::pin(async move {
                let work = async |lease: &Lease| {
                    order.lock().unwrap().push((number, lease.owner()));
                    if number == 3 {
                        machine.sim.sleep(3_600 * SECOND).await;
                    }
                };
                if number % 2 == 0 {
                    let ran = request.run_until_lost(async |lease, _| work(lease).await).await;
                    assert!(ran.unwrap().lost.is_none());
                    Ok(())
                } else {
                    request.run(work).await
                }
            })
        })
        .collect();
    assert!(runs.iter_mut().all(|run| poll(run).is_pending()));
    let (owner, sent) = (held.owner(), world.sent());
    drop(held);
    for run in &mut runs[..3] {
        assert!(matches!(poll(run), Poll::Ready(Ok(()))));
    }
    assert!(poll(&mut runs[3]).is_pending());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3].map(|number| (number, owner)));
    assert_eq!(world.sent(), sent);
    let redlock = world.redlock.clone();
    let mut shutdown = Box::pin(async move { redlock.shutdown().await });
    assert!(poll(&mut shutdown).is_pending(), "its work goes on");
    let Poll::Ready(Err(RunError::Lost(lost))) = poll(&mut runs[3]) else { panic!("it goes on") };
    assert_eq!(lost.reason, LossReason::ShutDown);
    drop(runs);
    world.pass(10 * MS);
    assert!(matches!(poll(&mut shutdown), Poll::Ready(Ok(_))));
    assert_eq!(keys(&world), 0);
}

#[test]
fn a_key_that_a_node_has_lost_is_set_again_for_the_next_lease_and_released_with_the_last() {
    let world = world();
    let held = hot(&world);
    world.nodes[0].delete("r");
    let mut next = waiter(&world, SECOND);
    drop(held);
    let next = got(&mut next).unwrap();
    world.pass(10 * SECOND);
    assert_eq!(keys(&world), 3, "it is restored");
    next.release_and_pass(&world);
    assert_eq!(keys(&world), 0);
}

#[test]
fn a_lease_that_nobody_picks_up_is_handed_on_to_the_next() {
    let world = world();
    let held = hot(&world);
    let (gone, mut next) = (waiter(&world, SECOND), waiter(&world, SECOND));
    let token = number(&held);
    drop(held);
    drop(gone);
    let next = got(&mut next).unwrap();
    assert_eq!(number(&next), token + 2, "no token is used twice");
    next.release_and_pass(&world);
    assert_eq!(keys(&world), 0);
}

/// Wakes by dropping what it has.
struct Drops(std::sync::Mutex<Option<Lease>>, AtomicUsize);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        let lease = self.0.lock().unwrap().take();
        drop(lease);
    }
}

#[test]
fn wakers_that_panic_or_come_back_in_the_middle_of_a_hand_over_wedge_nothing() {
    watched(|| {
        let world = world();
        let held = hot(&world);
        let other = world.acquire("other");
        let first = begin(world.redlock.acquire("r").into_future());
        let mut second = waiter(&world, SECOND);
        // Its waker drops a lease inside of the hand-over, for which another one waits.
        let mut behind = world.redlock.acquire("other").into_future();
        let drops = Arc::new(Drops(std::sync::Mutex::new(Some(other)), AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&drops));
        let mut third = Box::pin(world.redlock.acquire("r").into_future());
        assert!(third.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(poll(&mut behind).is_pending());
        drop(held);
        drop(ended(first).unwrap());
        drop(got(&mut second));
        drop(first_of(&mut third));
        assert_eq!(drops.1.load(Ordering::Relaxed), 1);
        world.pass(10 * MS);
        drop(got(&mut behind).unwrap());
        world.pass(10 * MS);
        assert_eq!((keys(&world), world.machine.panics()), (0, 0));
    });
}

fn first_of(future: &mut (impl Future<Output = Result<Lease, AcquireError>> + Unpin)) -> Lease {
    match poll(future) {
        Poll::Ready(lease) => lease.unwrap(),
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn in_classic_mode_a_grant_is_handed_on_without_a_token_and_at_most_64_leases_have_it() {
    let world = Fixture::with(TTL, |builder| builder.classic());
    let mut held = world.acquire("r");
    let mut waiting: Vec<AcquireFuture> = (0..70).map(|_| waiter(&world, SECOND)).collect();
    let (owner, mut sent) = (held.owner(), world.sent());
    for (place, next) in waiting.iter_mut().enumerate() {
        if place == 63 {
            assert_eq!(world.sent(), sent);
        }
        drop(held);
        if place == 63 {
            assert!(poll(next).is_pending(), "the 65th lease");
            world.pass(5 * MS);
            sent = world.sent();
        }
        let Poll::Ready(lease) = poll(next) else { panic!("{place}") };
        held = lease.unwrap();
        assert_eq!((held.owner() == owner, held.token().is_err()), (place < 63, true), "{place}");
    }
    assert_eq!(world.sent(), sent);
}

#[test]
fn many_threads_hand_a_lease_on_and_no_two_have_it_at_once() {
    use quorlock::{Redlock, node::MemoryNode};

    let nodes: Vec<MemoryNode> = (0..3).map(|_| MemoryNode::new()).collect();
    let redlock = Redlock::builder().nodes(&nodes).blocking_connect().unwrap();
    let (holders, last) = (AtomicUsize::new(0), std::sync::Mutex::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for turn in 0..300 {
                    let lease = redlock.acquire("r").wait(60 * SECOND).blocking().unwrap();
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    let token = number(&lease);
                    assert!(token > std::mem::replace(&mut *last.lock().unwrap(), token));
                    lease.check().unwrap();
                    assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1);
                    if turn % 2 == 0 {
                        lease.blocking_release().unwrap();
                    } else {
                        drop(lease);
                    }
                }
            });
        }
    });
    redlock.blocking_close().unwrap();
    assert!(nodes.iter().all(|node| node.get(b"r").is_none()));
}
