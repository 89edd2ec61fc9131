//! Goal: a question for the holder of a resource names it, also with a minority down and in another process; and never
//! one that has given it back.
//!
//! Method: five servers, two of them killed; a lease of a second process, which is this binary run again; and a resource
//! that goes from one holder to the next while a client asks all the time.

use std::{
    io::{BufRead, BufReader},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use quorlock::{
    HeldBy, Holder, Redlock,
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeFuture, NodeSpec, NodeState, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Resource, Serves, Sighting},
};
use quorlock_harness::{Cluster, Companion, Server, connected, eventually};

use super::{MS, SECOND, SOON, connect, is_down, patient};

#[track_caller]
fn held(redlock: &Redlock) -> HeldBy {
    match redlock.blocking_holder("r").unwrap() {
        Holder::Held(by) => by,
        other => panic!("{other}"),
    }
}

#[test]
fn the_holder_is_named_with_two_of_five_nodes_down() {
    let cluster = Cluster::start(5);
    let holder = connected(patient().nodes(cluster.urls()).label(b"web-1/4711/billing\xff"));
    let asking = connect(&cluster);
    let before = SystemTime::now() - 2 * MS;
    let lease = holder.acquire("r").ttl(60 * SECOND).blocking().unwrap();
    eventually("all have it", SOON, || cluster.locks_left().len() == 5);
    for killed in [0, 3] {
        cluster[killed].kill();
        is_down(&asking, killed);
        is_down(&holder, killed);
        for redlock in [&asking, &holder] {
            let by = held(redlock);
            assert_eq!(by.owner, Some(lease.owner()));
            assert_eq!(by.token, lease.token().ok());
            assert_eq!(by.label.as_ref().unwrap().to_string(), r"web-1/4711/billing\xff");
            assert!((before..=SystemTime::now()).contains(&by.since.unwrap()), "{by}");
            assert!((SECOND..=60 * SECOND).contains(&by.remaining.unwrap()), "{by}");
        }
    }
    println!("{}", Holder::Held(held(&asking)));
    // With one more down the answer is unclear: it tells what the two say.
    cluster[4].kill();
    is_down(&asking, 4);
    let Holder::Unclear { nodes } = asking.blocking_holder("r").unwrap() else { panic!("certain") };
    let said: Vec<bool> = nodes.iter().map(|node| node.seen.is_ok()).collect();
    assert_eq!(said, [false, true, true, false, false]);
    let unclear = Holder::Unclear { nodes }.to_string();
    println!("{unclear}");
    assert_eq!(unclear.matches(&lease.owner().to_string()).count(), 2, "{unclear}");
}

/// The variable by which the second process knows its nodes.
const NODES: &str = "QUORLOCK_TEST_HOLDER_NODES";

#[test]
fn the_holder_is_named_in_another_process() {
    if let Ok(nodes) = std::env::var(NODES) {
        let redlock = connected(patient().nodes(nodes.split(',')).label_process());
        let lease = redlock.acquire("r").ttl(60 * SECOND).blocking().unwrap();
        println!("\nholder {} {}", std::process::id(), lease.owner());
        // Until it is told to end.
        drop(std::io::stdin().read_line(&mut String::new()));
        lease.blocking_release().unwrap();
        return;
    }
    let cluster = Cluster::start(5);
    let asking = connect(&cluster);
    let urls = cluster.urls().join(",");
    let mut other = Companion::start("holder::the_holder_is_named_in_another_process", NODES, urls);
    let mut lines = BufReader::new(other.output()).lines().map(Result::unwrap);
    let said = lines.find_map(|line| line.strip_prefix("holder ").map(str::to_owned)).unwrap();
    let (pid, owner) = said.split_once(' ').unwrap();
    cluster[1].kill();
    cluster[2].kill();
    is_down(&asking, 1);
    is_down(&asking, 2);
    let by = held(&asking);
    assert_eq!(by.owner.unwrap().to_string(), owner);
    let label = by.label.unwrap().to_string();
    println!("{label}");
    let parts: Vec<&str> = label.split('/').collect();
    assert_eq!((parts.len(), parts[1]), (3, pid), "{label}");
    assert!(!parts[0].is_empty() && !parts[2].is_empty(), "{label}");
    other.end(SOON);
    eventually("it is free", SOON, || matches!(asking.blocking_holder("r"), Ok(Holder::Free)));
}

/// A node in memory that has never been looked at, and answers all else.
#[derive(Debug)]
struct NotLookedAt(MemoryNode);

impl Node for NotLookedAt {
    fn start(&self, context: NodeContext) {
        self.0.start(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        self.0.call(command)
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        self.0.holder(resource, fenced)
    }

    fn join(&self, _: Join) -> NodeFuture<Marker> {
        Box::pin(std::future::pending())
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.0.admit(epoch, floor, serves)
    }

    fn status(&self) -> NodeStatus {
        self.0.status()
    }
}

/// Otherwise it may have forgotten, or its clock may have jumped and its keys be gone.
#[test]
fn what_a_node_says_counts_only_where_it_may_vote() {
    let nodes = [(); 3].map(|()| MemoryNode::new());
    let holder = Redlock::blocking_connect(&nodes).unwrap();
    let specs = nodes.clone().map(|node| NodeSpec::new(Arc::new(NotLookedAt(node))));
    let asking = Redlock::builder().nodes(specs).build().unwrap();
    for _lease in [None, Some(holder.acquire("r").blocking().unwrap())] {
        let said = asking.blocking_holder("r").unwrap();
        assert!(matches!(said, Holder::Unclear { .. }), "{said}");
    }
}

/// The holder that was named held the resource at some time between the question and the answer.
#[test]
fn after_a_hand_over_the_one_before_is_never_named() {
    const ENOUGH: usize = 50;
    let cluster = Cluster::start(5);
    let asking = connect(&cluster);
    let holders = [connect(&cluster), connected(patient().nodes(cluster.urls()).label("b"))];
    // The owners whose release has ended; before the question those that had by then.
    let over = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    let (named, mut questions) = (AtomicUsize::new(0), 0);
    let was_named = || named.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = std::time::Instant::now();
            for redlock in holders.iter().cycle() {
                let lease = redlock.acquire("r").wait(SOON).blocking().unwrap();
                let owner = lease.owner();
                std::thread::sleep(3 * MS);
                // In doubt of one release, it is not said to be over.
                if lease.blocking_release().is_ok() {
                    over.lock().unwrap().push(owner);
                }
                // On a busy machine it takes longer.
                let time = if was_named() > ENOUGH { 3 * SECOND } else { SOON };
                if began.elapsed() > time {
                    break;
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let over_before = over.lock().unwrap().clone();
            let answer = asking.blocking_holder("r").unwrap();
            questions += 1;
            if let Holder::Held(by) = answer {
                named.fetch_add(1, Ordering::Relaxed);
                let owner = by.owner.unwrap();
                assert!(!over_before.contains(&owner), "{owner} has given it back");
            }
        }
    });
    let (named, leases) = (was_named(), over.lock().unwrap().len());
    println!("{questions} questions, {named} holders, {leases} leases");
    assert!(named > ENOUGH, "it was named {named} times");
}

/// A minority may keep the key of a lease that is over, such as where it was cut off before the release.
#[test]
fn what_a_minority_has_kept_is_told_and_never_named() {
    let cluster = Cluster::start(5);
    let asking = connect(&cluster);
    let before = asking.acquire("r").blocking().unwrap();
    let kept = before.owner().to_string();
    before.blocking_release().unwrap();
    eventually("it is released", SOON, || cluster.locks_left().is_empty());
    for node in [0, 1] {
        cluster[node].set("r", &kept, Some(60_000));
    }
    assert!(matches!(asking.blocking_holder("r"), Ok(Holder::Free)));
    let lease = asking.acquire("r").blocking().unwrap();
    assert_eq!(held(&asking).owner, Some(lease.owner()));
    cluster[4].kill();
    is_down(&asking, 4);
    let unclear = asking.blocking_holder("r").unwrap();
    assert!(matches!(unclear, Holder::Unclear { .. }), "{unclear}");
    for owner in [kept, lease.owner().to_string()] {
        assert_eq!(unclear.to_string().matches(&owner).count(), 2, "{unclear}");
    }
}

/// A majority that has forgotten says that there is no key. It may not vote yet, and so it does not count here.
#[test]
fn a_majority_that_has_forgotten_does_not_call_it_free() {
    let cluster = Cluster::start(3);
    let ttl = 20 * SECOND;
    let builder = || Redlock::builder().nodes(cluster.urls()).node_timeout(2 * SECOND).max_ttl(ttl);
    connected(builder().danger_skip_quarantine()).blocking_close().unwrap();
    let asking = connected(builder());
    let _lease = asking.acquire("r").ttl(ttl).blocking().unwrap();
    eventually("all have it", SOON, || cluster.locks_left().len() == 3);
    for node in [0, 1] {
        cluster[node].kill();
        is_down(&asking, node);
        cluster[node].restart_empty();
    }
    let quarantined = || {
        let states = asking.nodes();
        let waits = |node: &usize| matches!(states[*node].state, NodeState::Quarantined { .. });
        [0, 1].iter().all(waits)
    };
    eventually("they are quarantined", SOON, quarantined);
    let unclear = asking.blocking_holder("r").unwrap();
    assert!(matches!(unclear, Holder::Unclear { .. }), "{unclear}");
}

/// What others have written may be of any size. Only as much of it is sent as tells who it is.
#[test]
fn a_value_and_a_counter_of_any_size_are_not_sent() {
    const MANY: usize = 32 << 20;
    let cluster = Cluster::start(3);
    let asking = connect(&cluster);
    let large = "0".repeat(MANY);
    for server in cluster.iter() {
        server.set("r", &large, Some(600_000));
        server.run(&["HSET", "quorlock:counters", "r", &large]);
    }
    let sent = |server: &Server| -> usize {
        let redis::Value::BulkString(text) = server.run(&["INFO", "stats"]) else {
            panic!("no text")
        };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.unwrap().parse().unwrap()
    };
    let before: Vec<usize> = cluster.iter().map(sent).collect();
    let by = held(&asking);
    assert_eq!((by.owner, by.token, by.label), (None, None, None));
    let error = asking.try_acquire("r").blocking().unwrap_err();
    assert!(error.is_contended(), "{error}");
    for (server, before) in cluster.iter().zip(before) {
        let after = sent(server) - before;
        assert!(after < 1 << 20, "{after} bytes");
    }
}
