//! Goal: a resource that nobody uses any more leaves nothing on the nodes after the retention of counters, and until
//! then no more than `docs/deploying.md` says; tokens go on rising.
//!
//! Method: clients with a short retention on real servers, where a client that connects looks at every node; a wall
//! clock that is behind, so that only what the nodes know can make tokens rise; and the memory that a server reports.

use std::time::Instant;

use quorlock::{Lease, Redlock};
use quorlock_harness::{Server, eventually, redis};

use super::{SECOND, SOON, admitted, has_key, ready, settings, token, tokens::Odd};

const COUNTERS: [&str; 2] = ["quorlock:counters", "quorlock:older"];

fn has_counter(server: &Server, resource: &str) -> bool {
    COUNTERS.iter().any(|key| {
        redis::from_redis_value(server.run(&["HEXISTS", key, resource])).expect("yes or no")
    })
}

fn granted(redlock: &Redlock, resource: &str) -> Lease {
    redlock.acquire(resource).wait(SOON).without_renewal().blocking().unwrap()
}

#[test]
fn a_counter_that_is_not_used_is_gone_after_the_retention_and_tokens_rise_all_the_same() {
    let (ttl, retention) = (SECOND, 2 * SECOND);
    let cluster = admitted(3, ttl);
    let settings = || settings(&cluster, ttl).counter_retention(retention);
    let client = ready(settings());
    let mut last = 0;
    for _ in 0..3 {
        let lease = granted(&client, "r");
        last = token(&lease);
        eventually("every node has it", SOON, || cluster.iter().all(|node| has_key(node, &lease)));
        lease.blocking_release().unwrap();
    }
    let used = Instant::now();
    client.blocking_close().unwrap();
    assert!(cluster.iter().all(|node| has_counter(node, "r")));
    eventually("its counter is gone from every node", SOON, || {
        ready(settings()).blocking_close().unwrap();
        !cluster.iter().any(|node| has_counter(node, "r"))
    });
    assert!(used.elapsed() >= retention, "kept for {:?} only", used.elapsed());
    let behind = ready(settings().runtime(Odd::start(300 * SECOND)));
    for _ in 0..3 {
        let lease = granted(&behind, "r");
        assert!(token(&lease) > last, "{} after {last}", token(&lease));
        last = token(&lease);
        lease.blocking_release().unwrap();
    }
}

/// The formula of `docs/deploying.md`: the most that a counter takes, in bytes.
fn most_bytes(name: usize) -> usize {
    120 + (name + 4).next_multiple_of(16)
}

fn used_memory(server: &Server) -> usize {
    let info: String = redis::from_redis_value(server.run(&["INFO", "memory"])).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.expect("it is told").trim().parse().expect("a number")
}

/// What a server keeps for so many resources, with names of so many bytes, after they have been released.
fn kept_for(resources: usize, name: usize) -> usize {
    const TOGETHER: usize = 32;
    let cluster = admitted(1, 10 * SECOND);
    let server = &cluster[0];
    let client = || ready(settings(&cluster, 10 * SECOND).node_timeout(SECOND));
    let use_all = |range: std::ops::Range<usize>| {
        let redlock = client();
        std::thread::scope(|scope| {
            for thread in 0..TOGETHER {
                let (redlock, range) = (&redlock, range.clone());
                scope.spawn(move || {
                    for n in range.skip(thread).step_by(TOGETHER) {
                        granted(redlock, &format!("{n:0name$}")).blocking_release().unwrap();
                    }
                });
            }
        });
        redlock.blocking_close().unwrap();
    };
    // What the server allocates for its first clients does not count.
    use_all(0..TOGETHER);
    let before = used_memory(server);
    use_all(TOGETHER..TOGETHER + resources);
    eventually("no lock is left", SOON, || cluster.locks_left().is_empty());
    let entries: usize = redis::from_redis_value(server.run(&["HLEN", COUNTERS[0]])).unwrap();
    assert_eq!(entries, resources + TOGETHER + 1, "the counters, and the head");
    used_memory(server).saturating_sub(before)
}

/// The numbers of resources are just above a power of two, where a table is larger than ever beside what it holds.
#[test]
fn idle_resources_cost_no_more_than_the_formula_says() {
    for (resources, name) in [(16_500, 20), (4_200, 64)] {
        let began = Instant::now();
        let kept = kept_for(resources, name);
        let most = resources * most_bytes(name);
        println!(
            "{resources} names of {name} bytes: {} bytes each, at most {}, in {:?}",
            kept / resources,
            most_bytes(name),
            began.elapsed()
        );
        assert!(kept <= most + most / 10, "{kept} bytes, and by the formula {most} at most");
    }
}
