//! Harms the servers, a minority at a time, and makes them well again.
//!
//! With fencing tokens and admission, a node that comes back empty may do so at once: it is quarantined. Plain
//! Redlock trusts a node that comes back empty only if every lease it may have forgotten is over by
//! then (numbered among the assumptions in `docs/safety.md`). So a node that loses its keys stays away for
//! longer than the ttl there; one that comes back at once has its append-only file. Nothing here judges.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorlock_harness::{Cluster, Server};

use super::MS;

/// How often each fault happened, in nodes.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) restarted: usize,
    pub(crate) emptied: usize,
    pub(crate) paused: usize,
    pub(crate) disconnected: usize,
    /// Leases that were granted while some node was away.
    pub(crate) granted_meanwhile: usize,
}

impl Faults {
    pub(crate) fn each_kind_happened(&self) -> bool {
        [self.restarted, self.emptied, self.paused, self.disconnected]
            .iter()
            .all(|count| *count > 0)
    }
}

pub(crate) struct Nemesis<'a> {
    cluster: &'a Cluster,
    ttl: Duration,
    /// How long a node that loses its keys stays away.
    away: Duration,
    /// The time between two faults, at most.
    peace: Duration,
    faults: Faults,
}

#[derive(Clone, Copy)]
enum Fault {
    Restart,
    Empty,
    Pause,
    Disconnect,
}

const KINDS: [Fault; 4] = [Fault::Restart, Fault::Pause, Fault::Disconnect, Fault::Empty];

impl<'a> Nemesis<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        ttl: Duration,
        away: Duration,
        peace: Duration,
    ) -> Self {
        Self { cluster, ttl, away, peace, faults: Faults::default() }
    }

    /// Harms and heals for this long, each kind in turn and at least once. Returns with all servers well.
    pub(crate) fn rage(mut self, time: Duration, granted: impl Fn() -> usize) -> Faults {
        let began = Instant::now();
        let minority = self.cluster.len().div_ceil(2) - 1;
        let mut turn = 0;
        while began.elapsed() < time || turn < KINDS.len() {
            let victims: Vec<&Server> = {
                let first = random(self.cluster.len());
                let count = 1 + random(minority);
                (first..first + count).map(|i| &self.cluster[i % self.cluster.len()]).collect()
            };
            let before = granted();
            self.harm(KINDS[turn % KINDS.len()], &victims);
            self.faults.granted_meanwhile += granted() - before;
            // Time for the clients to find the nodes again, or sometimes not.
            thread::sleep(self.peace * u32::try_from(random(100)).unwrap() / 100);
            turn += 1;
        }
        self.faults
    }

    fn harm(&mut self, fault: Fault, victims: &[&Server]) {
        let count = victims.len();
        let short = MS * u32::try_from(50 + random(400)).unwrap();
        match fault {
            Fault::Restart => {
                victims.iter().for_each(|server| server.kill());
                thread::sleep(short);
                victims.iter().for_each(|server| server.restart());
                self.faults.restarted += count;
            }
            Fault::Empty => {
                victims.iter().for_each(|server| server.kill());
                thread::sleep(self.away);
                victims.iter().for_each(|server| server.restart_empty());
                self.faults.emptied += count;
            }
            Fault::Pause => {
                victims.iter().for_each(|server| server.pause());
                // Sometimes for longer than a lease lives, so that late commands meet later leases.
                thread::sleep(if random(3) == 0 { self.ttl + short } else { short });
                victims.iter().for_each(|server| server.resume());
                self.faults.paused += count;
            }
            Fault::Disconnect => {
                let closed = victims.iter().filter(|server| server.kill_clients() > 0).count();
                self.faults.disconnected += closed;
            }
        }
    }
}

fn random(below: usize) -> usize {
    usize::try_from(rand::random::<u32>()).unwrap() % below
}
