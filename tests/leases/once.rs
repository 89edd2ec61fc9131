//! Goal: work of a period is due to one host, until it says that it is done, and then to nobody in that period; and each
//! limit of that is what the page says.
//!
//! Method: virtual time, several processes on the same nodes with wall clocks of their own, nodes that answer late, hang
//! or forget, and node clocks that jump.

use std::{
    future::IntoFuture,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use quorlock::{
    Ability, AcquireError, AlreadyDone, DoneError, DueLease, Once, OnceError, OncePer, Redlock,
    Unsupported, runtime::Runtime,
};
use quorlock_harness::{Alter, Altered};

use crate::fixture::{Fixture, MS, Machine, Manner, SECOND};

const TTL: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3_600);

/// A machine whose wall clock is off by so many ms.
#[derive(Debug)]
struct Off(Machine, i64);

impl Alter for Off {
    fn inner(&self) -> &dyn Runtime {
        &self.0
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us().saturating_add_signed(self.1 * 1_000)
    }
}

/// A process whose wall clock shows so many seconds behind a full hour now.
fn host(world: &Fixture, behind_the_hour: i64) -> Redlock {
    let (us, hour) = (i64::try_from(world.machine.wall_us()).unwrap(), 3_600_000_000);
    let off = (us.div_euclid(hour) + 1) * hour + behind_the_hour * 1_000_000 - us;
    let runtime = Arc::new(Altered(Off(world.machine.clone(), off / 1_000)));
    world.other_process(|it| {
        it.ttl(TTL).max_ttl(TTL).label(format!("{behind_the_hour}")).runtime(runtime)
    })
}

fn ask(world: &Fixture, request: OncePer) -> Result<Once, OnceError> {
    world.machine.sim.block_on(request.into_future())
}

fn hourly(host: &Redlock) -> OncePer {
    host.try_acquire("report").once_per(HOUR)
}

#[track_caller]
fn due(once: Result<Once, OnceError>) -> DueLease {
    match once {
        Ok(Once::Due(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn done(once: Result<Once, OnceError>) -> AlreadyDone {
    match once {
        Ok(Once::AlreadyDone(done)) => done,
        other => panic!("{other:?}"),
    }
}

/// Says that the work is done.
fn says(world: &Fixture, lease: DueLease) -> (Result<(), DoneError>, DueLease) {
    world.machine.sim.block_on(async move { (lease.done().await, lease) })
}

/// Does the work, and gives the lease back.
fn does(world: &Fixture, lease: DueLease) {
    let (said, lease) = says(world, lease);
    said.unwrap();
    world.machine.sim.block_on(lease.release()).unwrap();
}

#[test]
fn work_is_due_to_one_host_in_each_period() {
    let world = Fixture::new(TTL);
    let hosts = [0, -3, 2].map(|off| host(&world, off));
    for hour in 0..3 {
        // Each time another one comes first.
        let lease = due(ask(&world, hourly(&hosts[hour % 3])));
        let at_work = ask(&world, hourly(&hosts[(hour + 1) % 3]));
        assert!(at_work.unwrap_err().is_contended());
        let owner = lease.owner();
        does(&world, lease);
        world.pass(20 * SECOND);
        for host in &hosts {
            let said = done(ask(&world, hourly(host)));
            assert_eq!((said.owner, said.ago.as_secs()), (owner, 20), "{said}");
            assert!(said.label.is_some());
        }
        assert!(world.nodes.iter().all(|node| !node.has("report")), "no lease was taken");
        world.pass(HOUR - 20 * SECOND);
    }
}

#[test]
fn a_host_that_waits_for_another_at_the_work_hears_that_it_is_done() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let (one, other) = (host(&world, 0), host(&world, 1));
    let lease = due(ask(&world, hourly(&one)));
    let mut waits = other.acquire("report").once_per(HOUR).into_future();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    world.pass(SECOND);
    does(&world, lease);
    done(world.machine.sim.block_on(waits));
    assert!(world.nodes.iter().all(|node| !node.has("report")), "what it took is given back");
}

#[test]
fn work_that_was_not_said_to_be_done_is_due_again() {
    let world = Fixture::new(TTL);
    let (one, other) = (host(&world, 0), host(&world, 0));
    // It failed.
    drop(due(ask(&world, hourly(&one))));
    world.pass(SECOND);
    // Its host ends at work, and its lease by itself.
    let lease = due(ask(&world, one.try_acquire("report").without_renewal().once_per(HOUR)));
    std::mem::forget(lease);
    world.pass(SECOND);
    assert!(ask(&world, hourly(&other)).unwrap_err().is_contended());
    world.pass(TTL);
    // Said twice is said once, and the lease is as it was.
    let (said, lease) = says(&world, due(ask(&world, hourly(&other))));
    said.unwrap();
    does(&world, lease);
    done(ask(&world, hourly(&one)));
}

#[test]
fn what_is_done_after_the_lease_was_lost_is_done() {
    let world = Fixture::new(TTL);
    let (one, other) = (host(&world, 0), host(&world, 0));
    let lease = due(ask(&world, one.try_acquire("report").without_renewal().once_per(HOUR)));
    world.pass(2 * TTL);
    assert!(lease.check().is_err());
    says(&world, lease).0.unwrap();
    done(ask(&world, hourly(&other)));
}

#[test]
fn one_node_that_forgets_is_told_again_and_a_quorum_that_does_makes_the_work_due_again() {
    let world = Fixture::new(TTL);
    let hosts = [0, 1].map(|off| host(&world, off));
    does(&world, due(ask(&world, hourly(&hosts[0]))));
    // One after the other, and each is told by who asks.
    for node in &world.nodes {
        node.restart();
        world.pass(2 * TTL);
        done(ask(&world, hourly(&hosts[1])));
        world.pass(SECOND);
    }
    // Two of three before anybody asks.
    world.nodes[..2].iter().for_each(|node| {
        node.restart();
        world.pass(2 * TTL);
    });
    world.nodes[2].disconnect();
    world.pass(SECOND);
    does(&world, due(ask(&world, hourly(&hosts[1]))));
    done(ask(&world, hourly(&hosts[0])));
}

#[test]
fn one_node_that_knows_is_believed_where_the_others_do_not() {
    let world = Fixture::new(TTL);
    let hosts = [0, 1].map(|off| host(&world, off));
    let lease = due(ask(&world, hourly(&hosts[0])));
    world.nodes[1..].iter().for_each(|node| node.hang());
    let (said, lease) = says(&world, lease);
    let Err(DoneError::Unconfirmed { told: 1, needed: 2, .. }) = said else { panic!("{said:?}") };
    world.nodes[1..].iter().for_each(|node| node.resume());
    world.pass(SECOND);
    drop(lease);
    world.pass(SECOND);
    done(ask(&world, hourly(&hosts[1])));
}

#[test]
fn a_clock_that_is_ahead_by_a_period_does_the_work_of_the_next_one_early() {
    let world = Fixture::new(TTL);
    let (right, ahead) = (host(&world, 0), host(&world, 3_600));
    does(&world, due(ask(&world, hourly(&ahead))));
    // Of this hour as well.
    done(ask(&world, hourly(&right)));
    world.pass(HOUR);
    done(ask(&world, hourly(&right)));
    does(&world, due(ask(&world, hourly(&ahead))));
    world.pass(HOUR);
    done(ask(&world, hourly(&right)));
}

#[test]
fn nodes_whose_clocks_jump_past_the_next_period_forget_what_is_done() {
    for (jump, forget) in [(HOUR, false), (2 * HOUR, true)] {
        let world = Fixture::new(TTL);
        let host = host(&world, 0);
        does(&world, due(ask(&world, hourly(&host))));
        world.machine.suspend(jump);
        world.pass(SECOND);
        match ask(&world, hourly(&host)).unwrap() {
            Once::Due(_) => assert!(forget),
            _ => assert!(!forget),
        }
    }
}

#[test]
fn hosts_agree_about_the_hour_within_half_of_it() {
    let world = Fixture::new(TTL);
    does(&world, due(ask(&world, hourly(&host(&world, 0)))));
    for off in [-1_790, -1, 1, 1_790] {
        done(ask(&world, hourly(&host(&world, off))));
    }
    // It has had its last hour, and this is the next one.
    done(ask(&world, hourly(&host(&world, -1_810))));
    does(&world, due(ask(&world, hourly(&host(&world, 1_810)))));
}

#[test]
fn what_cannot_be_once_per_period_is_refused_and_nothing_is_sent() {
    let world = Fixture::new(TTL);
    let redlock = &world.redlock;
    for every in [Duration::ZERO, MS / 2, 367 * 24 * HOUR, Duration::MAX] {
        let refused = ask(&world, redlock.acquire("r").once_per(every));
        let Err(OnceError::Period { every: said }) = refused else { panic!("{refused:?}") };
        assert_eq!(said, every);
    }
    let several = ask(&world, redlock.acquire_all(["a", "b"]).once_per(HOUR));
    assert!(matches!(several, Err(OnceError::NotOne)), "{several:?}");
    let name = ask(&world, redlock.acquire("").once_per(HOUR));
    assert!(matches!(name, Err(OnceError::Acquire(AcquireError::Resource(_)))), "{name:?}");
    let classic = world.other_process(|it| it.classic());
    let refused = ask(&world, classic.acquire("r").once_per(HOUR));
    let Err(OnceError::Acquire(AcquireError::Unsupported(reason))) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(reason, Unsupported::Classic { ability: Ability::Completions });
    assert_eq!(world.sent(), 0);
}

#[test]
fn too_few_nodes_that_say_whether_it_is_done_are_an_error_and_leave_nothing() {
    let world = Fixture::new(TTL);
    let host = host(&world, 0);
    world.nodes[1..].iter().for_each(|node| node.set(Manner::Deaf));
    let refused = ask(&world, hourly(&host));
    let Err(OnceError::Unknown { answered: 1, needed: 2, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(world.nodes.iter().all(|node| !node.has("report")), "the lease is given back");
    world.set_all(Manner::Sound);
    let lease = due(ask(&world, hourly(&host)));
    drop(lease);
}

#[test]
fn a_future_that_is_dropped_at_any_moment_leaves_nothing() {
    for after in 0..40 {
        let world = Fixture::new(TTL);
        let host = host(&world, 0);
        world.set_all(Manner::Far(10 * MS));
        let mut future = hourly(&host).into_future();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..after {
            if future.as_mut().poll(&mut cx).is_ready() {
                break;
            }
            world.pass(2 * MS);
        }
        drop(future);
        world.pass(SECOND);
        assert!(world.nodes.iter().all(|node| !node.has("report")), "after {after}");
        due(ask(&world, hourly(&host))).check().unwrap();
    }
}

const TEN: Duration = Duration::from_secs(10);

#[test]
fn who_asked_longer_ago_than_the_nodes_remember_is_told_so() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let (one, other) = (host(&world, 0), host(&world, 0));
    let ask_ten = |host: &Redlock| host.acquire("report").wait(100 * SECOND).once_per(TEN);
    let lease = due(ask(&world, ask_ten(&one)));
    let mut waits = ask_ten(&other).into_future();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    world.pass(SECOND);
    let (said, lease) = says(&world, lease);
    said.unwrap();
    // It holds on for longer than what it has said is kept.
    world.pass(3 * TEN);
    world.machine.sim.block_on(lease.release()).unwrap();
    let late = world.machine.sim.block_on(waits);
    assert!(matches!(late, Err(OnceError::Late { .. })), "{late:?}");
    assert!(world.nodes.iter().all(|node| !node.has("report")), "what it took is given back");
    // A process that is stopped on the way.
    world.set_all(Manner::Far(10 * MS));
    let mut waits = other.try_acquire("report").once_per(TEN).into_future();
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    does(&world, due(ask(&world, one.try_acquire("report").once_per(TEN))));
    world.pass(3 * TEN);
    let late = world.machine.sim.block_on(waits);
    assert!(matches!(late, Err(OnceError::Late { .. })), "{late:?}");
}

#[test]
fn the_period_is_that_of_the_moment_in_which_it_is_asked() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    // Five seconds before the edge.
    let (one, other) = (host(&world, 1_795), host(&world, 1_795));
    let holds = world.request(one.acquire("report"));
    let mut waits = other.acquire("report").wait(100 * SECOND).once_per(HOUR).into_future();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    world.pass(TEN);
    world.machine.sim.block_on(holds.release()).unwrap();
    does(&world, due(world.machine.sim.block_on(waits)));
    // Of the period before: the next one's is still to be done.
    does(&world, due(ask(&world, hourly(&one))));
    done(ask(&world, hourly(&one)));
}

#[test]
fn a_moment_may_be_named_while_the_nodes_remember_its_period() {
    let world = Fixture::new(TTL);
    let host = host(&world, 0);
    let hour = Duration::from_micros(world.machine.wall_us()).as_secs() / 3_600 + 1;
    let full = std::time::UNIX_EPOCH + u32::try_from(hour).unwrap() * HOUR;
    let at = |moment| ask(&world, host.try_acquire("report").once_per(HOUR).at(moment));
    does(&world, due(at(full - HOUR)));
    does(&world, due(at(full)));
    done(at(full));
    done(ask(&world, hourly(&host)));
    world.pass(2 * HOUR);
    let long_ago = at(full);
    assert!(matches!(long_ago, Err(OnceError::Late { .. })), "{long_ago:?}");
    due(at(full + HOUR)).check().unwrap();
}

#[test]
fn work_of_another_length_is_other_work() {
    let world = Fixture::new(TTL);
    let host = host(&world, 0);
    let daily = |host: &Redlock| host.try_acquire("report").once_per(24 * HOUR);
    does(&world, due(ask(&world, daily(&host))));
    for _ in 0..3 {
        does(&world, due(ask(&world, hourly(&host))));
        done(ask(&world, hourly(&host)));
        done(ask(&world, daily(&host)));
        world.pass(HOUR);
    }
}

#[test]
fn a_node_that_was_away_is_told_by_who_has_done_the_work() {
    let world = Fixture::new(TTL);
    let (one, other) = (host(&world, 0), host(&world, 0));
    world.nodes[0].disconnect();
    does(&world, due(ask(&world, hourly(&one))));
    world.nodes[0].reconnect();
    // Nobody asks meanwhile.
    world.pass(120 * SECOND);
    world.nodes[1].restart();
    world.pass(2 * TTL);
    world.nodes[2].disconnect();
    world.pass(SECOND);
    done(ask(&world, hourly(&other)));
}

#[test]
fn it_goes_on_saying_so_for_ten_node_timeouts() {
    let world = Fixture::new(TTL);
    let (one, other) = (host(&world, 0), host(&world, 0));
    let lease = due(ask(&world, hourly(&one)));
    world.nodes[1..].iter().for_each(|node| node.hang());
    let nodes = world.nodes.clone();
    let sim = world.machine.sim.clone();
    world.machine.sim.spawn(Box::pin(async move {
        sim.sleep(500 * MS).await;
        nodes.iter().for_each(|node| node.resume());
    }));
    let (said, lease) = says(&world, lease);
    said.unwrap();
    drop(lease);
    done(ask(&world, hourly(&other)));
}

#[test]
fn neither_a_least_time_nor_a_linger_keeps_others_out_of_work_that_is_done() {
    let world = Fixture::new(TTL);
    world.keep_lines();
    let (one, other) = (host(&world, 0), host(&world, 0));
    let lease = due(ask(&world, hourly(&one)));
    let request = other.acquire("report").hold_at_least(5 * SECOND).linger(5 * SECOND);
    let mut waits = request.once_per(HOUR).into_future();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    does(&world, lease);
    done(world.machine.sim.block_on(waits));
    assert!(world.nodes.iter().all(|node| !node.has("report")));
}

#[test]
fn a_lease_that_is_lost_before_its_holder_hears_of_it_is_not_due() {
    let world = Fixture::new(TTL);
    let host = host(&world, 0);
    world.set_all(Manner::Far(10 * MS));
    let request = host.try_acquire("report").without_renewal().once_per(HOUR);
    let mut future = request.into_future();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..20 {
        assert!(future.as_mut().poll(&mut cx).is_pending());
        if world.nodes.iter().all(|node| node.has("report")) {
            break;
        }
        world.pass(2 * MS);
    }
    // Nobody polls it.
    world.pass(2 * TTL);
    let late = world.machine.sim.block_on(future);
    assert!(matches!(late, Err(OnceError::Late { .. })), "{late:?}");
}
