//! The nemesis: faults, one after another, until the clients have done their work; then everything is healed.

use std::time::Duration;

use quorlock::{protocol::Timestamp, runtime::Runtime};

use super::World;
use crate::{MS, setup::Setup};

impl World {
    /// Faults, one after another, until the clients have done their work. Any number of servers is stopped;
    /// see [`Setup`] for those that are killed.
    pub(crate) fn torment(&self, setup: Setup, nodes: usize) {
        let mut back: Vec<(Timestamp, usize, bool)> = Vec::new();
        let mut kills: Vec<Timestamp> = Vec::new();
        while self.record.lock().unwrap().clients_running > 0 {
            let runtime = &self.runtime;
            runtime.pass(Duration::from_micros(1 + runtime.below(40_000)));
            let now = runtime.now();
            back.retain(|(at, server, was_killed)| {
                if now < *at {
                    return true;
                }
                let server = &self.servers[*server];
                if *was_killed {
                    server.restart()
                } else {
                    server.resume()
                }
                false
            });
            let index = usize::try_from(runtime.below(self.servers.len() as u64)).unwrap();
            let server = &self.servers[index];
            let is_up = back.iter().all(|(_, other, _)| *other != index);
            kills.retain(|at| now < at.saturating_add(setup.spared));
            let may_kill = kills.len() < (nodes - 1) / 2 || runtime.chance(setup.reckless);
            let fault = match runtime.below(12) {
                0 if is_up && may_kill => {
                    server.kill();
                    kills.push(now);
                    back.push((now.saturating_add(setup.away), index, true));
                    "is killed"
                }
                1 | 2 if is_up => {
                    server.pause();
                    let wait = runtime.below(200) as u32 * MS;
                    back.push((now.saturating_add(wait), index, false));
                    "is stopped"
                }
                3 => {
                    server.set_network(0.3, MS);
                    "loses messages"
                }
                4 => {
                    server.set_network(0.05, 40 * MS);
                    "is slow"
                }
                _ => {
                    server.set_network(0.0, MS);
                    continue;
                }
            };
            runtime.note(format_args!("server {index} {fault}"));
            self.record.lock().unwrap().faults += 1;
        }
        for (_, server, was_killed) in back {
            let server = &self.servers[server];
            if was_killed { server.restart() } else { server.resume() }
        }
        self.servers.iter().for_each(|server| server.set_network(0.0, MS));
        self.runtime.note("healed");
        // What is still under way on slow connections arrives, in order, before anything new.
        self.runtime.pass(Duration::from_secs(1));
    }
}
