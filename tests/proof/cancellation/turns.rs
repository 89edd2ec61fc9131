//! More acquires and releases at once than are let in: they wait in order, leave whenever their callers do, and are
//! told the truth when their time is up.

use std::{
    future::IntoFuture,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use quorlock::{Acquire, AcquireError, AcquireFuture, Lease};

use super::*;

/// How many are let in at first.
const FIRST: usize = 64;

const STEPS: usize = 10_000_000;

fn poll(future: &mut AcquireFuture) -> Poll<Result<Lease, AcquireError>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// This many, of a resource each, polled once in order.
fn started(
    fixture: &Fixture,
    name: &str,
    count: usize,
    request: impl Fn(Acquire) -> Acquire,
) -> Vec<AcquireFuture> {
    let start = |n| {
        let mut future =
            request(fixture.redlock.acquire(format!("{name}:{n}")).without_renewal()).into_future();
        assert!(poll(&mut future).is_pending(), "{name}:{n}");
        future
    };
    (0..count).map(start).collect()
}

/// Steps until all have ended, and returns them as they ended, each with its place.
fn ended(
    fixture: &Fixture,
    futures: Vec<AcquireFuture>,
) -> Vec<(usize, Result<Lease, AcquireError>)> {
    let mut open: Vec<_> = futures.into_iter().enumerate().collect();
    let mut ended = Vec::new();
    for _ in 0..STEPS {
        open.retain_mut(|(place, future)| match poll(future) {
            Poll::Ready(result) => {
                ended.push((*place, result));
                false
            }
            Poll::Pending => true,
        });
        if open.is_empty() {
            return ended;
        }
        fixture.runtime.step();
    }
    panic!("{} have not ended", open.len());
}

/// This many leases, for whose rounds nothing is under way any more.
fn held(fixture: &Fixture, count: usize) -> Vec<Lease> {
    let all = ended(fixture, started(fixture, "r", count, patient));
    fixture.runtime.pass(Duration::from_secs(1));
    all.into_iter().map(|(_, result)| result.unwrap()).collect()
}

fn patient(request: Acquire) -> Acquire {
    request.wait(Duration::from_secs(60))
}

#[test]
fn who_came_first_is_served_first_and_a_hung_minority_holds_nobody_up() {
    const MANY: usize = 400;
    for behaviours in [[Behaviour::Ok; 3], [Behaviour::Never, Behaviour::Ok, Behaviour::Ok]] {
        let fixture = Fixture::new(1, behaviours);
        let before = fixture.runtime.now();
        let ended = ended(&fixture, started(&fixture, "r", MANY, patient));
        let took = fixture.runtime.now().saturating_since(before);
        println!("{behaviours:?}: {took:?}");
        // Some that run side by side overtake each other; nobody is overtaken by a whole window.
        let mut most = 0;
        for (order, (place, result)) in ended.iter().enumerate() {
            result.as_ref().unwrap_or_else(|error| panic!("{place}: {error}"));
            most = most.max(place.abs_diff(order));
        }
        println!("{most} places too early or too late at most");
        assert!(most < FIRST, "one was served {most} places too early or too late");
        // With stragglers in the way it would take MANY / FIRST node timeouts.
        assert!(took < 3 * NODE_TIMEOUT, "{behaviours:?}: {took:?}");
        // All are released at once, and wait for their turn to be sent.
        drop(ended);
        fixture.assert_clean("after a burst");
    }
}

#[test]
fn who_waits_in_vain_is_told_so_and_has_sent_nothing() {
    let fixture = Fixture::new(1, [Behaviour::Never; 3]);
    let let_in = started(&fixture, "let in", FIRST, patient);
    fixture.runtime.pass(MS);
    let sent = fixture.nodes[0].sent();
    assert_eq!(sent, FIRST);
    let waiting = started(&fixture, "waiting", 10, |request| request.wait(5 * MS));
    for (place, result) in ended(&fixture, waiting) {
        let error = result.unwrap_err();
        let AcquireError::Crowded { waited, waiting, .. } = error else {
            panic!("{place}: {error}")
        };
        assert_eq!((waited, waiting), (5 * MS, 9 - place));
        assert!(error.is_busy() && !error.is_contended() && error.nodes().is_none());
    }
    assert_eq!(fixture.nodes[0].sent(), sent, "something was sent");
    drop(let_in);
    fixture.assert_clean("after waiting in vain");
}

#[test]
fn a_single_round_waits_for_its_turn_for_a_node_timeout() {
    let fixture = Fixture::new(1, [Behaviour::Never; 3]);
    let let_in = started(&fixture, "let in", FIRST, patient);
    fixture.runtime.pass(MS);
    let before = fixture.runtime.now();
    let single = started(&fixture, "single", 4 * FIRST, |request| request.wait(Duration::ZERO));
    let mut crowded = 0;
    for (place, result) in ended(&fixture, single) {
        match result.unwrap_err() {
            AcquireError::Crowded { waited, .. } => {
                assert_eq!(waited, NODE_TIMEOUT, "{place}");
                crowded += 1;
            }
            AcquireError::NoQuorum { .. } => {}
            error => panic!("{place}: {error}"),
        }
    }
    // Requests that are let in when the first ones have timed out find out for themselves.
    assert!((1..4 * FIRST).contains(&crowded), "{crowded}");
    assert!(fixture.runtime.now().saturating_since(before) <= 2 * NODE_TIMEOUT);
    drop(let_in);
    fixture.assert_clean("after single rounds");
}

#[test]
fn a_caller_that_goes_away_leaves_the_line_at_once() {
    let fixture = Fixture::new(1, [Behaviour::Slow; 3]);
    let let_in = started(&fixture, "let in", FIRST, patient);
    // Held by the closure that would have begun it, and by nothing else.
    let leaving = started(&fixture, "leaving", 100, patient);
    let staying = started(&fixture, "staying", 1, patient);
    drop(leaving);
    let shown = format!("{:?}", fixture.redlock);
    assert!(shown.contains("waiting: 1,"), "{shown}");
    for (place, result) in ended(&fixture, let_in).into_iter().chain(ended(&fixture, staying)) {
        drop(result.unwrap_or_else(|error| panic!("{place}: {error}")));
    }
    fixture.assert_clean("after some have left");
}

#[test]
fn closing_turns_away_who_waits() {
    let fixture = Fixture::new(1, [Behaviour::Never; 3]);
    let let_in = started(&fixture, "let in", FIRST, patient);
    let mut waiting = started(&fixture, "waiting", 3, patient);
    fixture.runtime.pass(MS);
    let redlock = fixture.redlock.clone();
    let mut closing = Box::pin(async move { redlock.close().await });
    assert!(closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for future in &mut waiting {
        assert!(matches!(poll(future), Poll::Ready(Err(AcquireError::Closed))));
    }
    drop((let_in, closing));
    fixture.assert_clean("after closing");
}

#[test]
fn rounds_that_nobody_waits_for_count_until_they_are_answered() {
    let fixture = Fixture::new(1, [Behaviour::Never; 3]);
    for n in 0..100 {
        let begun = started(&fixture, &format!("dropped:{n}"), 10, patient);
        fixture.runtime.pass(Duration::from_micros(1));
        drop(begun);
        fixture.runtime.pass(Duration::from_micros(1));
    }
    // An acquire and its release for each that was let in; the others never began.
    assert!(fixture.nodes[0].sent() <= 2 * FIRST, "{} commands", fixture.nodes[0].sent());
    fixture.assert_clean("after many were dropped");
}

#[test]
fn single_rounds_that_time_out_while_others_of_their_burst_are_answered_are_no_outage() {
    // As many as are let in at once take longer than a node timeout together.
    let fixture = Fixture::new(1, [Behaviour::Busy; 3]);
    let single = started(&fixture, "single", FIRST, |request| request.wait(Duration::ZERO));
    let (mut granted, mut told) = (Vec::new(), Vec::new());
    for (place, result) in ended(&fixture, single) {
        match result {
            Ok(lease) => granted.push(lease),
            Err(error) => told.push((place, error)),
        }
    }
    println!("{} granted, {} not", granted.len(), told.len());
    assert!(granted.len() > FIRST / 4 && told.len() > FIRST / 4);
    for (place, error) in told {
        assert!(error.is_busy(), "{place}: {error}");
    }
    drop(granted);
    fixture.assert_clean("after single rounds that timed out");
}

#[test]
fn a_release_is_answered_within_ten_node_timeouts_however_many_there_are() {
    const MANY: usize = 500;
    let fixture = Fixture::new(1, [Behaviour::Ok; 3]);
    let leases = held(&fixture, MANY);
    fixture.nodes.iter().for_each(|node| node.turn(Behaviour::Never));
    let before = fixture.runtime.now();
    let mut releases: Vec<_> = leases.into_iter().map(Lease::release).collect();
    let mut longest = Duration::ZERO;
    while !releases.is_empty() && longest < Duration::from_secs(3600) {
        releases.retain_mut(|release| {
            Pin::new(release).poll(&mut Context::from_waker(Waker::noop())).is_pending()
        });
        longest = fixture.runtime.now().saturating_since(before);
        fixture.runtime.step();
    }
    assert!(longest <= 11 * NODE_TIMEOUT, "the last one was answered after {longest:?}");
    for node in &fixture.nodes {
        node.turn(Behaviour::Ok);
        node.revive();
    }
    fixture.runtime.pass(Duration::from_secs(2));
    fixture.assert_clean("after releases that nobody confirmed");
}

#[test]
fn who_has_found_the_resource_held_is_told_so_when_its_time_is_up_in_line() {
    let fixture = Fixture::new(1, [Behaviour::Denied; 3]);
    let mut held: Vec<_> =
        vec![fixture.redlock.acquire("r").without_renewal().wait(200 * MS).into_future()];
    assert!(poll(&mut held[0]).is_pending());
    // Several rounds have found it held by then.
    fixture.runtime.pass(20 * MS);
    assert!(fixture.nodes[0].sent() > 1, "{}", fixture.nodes[0].sent());
    // A hiccup of a node timeout, with a burst in it.
    fixture.nodes.iter().for_each(|node| node.turn(Behaviour::Never));
    fixture.runtime.pass(2 * MS);
    let burst = started(&fixture, "burst", 3_000, patient);
    for (_, result) in ended(&fixture, held) {
        let error = result.unwrap_err();
        println!("{error}");
        assert!(error.is_contended(), "{error}");
    }
    drop(burst);
    fixture.runtime.shut_down();
}

/// The time for stragglers begins when a release is sent, and not when it was asked for. Of two slow nodes one falls
/// behind, and is sent its releases again; the other answers soon, and a little after the first two.
#[test]
fn releases_that_waited_in_line_are_not_sent_again_to_a_node_that_answers() {
    const MANY: usize = 1_500;
    let fixture = Fixture::new(1, [Behaviour::Ok; 3]);
    let leases = held(&fixture, MANY);
    let before: Vec<usize> = fixture.nodes.iter().map(|node| node.sent()).collect();
    // The last ones wait for longer than a node timeout.
    fixture.nodes[1].turn(Behaviour::Busy);
    fixture.nodes[2].turn(Behaviour::Busy);
    drop(leases);
    fixture.runtime.pass(Duration::from_secs(5));
    let again = fixture.nodes.iter().zip(before).map(|(node, before)| node.sent() - before - MANY);
    let again: Vec<usize> = again.collect();
    assert!(again[0] == 0 && again[1].min(again[2]) <= FIRST, "sent again: {again:?}");
    fixture.assert_clean("after releases that waited in line");
}
