//! Goal: keys of others on the nodes, whatever they are and however large, are neither harmed nor do they harm.
//!
//! Method: keys, values, locks of other libraries, and users' rights that are set and changed by hand beside leases.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{Lease, Redlock, runtime::TokioRuntime};
use quorlock_harness::{Cluster, Server, eventually, redis};

use super::{MS, SECOND, SOON, admit, admitted, all_ready, clock::Clocks, ready, settings};

/// A client that connects asks for its rights. A lock of any name must survive that.
#[test]
fn connecting_touches_nobodys_key() {
    let server = Server::start();
    let names = ["quorlock:rights-probe", "quorlock:rights", "rights", "probe", ""];
    for name in names {
        server.set(name, "somebody's", None);
    }
    for classic in [false, true] {
        let builder = Redlock::builder().node(server.url()).danger_skip_quarantine();
        let redlock = ready(if classic { builder.classic() } else { builder });
        redlock.blocking_close().unwrap();
    }
    for name in names {
        assert_eq!(server.get(name).as_deref(), Some(&b"somebody's"[..]), "{name}");
        assert_eq!(server.pttl(name), -1, "{name}");
    }
}

/// With the least rights of the README, nothing that a client does is denied.
#[test]
fn connecting_leaves_nothing_in_the_servers_log_of_denials() {
    let least = "-@all +set +getrange +del +pttl +pexpire +eval +evalsha +info";
    let own = "~quorlock:* +hget +hmget +hset +time +unlink +rename +client|tracking";
    for classic in [false, true] {
        let server = Server::start();
        let mut command =
            vec!["ACL", "SETUSER", "app", "on", ">sesame", "~lock:*", "resetchannels"];
        command.extend(least.split(' '));
        if !classic {
            command.extend(own.split(' '));
        }
        server.run(&command);
        let url = format!("redis://app:sesame@127.0.0.1:{}", server.port());
        let builder = Redlock::builder().node(url).danger_skip_quarantine();
        let redlock = ready(if classic { builder.classic() } else { builder });
        let lease = redlock.acquire("lock:a").blocking().unwrap();
        assert!(redlock.try_acquire("lock:a").blocking().unwrap_err().is_contended());
        futures::executor::block_on(lease.extend()).unwrap();
        lease.blocking_release().unwrap();
        redlock.blocking_close().unwrap();
        let log = format!("{:?}", server.run(&["ACL", "LOG"]));
        assert_eq!(log, "array([])", "classic: {classic}");
    }
}

/// node-redlock and others write 32 hexadecimal digits too, and for longer than our longest ttl.
#[test]
fn another_librarys_lock_is_never_shortened() {
    let ttl = 2 * SECOND;
    let clocks = Clocks::start(3);
    let cluster = &clocks.cluster;
    admit(cluster, ttl);
    let client = ready(settings(cluster, ttl));
    client.acquire("r").blocking().unwrap().blocking_release().unwrap();
    (0..3).for_each(|node| clocks.jump(node, -40_000));
    for server in cluster {
        server.set("r", "0123456789abcdef0123456789abcdef", Some(12_000));
    }
    let error = client.acquire("r").wait(3 * SECOND).blocking();
    assert!(error.is_err(), "two holders");
    assert!(cluster.iter().all(|server| server.pttl("r") > 5_000), "it has been cut");
}

/// Keeps a lease beside what happens, and says whether it was lost.
fn beside(redlock: &Redlock, during: impl FnOnce()) -> Lease {
    let held = redlock.acquire("held").blocking().unwrap();
    during();
    held.check().expect("a lease on something else is not lost");
    held
}

#[test]
fn a_huge_value_at_a_polled_name_is_a_holder_like_any_other() {
    let cluster = admitted(3, 2 * SECOND);
    for classic in [false, true] {
        for megabytes in [8, 64] {
            // The last of so many bytes; the others are zero.
            let last = (megabytes * 1_048_576 - 1).to_string();
            for server in &cluster {
                server.run(&["SETRANGE", "r", &last, "x"]);
            }
            // A busy machine needs longer to look at so many bytes.
            let builder = settings(&cluster, 2 * SECOND).node_timeout(500 * MS);
            let redlock = ready(if classic { builder.classic() } else { builder });
            let held = beside(&redlock, || {
                for _ in 0..20 {
                    let error = redlock.acquire("r").wait(50 * MS).blocking().unwrap_err();
                    assert!(error.is_contended(), "{megabytes} MB, classic {classic}: {error}");
                    let (_, denial) = error.nodes().unwrap().denials().next().unwrap();
                    assert_eq!(denial.holder.as_ref().map(|holder| holder.len()), Some(64));
                }
            });
            held.blocking_release().unwrap();
            all_ready(&redlock);
        }
    }
}

/// A right is narrowed while leases are held. One of them cannot be extended any more; the others are.
#[test]
fn a_lease_that_cannot_be_extended_costs_no_other() {
    let ttl = 2 * SECOND;
    for classic in [false, true] {
        let cluster = Cluster::start(3);
        let user = |pattern: &str| {
            for server in &cluster {
                let own = "~quorlock:*";
                server.run(&[
                    "ACL", "SETUSER", "app", "reset", "on", ">sesame", "+@all", own, pattern,
                ]);
            }
        };
        user("~lock:*");
        let urls =
            cluster.iter().map(|node| format!("redis://app:sesame@127.0.0.1:{}", node.port()));
        let builder = Redlock::builder().nodes(urls).connect_timeout(10 * SECOND).ttl(ttl);
        let builder = builder.max_ttl(ttl).node_timeout(500 * MS).danger_skip_quarantine();
        let redlock = ready(if classic { builder.classic() } else { builder });
        let held: Vec<Lease> =
            (0..20).map(|n| redlock.acquire(format!("lock:a{n}")).blocking().unwrap()).collect();
        let alone = redlock.acquire("lock:b").blocking().unwrap();
        user("~lock:a*");
        eventually("that one is lost", SOON, || alone.check().is_err());
        std::thread::sleep(ttl);
        let lost = held.iter().filter(|lease| lease.check().is_err()).count();
        assert_eq!(lost, 0, "classic {classic}");
    }
}

/// Two fleets of different names, or of different sizes, do not share a database.
#[test]
fn a_node_of_another_fleet_is_refused() {
    use quorlock::{
        node::{NodeState, Refusal},
        protocol::Members,
    };

    let cluster = admitted(4, SECOND);
    let first = ready(settings(&cluster, SECOND));
    let urls = cluster.urls();
    let same_size = Redlock::builder().nodes(urls.clone()).fleet("invoices");
    let smaller = Redlock::builder().nodes(urls.into_iter().take(3));
    for (builder, fleet, size) in [(same_size, "invoices", 4), (smaller, "default", 3)] {
        let other =
            builder.connect_timeout(10 * SECOND).ttl(SECOND).max_ttl(SECOND).build().unwrap();
        let refused = |state: &NodeState| match state {
            NodeState::Refused(Refusal::OtherMembers {
                other, configured, age: Some(_), ..
            }) => {
                let is = |members: &Members, fleet: &str, size: usize| {
                    members.fleet() == fleet && members.nodes().count() == size
                };
                is(other, "default", 4) && is(configured, fleet, size)
            }
            _ => false,
        };
        eventually("it is refused everywhere", SOON, || {
            other.nodes().iter().all(|node| refused(&node.state))
        });
        assert!(other.try_acquire("r").blocking().is_err());
    }
    first.acquire("r").blocking().unwrap().blocking_release().unwrap();
    // A database of its own is a node of its own.
    let urls = cluster.urls().into_iter().take(3).map(|url| format!("{url}/1"));
    let other = Redlock::builder().nodes(urls).fleet("invoices").danger_skip_quarantine();
    let other = ready(other.connect_timeout(10 * SECOND));
    other.acquire("r").wait(Duration::from_secs(5)).blocking().unwrap().blocking_release().unwrap();
}

/// A server says that a database was emptied, and not which one. The neighbour empties its own every three
/// milliseconds, or once in the time that a lease takes where nothing is emptied, if that is longer.
#[test]
fn a_neighbour_that_empties_a_database_of_its_own_again_and_again_costs_little() {
    let (cluster, without) = (admitted(3, SECOND), admitted(3, SECOND));
    let redlock = ready(settings(&cluster, SECOND));
    // On a thread of its own, so that the work of the other client does not delay it.
    let own = Arc::new(TokioRuntime::dedicated().unwrap());
    let calm = ready(settings(&without, SECOND).runtime(own));
    let (pause, stopped) = (Mutex::new(3 * MS), AtomicBool::new(false));
    let emptied = AtomicUsize::new(0);
    let (mut granted, mut asked) = (0, 0);
    std::thread::scope(|scope| {
        for server in &cluster {
            let (pause, stopped, emptied) = (&pause, &stopped, &emptied);
            scope.spawn(move || {
                let mut connection = server.control();
                redis::cmd("SELECT").arg(5).exec(&mut connection).unwrap();
                while !stopped.load(Ordering::Relaxed) {
                    redis::cmd("FLUSHDB").exec(&mut connection).unwrap();
                    emptied.fetch_add(1, Ordering::Relaxed);
                    let pause = *pause.lock().unwrap();
                    std::thread::sleep(pause);
                }
            });
        }
        let began = Instant::now();
        while began.elapsed() < 5 * SECOND {
            let since = Instant::now();
            // Whatever comes of it: none is waited for when the flushes are to end.
            drop(calm.acquire("r").wait(SECOND).blocking().map(Lease::blocking_release));
            *pause.lock().unwrap() = since.elapsed().clamp(3 * MS, 50 * MS);
            // The second one meets the release of the first.
            for _ in 0..2 {
                asked += 1;
                granted += usize::from(redlock.acquire("r").wait(2 * SECOND).blocking().is_ok());
            }
        }
        stopped.store(true, Ordering::Relaxed);
    });
    let emptied = emptied.into_inner();
    println!("{granted} of {asked}, emptied {emptied} times");
    assert!(granted * 10 > asked * 9, "{granted} of {asked}");
    assert!(emptied > 100, "it was emptied {emptied} times only");
}
