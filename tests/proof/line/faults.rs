//! What goes wrong, and when.

use std::time::Duration;

use quorlock_core::NodeId;
use rand::{Rng, seq::IteratorRandom};

use super::{
    client::{Client, Doing, stamp},
    network::{Event, Fault, Who},
    world::World,
};

/// How long a node is away: longer than any lease lasts.
const AWAY: Duration = Duration::from_millis(600);

impl World {
    pub(super) fn plan_faults(&mut self) {
        let faults = self.setup.faults;
        let every = [
            (faults.kill_waiter, Fault::KillWaiter),
            (faults.kill_any, Fault::KillAny),
            (faults.stop_waiter.map(|(every, _)| every), Fault::StopWaiter),
            (faults.stop_any.map(|(every, _)| every), Fault::StopAny),
            (faults.flush, Fault::Flush),
            (faults.disconnect, Fault::Disconnect),
            (faults.restart, Fault::Restart),
            (faults.set_back.map(|(every, _)| every), Fault::SetBack(0)),
        ];
        for (every, fault) in every {
            if let Some(every) = every {
                self.schedule.put(self.now + every, Event::Fault(fault));
            }
        }
    }

    fn one(&mut self, which: impl Fn(&Client) -> bool) -> Option<Who> {
        let now = self.now;
        let chosen = self.clients.iter().enumerate();
        let chosen =
            chosen.filter(|(_, client)| client.alive && client.stopped <= now && which(client));
        chosen.map(|(who, _)| who).choose(&mut self.rng)
    }

    pub(super) fn fails(&mut self, fault: Fault) {
        if let Fault::Returns(node) = fault {
            self.nodes[node].is_up = true;
            self.nodes[node].flush_lines();
            for who in 0..self.clients.len() {
                let life = self.clients[who].links[node].life;
                self.schedule.put(self.now, Event::Connected { who, node, life });
            }
            return;
        }
        if self.now > self.setup.time {
            return;
        }
        let faults = self.setup.faults;
        let waits = |client: &Client| client.doing == Doing::Waiting;
        let every = match fault {
            Fault::KillWaiter => {
                let who = self.one(waits);
                self.kill(who);
                faults.kill_waiter
            }
            Fault::KillAny => {
                let who = self.one(|_| true);
                self.kill(who);
                faults.kill_any
            }
            Fault::StopWaiter => {
                let who = self.one(waits);
                self.stop(who, faults.stop_waiter.map(|(_, lasts)| lasts));
                faults.stop_waiter.map(|(every, _)| every)
            }
            Fault::StopAny => {
                let who = self.one(|_| true);
                self.stop(who, faults.stop_any.map(|(_, lasts)| lasts));
                faults.stop_any.map(|(every, _)| every)
            }
            Fault::Flush => {
                let all = self.rng.random_bool(0.5);
                let one = self.rng.random_range(0..self.nodes.len());
                let nodes = self.nodes.iter_mut().enumerate();
                nodes.filter(|(index, _)| all || *index == one).for_each(|(_, n)| n.flush_lines());
                self.checker.all_fail();
                faults.flush
            }
            Fault::Disconnect => {
                if let Some(who) = self.one(|_| true) {
                    let all = self.rng.random_bool(0.3);
                    let one = self.rng.random_range(0..self.nodes.len());
                    for node in (0..self.nodes.len()).filter(|node| all || *node == one) {
                        self.disconnect(who, node, Duration::from_millis(1));
                    }
                }
                faults.disconnect
            }
            Fault::Restart => {
                let node = self.rng.random_range(0..self.nodes.len());
                self.nodes[node].is_up = false;
                for who in 0..self.clients.len() {
                    self.disconnect(who, node, AWAY);
                }
                self.checker.all_fail();
                self.schedule.put(self.now + AWAY, Event::Fault(Fault::Returns(node)));
                faults.restart
            }
            Fault::SetBack(node) => {
                let (every, seconds) = faults.set_back.unwrap_or_default();
                self.nodes[node].set_back = 1_000_000 * seconds;
                // Connected clients learn of it from the next answer.
                if node + 1 < self.nodes.len() {
                    self.schedule.put(self.now + every, Event::Fault(Fault::SetBack(node + 1)));
                }
                None
            }
            Fault::Returns(_) => None,
        };
        if let Some(every) = every {
            self.schedule.put(self.now + every, Event::Fault(fault));
        }
    }

    fn kill(&mut self, who: Option<Who>) {
        let Some(who) = who else { return };
        self.clients[who].alive = false;
        self.checker.leaves(who);
        self.spawn(Duration::from_micros(100));
    }

    fn stop(&mut self, who: Option<Who>, lasts: Option<Duration>) {
        if let (Some(who), Some(lasts)) = (who, lasts) {
            self.clients[who].stopped = self.now + lasts;
            self.checker.fails(who);
        }
    }

    /// A connection ends. What was under way on it is lost.
    fn disconnect(&mut self, who: Who, node: usize, lasts: Duration) {
        let (now, random) = (self.now, self.rng.random());
        let client = &mut self.clients[who];
        let link = &mut client.links[node];
        link.life += 1;
        link.is_up = false;
        let life = link.life;
        self.schedule.put(now + lasts, Event::Connected { who, node, life });
        self.checker.fails(who);
        // What was sent may have been executed.
        let failed: Vec<_> = client
            .rounds
            .iter()
            .filter(|asked| asked.answers[node].is_none())
            .map(|asked| asked.round.spec().owner)
            .collect();
        for owner in failed {
            let reply = Err(quorlock_core::Failure::TIMED_OUT);
            self.schedule.put(now, Event::Answered { who, node, life, owner, reply });
        }
        if let Some(waiter) = &mut self.clients[who].waiter {
            waiter.handle_connection(NodeId::new(node), random, stamp(now));
            self.plan(who);
        }
    }
}
