//! What the clients of the world do: they see to the nodes, and ask for the lock.

use super::*;

impl World {
    /// What the engine does for the admission.
    pub(super) fn pump(&mut self, client: usize) {
        let (now, at, wall_us) = (self.now, self.at(), self.wall_us());
        let servers = &self.servers;
        let client = &mut self.clients[client];
        if client.paused && now < client.until {
            return;
        }
        if client.paused {
            client.paused = false;
            client.probe = client.admission.begin_probe(at);
        }
        let view = |(link, server): (&Link, &Server)| {
            let identity = Some(Arc::from(format!("life {}", server.life)));
            ConnectionView::new(Some(link.connected), identity, link.tells.then_some(link.clock))
        };
        let views: Vec<ConnectionView> = client.links.iter().zip(servers).map(view).collect();
        if !client.open.is_empty() && now < client.until {
            return client.look_beside(&views, now);
        }
        client.asked += 1;
        client.open.clear();
        client.until = now + TIMEOUT;
        let step = client.probe.poll(&mut client.admission, &views, at, wall_us);
        while client.admission.poll_news().is_some() {}
        match step {
            ProbeStep::Look(joins) => {
                for (node, join) in joins {
                    let asked = Asked::Look(client.asked, join);
                    client.send(node.index(), asked, now);
                }
                client.look_beside(&views, now);
            }
            ProbeStep::Admit { node, epoch, floor, .. } => {
                let asked = Asked::Admit(client.asked, epoch, floor);
                client.send(node.index(), asked, now);
            }
            ProbeStep::Done(pause) => {
                client.paused = true;
                client.until = now + u64::try_from(pause.as_millis()).unwrap();
                client.probe = Probe::new(false);
            }
        }
    }

    /// Begins a round, or ends one.
    pub(super) fn ask(&mut self, client: usize, rng: &mut StdRng) {
        let (now, at, step) = (self.now, self.at(), self.step);
        let number = client;
        let client = &mut self.clients[client];
        if let Some(attempt) = &mut client.attempt {
            if attempt.won {
                // It is held for a while.
                if rng.random_bool(0.6) {
                    return;
                }
                let owner = attempt.round.spec().owner;
                client.attempt = None;
                self.give_up(number, owner);
            } else if now >= attempt.until {
                attempt.round.handle_timeout(at);
                client.send_round(now);
                client.attempt = None;
            }
            return;
        }
        client.rounds += 1;
        let mut random = [0; 16];
        random[..8].copy_from_slice(&rng.random::<u64>().to_be_bytes());
        let mut spec = RoundSpec::new(resource(), Owner::from_random(random), TTL);
        // As of wall clocks that differ and are far behind: tokens must not rest on them.
        spec.hint = Some(rng.random_range(0..1_000));
        spec.count = [1, 1, 3, 64][rng.random_range(0..4)];
        spec.marks = client.admission.marks();
        let round = Round::acquire(Quorum::of(client.links.len()), spec, at);
        let until = if client.stalls { u64::MAX } else { now + 2 * TIMEOUT };
        client.attempt = Some(Attempt { round, began: step, at, until, won: false });
        client.send_round(now);
    }
}
