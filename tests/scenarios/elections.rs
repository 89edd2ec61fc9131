//! Goal: behind a resignation the next candidate leads within a few milliseconds, and a leader that goes on for longer than
//! nodes keep its counter is seen all the while.
//!
//! Method: candidates on real servers; times are those of this process, from before the resignation to behind the campaign.

use std::time::Instant;

use quorlock::{ElectionHealth, Observed};
use quorlock_harness::{Server, redis};

use super::*;

const TTL: Duration = Duration::from_secs(2);

/// How long it takes is printed; it is compared with how long a plain lease takes from the one to the other in the same run.
#[test]
fn behind_a_resignation_the_next_one_leads_as_soon_as_a_lease_is_handed_over() {
    let cluster = admitted(3, TTL);
    let clients = [(); 2].map(|()| ready(settings(&cluster, TTL).wait(SOON)));
    let elections = [0, 1].map(|at| clients[at].election("r"));
    /// How long the hand-over takes, from before one lets go until the other has it. The other stands in line by then.
    fn passed<T: Send>(waits: impl Send + FnOnce() -> T, let_go: impl FnOnce()) -> (T, Duration) {
        std::thread::scope(|scope| {
            let (begun, asks) = std::sync::mpsc::channel();
            let waits = scope.spawn(move || {
                begun.send(()).unwrap();
                (waits(), Instant::now())
            });
            asks.recv().unwrap();
            std::thread::sleep(30 * MS);
            let since = Instant::now();
            let_go();
            let (next, at) = waits.join().unwrap();
            (next, at - since)
        })
    }
    let mut leadership = elections[0].blocking_campaign().unwrap();
    let mut lease = clients[0].acquire("plain").blocking().unwrap();
    let mut took = [Vec::new(), Vec::new()];
    for turn in 1..=40 {
        let term = leadership.term();
        let campaigns = || elections[turn % 2].blocking_campaign().unwrap();
        let (next, time) = passed(campaigns, move || drop(leadership.resign()));
        assert!(next.term() > term);
        leadership = next;
        took[0].push(time);
        let acquires = || clients[turn % 2].acquire("plain").blocking().unwrap();
        let (next, time) = passed(acquires, move || drop(lease.release()));
        lease = next;
        took[1].push(time);
    }
    let [leads, plain] = took.map(|mut took| {
        took.sort_unstable();
        took
    });
    println!("the next leads after {:?} (median), {:?} (p90)", leads[20], leads[36]);
    println!("a lease is handed over after {:?} (median), {:?} (p90)", plain[20], plain[36]);
    // A record is written besides.
    assert!(leads[20] < 3 * plain[20] + MS, "{leads:?} {plain:?}");
}

/// A node drops, in two looks, each counter that was not raised for the retention; a client that connects looks at
/// once. A counter beside the record shows that the nodes have dropped what they may.
#[test]
fn a_leader_is_seen_for_longer_than_nodes_keep_what_nobody_raises() {
    let cluster = admitted(3, TTL);
    let settings = || settings(&cluster, TTL).counter_retention(SECOND);
    let (one, two) = (ready(settings()), ready(settings()));
    let election = one.election("r").text("here");
    let leadership = election.blocking_campaign().unwrap();
    let seen = || match two.election("r").blocking_leader().unwrap() {
        Observed::Leads(leader) => Some((leader.term, leader.text.to_string())),
        _ => None,
    };
    eventually("it is seen", SOON, || seen().is_some());
    for beside in ["first", "second", "third"] {
        two.acquire(beside).blocking().unwrap().blocking_release().unwrap();
        let has = |server: &Server| {
            ["quorlock:counters", "quorlock:older"].iter().any(|key| {
                redis::from_redis_value(server.run(&["HEXISTS", key, beside])).expect("yes or no")
            })
        };
        eventually("what nobody raises is dropped", SOON, || {
            assert_eq!(seen(), Some((leadership.term(), "here".to_owned())), "beside {beside}");
            ready(settings()).blocking_close().unwrap();
            !cluster.iter().any(has)
        });
    }
    assert!(matches!(election.health(), ElectionHealth::Leading { .. }));
    leadership.blocking_resign().unwrap();
}
