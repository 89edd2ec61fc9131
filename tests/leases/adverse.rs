//! Goal: code that runs in the middle of a release, a hand-over or a loss, and that may panic there, keeps no waiter
//! from being served, and no lease from being seen to.
//!
//! Method: virtual time; wakers and a runtime that do something inside the call that is tested.

use std::{
    fmt,
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use quorlock::{
    AcquireError, AcquireFuture, Lease,
    protocol::{Drift, Timestamp},
    runtime::{Runtime, Task},
};

use crate::{
    fixture::{Fixture, MS, Machine, Manner, SECOND, watched},
    hostile::{Hostile, wait},
    line::{got, poll, waiter},
};

const TTL: Duration = Duration::from_secs(10);

fn world() -> Fixture {
    let world = Fixture::new(TTL);
    world.keep_lines();
    world
}

/// A waker that tries to acquire, and keeps what it gets.
fn trying(world: &Fixture) -> (Arc<Hostile<impl Fn() + Send + Sync + 'static>>, Tries) {
    let (redlock, tries) = (world.redlock.clone(), Tries::default());
    let kept = Arc::clone(&tries);
    let waker = Hostile::new(move || {
        let mut future = redlock.try_acquire("r").into_future();
        let _ = poll(&mut future);
        kept.lock().unwrap().push(future);
    });
    (waker, tries)
}

type Tries = Arc<Mutex<Vec<AcquireFuture>>>;

/// So many releases at once wait for turns, and a turn is over when its outcome is known. A node that hangs keeps no
/// release waiting, neither where a quorum has answered nor where none can.
#[test]
fn a_node_that_hangs_does_not_hold_up_a_burst_of_releases() {
    const MANY: usize = 1_000;
    for has_quorum in [true, false] {
        let world = Fixture::with(TTL, |builder| builder.node_timeout(SECOND));
        let leases: Vec<Lease> = (0..MANY).map(|n| world.acquire(&format!("r{n}"))).collect();
        world.nodes[2].hang();
        if !has_quorum {
            world.nodes[..2].iter().for_each(|node| node.disconnect());
        }
        let sent = world.nodes[2].sent();
        drop(leases);
        // Far within the node timeout.
        world.pass(100 * MS);
        assert_eq!(world.nodes[2].sent() - sent, MANY, "a quorum answers: {has_quorum}");
        world.nodes[2].resume();
        let has = |n: &usize| world.nodes[2].has(&format!("r{n}"));
        assert_eq!((0..MANY).filter(has).count(), 0);
    }
}

/// No validity depends on a release: slow nodes have ten times as long for it as for a round.
#[test]
fn a_release_that_slow_nodes_confirm_behind_a_node_timeout_is_confirmed() {
    let world = Fixture::with(TTL, |builder| builder.node_timeout(50 * MS));
    let lease = world.acquire("r");
    world.set_all(Manner::Far(200 * MS));
    let mut release = lease.release();
    assert!(poll(&mut release).is_pending());
    world.pass(199 * MS);
    assert!(poll(&mut release).is_pending());
    world.pass(2 * MS);
    assert!(matches!(poll(&mut release), Poll::Ready(Ok(()))));
}

#[test]
fn whoever_learns_that_a_lease_is_over_may_ask_for_the_next_there_and_then() {
    watched(|| {
        for way in ["released", "left to expire", "lost", "found lost"] {
            let world = world();
            let lease = world.request(world.redlock.acquire("r").without_renewal());
            let (waker, tries) = trying(&world);
            let _waiting = wait(lease.signal(), &waker);
            let lease = match way {
                "released" => {
                    drop(lease);
                    None
                }
                "left to expire" => {
                    lease.let_expire();
                    None
                }
                "lost" => Some(lease),
                _ => {
                    world.machine.suspend(2 * TTL);
                    assert!(lease.check().is_err());
                    Some(lease)
                }
            };
            world.pass(2 * TTL);
            assert_eq!(waker.woken(), 1, "{way}");
            let mut tries = tries.lock().unwrap();
            let answer = poll(&mut tries[0]);
            assert!(answer.is_ready(), "{way}");
            drop((answer, lease));
            drop(std::mem::take(&mut *tries));
            drop(world.acquire("r"));
        }
    });
}

/// One in line, with this ttl.
fn waiter_for(world: &Fixture, wait: Duration, ttl: Duration) -> AcquireFuture {
    let request = world.redlock.acquire("r").wait(wait).ttl(ttl);
    let mut future = request.into_future();
    assert!(poll(&mut future).is_pending());
    future
}

/// The keys may be left to expire then, but the lease does not go on, and those in line are served.
#[test]
fn a_clock_that_panics_anywhere_in_a_release_keeps_nobody_waiting_behind_it() {
    watched(|| {
        // With another ttl it comes among the timers anew when the lease is handed on.
        for (linger, ttl) in [(Duration::ZERO, TTL), (5 * SECOND, TTL), (5 * SECOND, TTL * 5 / 4)] {
            for nth in 1.. {
                let world = Fixture::with(TTL, |builder| builder.linger(linger).max_ttl(2 * TTL));
                world.keep_lines();
                let lease = world.acquire("r");
                // Three of them in line, which a single release cannot serve.
                let mut next: Vec<AcquireFuture> =
                    (0..3).map(|_| waiter_for(&world, 600 * SECOND, ttl)).collect();
                let panicked = world.machine.with_a_panic(nth, || {
                    let _ = catch_unwind(AssertUnwindSafe(|| drop(lease)));
                });
                let mut ended = 0;
                for next in &mut next {
                    world.pass(3 * TTL);
                    match got(next) {
                        Ok(lease) => drop(lease),
                        // It was the one that was about to begin.
                        Err(AcquireError::RuntimeEnded) => ended += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                assert!(ended <= usize::from(panicked), "{nth}");
                if !panicked {
                    break;
                }
            }
        }
    });
}

/// A panic that meets another one would end the process.
#[test]
fn a_clock_that_stays_broken_while_a_lease_is_handed_on_keeps_nobody_waiting_behind_it() {
    watched(|| {
        for nth in 1.. {
            let world = Fixture::with(TTL, |builder| builder.linger(5 * SECOND).max_ttl(2 * TTL));
            world.keep_lines();
            let lease = world.acquire("r");
            // It keeps what is known of the lease alive.
            let signal = lease.signal();
            let next: Vec<AcquireFuture> =
                (0..3).map(|_| waiter_for(&world, 600 * SECOND, TTL * 5 / 4)).collect();
            let panicked = world.machine.with_panics_from(nth, || {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(lease)));
            });
            for mut next in next {
                world.pass(4 * TTL);
                match got(&mut next) {
                    Ok(lease) => drop(lease),
                    Err(AcquireError::RuntimeEnded) => assert!(panicked, "{nth}"),
                    Err(error) => panic!("{error}"),
                }
            }
            world.pass(4 * TTL);
            drop(world.acquire("r"));
            assert!(signal.check().is_err(), "{nth}");
            if !panicked {
                assert!(nth > 3);
                break;
            }
        }
    });
}

/// Unset when it is dropped.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_clock_that_panics_while_a_loss_is_told_keeps_nobody_from_hearing_of_it() {
    for nth in 1.. {
        let world = world();
        let held = world.acquire("r");
        let (signal, waits) = (held.signal(), Arc::new(AtomicBool::new(true)));
        let hears = Ends(Arc::clone(&waits));
        world.machine.sim.spawn(Box::pin(async move {
            // It looks at the clock too, and then it is its own panic that ends it.
            signal.lost().await;
            drop(hears);
        }));
        world.pass(MS);
        world.nodes.iter().for_each(|node| node.delete("r"));
        let panicked = world.machine.pass_with_a_panic(nth, TTL);
        world.pass(2 * TTL);
        assert!(!waits.load(Ordering::Relaxed), "{nth}");
        drop(world.acquire("r"));
        if !panicked {
            assert!(nth > 3);
            break;
        }
    }
}

/// The timers of all leases also tell a waiter in line that its time is up.
#[test]
fn a_clock_that_panics_where_a_wait_ends_costs_no_lease_its_renewals() {
    for nth in 1.. {
        let world = world();
        let held = world.acquire("r");
        // Renewed with what is due a little before.
        let mut late = waiter(&world, 3200 * MS);
        let mut more = waiter(&world, 3200 * MS);
        world.pass(3195 * MS);
        let panicked = world.machine.pass_with_a_panic(nth, 200 * MS);
        world.pass(2 * TTL);
        held.check().unwrap_or_else(|lost| panic!("{nth}: {lost}"));
        assert!(poll(&mut late).is_ready() && poll(&mut more).is_ready(), "{nth}");
        if !panicked {
            assert!(nth > 3);
            break;
        }
    }
}

#[test]
fn whoever_is_handed_a_lease_behind_one_that_has_used_up_its_time_is_renewed() {
    let world = Fixture::new(2 * SECOND);
    world.keep_lines();
    let asks = || world.redlock.acquire("r").max_hold(1900 * MS).wait(60 * SECOND);
    let first = world.request(asks());
    let [mut second, mut third] = [(); 2].map(|()| asks().into_future());
    assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
    drop(first);
    world.pass(5 * MS);
    let second = got(&mut second).unwrap();
    // Extended at 0.7 and at 1.3 s, and at 2 s not any more.
    world.pass(2300 * MS);
    let owner = second.owner();
    drop(second);
    let third = got(&mut third).unwrap();
    assert_eq!(third.owner(), owner, "it is handed on");
    world.pass(1500 * MS);
    third.check().unwrap();
}

/// The simulation's runtime, which does something when it is asked whether it serves.
struct Hooked {
    machine: Machine,
    hook: Arc<Mutex<Hook>>,
}

type Hook = Option<(Timestamp, Box<dyn FnOnce() + Send>)>;

impl Runtime for Hooked {
    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn wall_us(&self) -> u64 {
        self.machine.wall_us()
    }

    fn sleep_until(&self, at: Timestamp) -> Task {
        self.machine.sleep_until(at)
    }

    fn spawn(&self, task: Task) {
        self.machine.spawn(task);
    }

    fn serves(&self) -> bool {
        let now = self.machine.now();
        let due = self.hook.lock().unwrap().take_if(|(at, _)| now >= *at);
        if let Some((_, act)) = due {
            act();
        }
        true
    }

    fn random(&self) -> [u8; 16] {
        self.machine.random()
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

/// Between the timer that ends its linger, and the step that gives it back.
#[test]
fn what_is_taken_at_the_moment_that_it_is_given_back_is_renewed_and_lost_as_ever() {
    taken_when_given_back(2 * SECOND);
}

/// Its time is up at the very moment at which it is to be renewed.
#[test]
fn what_is_taken_when_it_is_to_be_renewed_and_given_back_is_renewed() {
    let renewed_after = (TTL - Drift::default().of(TTL)) / 3;
    taken_when_given_back(renewed_after);
}

/// It is kept for so long after the round that has won it began.
#[track_caller]
fn taken_when_given_back(kept_for: Duration) {
    let took = {
        let world = Fixture::new(TTL);
        let begun = world.machine.now();
        drop(world.acquire("r"));
        world.machine.now().saturating_since(begun)
    };
    let linger = kept_for - took;
    let hook: Arc<Mutex<Hook>> = Arc::default();
    let world = {
        let hook = Arc::clone(&hook);
        let machine = Machine::new();
        Fixture::on(machine.clone(), TTL, |builder| {
            builder.linger(linger).runtime(Arc::new(Hooked { machine, hook }))
        })
    };
    world.keep_lines();
    let lease = world.acquire("r");
    let (owner, released_at) = (lease.owner(), world.machine.now());
    drop(lease);
    let taken: Arc<Mutex<Option<Lease>>> = Arc::default();
    let act = {
        let (redlock, taken) = (world.redlock.clone(), Arc::clone(&taken));
        move || {
            let mut future = redlock.try_acquire("r").into_future();
            *taken.lock().unwrap() = Some(got(&mut future).unwrap());
        }
    };
    *hook.lock().unwrap() = Some((released_at.saturating_add(linger), Box::new(act)));
    world.pass(linger + 10 * MS);
    let lease = taken.lock().unwrap().take().unwrap();
    assert_eq!(lease.owner(), owner);
    world.pass(3 * TTL);
    lease.check().unwrap();
    let signal = lease.signal();
    let (waker, _tries) = trying(&world);
    let _waiting = wait(signal, &waker);
    world.nodes.iter().for_each(|node| node.delete("r"));
    world.pass(TTL);
    assert_eq!(waker.woken(), 1, "it is told of the loss");
}

/// The place of a process in the lines on the nodes is over when no caller waits in it any more, though one still looks
/// at an earlier lease.
#[test]
fn whoever_comes_again_stands_behind_those_who_have_come_meanwhile() {
    let world = world();
    let earlier = world.acquire("r");
    let _looked_at = earlier.signal();
    drop(earlier);
    let [holds, waits] = [(); 2].map(|()| world.other_process(|builder| builder));
    let held = world.request(holds.acquire("r"));
    // It stands in line, and its time is up.
    let mut short = waiter(&world, 50 * MS);
    world.pass(100 * MS);
    assert!(got(&mut short).is_err());
    let mut first = waits.acquire("r").wait(60 * SECOND).into_future();
    assert!(poll(&mut first).is_pending());
    world.pass(100 * MS);
    let mut second = waiter(&world, 60 * SECOND);
    world.pass(100 * MS);
    drop(held);
    world.pass(100 * MS);
    assert!(poll(&mut second).is_pending(), "it has overtaken the other");
    drop(got(&mut first).unwrap());
    world.pass(100 * MS);
    drop(got(&mut second).unwrap());
}

/// What a head's round has found counts for those behind it where it would for a round of their own.
#[test]
fn a_round_that_was_too_late_for_the_heads_ttl_is_no_answer_to_those_with_a_longer_one() {
    let world = world();
    world.nodes.iter().for_each(|node| node.hang());
    let mut short = world
        .redlock
        .acquire("r")
        .ttl(20 * MS)
        .min_validity(15 * MS)
        .wait(60 * SECOND)
        .into_future();
    assert!(poll(&mut short).is_pending());
    world.pass(MS);
    let mut long = world.redlock.try_acquire("r").into_future();
    assert!(poll(&mut long).is_pending());
    world.pass(9 * MS);
    world.nodes.iter().for_each(|node| node.resume());
    world.pass(500 * MS);
    // The second has asked in place of the first by then, and the first waits for it.
    let lease = got(&mut long).unwrap();
    assert!(poll(&mut short).is_pending());
    drop(lease);
    world.pass(500 * MS);
    got(&mut short).unwrap().check().unwrap();
}

/// As behind a suspend, in which an extension has become due as well.
#[test]
fn a_clock_that_panics_where_several_things_are_due_keeps_nobody_waiting_behind_its_deadline() {
    watched(|| {
        for nth in 1.. {
            let world = Fixture::with(6 * TTL, |builder| builder.max_ttl(6 * TTL));
            let lease = world.acquire("r");
            let mut late = waiter_for(&world, 20 * SECOND, TTL);
            world.pass(SECOND);
            world.machine.suspend(25 * SECOND);
            let panicked = world.machine.pass_with_a_panic(nth, 100 * MS);
            world.pass(SECOND);
            assert!(got(&mut late).is_err(), "{nth}");
            lease.check().unwrap();
            if !panicked {
                assert!(nth > 10);
                break;
            }
        }
    });
}

/// The clock is read again for each part of a long list of calls. Calls taken out before have been sent by then, and
/// none overtakes them.
#[test]
fn what_is_taken_out_before_a_panic_of_the_clock_is_sent_first() {
    const MANY: usize = 30;
    let mut reached = 0;
    for nth in 1.. {
        let world = Fixture::new(10 * SECOND);
        let leases: Vec<_> = (0..MANY).map(|n| world.acquire(&format!("r{n}"))).collect();
        let mut asked = world.redlock.try_acquire("r0").into_future();
        drop(leases);
        assert!(poll(&mut asked).is_pending());
        let panicked = world.machine.pass_with_a_panic(nth, 10 * MS);
        world.pass(5 * SECOND);
        let answer = got(&mut asked);
        if !panicked {
            drop(answer.unwrap());
            break;
        }
        if let Err(error) = answer {
            assert!(!error.is_contended(), "the {nth}th question panics: {error}");
        }
        reached = nth;
    }
    assert!(reached > 10, "{reached}");
}
