//! Messages: what a client sends, what comes of it at a node, and what that tells others.

use quorlock_core::{ClientId, Command, Failure, LineHint, NodeId, Owner, Resource};
use rand::{Rng, seq::IteratorRandom};

use super::{
    client::{Client, stamp},
    network::{Event, Who},
    node::Around,
    world::World,
};

impl World {
    /// Sends what a round wants to be sent.
    pub(super) fn send(&mut self, who: Who, index: usize) {
        loop {
            let asked = &mut self.clients[who].rounds[index];
            let owner = asked.round.spec().owner;
            let Some((node, command)) = asked.round.poll_command() else { return };
            self.send_one(who, node.index(), owner, command);
        }
    }

    pub(super) fn send_one(&mut self, who: Who, node: usize, owner: Owner, command: Command) {
        let client = &mut self.clients[who];
        let link = &mut client.links[node];
        let is_release = matches!(command, Command::Release { .. });
        if is_release && !client.unreleased.contains(&(node, owner)) {
            client.unreleased.push((node, owner));
        }
        if !(link.is_up && self.nodes[node].is_up) {
            if !is_release && !matches!(command, Command::Leave { .. }) {
                let (life, reply) = (link.life, Err(Failure::NOT_SENT));
                self.schedule.put(self.now, Event::Answered { who, node, life, owner, reply });
            }
            return;
        }
        let (life, at) = (link.life, link.sends(self.now, &mut self.rng));
        self.schedule.put(at, Event::Arrives { who, node, life, owner, command });
    }

    pub(super) fn arrives(
        &mut self,
        who: Who,
        node: usize,
        life: u64,
        owner: Owner,
        command: &Command,
    ) {
        // What was sent arrives, also where its sender is dead; the connection may have ended meanwhile.
        if self.clients[who].links[node].life != life || !self.nodes[node].is_up {
            return;
        }
        self.figures.commands += 1;
        let (clients, by_name) = (&self.clients, &self.by_name);
        let index = |id: ClientId| by_name.get(&id).copied();
        let hears = |id: ClientId| {
            index(id).is_some_and(|who| clients[who].alive && clients[who].links[node].is_up)
        };
        let mut around = Around { hears: &hears, clients, now: self.now, rng: &mut self.rng };
        let (reply, told) = self.nodes[node].execute(command, &mut around);
        let told: Vec<(Who, LineHint)> =
            told.into_iter().filter_map(|(id, hint)| Some((index(id)?, hint))).collect();
        for (whom, hint) in told {
            self.tell(whom, node, hint);
        }
        if matches!(command, Command::Leave { .. }) {
            return;
        }
        let link = &mut self.clients[who].links[node];
        let at = link.answers(self.now, &mut self.rng);
        self.schedule.put(at, Event::Answered { who, node, life, owner, reply: Ok(reply) });
    }

    pub(super) fn tell(&mut self, who: Who, node: usize, hint: LineHint) {
        if matches!(hint, LineHint::Wanted | LineHint::Alone) {
            return;
        }
        self.figures.pushes += 1;
        let faults = self.setup.faults;
        if self.rng.random_bool(faults.lose) {
            self.checker.fails(who);
            return;
        }
        let mut tells = vec![(who, hint)];
        if self.rng.random_bool(faults.lose) {
            tells.push((who, hint));
        }
        if self.rng.random_bool(faults.garble) {
            let alive = |(_, client): &(Who, &Client)| client.alive;
            let whom = self.clients.iter().enumerate().filter(alive).choose(&mut self.rng);
            let head = self.clients.iter().choose(&mut self.rng).unwrap().id;
            let hint =
                [LineHint::Next, LineHint::StandBy { head }].into_iter().choose(&mut self.rng);
            tells[0] = (whom.unwrap().0, hint.unwrap());
            self.checker.fails(who);
        }
        for (who, hint) in tells {
            let link = &mut self.clients[who].links[node];
            let (life, at) = (link.life, link.answers(self.now, &mut self.rng));
            if link.is_up {
                self.schedule.put(at, Event::Told { who, node, life, hint });
            }
        }
    }

    pub(super) fn told(&mut self, who: Who, node: usize, hint: LineHint) {
        let now = stamp(self.now);
        if let Some(waiter) = &mut self.clients[who].waiter {
            waiter.handle_hint(NodeId::new(node), hint, now);
            self.plan(who);
        }
    }

    pub(super) fn release(&mut self, who: Who, node: usize, owner: Owner) {
        let resource = Resource::new("r").unwrap();
        self.send_one(
            who,
            node,
            owner,
            Command::Release { target: resource.into(), owner, keep: None },
        );
    }

    pub(super) fn connected(&mut self, who: Who, node: usize, life: u64) {
        let random = self.rng.random();
        let now = self.now;
        let client = &mut self.clients[who];
        let link = &mut client.links[node];
        if link.life != life || link.is_up {
            return;
        }
        link.is_up = true;
        let pending: Vec<Owner> = client
            .unreleased
            .iter()
            .filter(|(other, _)| *other == node)
            .map(|(_, owner)| *owner)
            .collect();
        if let Some(waiter) = &mut client.waiter {
            waiter.handle_connection(NodeId::new(node), random, stamp(now));
        }
        for owner in pending {
            self.release(who, node, owner);
        }
        self.plan(who);
    }
}
