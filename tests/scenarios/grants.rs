//! Goal: of many grants, fought over by many clients while a minority of the nodes loses everything again and
//! again, no two have the same token, and tokens rise in the order of real time.
//!
//! Method: eight clients, each of two threads that hand leases over to each other, and a handful of resources. Every grant is recorded with the moments at which its acquire
//! began and its result returned; the history is checked afterwards, and the checker is tested first.
//! `QUORLOCK_GRANTS` sets how many grants there are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use quorlock::{AcquireError, Owner, Redlock};
use quorlock_harness::{Cluster, eventually};

use super::{MS, SOON, admitted, all_ready, ready, settings, token};

const CLIENTS: usize = 8;
/// In each client, after the same resources.
const THREADS: usize = 2;
const RESOURCES: usize = 4;
const MAX_TTL: Duration = Duration::from_millis(600);
/// However few grants are asked for.
const LEAST_LOSSES: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Grant {
    resource: usize,
    token: u64,
    /// Leases of one owner follow each other under one grant of the nodes.
    owner: Option<Owner>,
    began: Duration,
    returned: Duration,
}

/// How many leases have the owner of an earlier one.
fn handed_over(history: &[Grant]) -> usize {
    let owners: BTreeSet<_> = history.iter().map(|grant| grant.owner).collect();
    history.len() - owners.len()
}

/// What is wrong with a history: tokens given twice, and tokens smaller than one that had been returned before.
fn violations(history: &[Grant]) -> (usize, usize) {
    let mut by_resource: BTreeMap<usize, Vec<Grant>> = BTreeMap::new();
    for grant in history {
        by_resource.entry(grant.resource).or_default().push(*grant);
    }
    let (mut twice, mut regressed) = (0, 0);
    for grants in by_resource.into_values() {
        let mut tokens: Vec<u64> = grants.iter().map(|grant| grant.token).collect();
        tokens.sort_unstable();
        twice += tokens.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let (mut begun, mut returned) = (grants.clone(), grants);
        begun.sort_by_key(|grant| grant.began);
        returned.sort_by_key(|grant| grant.returned);
        let (mut largest, mut earlier) = (0, returned.iter().peekable());
        for grant in begun {
            while let Some(before) = earlier.next_if(|before| before.returned < grant.began) {
                largest = largest.max(before.token);
            }
            regressed += usize::from(grant.token < largest);
        }
    }
    (twice, regressed)
}

#[test]
fn the_checker_sees_what_it_must_see() {
    let grant = |resource, token, began, returned| Grant {
        resource,
        token,
        owner: None,
        began: Duration::from_millis(began),
        returned: Duration::from_millis(returned),
    };
    let fine = [grant(0, 5, 0, 10), grant(0, 4, 5, 12), grant(0, 9, 11, 20), grant(1, 5, 30, 40)];
    assert_eq!(violations(&fine), (0, 0), "acquires that overlap have no order");
    let twice = [grant(0, 5, 0, 10), grant(0, 5, 20, 30)];
    assert_eq!(violations(&twice), (1, 0));
    let regressed = [grant(0, 5, 0, 10), grant(0, 4, 11, 30), grant(0, 3, 31, 32)];
    assert_eq!(violations(&regressed), (0, 2));
}

/// What the clients share.
struct Arena {
    began: Instant,
    over: AtomicBool,
    granted: AtomicUsize,
    refused: AtomicUsize,
    history: Mutex<Vec<Grant>>,
}

impl Arena {
    fn fight(&self, client: usize, redlock: &Redlock) {
        let mut turn = client;
        while !self.over.load(Ordering::Relaxed) {
            let resource = turn % RESOURCES;
            turn += 1;
            let began = self.began.elapsed();
            match redlock.acquire(format!("r{resource}")).wait(200 * MS).blocking() {
                Ok(lease) => {
                    let returned = self.began.elapsed();
                    let (token, owner) = (token(&lease), Some(lease.owner()));
                    let grant = Grant { resource, token, owner, began, returned };
                    self.history.lock().unwrap().push(grant);
                    self.granted.fetch_add(1, Ordering::Relaxed);
                    // Some are only dropped.
                    match turn % 16 {
                        0 => drop(lease),
                        _ => drop(lease.blocking_release()),
                    }
                }
                Err(
                    AcquireError::Contended { .. }
                    | AcquireError::NoQuorum { .. }
                    | AcquireError::Quarantined { .. }
                    // On a busy machine.
                    | AcquireError::Crowded { .. }
                    | AcquireError::TooLate { .. },
                ) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Kills a minority, one node or two at a time, sees that the others go on, brings it back empty, and waits until it is
/// admitted.
fn lose_a_minority(cluster: &Cluster, watcher: &Redlock, granted: &AtomicUsize) {
    let first = rand::random_range(0..cluster.len());
    let second = (first + rand::random_range(1..cluster.len())) % cluster.len();
    let lost = if rand::random() { vec![first, second] } else { vec![first] };
    let identities = || -> Vec<_> {
        let nodes = watcher.nodes();
        lost.iter().map(|node| nodes[*node].identity.clone()).collect()
    };
    let before = identities();
    lost.iter().for_each(|node| cluster[*node].kill());
    // More than can have been under way.
    let under_way = granted.load(Ordering::Relaxed) + CLIENTS * THREADS;
    eventually("the majority goes on", SOON, || granted.load(Ordering::Relaxed) > under_way);
    std::thread::sleep(Duration::from_millis(rand::random_range(0..50)));
    lost.iter().for_each(|node| cluster[*node].restart_empty());
    // Another client may have admitted one of them before this client sees it again.
    eventually("other processes are back in their place", SOON, || {
        identities().iter().zip(&before).all(|(now, before)| now.is_some() && now != before)
    });
    all_ready(watcher);
}

#[test]
fn tokens_are_unique_and_rise_while_a_minority_loses_everything() {
    let wanted = std::env::var("QUORLOCK_GRANTS").map_or(1500, |n| n.parse().unwrap());
    let cluster = admitted(5, MAX_TTL);
    let client = || ready(settings(&cluster, MAX_TTL).ttl(500 * MS));
    let clients: Vec<Redlock> = (0..CLIENTS).map(|_| client()).collect();
    let watcher = client();
    let arena = Arena {
        began: Instant::now(),
        over: AtomicBool::new(false),
        granted: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
        history: Mutex::default(),
    };
    let mut losses = 0;
    std::thread::scope(|scope| {
        for (index, client) in clients.iter().enumerate() {
            for _ in 0..THREADS {
                let arena = &arena;
                scope.spawn(move || arena.fight(index, client));
            }
        }
        let _over = Over(&arena.over);
        while arena.granted.load(Ordering::Relaxed) < wanted || losses < LEAST_LOSSES {
            lose_a_minority(&cluster, &watcher, &arena.granted);
            losses += 1;
        }
    });
    let history = arena.history.into_inner().unwrap();
    let took = arena.began.elapsed();
    let (twice, regressed) = violations(&history);
    let handed_over = handed_over(&history);
    println!(
        "{} grants by {CLIENTS} clients on {RESOURCES} resources in {took:?}, {handed_over} of them handed over, {} refused, \
         {losses} times a minority lost everything: {twice} duplicate tokens, {regressed} regressions",
        history.len(),
        arena.refused.into_inner(),
    );
    assert!(history.len() >= wanted && handed_over > wanted / 20, "{handed_over} handed over");
    assert_eq!((twice, regressed), (0, 0));
}

/// Ends the fight, also when this thread panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
