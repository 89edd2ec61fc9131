//! What the clients of the world hear, and what that makes of their rounds.

use super::*;

impl World {
    /// The lease is released, if it is still held.
    pub(super) fn give_up(&mut self, client: usize, owner: Owner) {
        let now = self.now;
        let token = |won: &&mut Won| won.at <= now && now < won.until && won.owner == owner;
        if let Some(won) = self.won.iter_mut().find(token) {
            won.until = now;
        }
        let client = &mut self.clients[client];
        for node in 0..client.links.len() {
            let command = Command::Release { target: resource().into(), owner, keep: None };
            let asked =
                Asked::Vote(client.rounds, command, client.admission.vote_guard(super::node(node)));
            client.send(node, asked, now);
        }
    }

    /// The node executes the next command of this client.
    pub(super) fn deliver(&mut self, client: usize, node: usize) {
        let (now, flaw) = (self.now, self.flaw);
        let server = &mut self.servers[node];
        let link = &mut self.clients[client].links[node];
        let Some(Letter { asked, sent, series }) = link.there.pop_front() else { return };
        let told = match asked {
            Asked::Vote(round, command, vote_guard) => {
                Told::Vote(round, server.execute(&command, now), vote_guard)
            }
            Asked::Look(step, join) => Told::Marker(step, server.join(join, now, flaw)),
            Asked::Beside(step, join) => Told::Beside(step, server.join(join, now, flaw)),
            Asked::Admit(step, epoch, floor) => {
                let (admitted, wrong) = server.admit(epoch, floor, now, flaw);
                self.admissions += usize::from(admitted);
                if self.wrong.is_none() && flaw != Flaw::NoQuarantine {
                    self.wrong = wrong;
                }
                Told::Admitted(step, admitted)
            }
        };
        let node_us = WALL + server.clock(now) * 1000;
        link.back.push_back(Answer { told, sent, series, node_us, jumps: server.jumps });
    }

    /// The client hears the answer of this node that has been under way as this one, or the first: a session may hear
    /// them in another order than the node has given them.
    pub(super) fn hear(&mut self, client: usize, node: usize, index: usize) {
        let (now, at, step) = (self.now, self.at(), self.step);
        let client = &mut self.clients[client];
        let link = &mut client.links[node];
        let index = if index < link.back.len() { index } else { 0 };
        let Some(answer) = link.back.remove(index) else { return };
        let sent = Timestamp::from_origin(Duration::from_millis(answer.sent));
        let _ = link.clock.handle_reading(sent, at, answer.node_us);
        let jumped = if link.tells {
            link.clock.series() != answer.series
        } else {
            answer.jumps > link.seen
        };
        if jumped {
            link.seen = link.seen.max(answer.jumps);
            client.admission.handle_clock_jumped(super::node(node), None);
            client.wake();
        }
        match answer.told {
            Told::Vote(round, reply, vote_guard) => {
                let refused = reply.is_err();
                if refused && client.admission.handle_refused(vote_guard) {
                    client.wake();
                }
                let lapsed = !client.admission.counts(vote_guard);
                self.lapsed += usize::from(lapsed);
                let counts = !jumped && (!lapsed || self.flaw == Flaw::LapsedCounts);
                let reply = if counts || refused { reply } else { UNKNOWN };
                let Some(attempt) = client.attempt.as_mut().filter(|_| client.rounds == round)
                else {
                    return;
                };
                if now >= attempt.until {
                    attempt.round.handle_timeout(at);
                }
                let pending = attempt.round.verdict() == Verdict::Pending;
                if pending
                    && matches!(reply, Ok(Reply::Granted(_)))
                    && answer.jumps < client.links[node].seen
                {
                    let wrong = "a vote of before a jump counts that has been seen";
                    self.wrong.get_or_insert_with(|| wrong.to_owned());
                }
                let seen = if client.stalls { attempt.at } else { at };
                attempt.round.handle_reply(super::node(node), reply, seen);
                let verdict = attempt.round.verdict();
                if pending && verdict == Verdict::Won {
                    attempt.won = true;
                    let tokens = won_tokens(&attempt.round);
                    let until = attempt.round.deadline().since_origin().as_millis();
                    let until = if client.stalls { now } else { u64::try_from(until).unwrap() };
                    let owner = attempt.round.spec().owner;
                    self.won.push(Won {
                        began: attempt.began,
                        step,
                        tokens,
                        at: now,
                        until,
                        owner,
                    });
                }
                client.send_round(now);
                if verdict == Verdict::Lost {
                    client.attempt = None;
                }
            }
            Told::Marker(asked, marker) => {
                if asked == client.asked && !jumped {
                    client.probe.handle_marker(
                        &mut client.admission,
                        super::node(node),
                        marker,
                        at,
                    );
                }
                client.answered(asked, node);
            }
            Told::Beside(asked, marker) => {
                if asked == client.asked && !jumped {
                    let voted = client.admission.may_vote(super::node(node), at).is_ok();
                    let (probe, admission) = (&mut client.probe, &mut client.admission);
                    probe.handle_beside(admission, super::node(node), marker, at);
                    let votes = client.admission.may_vote(super::node(node), at).is_ok();
                    self.beside += usize::from(votes && !voted);
                }
            }
            Told::Admitted(asked, admitted) => {
                if asked == client.asked && admitted {
                    client.probe.handle_admitted();
                }
                client.answered(asked, node);
            }
        }
    }

    /// Two grants that hold at the same time.
    pub(crate) fn overlap(&self) -> Option<String> {
        for (index, a) in self.won.iter().enumerate() {
            for b in &self.won[index + 1..] {
                // A grant that was over when it was won holds at no time.
                let held = |won: &Won| won.at < won.until;
                if held(a) && held(b) && a.at < b.until && b.at < a.until {
                    return Some(format!("{a:?} and {b:?} hold at once"));
                }
            }
        }
        None
    }
}
