//! Goal: behind a resignation the next candidate leads within a few milliseconds, and a leader that goes on for longer than
//! nodes keep its counter is seen all the while.
//!
//! Method: candidates on real servers; times are those of this process, from before the resignation to behind the campaign.

use std::time::Instant;

use quorlock::{ElectionHealth, Observed};

use super::*;

const TTL: Duration = Duration::from_secs(2);

#[test]
fn behind_a_resignation_the_next_one_leads_within_five_milliseconds() {
    let _alone = alone();
    let cluster = admitted(3, TTL);
    let (one, two) = (ready(settings(&cluster, TTL)), ready(settings(&cluster, TTL)));
    let elections = [one.election("r"), two.election("r")];
    let mut leadership = elections[0].blocking_campaign().unwrap();
    let mut took = Vec::new();
    for turn in 0..40 {
        let next = elections[(turn + 1) % 2].clone();
        let (begun, campaign) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            begun.send(()).unwrap();
            let leadership = next.blocking_campaign().unwrap();
            (leadership, Instant::now())
        });
        campaign.recv().unwrap();
        // It stands in line by then.
        std::thread::sleep(30 * MS);
        let term = leadership.term();
        let since = Instant::now();
        drop(leadership.resign());
        let (next, at) = waits.join().unwrap();
        took.push(at - since);
        assert!(next.term() > term);
        leadership = next;
    }
    took.sort_unstable();
    println!("the next leads after {:?} (median), {:?} (p90)", took[20], took[36]);
    assert!(took[20] < 5 * MS, "{took:?}");
}

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
    // Each client looks every ten seconds, and what is a second old is then dropped in two steps.
    let since = Instant::now();
    while since.elapsed() < 25 * SECOND {
        assert_eq!(seen(), Some((leadership.term(), "here".to_owned())), "{:?}", since.elapsed());
        std::thread::sleep(100 * MS);
    }
    assert!(matches!(election.health(), ElectionHealth::Leading { .. }));
    leadership.blocking_resign().unwrap();
}
