//! Goal: a node that may have forgotten votes no earlier than it should, whatever other clients do to it meanwhile, and
//! a node that need not wait is not made to.
//!
//! Method: real servers, clients that are cut from some of them by proxies, and markers that are changed behind a
//! client's back. Times are measured from the moment at which the node forgot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use quorlock::{
    Redlock,
    node::NodeState,
    runtime::{Runtime, TokioRuntime},
};
use quorlock_harness::{Alter, Altered, Cluster, Proxy, Server, eventually, redis};

use super::{
    MARKER, MS, SECOND, SOON, acquire_without, admitted, all_ready,
    clock::Clocks,
    is_quarantined, quarantine, ready,
    scripts::{ERA, ETAG, HOUR_MS, Node, Seen, Tell},
    settings, token,
};

fn state(server: &Server) -> Option<String> {
    redis::from_redis_value(server.run(&["HGET", MARKER, "state"])).unwrap()
}

/// A client of `cluster` that reaches node 1 through a proxy.
fn behind_proxy(cluster: &Cluster, ttl: Duration) -> (quorlock::Builder, Proxy) {
    let proxy = Proxy::start(cluster[1].port());
    let nodes = [cluster[0].url(), proxy.url(), cluster[2].url()];
    let builder = Redlock::builder().nodes(nodes).connect_timeout(10 * SECOND);
    (builder.node_timeout(100 * MS).ttl(ttl).max_ttl(ttl), proxy)
}

/// Another client has admitted the node meanwhile; it has voted, and has forgotten again.
#[test]
fn a_quarantine_that_was_begun_before_the_node_was_admitted_does_not_count() {
    let ttl = SECOND;
    let cluster = admitted(3, ttl);
    let (builder, proxy) = behind_proxy(&cluster, ttl);
    let (cut_off, other) = (ready(builder), ready(settings(&cluster, ttl)));
    cluster[1].restart_empty();
    eventually("both see it", SOON, || is_quarantined(&cut_off, 1) && is_quarantined(&other, 1));
    proxy.cut();
    all_ready(&other);
    // By now the other client's leases may stand on it.
    let held = acquire_without(&cluster, &other, "r", 2);
    cluster[1].flush();
    let forgot = Instant::now();
    proxy.heal();
    eventually("it is admitted again", SOON, || state(&cluster[1]).as_deref() == Some("ready"));
    let took = forgot.elapsed();
    assert!(took >= ttl, "admitted after {took:?}, while the lease could still be valid");
    assert!(held.check().is_err());
}

/// A process with a longer ttl has come since this one has looked at the nodes, and the restarted node cannot
/// tell.
#[test]
fn the_quarantine_is_that_of_a_longer_ttl_which_only_the_other_nodes_know() {
    let (short, long) = (SECOND, 4 * SECOND);
    let cluster = admitted(3, short);
    let brief = ready(settings(&cluster, short));
    let (builder, proxy) = behind_proxy(&cluster, long);
    let patient = ready(builder);
    let held = acquire_without(&cluster, &patient, "r", 2);
    proxy.cut();
    cluster[1].restart_empty();
    let forgot = Instant::now();
    while held.is_valid() {
        let granted = brief.try_acquire("r").ttl(short).without_renewal().blocking();
        assert!(granted.is_err() || !held.is_valid(), "two holders at once");
        std::thread::sleep(5 * MS);
    }
    all_ready(&brief);
    assert!(forgot.elapsed() >= quarantine(long), "{:?}", forgot.elapsed());
}

/// A marker that some other program has overwritten is named, and the node comes back once it is mended.
#[test]
fn a_marker_of_another_type_is_shown_and_can_be_mended() {
    let cluster = admitted(3, SECOND);
    cluster[1].del(MARKER);
    cluster[1].set(MARKER, "somebody else's", None);
    let redlock = settings(&cluster, SECOND).build().unwrap();
    let down = || match &redlock.nodes()[1].state {
        NodeState::Down { reason } => reason.contains("WRONGTYPE"),
        _ => false,
    };
    eventually("the reason is shown", SOON, down);
    redlock.acquire("r").wait(SOON).blocking().unwrap().blocking_release().unwrap();
    assert!(cluster[1].del(MARKER));
    all_ready(&redlock);
}

/// A client that was about to admit a node, and comes late, must not do so after the node has begun to wait anew.
#[test]
fn an_admission_and_a_jump_count_in_the_epoch_in_which_they_were_decided_on() {
    let node = Node::admitted();
    let first = node.join("0");
    assert!(first.ready && first.epoch == ERA && first.etag == ETAG);
    assert_eq!(node.join("1"), first, "a jump in another epoch");
    let second = node.join(&first.epoch);
    assert!(!second.ready && second.epoch != first.epoch);
    assert_eq!(node.join(&second.epoch), second, "it is joining already");
    assert!(!node.admit(&first.epoch));
    assert!(node.admit(&second.epoch));
    let third = node.join(&first.epoch);
    assert!(third.ready && third.epoch != second.epoch && third.epoch != first.epoch);
    assert!(!node.join(&third.epoch).ready);
    assert!(!node.admit(&second.epoch), "the same node, waiting again");
    node.server.flush();
    assert!(!node.join("0").ready);
    assert!(!node.admit(&third.epoch));
}

/// A plain look by the process of the marker, which tells of a wait.
fn tell(node: &Node, epoch: &str, ms: u64) -> Seen {
    let look = ["this", "0", "test/1", "60000", "0", "", "0"];
    node.look_telling(&look, HOUR_MS, Tell { waited: Some((epoch, ms)), ..Tell::default() })
}

/// By the node's own clock, which cuts what it is told.
fn joined_long_ago(node: &Node, epoch: &str) {
    node.mark(&[("waited", &format!("{epoch} 0 1"))]);
}

#[test]
fn a_node_keeps_the_longest_wait_that_it_was_told_of_in_its_epoch() {
    let node = Node::admitted();
    assert_eq!(tell(&node, ERA, 5_000).waited, 0, "it is not joining");
    let first = node.join(ERA);
    assert_eq!((first.ready, first.waited), (false, 0));
    // Its own clock cuts what it is told.
    let waited = tell(&node, &first.epoch, 60_000).waited;
    assert!(waited < 60_000, "{waited} ms, of a client whose clock has jumped");
    joined_long_ago(&node, &first.epoch);
    let waits = [(0, 0), (1_500, 1_500), (900, 1_500), (1_500, 1_500), (7_000, 7_000)];
    for (told, kept) in waits {
        assert_eq!(tell(&node, &first.epoch, told).waited, kept, "{told}");
        assert_eq!(tell(&node, ERA, 60_000).waited, kept, "of another epoch");
        assert_eq!(node.join("0").waited, kept, "a newcomer is told");
    }
    // Whatever is told, it is cut, and what is answered can be read.
    let waited = tell(&node, &first.epoch, u64::MAX).waited;
    assert!((60_000..=node.now_us() / 1000).contains(&waited), "{waited}");
    // It forgets, or is admitted and has to join again: its earlier wait does not count any more.
    node.mark(&[("identity", "that/0/00000000")]);
    let second = tell(&node, &first.epoch, 60_000);
    assert!(!second.ready && second.epoch != first.epoch && second.waited == 0, "{second:?}");
    joined_long_ago(&node, &second.epoch);
    assert_eq!(tell(&node, &second.epoch, 3_000).waited, 3_000);
    assert!(node.admit(&second.epoch));
    let ready = node.join("0");
    assert!(ready.ready && ready.waited == 0);
    assert_eq!(node.join(&ready.epoch).waited, 0);
}

/// Clients of an older version begin epochs too, and know nothing of waits. What others have written is no wait either.
#[test]
fn a_wait_counts_in_the_epoch_that_stands_beside_it_and_in_no_other() {
    let node = Node::admitted();
    let epoch = node.join(ERA).epoch;
    let foreign =
        ["42 60000 1", "60000", "", "abc", &format!("{epoch} 1e9 1"), &format!("{epoch}0 60000 1")]
            .map(str::to_owned);
    for waited in foreign {
        node.mark(&[("waited", &waited)]);
        assert_eq!(node.join("0").waited, 0, "{waited}");
    }
    node.mark(&[("waited", &format!("{epoch} 99999999999999999999999 1"))]);
    assert_eq!(node.join("0").waited, 1 << 53, "a number that is still one");
    node.mark(&[("waited", &format!("{epoch} 2500 1"))]);
    assert_eq!(node.join("0").waited, 2_500);
}

/// Its data went back to what it was while it was joining. A jump of its clock is no reason to wait anew.
#[test]
fn a_node_that_is_joining_begins_anew_if_its_data_went_back_and_for_no_other_reason() {
    let node = Node::admitted();
    let epoch = node.join(ERA).epoch;
    joined_long_ago(&node, &epoch);
    assert_eq!(tell(&node, &epoch, 2_000).waited, 2_000);
    let forced = |epoch: &str, letters: &str, after: u64| {
        let look = ["this", "0", "test/1", "60000", epoch, letters, "0"];
        node.look_telling(&look, HOUR_MS, Tell { after, ..Tell::default() })
    };
    assert_eq!(
        (forced(&epoch, "", 0).epoch, forced("7", "l", 0).epoch),
        (epoch.clone(), epoch.clone())
    );
    let newer = epoch.parse::<u64>().unwrap() + 5_000_000_000;
    let again = forced(&epoch, "l", newer);
    assert!(!again.ready && again.waited == 0, "{again:?}");
    assert!(again.epoch.parse::<u64>().unwrap() > newer, "epochs go on above what was seen");
    assert!(!node.admit(&epoch), "a client that has waited before comes late");
}

/// Another client has noticed the jump before, and the node has been through its quarantine.
#[test]
fn a_jump_that_is_noticed_late_is_not_held_against_the_node() {
    let ttl = 600 * MS;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    super::admit(cluster, ttl);
    let (early, late) = (ready(settings(cluster, ttl)), ready(settings(cluster, ttl)));
    let pair = |client: &Redlock, name: &str| {
        let lease = client.acquire(name).wait(SOON).blocking().unwrap();
        lease.blocking_release().unwrap();
    };
    pair(&early, "a");
    pair(&late, "b");
    clocks.jump(1, 60_000_000);
    // It asks at once, so that it sees the jump; the other one is idle meanwhile.
    eventually("one of them has seen it", SOON, || {
        pair(&early, "a");
        state(&cluster[1]).as_deref() == Some("joining")
    });
    eventually("it is admitted again", SOON, || state(&cluster[1]).as_deref() == Some("ready"));
    let epoch = || -> String {
        redis::from_redis_value(cluster[1].run(&["HGET", MARKER, "epoch"])).unwrap()
    };
    let admitted = epoch();
    for _ in 0..20 {
        pair(&late, "b");
        all_ready(&late);
    }
    assert_eq!(epoch(), admitted, "nobody made it wait again");
}

/// A client that was idle while the node forgot and was admitted again has heard of that from its acquire alone.
#[test]
fn a_jump_counts_in_the_epoch_of_which_an_acquire_has_told() {
    let ttl = 600 * MS;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    super::admit(cluster, ttl);
    let (idle, other) = (ready(settings(cluster, ttl)), ready(settings(cluster, ttl)));
    cluster[1].flush();
    eventually("the other one has it admitted", SOON, || {
        drop(other.acquire("a").wait(SOON).blocking().unwrap());
        state(&cluster[1]).as_deref() == Some("ready")
    });
    other.blocking_close().unwrap();
    drop(other);
    idle.acquire("b").blocking().unwrap().blocking_release().unwrap();
    clocks.jump(1, 60_000_000);
    eventually("it has to join again", SOON, || {
        drop(idle.try_acquire("b").blocking());
        state(&cluster[1]).as_deref() == Some("joining")
    });
    all_ready(&idle);
}

/// A client whose wall clock shows the far future.
#[derive(Debug)]
struct Future(TokioRuntime);

impl Alter for Future {
    fn inner(&self) -> &dyn Runtime {
        &self.0
    }

    fn wall_us(&self) -> u64 {
        1 << 53
    }
}

#[test]
fn a_client_with_a_broken_wall_clock_does_not_use_up_the_counters_of_a_new_fleet() {
    let cluster = Cluster::start(3);
    let runtime = Arc::new(Altered(Future(TokioRuntime::dedicated().unwrap())));
    let broken = ready(settings(&cluster, SECOND).runtime(runtime).danger_skip_quarantine());
    let first = token(&broken.acquire("r").wait(SOON).blocking().unwrap());
    let well = ready(settings(&cluster, SECOND));
    let second = token(&well.acquire("r").wait(SOON).blocking().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead = Duration::from_micros(second).saturating_sub(now);
    assert!(second > first && ahead < 3 * 60 * SECOND, "{ahead:?} ahead");
}

/// The admission of a node makes the others refuse votes to rounds that began before. A single round, sent at that
/// moment, must not look like an outage.
#[test]
fn an_admission_costs_nobody_a_single_round() {
    let ttl = 500 * MS;
    let cluster = admitted(5, ttl);
    let (watching, trying) = (ready(settings(&cluster, ttl)), ready(settings(&cluster, ttl)));
    let mut tries = 0;
    for _ in 0..4 {
        cluster[4].restart_empty();
        let seals = || -> u64 {
            let seal = cluster[0].run(&["HGET", MARKER, "seal"]);
            redis::from_redis_value::<String>(seal).unwrap().parse().unwrap()
        };
        let before = seals();
        let mut after = 0;
        while after < 20 {
            let lease = trying.try_acquire("r").blocking();
            lease.unwrap_or_else(|error| panic!("{error}")).blocking_release().unwrap();
            tries += 1;
            after += u32::from(seals() > before);
        }
        all_ready(&watching);
    }
    println!("{tries} single rounds");
}
