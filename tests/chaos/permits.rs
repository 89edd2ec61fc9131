//! Very many permits, while processes are killed and stopped and a minority of the nodes is killed, stopped and emptied:
//! never more at once than there are, and in each slot one holder and rising tokens.
//!
//! `many.rs` does the work. The search is tested by planted histories, and by a fleet that has forgotten.

use std::{thread, time::Duration};

use quorlock_harness::Cluster;

use super::{
    MS, SHORT_TTL,
    checker::{self, Held},
    many::{Many, many},
    settings,
    wants::{PERMITS, Wants},
};

#[test]
fn never_more_permits_are_held_than_there_are_whoever_is_killed() {
    let test = "permits::never_more_permits_are_held_than_there_are_whoever_is_killed";
    let permits = Many { wants: Wants::Permits, wanted: 600, ttl: SHORT_TTL, until: |_| true };
    let Some(done) = many(test, &permits) else { return };
    let most = checker::most_at_once(&done.history.leases);
    println!("{most} of {PERMITS} at once at most");
    assert_eq!(most, PERMITS);
    let semaphore = done.observer.semaphore("permits", PERMITS).unwrap();
    let all = [(); PERMITS].map(|()| semaphore.acquire().blocking().expect("all is well again"));
    drop(all);
    done.end();
}

fn held(worker: usize, slot: usize, start: u64, end: u64) -> Held {
    let time = Duration::from_millis;
    Held {
        owner: "0af1".repeat(8),
        worker,
        resource: slot,
        reads: false,
        token: Some(start + 1),
        asked: time(start),
        start: time(start),
        end: time(end),
        kept: Duration::ZERO,
    }
}

#[test]
fn one_permit_too_many_is_found_in_a_history() {
    let three = [held(0, 0, 0, 10), held(1, 1, 5, 15), held(2, 2, 9, 20)];
    assert_eq!(checker::most_at_once(&three), 3);
    // As one ends the next begins, and one that was over before its holder saw it was none.
    let more = [three.as_slice(), &[held(3, 0, 10, 30), held(4, 1, 12, 12)]].concat();
    assert_eq!(checker::most_at_once(&more), 3);
    let too_many = [three.as_slice(), &[held(3, 3, 9, 10)]].concat();
    assert_eq!(checker::most_at_once(&too_many), 4);
}

/// Permits of two fleets that do not know of each other are twice as many.
#[test]
fn too_many_permits_are_found_in_a_workload() {
    let cluster = Cluster::start(4);
    let urls = cluster.urls();
    let client = |urls: &[String]| {
        settings().danger_skip_quarantine().nodes(urls).blocking_connect().unwrap()
    };
    let clients = [client(&urls[..3]), client(&urls[3..])];
    let semaphores = clients.each_ref().map(|it| it.semaphore("permits", PERMITS).unwrap());
    let history: Vec<Held> = thread::scope(|scope| {
        let works = |worker: usize| {
            let semaphore = &semaphores[worker % 2];
            let work = move || {
                let one = move |_| {
                    let asked = super::record::now();
                    let permit = semaphore.acquire().blocking().unwrap();
                    let start = super::record::now();
                    // As long as a new permit takes, also on a busy machine, so that those of both fleets overlap.
                    thread::sleep(10 * MS);
                    let (end, resource) = (super::record::now(), usize::from(permit.slot()));
                    let (owner, token) =
                        (permit.owner().to_string(), permit.token().unwrap().get());
                    let _ = permit.blocking_release();
                    Held {
                        owner,
                        worker,
                        resource,
                        reads: false,
                        token: Some(token),
                        asked,
                        start,
                        end,
                        kept: Duration::ZERO,
                    }
                };
                (0..20).map(one).collect::<Vec<_>>()
            };
            scope.spawn(work)
        };
        let threads: Vec<_> = (0..8).map(works).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let most = checker::most_at_once(&history);
    println!("{most} of {PERMITS} at once, {} overlaps", checker::overlaps(&history).len());
    assert!(most > PERMITS && !checker::overlaps(&history).is_empty());
}
