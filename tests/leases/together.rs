//! Goal: a lease on several resources is one lease: one round trip, all of it or none, renewed, restored, handed on and
//! released as one; and nothing of it is held while it waits.
//!
//! Method: virtual time, nodes that count what they are sent.

use std::{future::IntoFuture, task::Poll, time::Duration};

use quorlock::{AcquireError, AcquireFuture, Lease, Redlock};

use crate::{
    fixture::{Fixture, MS, Manner, SECOND},
    line::{got, poll},
};

const TTL: Duration = Duration::from_secs(10);
const SET: [&str; 3] = ["a", "b", "c"];

fn all(world: &Fixture) -> Lease {
    world.request(world.redlock.acquire_all(SET))
}

fn waits_for(redlock: &Redlock, names: &[&str]) -> AcquireFuture {
    let mut future = redlock.acquire_all(names).wait(60 * SECOND).into_future();
    assert!(poll(&mut future).is_pending());
    future
}

/// On how many nodes each of them stands.
fn standing(world: &Fixture) -> [usize; 3] {
    SET.map(|name| world.nodes.iter().filter(|node| node.has(name)).count())
}

#[test]
fn it_costs_as_many_commands_as_one_resource() {
    let costs = |acquire: fn(&Fixture) -> Lease| {
        let world = Fixture::new(TTL);
        let sent = world.sent();
        let lease = acquire(&world);
        world.pass(MS);
        let acquired = (world.sent() - sent, standing(&world));
        world.pass(TTL);
        lease.check().unwrap();
        let renewed = world.sent() - sent;
        drop(lease);
        world.pass(MS);
        (acquired, renewed, world.sent() - sent, standing(&world))
    };
    let (acquired, renewed, released, left) = costs(all);
    assert_eq!((acquired, released - renewed, left), ((3, [3; 3]), 3, [0; 3]));
    assert!(renewed > 3, "it was renewed");
    let (_, of_one, released_one, _) = costs(|world| world.acquire("a"));
    assert_eq!((renewed, released), (of_one, released_one));
}

#[test]
fn nothing_is_held_while_it_waits() {
    for lines in [false, true] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let (second, third) = (world.other_process(|it| it), world.other_process(|it| it));
        let b = world.acquire("b");
        let mut waiting = waits_for(&second, &SET);
        world.pass(500 * MS);
        assert!(poll(&mut waiting).is_pending());
        assert_eq!(standing(&world), [0, 3, 0], "lines: {lines}");
        // Others have what is free meanwhile, and the set has it when all of it is.
        let mut a = third.acquire("a").wait(SECOND).into_future();
        assert!(poll(&mut a).is_pending());
        world.pass(100 * MS);
        let a = got(&mut a).unwrap();
        drop(b);
        world.pass(100 * MS);
        assert!(poll(&mut waiting).is_pending());
        drop(a);
        world.pass(200 * MS);
        got(&mut waiting).unwrap().check().unwrap();
    }
}

#[test]
fn what_overlaps_here_is_asked_for_as_soon_as_it_is_released_here() {
    for lines in [false, true] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let one = world.acquire("b");
        let mut set = waits_for(&world.redlock, &SET);
        world.pass(3 * SECOND);
        drop(one);
        world.pass(5 * MS);
        let set = got(&mut set).unwrap();
        let mut next = waits_for(&world.redlock, &["c"]);
        let mut other = waits_for(&world.redlock, &["c", "d"]);
        world.pass(3 * SECOND);
        drop(set);
        world.pass(5 * MS);
        let (next, other) = (poll(&mut next), poll(&mut other));
        assert!(next.is_ready() != other.is_ready(), "lines: {lines}");
    }
}

#[test]
fn it_is_handed_on_to_who_wants_the_same_and_lets_those_in_who_want_a_part_of_it() {
    let world = Fixture::new(TTL);
    let first = all(&world);
    let mut second = waits_for(&world.redlock, &["c", "b", "a"]);
    drop(first);
    world.pass(5 * MS);
    let mut lease = got(&mut second).unwrap();
    let (owner, sent) = (lease.owner(), world.sent());
    for _ in 0..3 {
        let mut next = waits_for(&world.redlock, &SET);
        let token = lease.token().unwrap();
        drop(lease);
        lease = got(&mut next).unwrap();
        assert!(lease.owner() == owner && lease.token().unwrap() > token);
    }
    assert_eq!(world.sent(), sent, "without a command");
    // A waiter for a part of it is let in after a turn, which is 10 ms.
    let mut part = waits_for(&world.redlock, &["b"]);
    let mut turns = 0;
    while poll(&mut part).is_pending() {
        let mut next = waits_for(&world.redlock, &SET);
        world.pass(MS);
        drop(lease);
        world.pass(MS);
        turns += 1;
        assert!(turns < 40, "it is kept out");
        match poll(&mut next) {
            Poll::Ready(next) => lease = next.unwrap(),
            Poll::Pending => break,
        }
    }
    println!("let in after {turns} turns");
}

#[test]
fn what_is_kept_as_nobodys_is_given_back_for_a_set() {
    let world = Fixture::with(TTL, |builder| builder.linger(5 * SECOND));
    drop(world.acquire("b"));
    world.pass(5 * MS);
    assert_eq!(standing(&world), [0, 3, 0]);
    let set = world.request(world.redlock.try_acquire_all(SET));
    drop(set);
    world.pass(5 * MS);
    assert_eq!(standing(&world), [3; 3]);
    let lease = world.acquire("c");
    assert_eq!(lease.resources().len(), 1);
}

#[test]
fn a_key_that_a_node_has_lost_is_set_again_and_the_node_counts_from_then_on() {
    let world = Fixture::new(TTL);
    let lease = all(&world);
    world.nodes[0].delete("b");
    world.pass(TTL);
    assert_eq!(standing(&world), [3; 3]);
    world.nodes[1].delete("a");
    world.nodes[2].delete("c");
    world.pass(TTL);
    // A quorum had it no more, and that is a loss, though each key stood on two of three nodes.
    assert!(lease.check().is_err());
    drop(lease);
    world.pass(MS);
    assert_eq!(standing(&world), [0; 3]);
}

/// Others delete one key of a set, on one node and later on another. Whether its holder still believes in it while
/// another client has that key.
fn is_had_twice(manner: Manner) -> bool {
    let world = Fixture::new(TTL);
    world.set_all(manner);
    let other = world.other_process(|it| it);
    let lease = all(&world);
    for node in &world.nodes[..2] {
        node.delete("b");
        world.pass(TTL);
    }
    let mut beside = other.try_acquire("b").into_future();
    assert!(poll(&mut beside).is_pending());
    world.pass(10 * MS);
    lease.check().expect("it is renewed");
    got(&mut beside).is_ok()
}

/// Invariant V3 of sets, from end to end: with every extension each key stands on a quorum.
#[test]
fn nodes_that_extend_a_part_of_a_set_are_found_out() {
    assert!(!is_had_twice(Manner::Sound));
    assert!(is_had_twice(Manner::ExtendsAPart), "a test that finds nothing proves nothing");
}

/// A task that holds a resource for a while over and over, and how often it did.
struct Part {
    name: &'static str,
    asks: Option<AcquireFuture>,
    has: Option<(Lease, Duration)>,
    leases: usize,
}

impl Part {
    const HOLD: Duration = Duration::from_millis(20);

    const fn of(name: &'static str) -> Self {
        Self { name, asks: None, has: None, leases: 0 }
    }

    fn step(&mut self, redlock: &Redlock, at: Duration) {
        if self.has.take_if(|(_, since)| at >= *since + Self::HOLD).is_some() || self.has.is_none()
        {
            let asks = self.asks.get_or_insert_with(|| waits_for(redlock, &[self.name]));
            if let Poll::Ready(lease) = poll(asks) {
                (self.has, self.asks) = (Some((lease.unwrap(), at)), None);
                self.leases += 1;
            }
        }
    }
}

/// The tasks release at different times, and so never leave all of it free by themselves.
#[test]
fn a_set_is_served_soon_beside_tasks_of_its_own_process_that_want_a_part_of_it() {
    for (lines, crowd) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let world = Fixture::new(TTL);
        if lines {
            world.keep_lines();
        }
        let mut parts: Vec<Part> = (0..2 * crowd).map(|at| Part::of(SET[at % 2])).collect();
        let (mut set, mut served, mut longest) = (None, 0, Duration::ZERO);
        let mut since = 35 * MS;
        for at in (0..4_000).map(|at| MS * at) {
            for (index, part) in parts.iter_mut().enumerate() {
                if index % 2 == 0 || at >= 10 * MS {
                    part.step(&world.redlock, at);
                }
            }
            if at >= since {
                let future = set.get_or_insert_with(|| waits_for(&world.redlock, &["a", "b"]));
                if let Poll::Ready(lease) = poll(future) {
                    drop(lease.unwrap());
                    longest = longest.max(at - since);
                    (set, served, since) = (None, served + 1, at + MS);
                }
            }
            world.pass(MS);
        }
        if set.is_some() {
            longest = longest.max(4_000 * MS - since);
        }
        let leases: Vec<usize> = parts.iter().map(|part| part.leases).collect();
        println!("lines {lines}: {served} sets, the longest wait {longest:?}, beside {leases:?}");
        // It waits for eight times as long as they hold it, and until they have ended.
        assert!(served >= 20 && longest <= 10 * Part::HOLD, "{served} {longest:?}");
        assert!(
            leases.iter().all(|leases| *leases * crowd >= 60),
            "they have their share: {leases:?}"
        );
    }
}

/// No task of this process can help the set.
#[test]
fn beside_a_set_that_waits_for_another_process_tasks_go_on() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let other = world.other_process(|it| it);
    let _held = world.request(other.acquire("b"));
    let mut set = waits_for(&world.redlock, &["a", "b"]);
    let mut part = Part::of("a");
    for at in (0..4_000).map(|at| MS * at) {
        part.step(&world.redlock, at);
        assert!(poll(&mut set).is_pending());
        world.pass(MS);
    }
    // Each task leaves the set the moment of a grace, and for a part of the time the set has all of it.
    assert!(part.leases >= 100, "{}", part.leases);
}

#[test]
fn whoever_asks_once_is_told_which_of_them_is_in_the_way() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it);
    let _held = world.acquire("b");
    let mut once = other.try_acquire_all(SET).into_future();
    assert!(poll(&mut once).is_pending());
    world.pass(10 * MS);
    let error = got(&mut once).unwrap_err();
    let AcquireError::Contended { resource, expires_in, .. } = &error else { panic!("{error}") };
    assert_eq!(resource.as_ref().unwrap().as_bytes(), b"b");
    assert!(expires_in.is_some_and(|left| left > 9 * SECOND && left <= TTL));
    assert!(error.to_string().starts_with("the resource `b` is held by another client"), "{error}");
    assert_eq!(standing(&world), [0, 3, 0]);
}

/// A process has one place in the line of a resource, for all of its requests: a request that leaves must not take away
/// the place of another.
#[test]
fn who_gives_up_a_set_does_not_take_the_place_of_those_who_want_a_part_of_it() {
    for (leaves, stays) in [(&SET[..], &["b"][..]), (&["b"], &SET), (&["b", "x"], &["b", "y"])] {
        let world = Fixture::new(TTL);
        world.keep_lines();
        let other = world.other_process(|it| it);
        let mut held = other.acquire("b").into_future();
        assert!(poll(&mut held).is_pending());
        world.pass(5 * MS);
        let held = got(&mut held).unwrap();
        let mut staying = waits_for(&world.redlock, stays);
        world.pass(3 * SECOND);
        let leaving = waits_for(&world.redlock, leaves);
        world.pass(100 * MS);
        drop(leaving);
        world.pass(50 * MS);
        drop(held);
        world.pass(20 * MS);
        got(&mut staying).unwrap().check().unwrap();
    }
}

#[test]
fn a_lock_delay_is_that_of_all_of_them() {
    let world = Fixture::with(TTL, |builder| builder.max_ttl(2 * TTL));
    let request = || {
        let request = world.redlock.acquire_all(SET).ttl(SECOND).lock_delay(2 * SECOND);
        world.request(request.without_renewal())
    };
    let mut released = request().release();
    assert!(poll(&mut released).is_pending());
    world.pass(5 * MS);
    assert!(poll(&mut released).is_ready());
    assert_eq!(standing(&world), [0; 3], "a release frees them at once");
    let lost = request();
    world.pass(SECOND);
    assert!(lost.check().is_err());
    drop(lost);
    world.pass(1900 * MS);
    assert_eq!(
        standing(&world),
        [3; 3],
        "nobody else has any of it for the time that was asked for"
    );
    world.pass(200 * MS);
    assert_eq!(standing(&world), [0; 3]);
}

/// A node answers nobody else while it extends the keys of one message.
#[test]
fn sets_are_extended_together_as_far_as_their_keys_go() {
    let world = Fixture::new(TTL);
    let set = |number: usize| (0..32).map(move |part| format!("{number}:{part}"));
    let many = |number| world.request(world.redlock.acquire_all(set(number)));
    let leases: Vec<Lease> = (0..20).map(many).collect();
    let one = world.acquire("one");
    world.pass(TTL);
    assert!(leases.iter().chain([&one]).all(|lease| lease.check().is_ok()));
    let most = world.nodes.iter().flat_map(|node| node.batches()).max().unwrap();
    assert!(most > 32 && most <= 128, "{most} keys");
}

/// After 160 ms, for a fourth of that: the key in its way is likely to go meanwhile, and newcomers must stay away.
#[test]
fn whoever_comes_anew_leaves_a_part_to_a_set_that_has_waited_here_for_long() {
    let world = Fixture::new(TTL);
    let other = world.other_process(|it| it);
    let _held = world.request(other.acquire("b"));
    let _set = waits_for(&world.redlock, &["a", "b"]);
    world.pass(165 * MS);
    let mut anew = waits_for(&world.redlock, &["a"]);
    world.pass(20 * MS);
    assert!(poll(&mut anew).is_pending(), "it is left to the set");
    assert_eq!(standing(&world), [0, 3, 0]);
    world.pass(30 * MS);
    got(&mut anew).unwrap().check().unwrap();
}

/// The set does not wait in the line of `b` here, so a lease on `b` that lingered would keep it waiting.
#[test]
fn what_a_set_waits_for_here_does_not_linger() {
    let world = Fixture::with(TTL, |builder| builder.linger(5 * SECOND));
    let held = world.acquire("b");
    let mut set = waits_for(&world.redlock, &SET);
    world.pass(100 * MS);
    drop(held);
    world.pass(20 * MS);
    got(&mut set).unwrap().check().unwrap();
}

/// The moment that is left to others is for a waiter that wants a part of it, and goes with that waiter.
#[test]
fn whoever_comes_anew_rests_for_nobody_who_has_gone() {
    let world = Fixture::new(TTL);
    let held = world.acquire("b");
    let set = waits_for(&world.redlock, &SET);
    world.pass(100 * MS);
    // The release is under way when it comes.
    world.set_all(Manner::Far(MS));
    drop(held);
    drop(set);
    world.pass(MS / 10);
    let mut anew = waits_for(&world.redlock, &["b"]);
    world.pass(MS + MS / 10);
    got(&mut anew).unwrap().check().unwrap();
}
