//! Goal: a detached lease keeps others out, one of those who adopt it has it, above the token before, and nobody in
//! between; what cannot be adopted says why, and nothing is taken from anybody.
//!
//! Method: virtual time, several processes on the same nodes, nodes that hang, answer late or forget; and a look at the
//! keys past the code under test.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    task::Context,
    time::Duration,
};

use futures::task::noop_waker;
use quorlock::{
    Ability, AcquireError, DetachError, DetachedLease, FencingToken, Lease, LossReason, NotAdopted,
    Redlock, Unsupported, runtime::Runtime,
};

use crate::fixture::{Fixture, MS, Machine, Manner, SECOND};

const TTL: Duration = Duration::from_secs(10);

fn adopt(world: &Fixture, by: &Redlock, lease: &DetachedLease) -> Result<Lease, AcquireError> {
    world.machine.sim.block_on(by.adopt(lease).into_future())
}

fn token(lease: &Lease) -> FencingToken {
    lease.token().unwrap()
}

#[track_caller]
fn why(adopted: Result<Lease, AcquireError>) -> NotAdopted {
    match adopted {
        Err(AcquireError::NotAdopted { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// The number of nodes on which this owner has the key.
fn nodes_of(world: &Fixture, lease: &DetachedLease) -> usize {
    let key = lease.resource().to_string();
    let is_its = |value: Vec<u8>| value == lease.owner().to_string().into_bytes();
    world.nodes.iter().filter(|node| node.value(&key).is_some_and(is_its)).count()
}

#[test]
fn a_lease_goes_from_process_to_process_and_nobody_has_it_in_between() {
    for names in [&["r"][..], &["b", "a", "c"]] {
        let world = Fixture::new(TTL);
        world.keep_lines();
        let [one, two, third] = [0; 3].map(|_| world.other_process(|it| it.ttl(TTL)));
        let mut lease = world.request(world.redlock.acquire_all(names));
        let mut waiter = Box::pin(third.acquire(names[0]).wait_without_deadline().into_future());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(waiter.as_mut().poll(&mut cx).is_pending());
        for to in [&one, &two, &one, &world.redlock, &two] {
            let (before, signal, owner) = (token(&lease), lease.signal(), lease.owner());
            let detached = lease.detach().unwrap();
            assert_eq!(signal.check().unwrap_err().reason, LossReason::LeftToExpire);
            assert_eq!((detached.token(), detached.owner()), (before, owner));
            assert!(detached.left() > TTL / 2, "{:?}", detached.left());
            world.pass(5 * SECOND);
            assert!(waiter.as_mut().poll(&mut cx).is_pending(), "nobody is let in");
            let busy = world.machine.sim.block_on(one.try_acquire(names[0]).into_future());
            assert!(busy.unwrap_err().is_contended());
            // The text alone goes.
            let text = detached.to_string();
            lease = adopt(&world, to, &text.parse().unwrap()).unwrap();
            assert!(token(&lease) > before);
            assert_eq!(lease.resources().len(), names.len());
            // It is renewed as any other.
            world.pass(25 * SECOND);
            lease.check().unwrap();
        }
        world.machine.sim.block_on(lease.release()).unwrap();
        let next = world.machine.sim.block_on(waiter).unwrap();
        drop(next);
    }
}

#[test]
fn what_is_over_or_was_adopted_before_says_so_without_the_wait() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it.ttl(TTL));
    let now = || world.machine.sim.now();

    let first = world.acquire("r").detach().unwrap();
    let lease = adopt(&world, &other, &first).unwrap();
    let before = now();
    assert_eq!(why(adopt(&world, &world.redlock, &first)), NotAdopted::Taken);
    lease.check().unwrap();
    drop(lease);
    world.pass(SECOND);
    assert_eq!(why(adopt(&world, &other, &first)), NotAdopted::Over, "it was released");

    let second = world.acquire("r").detach().unwrap();
    world.pass(TTL + SECOND);
    assert_eq!(why(adopt(&world, &other, &second)), NotAdopted::Over);
    let after = world.acquire("r");
    assert_eq!(why(adopt(&world, &other, &second)), NotAdopted::Taken);
    after.check().unwrap();
    assert!(now().saturating_since(before) < TTL + 3 * SECOND, "it waits for nothing");
}

#[test]
fn of_several_who_adopt_at_once_one_has_it_whoever_reaches_which_node_first() {
    let mut wins = [0; 3];
    for seed in 0..200_u32 {
        let world = Fixture::on(Machine::seeded(u64::from(seed)), TTL, |it| it);
        let before = world.acquire("r");
        let (least, detached) = (token(&before), before.detach().unwrap());
        // Each is near another node, and at another distance from the rest.
        let manner =
            |by: u32, node: u32| Manner::Late((seed * (by + 3) + node * (by + 1)) % 7 * MS);
        let all: Vec<_> = (0..3)
            .map(|by| {
                let manners = [0, 1, 2].map(|node| manner(by, (node + by) % 3));
                world.process_with(manners, |it| it.ttl(TTL))
            })
            .collect();
        let tries: Vec<_> = all.iter().map(|by| by.adopt(&detached).into_future()).collect();
        let mut results = world.machine.sim.block_on(futures::future::join_all(tries));
        let winner = results.iter().position(Result::is_ok).expect("one of them");
        wins[winner] += 1;
        let won: Vec<_> = results.extract_if(.., |result| result.is_ok()).flatten().collect();
        assert_eq!(won.len(), 1, "seed {seed}: {results:?}");
        assert!(token(&won[0]) > least);
        for result in results {
            assert_eq!(why(result), NotAdopted::Taken, "seed {seed}");
        }
        won[0].check().unwrap();
        world.pass(30 * SECOND);
        won[0].check().unwrap();
        assert_eq!(nodes_of(&world, &detached), 0, "seed {seed}: what was given back ends");
    }
    assert!(wins.iter().all(|wins| *wins > 20), "{wins:?}");
}

#[test]
fn what_a_round_has_taken_in_vain_is_given_back_and_can_be_adopted() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it.ttl(TTL).wait(4 * SECOND));
    let lease = world.acquire("r");
    let before = token(&lease);
    let detached = lease.detach().unwrap();
    world.nodes[1].hang();
    world.nodes[2].hang();
    let refused = adopt(&world, &other, &detached).unwrap_err();
    assert!(matches!(refused, AcquireError::NoQuorum { granted: 1, .. }), "{refused}");
    world.nodes[1].resume();
    world.nodes[2].resume();
    world.pass(SECOND);
    assert_eq!(nodes_of(&world, &detached), 3);
    // A caller that goes away.
    {
        let mut going = pin!(other.adopt(&detached).into_future());
        let waker = noop_waker();
        world.nodes[1].hang();
        world.nodes[2].hang();
        assert!(going.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        world.pass(10 * MS);
        assert_eq!(nodes_of(&world, &detached), 2, "the one that answers is taken");
    }
    world.nodes[1].resume();
    world.nodes[2].resume();
    world.pass(SECOND);
    assert_eq!(nodes_of(&world, &detached), 3);
    // While one of three is away, it goes on as ever.
    world.nodes[0].disconnect();
    world.pass(SECOND);
    let lease = adopt(&world, &other, &detached).unwrap();
    assert!(token(&lease) > before);
    lease.check().unwrap();
}

#[test]
fn it_lies_for_as_long_as_was_asked_for_up_to_the_longest_ttl() {
    let longest = 60 * SECOND;
    let world = Fixture::with(TTL, |it| it.max_ttl(longest));
    let other = world.other_process(|it| it.ttl(TTL).max_ttl(longest));
    let detach = |time: Duration| {
        let lease = world.acquire("r");
        world.machine.sim.block_on(lease.detach_for(time)).unwrap()
    };
    for (asked, lies) in [(20 * SECOND, 20 * SECOND), (longest * 10, longest), (MS, TTL)] {
        let detached = detach(asked);
        let least = lies - lies / 50 - 2 * MS;
        assert!((least..=lies).contains(&detached.left()), "{asked:?}: {:?}", detached.left());
        world.pass(detached.left() - 2 * MS);
        let lease = adopt(&world, &other, &detached).unwrap();
        drop(lease);
        world.pass(SECOND);
        let detached = detach(asked);
        world.pass(lies + SECOND);
        assert_eq!(why(adopt(&world, &other, &detached)), NotAdopted::Over, "{asked:?}");
    }
    // With a lock-delay both fit into it.
    let lease = world.request(world.redlock.acquire("r").lock_delay(30 * SECOND));
    let detached = world.machine.sim.block_on(lease.detach_for(longest)).unwrap();
    assert!(detached.left() <= 30 * SECOND, "{:?}", detached.left());
    // An extension that nobody confirms changes nothing.
    let lease = world.acquire("s");
    world.set_all(Manner::Deaf);
    let detached = world.machine.sim.block_on(lease.detach_for(longest)).unwrap();
    assert!(detached.left() <= TTL, "{:?}", detached.left());
}

#[test]
fn what_cannot_be_detached_stays_as_it_is_and_what_cannot_be_adopted_sends_nothing() {
    let world = Fixture::new(TTL);
    let lease = world.acquire("r");
    world.nodes[1].delete("r");
    world.nodes[2].delete("r");
    world.pass(TTL);
    assert!(
        matches!(lease.detach(), Err(DetachError::Lost(lost)) if lost.reason == LossReason::Gone)
    );

    let other = world.other_process(|it| it.ttl(TTL).fleet("other"));
    let detached = world.acquire("s").detach().unwrap();
    let sent = world.sent();
    let of_others = NotAdopted::OtherFleet { of: "default".into(), ours: "other".into() };
    assert_eq!(why(adopt(&world, &other, &detached)), of_others);
    assert_eq!(world.sent(), sent);

    let classic = Fixture::with(TTL, |it| it.classic());
    let Err(DetachError::Unsupported { reason, lease }) = classic.acquire("r").detach() else {
        panic!("in classic mode nothing counts");
    };
    assert_eq!(reason, Unsupported::Classic { ability: Ability::HandingOver });
    lease.check().unwrap();
    let refused = adopt(&classic, &classic.redlock, &detached).unwrap_err();
    assert!(matches!(refused, AcquireError::Unsupported(_)), "{refused}");
}

#[test]
fn it_is_adopted_beside_those_who_wait_in_the_same_process_and_they_come_next() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let detached = world.acquire("r").detach().unwrap();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let wait = || world.redlock.acquire("r").wait(60 * SECOND).into_future();
    let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(wait())).collect();
    for waiter in &mut waiters {
        assert!(waiter.as_mut().poll(&mut cx).is_pending());
    }
    world.pass(SECOND);
    let lease = adopt(&world, &world.redlock, &detached).unwrap();
    let mut last = token(&lease);
    assert!(waiters.iter_mut().all(|waiter| waiter.as_mut().poll(&mut cx).is_pending()));
    drop(lease);
    for waiter in waiters {
        let lease = world.machine.sim.block_on(waiter).unwrap();
        assert!(token(&lease) > last);
        last = token(&lease);
    }
    // Of one who asks once beside a waiter.
    let detached = world.acquire("r").detach().unwrap();
    let lease = adopt(&world, &world.redlock, &detached).unwrap();
    let busy = world.machine.sim.block_on(world.redlock.try_acquire("r").into_future());
    assert!(busy.unwrap_err().is_contended());
    lease.check().unwrap();
}

#[test]
fn a_node_that_forgets_takes_no_more_than_its_own_vote() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it.ttl(TTL));
    for forget in 0..3 {
        let detached = world.acquire("r").detach().unwrap();
        world.nodes[..forget].iter().for_each(|node| node.delete("r"));
        let adopted = adopt(&world, &other, &detached);
        if forget < 2 {
            adopted.unwrap().check().unwrap();
        } else {
            assert_eq!(why(adopted), NotAdopted::Over);
            assert_eq!(nodes_of(&world, &detached), 1, "what it took is given back");
        }
        world.pass(2 * TTL);
    }
}

/// Where an hour is left, and what a node keeps of it is in the way for as long.
const HOUR: Duration = Duration::from_secs(3600);

fn with_an_hour() -> (Fixture, Redlock, DetachedLease) {
    let world = Fixture::with(TTL, |it| it.max_ttl(HOUR));
    let other = world.other_process(|it| it.ttl(TTL).max_ttl(HOUR).wait(SECOND));
    let detached = world.machine.sim.block_on(world.acquire("r").detach_for(HOUR)).unwrap();
    assert_eq!(nodes_of(&world, &detached), 3);
    (world, other, detached)
}

#[test]
fn a_node_that_was_away_at_an_adoption_follows() {
    for away in [SECOND, 200 * SECOND] {
        let (world, other, detached) = with_an_hour();
        world.nodes[2].disconnect();
        world.pass(MS);
        let lease = adopt(&world, &other, &detached).unwrap();
        world.pass(away);
        world.nodes[2].reconnect();
        world.pass(2 * TTL);
        assert_eq!(nodes_of(&world, &detached), 0);
        let its = lease.owner().to_string().into_bytes();
        assert_eq!(world.nodes[2].value("r"), Some(its), "a renewal has set it");
        // Another one is away, and it is held by those two.
        world.nodes[0].disconnect();
        world.pass(2 * TTL);
        lease.check().unwrap();
        drop(lease);
        world.pass(SECOND);
        drop(world.machine.sim.block_on(other.try_acquire("r").into_future()).unwrap());
    }
}

/// It is given back before a renewal could find that node.
#[test]
fn a_node_that_was_away_for_all_of_an_adopted_lease_has_nothing_left_of_the_one_before() {
    for away in [Duration::ZERO, 200 * SECOND] {
        let (world, other, detached) = with_an_hour();
        world.nodes[2].disconnect();
        world.pass(MS);
        let lease = adopt(&world, &other, &detached).unwrap();
        world.pass(SECOND);
        drop(lease);
        world.pass(away);
        world.nodes[2].reconnect();
        world.pass(10 * SECOND);
        assert!(world.nodes.iter().all(|node| !node.has("r")));
        world.machine.sim.block_on(async move { other.close().await }).unwrap();
    }
    // One that is detached once more leaves nothing to wait for.
    let (world, other, detached) = with_an_hour();
    world.nodes[2].disconnect();
    world.pass(MS);
    drop(adopt(&world, &other, &detached).unwrap().detach().unwrap());
    world.machine.sim.block_on(async move { other.close().await }).unwrap();
}

/// A round took a node and was lost, the next one is won without it, and that node is back later: whichever of what undoes
/// both is the first to reach it.
#[test]
fn what_a_lost_round_took_is_not_given_back_behind_one_that_was_won() {
    for more in 0..8 {
        let (world, other, detached) = with_an_hour();
        world.nodes[..2].iter().for_each(|node| node.hang());
        let mut going = Box::pin(other.adopt(&detached).wait(20 * SECOND).into_future());
        let waker = noop_waker();
        assert!(going.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        world.pass(10 * MS);
        let first = world.nodes[2].value("r");
        assert_eq!(nodes_of(&world, &detached), 2, "one has been taken over");
        world.nodes[2].disconnect();
        world.pass(SECOND);
        world.nodes[..2].iter().for_each(|node| node.resume());
        let lease = world.machine.sim.block_on(going).unwrap();
        assert_ne!(first, Some(lease.owner().to_string().into_bytes()), "by another round");
        assert_eq!(first, world.nodes[2].value("r"));
        drop(lease);
        world.pass(30 * SECOND + more * 100 * MS);
        world.nodes[2].reconnect();
        world.pass(20 * SECOND);
        assert!(world.nodes.iter().all(|node| !node.has("r")), "{more}");
    }
}

/// Another one had it there for a moment, and gives it back behind the release.
#[test]
fn what_another_adoption_gives_back_behind_one_that_was_won_does_not_stay() {
    let (world, other, detached) = with_an_hour();
    let lease = adopt(&world, &other, &detached).unwrap();
    world.nodes[2].keep("r", &detached.owner().to_string(), HOUR);
    world.pass(2 * TTL);
    assert_eq!(nodes_of(&world, &detached), 0);
    let its = lease.owner().to_string().into_bytes();
    assert_eq!(world.nodes[2].value("r"), Some(its));
}

/// A key that was taken over lives for what was left of it, whatever the ttl is since.
#[test]
fn what_an_adoption_leaves_on_a_node_that_is_away_for_long_is_given_back_when_it_is_there() {
    let (world, other, detached) = with_an_hour();
    world.nodes[1..].iter().for_each(|node| node.hang());
    {
        let mut going = pin!(other.adopt(&detached).into_future());
        let waker = noop_waker();
        assert!(going.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        world.pass(10 * MS);
        assert_eq!(nodes_of(&world, &detached), 2, "one has been taken over");
        world.nodes[0].disconnect();
        world.pass(MS);
    }
    world.nodes[1..].iter().for_each(|node| node.resume());
    world.pass(200 * SECOND);
    world.nodes[0].reconnect();
    world.pass(10 * SECOND);
    assert_eq!(nodes_of(&world, &detached), 3, "it is given back");

    let lease = adopt(&world, &other, &detached).unwrap();
    world.nodes[0].disconnect();
    world.pass(MS);
    drop(lease);
    world.pass(200 * SECOND);
    world.nodes[0].reconnect();
    world.pass(10 * SECOND);
    assert!(world.nodes.iter().all(|node| !node.has("r")), "it is released");
}
