//! Goal: a node whose clock jumps cannot give a resource away to a client that knows the node, and the client that
//! is granted it has the larger token in any case.
//!
//! Method: servers whose wall clocks the test sets (`WallClock` of the harness).
//! The holder has the keys of the nodes 0 and 1; the clock of node 1 jumps ahead, so that its key expires; a
//! second client asks. In classic mode it is granted. By default its reply shows the jump, and is no vote. A
//! client that meets the node after the jump cannot see it: there the fencing token is what holds.

use std::{
    future::IntoFuture,
    time::{Duration, SystemTime},
};

use quorlock::{
    AcquireError, FenceGate, NodeOutcome,
    node::{NodeError, NodeState},
};
use quorlock_harness::{Cluster, WallClock, eventually};

use super::{
    MS, SECOND, SOON, acquire_without, admit, all_ready, has_heard, is_quarantined, ready, settings,
};

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// Longer than these schedules take.
const TTL: Duration = Duration::from_secs(20);

/// Servers with clocks of their own.
pub(crate) struct Clocks {
    pub(crate) cluster: Cluster,
    clocks: Vec<WallClock>,
}

impl Clocks {
    pub(crate) fn start(n: usize) -> Self {
        let clocks: Vec<_> = (0..n).map(|_| WallClock::system()).collect();
        let cluster = Cluster::start_with(n, |index, builder| clocks[index].give_to(builder));
        Self { cluster, clocks }
    }

    /// Sets the clock of a node, and waits until the node shows it.
    pub(crate) fn jump(&self, node: usize, offset_us: i64) {
        self.clocks[node].set(offset_us);
        eventually("the clock has jumped", SOON, || {
            let before = system_us();
            let shown = self.wall_us(node);
            (before..=system_us()).contains(&(shown - offset_us))
        });
    }

    fn wall_us(&self, node: usize) -> i64 {
        let time = self.cluster[node].run(&["TIME"]);
        let (seconds, micros): (i64, i64) = redis::from_redis_value(time).unwrap();
        seconds * 1_000_000 + micros
    }
}

fn system_us() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

#[test]
fn a_jump_gives_two_holders_in_classic_mode() {
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    let client = || settings(cluster, TTL).classic();
    let (first, second) = (ready(client()), ready(client()));
    let held = acquire_without(cluster, &first, "r", 2);
    assert!(second.try_acquire("r").blocking().is_err());
    clocks.jump(1, MINUTE);
    let other = second.try_acquire("r").blocking().unwrap();
    assert!(held.is_valid() && other.is_valid(), "two holders at once");
}

#[test]
fn a_jump_gives_one_holder_to_clients_that_know_the_node() {
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, TTL);
    let (first, second) = (ready(settings(cluster, TTL)), ready(settings(cluster, TTL)));
    let held = acquire_without(cluster, &first, "r", 2);
    // Without this, the second client would meet the node for the first time after the jump.
    has_heard(cluster, &second);
    clocks.jump(1, MINUTE);
    assert_eq!(cluster[1].get("r"), None, "node 1 has forgotten");
    let error = second.try_acquire("r").blocking().unwrap_err();
    let jumped = |error: &AcquireError| {
        error.nodes().is_some_and(|nodes| {
            nodes.iter().any(|report| {
                report.node.index() == 1
                    && report.outcome == NodeOutcome::Failed(NodeError::ClockJumped)
            })
        })
    };
    assert!(jumped(&error) || is_quarantined(&second, 1), "{error}");
    // From then on the node is in quarantine, for every client.
    eventually("the node is quarantined", SOON, || is_quarantined(&second, 1));
    let fresh = settings(cluster, TTL).blocking_connect().unwrap();
    for client in [&second, &fresh] {
        let state = &client.nodes()[1].state;
        assert!(matches!(state, NodeState::Quarantined { .. }), "{state:?}");
        assert!(client.try_acquire("r").blocking().is_err());
    }
    held.check().unwrap();
    assert_eq!(cluster[1].get("r"), None, "what node 1 had granted is released");
}

/// The first reply after the jump shows it. The others on their way behind it are compared with a clock that has
/// jumped already, and are no votes all the same.
#[test]
fn a_jump_takes_the_votes_that_were_on_their_way_too() {
    // The keys of the holder expire in the jump; an acquire that was sent before it does not come too late.
    let (ttl, jump, node_timeout) = (2 * SECOND + 500 * MS, 2_800_000, 3 * SECOND);
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, ttl);
    let client = || ready(settings(cluster, ttl).node_timeout(node_timeout));
    let (first, second) = (client(), client());
    has_heard(cluster, &second);
    let held = acquire_without(cluster, &first, "r", 2);
    clocks.jump(1, jump);
    assert_eq!(cluster[1].get("r"), None, "node 1 has forgotten");
    let acquires = futures::future::join_all(
        ["other", "r", "third"].map(|name| second.try_acquire(name).into_future()),
    );
    let granted: Vec<bool> =
        futures::executor::block_on(acquires).iter().map(Result::is_ok).collect();
    assert!(held.is_valid(), "in time");
    assert!(!granted[1], "two holders at once");
    eventually("the node is quarantined", SOON, || is_quarantined(&second, 1));
}

#[test]
fn a_renewed_lease_survives_a_jump_and_the_node_comes_back() {
    let ttl = SECOND;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, ttl);
    let redlock = ready(settings(cluster, ttl));
    let held = redlock.acquire("r").blocking().unwrap();
    eventually("all have the key", SOON, || {
        cluster.iter().all(|server| super::has_key(server, &held))
    });
    for offset in [MINUTE, -MINUTE] {
        clocks.jump(1, offset);
        eventually("the holder sees the jump", SOON, || is_quarantined(&redlock, 1));
        held.check().unwrap();
        all_ready(&redlock);
        eventually("the key is back", SOON, || super::has_key(&cluster[1], &held));
        held.check().unwrap();
        clocks.jump(1, 0);
        eventually("the holder sees the jump back", SOON, || is_quarantined(&redlock, 1));
        all_ready(&redlock);
    }
}

/// If our own clock had jumped, all nodes would seem to have moved by the same amount.
#[test]
fn nodes_whose_clocks_jump_by_different_amounts_are_to_blame_also_where_they_are_a_majority() {
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, TTL);
    // Each is more than a look ten seconds later would take for another rate.
    for (first, second) in [(2_000_000, 6_000_000), (-30_000_000, 3_000_000)] {
        let redlock = ready(settings(cluster, SECOND));
        redlock.acquire("r").wait(SOON).blocking().unwrap().blocking_release().unwrap();
        clocks.jump(0, first);
        clocks.jump(1, second);
        assert!(redlock.try_acquire("r").blocking().is_err());
        let mut seen = [false; 2];
        eventually("both are quarantined", SOON, || {
            seen = [seen[0] || is_quarantined(&redlock, 0), seen[1] || is_quarantined(&redlock, 1)];
            seen == [true; 2]
        });
        assert!(!is_quarantined(&redlock, 2));
        clocks.jump(0, 0);
        clocks.jump(1, 0);
        admit(cluster, TTL);
    }
}

#[test]
fn a_client_that_meets_the_node_after_the_jump_has_the_larger_token() {
    // Two days also end the generation of the node's counters, at the next look; no counter expires.
    for jump in [MINUTE, 2 * DAY] {
        let clocks = Clocks::start(3);
        let cluster = &clocks.cluster;
        admit(cluster, TTL);
        let first = ready(settings(cluster, TTL));
        let held = acquire_without(cluster, &first, "r", 2);
        clocks.jump(1, jump);
        let fresh = ready(settings(cluster, TTL));
        let other = fresh.try_acquire("r").without_renewal().blocking().unwrap();
        assert!(held.is_valid() && other.is_valid(), "exclusion is not promised here");
        let gate = FenceGate::new();
        let (old, new) = (held.token().unwrap(), other.token().unwrap());
        gate.admit(old).unwrap();
        gate.admit(new).unwrap();
        assert!(new > old && gate.admit(old).is_err(), "the gate keeps the older one out");
    }
}

/// A clock that is set back leaves keys with hours to live. The next acquire cuts them.
#[test]
fn a_clock_set_back_locks_nobody_out() {
    let ttl = SECOND;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, ttl);
    // Its holder has died, and all clocks are set back by an hour.
    let holder = ready(settings(cluster, ttl));
    let held = holder.acquire("r").without_renewal().blocking().unwrap();
    eventually("all have the key", SOON, || {
        cluster.iter().all(|server| super::has_key(server, &held))
    });
    std::mem::forget(held);
    (0..3).for_each(|node| clocks.jump(node, -60 * MINUTE));
    for server in cluster {
        assert!(server.pttl("r") > 3_500_000, "an hour and more: {}", server.pttl("r"));
    }
    let classic = ready(settings(cluster, ttl).classic());
    assert!(classic.try_acquire("r").blocking().unwrap_err().is_contended());
    assert!(cluster[0].pttl("r") > 3_500_000);
    let redlock = ready(settings(cluster, ttl));
    drop(redlock.acquire("r").wait(SOON).blocking().unwrap());
}
