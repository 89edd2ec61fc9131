//! An acquire dropped before its first poll, at every step of the engine, and after it was granted.

use std::{
    future::IntoFuture,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use quorlock::AcquireError;

use super::*;

/// Polls once, without a waker: these tests turn the engine by hand.
fn poll<T>(future: &mut (impl Future<Output = Result<T, AcquireError>> + Unpin)) -> Poll<bool> {
    let mut cx = Context::from_waker(Waker::noop());
    // What is granted is dropped on the spot, as by a caller that goes away then.
    Pin::new(future).poll(&mut cx).map(|answer| answer.is_ok())
}

/// Every combination of behaviours, with a seed of its own.
fn combinations() -> impl Iterator<Item = (u64, [Behaviour; 3])> {
    let all = || Behaviour::ALL.into_iter();
    let combinations =
        all().flat_map(move |a| all().flat_map(move |b| all().map(move |c| [a, b, c])));
    (0..).zip(combinations)
}

/// Runs one case: `steps` steps of the engine after the first poll, then the drop. Returns whether the
/// caller had its answer by then.
fn drop_after(seed: u64, behaviours: [Behaviour; 3], steps: usize, request: Request) -> bool {
    drop_on(
        &Fixture::new(seed, behaviours),
        steps,
        request,
        &format!("{behaviours:?}, seed {seed}"),
    )
}

fn drop_on(fixture: &Fixture, steps: usize, request: Request, what: &str) -> bool {
    let request = match request {
        Request::Try => fixture.redlock.try_acquire("r"),
        Request::Wait => fixture.redlock.acquire("r"),
        Request::TryAll => fixture.redlock.try_acquire_all(SET),
        Request::WaitForAll => fixture.redlock.acquire_all(SET),
        Request::TryRead => {
            let request = fixture.redlock.try_read("r").into_future();
            return drop_future(fixture, request, steps, what);
        }
        Request::TryAny => {
            let request = fixture.redlock.semaphore("s", 2).unwrap().try_acquire();
            return drop_future(fixture, request.into_future(), steps, what);
        }
        Request::WaitForAny => {
            let request = fixture.redlock.semaphore("s", 2).unwrap().acquire();
            return drop_future(fixture, request.into_future(), steps, what);
        }
        Request::WaitToRead => {
            let request = fixture.redlock.read("r").into_future();
            return drop_future(fixture, request, steps, what);
        }
    };
    drop_future(fixture, request.into_future(), steps, what)
}

fn drop_future<T>(
    fixture: &Fixture,
    mut future: impl Future<Output = Result<T, AcquireError>> + Unpin,
    steps: usize,
    what: &str,
) -> bool {
    assert!(poll(&mut future).is_pending());
    for _ in 0..steps {
        fixture.runtime.step();
    }
    // Half of the cases look before they leave, and drop a lease; the others drop what was not picked up.
    let looks = steps.is_multiple_of(2);
    let answered = looks && poll(&mut future).is_ready();
    drop(future);
    fixture.assert_clean(&format!("{what}, dropped after {steps} steps"));
    answered
}

#[derive(Clone, Copy)]
enum Request {
    Try,
    Wait,
    TryAll,
    WaitForAll,
    TryRead,
    WaitToRead,
    TryAny,
    WaitForAny,
}

/// Where `r` is held by another program, the others are free.
const SET: [&str; 3] = ["q", "r", "s"];

/// Drops at every step until the caller has its answer, and once after that.
fn drop_everywhere(request: Request, most: usize) -> usize {
    let mut cases = 0;
    for (seed, behaviours) in combinations() {
        for steps in 0..most {
            cases += 1;
            if drop_after(seed, behaviours, steps, request) {
                break;
            }
        }
    }
    cases
}

#[test]
fn a_single_round_dropped_at_every_step_leaves_nothing() {
    let cases = drop_everywhere(Request::Try, 200);
    println!("{cases} cases");
    assert!(cases > 343 * 5, "{cases}");
}

#[test]
fn a_waiting_acquire_dropped_at_every_step_leaves_nothing() {
    let cases = drop_everywhere(Request::Wait, 200);
    println!("{cases} cases");
    assert!(cases > 343 * 5, "{cases}");
}

#[test]
fn a_round_for_several_resources_dropped_at_every_step_leaves_nothing() {
    let cases = drop_everywhere(Request::TryAll, 200);
    println!("{cases} cases");
    assert!(cases > 343 * 5, "{cases}");
}

#[test]
fn whoever_waits_for_several_resources_and_leaves_at_any_step_leaves_nothing() {
    let cases = drop_everywhere(Request::WaitForAll, 200);
    println!("{cases} cases");
    assert!(cases > 343 * 5, "{cases}");
}

#[test]
fn a_reader_that_leaves_at_any_step_leaves_nothing() {
    for request in [Request::TryRead, Request::WaitToRead] {
        let cases = drop_everywhere(request, 200);
        println!("{cases} cases");
        assert!(cases > 343 * 5, "{cases}");
    }
}

#[test]
fn a_request_for_any_permit_dropped_at_every_step_leaves_nothing() {
    for request in [Request::TryAny, Request::WaitForAny] {
        let cases = drop_everywhere(request, 200);
        println!("{cases} cases");
        assert!(cases > 343 * 5, "{cases}");
    }
}

#[test]
fn a_round_whose_counters_differ_dropped_at_every_step_leaves_nothing() {
    for request in [Request::Try, Request::TryAll, Request::TryRead, Request::TryAny] {
        drop_where_counters_differ(request);
    }
}

fn drop_where_counters_differ(request: Request) {
    let mut confirming = 0;
    for (seed, behaviours) in combinations() {
        for steps in 0..200 {
            let fixture = Fixture::with(seed, behaviours, |nodes| {
                (0..).zip(nodes).for_each(|(number, node)| node.count(2 * number));
            });
            let what = format!("{behaviours:?} with other counters, seed {seed}");
            let answered = drop_on(&fixture, steps, request, &what);
            confirming += usize::from(fixture.nodes.iter().any(|node| node.confirms() > 0));
            if answered {
                break;
            }
        }
    }
    println!("{confirming} cases in which a confirmation was asked for");
    assert!(confirming > 100, "{confirming}");
}

#[test]
fn an_acquire_dropped_before_its_first_poll_sends_nothing() {
    let fixture = Fixture::new(1, [Behaviour::Ok; 3]);
    drop(fixture.redlock.acquire("r"));
    drop(fixture.redlock.acquire("r").into_future());
    drop(Box::pin(fixture.redlock.acquire("r").run(async |_| ())));
    fixture.runtime.pass(Duration::from_secs(1));
    assert_eq!(fixture.nodes.iter().map(ScriptedNode::sent).sum::<usize>(), 0);
    fixture.assert_clean("never polled");
}

#[test]
fn a_lease_granted_and_never_picked_up_is_released() {
    let fixture = Fixture::new(1, [Behaviour::Ok; 3]);
    let mut future = fixture.redlock.acquire("r").into_future();
    assert!(poll(&mut future).is_pending());
    fixture.runtime.pass(5 * MS);
    // It has been granted by now, everywhere, and waits in the channel.
    assert!(fixture.nodes.iter().all(|node| node.our_keys() == [b"r"]));
    drop(future);
    fixture.runtime.pass(5 * MS);
    assert!(fixture.nodes.iter().all(|node| node.our_keys().is_empty()));
    fixture.assert_clean("granted and not picked up");
}

#[test]
fn what_was_granted_is_released_as_soon_as_the_caller_is_gone() {
    let fixture = Fixture::new(1, [Behaviour::Ok, Behaviour::Never, Behaviour::Never]);
    let mut future = fixture.redlock.acquire("r").into_future();
    assert!(poll(&mut future).is_pending());
    fixture.runtime.pass(2 * MS);
    assert_eq!(fixture.nodes[0].our_keys(), [b"r"]);
    drop(future);
    // The other two are not waited for: the node timeout is far away.
    fixture.runtime.pass(2 * MS);
    assert_eq!(fixture.nodes[0].our_keys(), Vec::<Vec<u8>>::new());
    fixture.assert_clean("two nodes never answer");
}

#[test]
fn a_round_that_is_lost_leaves_nothing_though_nobody_drops_anything() {
    for (seed, behaviours) in combinations() {
        let fixture = Fixture::new(seed, behaviours);
        let request = fixture.redlock.acquire("r");
        let answer = fixture.runtime.block_on(request.into_future());
        let good = behaviours.iter().filter(|b| **b == Behaviour::Ok).count();
        if good >= 2 {
            assert!(answer.is_ok(), "{behaviours:?}: {answer:?}");
        }
        drop(answer);
        fixture.assert_clean(&format!("{behaviours:?}"));
    }
}

#[test]
fn the_checks_of_these_tests_can_fail() {
    let fixture = Fixture::new(1, [Behaviour::Ok; 3]);
    let lease = fixture.runtime.block_on(fixture.redlock.acquire("r").into_future()).unwrap();
    // The verdict comes before the last of the three has executed it.
    let held = fixture.nodes.iter().filter(|node| node.our_keys() == [b"r"]).count();
    assert!(held >= 2, "{held}");
    assert!(fixture.nodes.iter().all(|node| node.not_released().len() == 1));
    drop(lease);
    fixture.assert_clean("released after all");
}
