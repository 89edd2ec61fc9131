//! Goal: the waiters of one process get a resource in the order of arrival, leave whenever their callers do, cost no
//! command while they wait behind a lease of their own process, and are told the truth when their time is up.
//!
//! Method: virtual time; futures that are polled by hand, dropped at every place of the line and at every step of the
//! engine; another program's key where the nodes have to be asked.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorlock::{
    AcquireError, AcquireFuture, Lease, NodeOutcome, protocol::LossReason, runtime::Runtime,
};

use crate::fixture::{Fixture, MS, Manner, SECOND};

const TTL: Duration = Duration::from_secs(10);

pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A waiter for `r`, in line by now.
pub(crate) fn waiter(world: &Fixture, wait: Duration) -> AcquireFuture {
    let mut future = world.redlock.acquire("r").wait(wait).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

/// What it has got by now.
#[track_caller]
pub(crate) fn got(future: &mut AcquireFuture) -> Result<Lease, AcquireError> {
    match poll(future) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// A lease on `r`, in the middle of a row of hand-overs that has just begun.
pub(crate) fn hot(world: &Fixture) -> Lease {
    let first = world.acquire("r");
    let mut second = waiter(world, SECOND);
    drop(first);
    world.pass(5 * MS);
    got(&mut second).unwrap()
}

/// Another program takes `r`, or lets it go.
fn foreign(world: &Fixture, holds: bool) {
    world.nodes.iter().for_each(|node| if holds { node.hold("r") } else { node.delete("r") });
}

fn contended(answer: Result<Lease, AcquireError>) -> (Duration, Option<Duration>, usize, bool) {
    match answer {
        Err(AcquireError::Contended { waited, expires_in, nodes, .. }) => {
            (waited, expires_in, nodes.denials().count(), nodes.held_here().is_some())
        }
        other => panic!("{other:?}"),
    }
}

/// Lets time pass until it has an answer.
#[track_caller]
fn answer(
    world: &Fixture,
    future: &mut AcquireFuture,
    limit: Duration,
) -> Result<Lease, AcquireError> {
    let until = world.machine.sim.now().saturating_add(limit);
    loop {
        if let Poll::Ready(answer) = poll(future) {
            return answer;
        }
        assert!(world.machine.sim.now() < until, "it waits");
        world.pass(MS / 10);
    }
}

#[test]
fn who_came_first_is_served_first_each_with_a_larger_token_and_for_few_commands() {
    const MANY: usize = 1_000;
    let world = Fixture::new(TTL);
    let mut held = world.acquire("r");
    let mut waiting: Vec<AcquireFuture> = (0..MANY).map(|_| waiter(&world, 60 * SECOND)).collect();
    let before = world.sent();
    for place in 0..MANY {
        let token = held.token().unwrap();
        drop(held);
        held = answer(&world, &mut waiting[place], SECOND).unwrap();
        assert!(held.token().unwrap() > token, "{place}");
        if let Some(next) = waiting.get_mut(place + 1) {
            assert!(poll(next).is_pending(), "{place} is overtaken");
        }
    }
    let each = (world.sent() - before) as f64 / (MANY * world.nodes.len()) as f64;
    println!("{each:.3} commands for each grant and node");
    assert!(each < 0.1, "{each}");
}

#[test]
fn whoever_leaves_from_wherever_in_line_is_passed_over_at_once_and_leaves_nothing() {
    const MANY: usize = 1_000;
    let world = Fixture::new(TTL);
    let held = hot(&world);
    let mut waiting: Vec<AcquireFuture> = (0..MANY).map(|_| waiter(&world, 60 * SECOND)).collect();
    let (mut last, mut first) = (waiting.pop().unwrap(), waiting.remove(0));
    let sent = world.sent();
    // From behind, from the front, and from between.
    waiting.truncate(MANY - 100);
    waiting.drain(..100);
    drop(waiting.remove(waiting.len() / 2));
    drop(waiting);
    drop(held);
    let held = got(&mut first).unwrap();
    assert!(poll(&mut last).is_pending());
    drop(held);
    drop(got(&mut last).unwrap());
    world.pass(SECOND);
    let given_back = world.nodes.len();
    assert_eq!(world.sent(), sent + given_back, "nothing has been asked in between");
    assert!(world.nodes.iter().all(|node| !node.has("r")));
    drop((first, last));
    let shown = format!("{:?}", world.redlock);
    assert!(shown.contains("queues: 0"), "{shown}");
}

#[test]
fn a_try_knows_what_the_process_holds_and_for_how_long_without_a_command() {
    let world = Fixture::new(TTL);
    let held = world.acquire("r");
    world.pass(SECOND);
    let sent = world.sent();
    let mut single = world.redlock.try_acquire("r").into_future();
    let error = got(&mut single).unwrap_err();
    assert_eq!(world.sent(), sent);
    let text = error.to_string();
    assert!(text.contains("another lease of this process") && text.contains("for 8.9s"), "{text}");
    assert!(text.contains(&held.owner().to_string()), "{text}");
    let nodes = error.nodes().unwrap();
    assert_eq!(nodes.held_here(), Some(held.owner()));
    assert!(nodes.iter().all(|report| report.outcome == NodeOutcome::NotAsked));
    assert_eq!(nodes.iter().count(), 3);
    assert_eq!(contended(Err(error)), (Duration::ZERO, Some(held.validity()), 0, true));
    // A lease that is over keeps nobody out, though no timer has said so.
    let lease = world.request(world.redlock.acquire("s").ttl(SECOND).without_renewal());
    world.machine.suspend(2 * SECOND);
    drop(world.request(world.redlock.try_acquire("s")));
    drop(lease);
}

#[test]
fn a_try_shares_what_a_round_finds_that_is_under_way_and_does_not_overtake_those_who_wait() {
    let world = Fixture::new(TTL);
    foreign(&world, true);
    world.pass(MS);
    let sent = world.sent();
    let mut head = waiter(&world, 10 * SECOND);
    let mut tries: Vec<AcquireFuture> =
        (0..10).map(|_| world.redlock.try_acquire("r").into_future()).collect();
    assert!(tries.iter_mut().all(|single| poll(single).is_pending()));
    world.pass(MS / 2);
    for single in &mut tries {
        let (_, _, denials, here) = contended(got(single));
        assert!(denials >= 2 && !here);
    }
    assert!(world.sent() - sent <= 2 * world.nodes.len(), "one round, and no other");
    // The head pauses: what it has found is what there is to know, also where the key has just gone.
    foreign(&world, false);
    let mut single = world.redlock.try_acquire("r").into_future();
    assert!(contended(got(&mut single)).2 >= 2);
    let held = answer(&world, &mut head, SECOND).unwrap();
    // It wins while one shares its round.
    drop(held);
    world.pass(MS);
    let mut head = waiter(&world, 10 * SECOND);
    let mut single = world.redlock.try_acquire("r").into_future();
    assert!(poll(&mut single).is_pending());
    let held = answer(&world, &mut head, SECOND).unwrap();
    let error = got(&mut single).unwrap_err();
    assert_eq!(error.nodes().unwrap().held_here(), Some(held.owner()));
}

#[test]
fn a_try_asks_for_itself_when_the_one_whose_round_it_shared_has_gone() {
    let world = Fixture::new(TTL);
    for steps in 0..40 {
        let head = waiter(&world, SECOND);
        let mut single = world.redlock.try_acquire("r").into_future();
        let is_answered = poll(&mut single).is_ready();
        (0..steps).for_each(|_| _ = world.machine.sim.step());
        drop(head);
        if !is_answered {
            // The resource is free, and no round has found it held, unless the head had won.
            match answer(&world, &mut single, SECOND) {
                Ok(lease) => drop(lease),
                Err(error) => {
                    assert!(error.nodes().unwrap().held_here().is_some(), "{steps}: {error}");
                }
            }
        }
        drop(single);
        world.pass(SECOND);
        assert!(world.nodes.iter().all(|node| !node.has("r")), "{steps}");
    }
}

#[test]
fn whose_time_is_up_in_line_is_told_who_holds_it_at_its_deadline_and_not_before() {
    let world = Fixture::new(TTL);
    let held = world.acquire("r");
    let sent = world.sent();
    let mut waits: Vec<(u64, AcquireFuture)> =
        [40, 20, 41, 30].map(|millis| (millis, waiter(&world, millis as u32 * MS))).into();
    for now in 0..=45_u64 {
        for (millis, future) in &mut waits {
            if *millis == 0 {
                continue;
            }
            match poll(future) {
                Poll::Pending => assert!(now <= *millis, "{millis} at {now}"),
                Poll::Ready(answer) => {
                    let (waited, expires_in, denials, here) = contended(answer);
                    assert_eq!(waited, *millis as u32 * MS, "at {now}");
                    assert!(expires_in.is_some() && denials == 0 && here);
                    *millis = 0;
                }
            }
        }
        world.pass(MS);
    }
    assert!(waits.iter().all(|(millis, _)| *millis == 0));
    assert_eq!(world.sent(), sent, "they have asked nobody");
    drop(held);
}

#[test]
fn behind_a_head_that_another_program_keeps_waiting_each_is_told_what_the_nodes_have_said() {
    let world = Fixture::new(TTL);
    foreign(&world, true);
    let mut head = waiter(&world, 200 * MS);
    let mut others: Vec<AcquireFuture> =
        [20, 60, 500].map(|millis| waiter(&world, millis * MS)).into();
    world.pass(100 * MS);
    for (future, wait) in others.iter_mut().zip([20, 60]) {
        let (waited, expires_in, denials, here) = contended(got(future));
        assert_eq!((waited, expires_in, here), (wait * MS, None, false));
        assert!(denials >= 2);
    }
    world.pass(150 * MS);
    assert!(got(&mut head).unwrap_err().is_contended());
    // The next goes on asking.
    foreign(&world, false);
    drop(answer(&world, &mut others[2], 200 * MS).unwrap());
}

#[test]
fn an_outage_is_told_to_each_after_a_quarter_of_its_own_wait_and_not_to_one_after_the_other() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(50 * MS));
    world.nodes.iter().for_each(|node| node.hang());
    let waits = [8, 4, 12, 2, 6].map(|seconds| seconds * SECOND);
    let mut all: Vec<Option<AcquireFuture>> = waits.map(|wait| Some(waiter(&world, wait))).into();
    let mut told = vec![Duration::ZERO; waits.len()];
    let step = 10 * MS;
    let mut now = Duration::ZERO;
    while now < 6 * SECOND {
        for (future, told) in all.iter_mut().zip(&mut told) {
            if let Some(waiting) = future
                && let Poll::Ready(answer) = poll(waiting)
            {
                assert!(matches!(answer, Err(AcquireError::NoQuorum { .. })), "{answer:?}");
                (*told, *future) = (now, None);
            }
        }
        world.pass(step);
        now += step;
    }
    for (wait, told) in waits.into_iter().zip(told) {
        let quarter = wait / 4;
        assert!(told + 500 * MS > quarter && told < quarter + 500 * MS, "{wait:?}: {told:?}");
    }
}

#[test]
fn a_head_that_goes_at_whatever_step_makes_room_for_the_next() {
    for steps in 0..30 {
        let world = Fixture::new(TTL);
        let head = waiter(&world, SECOND);
        let mut second = waiter(&world, 10 * SECOND);
        (0..steps).for_each(|_| _ = world.machine.sim.step());
        drop(head);
        let lease = answer(&world, &mut second, SECOND).unwrap();
        lease.check().unwrap();
        drop(lease);
        world.pass(SECOND);
        assert!(world.nodes.iter().all(|node| !node.has("r")), "{steps}");
    }
}

#[test]
fn whoever_closes_turns_all_away_who_wait_in_any_line() {
    for shuts_down in [false, true] {
        let world = Fixture::new(TTL);
        let held = world.acquire("r");
        let mut behind: Vec<AcquireFuture> = (0..50).map(|_| waiter(&world, SECOND)).collect();
        world.nodes.iter().for_each(|node| node.hold("theirs"));
        let other = || world.redlock.acquire("theirs").into_future();
        let mut others = [other(), other(), other()];
        assert!(others.iter_mut().all(|future| poll(future).is_pending()));
        world.pass(MS);
        let redlock = world.redlock.clone();
        world.machine.sim.block_on(async move {
            if shuts_down {
                redlock.shutdown().await.map(drop).unwrap();
            } else {
                redlock.close().await.map(drop).unwrap();
            }
        });
        for future in behind.iter_mut().chain(&mut others) {
            let answer = got(future);
            assert!(matches!(answer, Err(AcquireError::Closed)), "{answer:?}");
        }
        assert_eq!(held.check().is_err(), shuts_down);
        let mut late = world.redlock.acquire("r").into_future();
        assert!(matches!(got(&mut late), Err(AcquireError::Closed)));
        drop(held);
    }
}

#[test]
fn a_lease_that_is_lost_or_left_to_expire_is_in_nobodys_way_any_longer_than_its_key() {
    let world = Fixture::new(SECOND);
    let lost = world.request(world.redlock.acquire("r").without_renewal());
    let mut next = waiter(&world, 10 * SECOND);
    let held = answer(&world, &mut next, 2 * SECOND).unwrap();
    assert_eq!(lost.check().unwrap_err().reason, LossReason::NotRenewed);
    // What becomes of the one before does not concern the next.
    drop(lost);
    world.pass(10 * MS);
    held.check().unwrap();
    let mut next = waiter(&world, 10 * SECOND);
    let signal = held.signal();
    held.let_expire();
    let held = answer(&world, &mut next, 2 * SECOND).unwrap();
    assert_eq!(signal.check().unwrap_err().reason, LossReason::LeftToExpire);
    world.nodes.iter().for_each(|node| node.delete("r"));
    let mut next = waiter(&world, 10 * SECOND);
    let after = answer(&world, &mut next, 2 * SECOND).unwrap();
    assert_eq!(held.check().unwrap_err().reason, LossReason::Gone);
    after.check().unwrap();
}

#[test]
fn who_waits_in_line_beside_slow_nodes_is_answered_with_the_round_that_is_under_way() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(100 * MS));
    world.set_all(Manner::Sound);
    world.nodes.iter().for_each(|node| node.hang());
    let mut head = waiter(&world, 10 * SECOND);
    // Its own round might end a node timeout after its deadline, and so may the one that it shares.
    let mut short = waiter(&world, 10 * MS);
    world.pass(50 * MS);
    assert!(poll(&mut short).is_pending());
    world.pass(60 * MS);
    assert!(matches!(got(&mut short), Err(AcquireError::NoQuorum { .. })));
    assert!(poll(&mut head).is_pending());
}
