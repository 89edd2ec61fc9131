//! What a client does: it wants the resource, asks, waits, has it, gives it back or gives up.

use std::time::Duration;

use quorlock_core::{
    Command, Failure, NodeId, Owner, Reply, Resource, Round, Stand, Verdict, WaitPolicy,
};
use rand::{Rng, RngCore};

use super::{
    client::{After, Asked, Doing, NODE_TIMEOUT, Said, stamp},
    network::{Event, Who},
    setup::{Bug, HOLD},
    world::World,
};

impl World {
    pub(super) fn wants(&mut self, who: Who) {
        if self.now > self.setup.time {
            return;
        }
        let policy = match self.setup.faults.impatient {
            Some(wait) if self.rng.random_bool(0.3) => WaitPolicy::For(wait),
            _ => WaitPolicy::Unlimited,
        };
        let now = self.now;
        let client = &mut self.clients[who];
        client.wants(policy, now);
        if self.setup.at_once {
            let clocks = client.clocks_us(now);
            client.waiter.as_mut().unwrap().stand(&clocks);
        }
        self.checker.comes(who, now);
        self.begin(who);
    }

    pub(super) fn begin(&mut self, who: Who) {
        let mut random = [0; 16];
        self.rng.fill_bytes(&mut random);
        let owner = Owner::from_random(random);
        let (now, ttl, bug) = (self.now, self.setup.ttl, self.setup.bug);
        let client = &mut self.clients[who];
        let waiter = client.waiter.as_mut().unwrap();
        let mut stand = waiter.begin_round(stamp(now));
        if bug == Bug::HeadIsNeverNamed {
            stand.skip = None;
        }
        if let (Bug::OwnClocks, Some(ticket)) = (bug, &mut stand.ticket) {
            let own = now.as_micros() as i128 + client.own_clock + 10_000_000;
            let since = client.wants_since.as_micros() as i128;
            *ticket = quorlock_core::Ticket::new((own - (now.as_micros() as i128 - since)) as u64);
        }
        self.figures.awakened += u64::from(waiter.is_awakened());
        // A client without a ticket sends no stand, like one that knows of no line.
        let stand: Option<Stand> = stand.ticket.is_some().then_some(stand);
        client.begin(owner, ttl, now.as_micros() as u64, stand, now);
        self.schedule.put(now + NODE_TIMEOUT, Event::TimedOut { who, owner });
        self.send(who, self.clients[who].rounds.len() - 1);
    }

    pub(super) fn answered(
        &mut self,
        who: Who,
        node: usize,
        owner: Owner,
        reply: Result<Reply, Failure>,
    ) {
        let now = self.now;
        let client = &mut self.clients[who];
        if let Ok(Reply::Denied(denial)) = &reply
            && let Some(clock) = denial.at
        {
            client.clocks[node] = Some(i128::from(clock) - now.as_micros() as i128);
        }
        let is_owner = |asked: &Asked| asked.round.spec().owner == owner;
        let Some(index) = client.rounds.iter().position(is_owner) else {
            // All that is known of it is that it was given back.
            if reply.is_ok() {
                client.unreleased.retain(|pending| *pending != (node, owner));
            }
            return;
        };
        let is_last = index + 1 == client.rounds.len();
        let asked = &mut client.rounds[index];
        let before = asked.round.verdict();
        if asked.answers[node].is_some() && before != Verdict::Pending && reply.is_ok() {
            client.unreleased.retain(|pending| *pending != (node, owner));
        }
        let said = match &reply {
            Ok(Reply::Granted(_)) => Said::Granted,
            Ok(Reply::Denied(denial)) => Said::Denied(denial.clone()),
            Err(_) => Said::Failed,
        };
        let is_first_answer = asked.answers[node].is_none();
        asked.round.handle_reply(NodeId::new(node), reply, stamp(now));
        let after = asked.round.verdict();
        if is_first_answer {
            asked.answers[node] = Some(said.clone());
            let is_late = is_last && before == Verdict::Lost && client.doing == Doing::Waiting;
            if is_late && self.setup.hears_late {
                let waiter = client.waiter.as_mut().unwrap();
                waiter.handle_late_answer(NodeId::new(node), said.for_line(), stamp(now));
            }
        }
        self.send(who, index);
        if before == Verdict::Pending {
            self.decided(who, index, after);
        } else {
            self.plan(who);
        }
        self.forget_answered(who);
    }

    pub(super) fn decided(&mut self, who: Who, index: usize, verdict: Verdict) {
        match verdict {
            Verdict::Pending => {}
            Verdict::Won => self.won(who, index),
            Verdict::Lost => self.lost(who),
        }
    }

    /// Rounds of which nothing more can come are forgotten.
    pub(super) fn forget_answered(&mut self, who: Who) {
        let client = &mut self.clients[who];
        let last = client.rounds.len() - 1;
        let mut index = 0;
        client.rounds.retain(|asked| {
            let is_open = asked.answers.iter().any(Option::is_none);
            index += 1;
            index > last || is_open
        });
    }

    pub(super) fn timed_out(&mut self, who: Who, owner: Owner) {
        let client = &mut self.clients[who];
        let is_owner = |asked: &Asked| asked.round.spec().owner == owner;
        let Some(index) = client.rounds.iter().position(is_owner) else { return };
        let asked = &mut client.rounds[index];
        for answer in asked.answers.iter_mut().filter(|answer| answer.is_none()) {
            *answer = Some(Said::Failed);
        }
        let before = asked.round.verdict();
        asked.round.handle_timeout(stamp(self.now));
        let after = asked.round.verdict();
        self.send(who, index);
        if before == Verdict::Pending {
            self.decided(who, index, after);
        }
        self.forget_answered(who);
    }

    pub(super) fn won(&mut self, who: Who, index: usize) {
        let now = self.now;
        let client = &mut self.clients[who];
        let asked = &client.rounds[index];
        let token = Round::token(&asked.round).unwrap().get();
        let (begun, until) = (asked.begun, asked.round.deadline().since_origin());
        let owner = asked.round.spec().owner;
        client.trip.sample(now - begun);
        if let Some(late) = client.waiter.as_ref().unwrap().passed_over() {
            client.patience.pass_over(late, stamp(now));
        }
        client.doing = Doing::Holding;
        (client.waiter, client.pause, client.limit) = (None, None, None);
        self.figures.waits.push(now - client.wants_since);
        if now <= self.setup.time {
            *self.figures.grants.get_mut(&who).unwrap() += 1;
        }
        if let Some(freed) = self.freed.take() {
            // Afterwards no new client comes that would notice a missing one.
            if now <= self.setup.time {
                self.figures.hand_overs.push(now - freed);
            }
        }
        self.checker.granted(who, token, begun, until, now);
        self.schedule.put(now + HOLD, Event::Releases { who, owner });
    }

    pub(super) fn lost(&mut self, who: Who) {
        let (now, lines) = (self.now, self.setup.lines);
        let random = self.rng.random();
        let client = &mut self.clients[who];
        let waiter = client.waiter.as_ref().unwrap();
        self.figures.in_vain += u64::from(waiter.is_awakened());
        if waiter.is_standing() {
            let answers = &client.rounds.last().unwrap().answers;
            let in_line = |said: &&Option<Said>| matches!(said, Some(Said::Denied(denial)) if denial.rank.is_some());
            if answers.iter().filter(in_line).count() > client.links.len() / 2 {
                self.checker.stands(who, now);
            }
        }
        if !self.setup.knows_clocks {
            client.clocks.fill(None);
        }
        match client.lost(lines, random, now) {
            After::Waits => self.plan(who),
            After::GaveUp => self.gives_up(who),
        }
    }

    /// Looks again when its next round is due.
    pub(super) fn plan(&mut self, who: Who) {
        let polls = self.setup.bug != Bug::WakesTheWrongAndNobodyPolls;
        let client = &mut self.clients[who];
        let next = client.next_round(polls, self.now).filter(|_| client.doing == Doing::Waiting);
        // A look that is planned already is not planned again.
        if let Some(at) = next.map(|at| at.max(self.now)).filter(|at| client.looks != Some(*at)) {
            client.looks = Some(at);
            self.schedule.put(at, Event::Looks { who });
        }
    }

    pub(super) fn looks(&mut self, who: Who) {
        let polls = self.setup.bug != Bug::WakesTheWrongAndNobodyPolls;
        let now = self.now;
        let client = &mut self.clients[who];
        client.looks = None;
        let is_due = client.next_round(polls, now).is_some_and(|at| at <= now);
        if client.doing != Doing::Waiting || !is_due {
            self.plan(who);
        } else if client.acquisition.as_ref().unwrap().may_begin(stamp(now)) {
            self.begin(who);
        } else {
            self.gives_up(who);
        }
    }

    /// It waits no more, and leaves the lines; it comes again after a while.
    pub(super) fn gives_up(&mut self, who: Who) {
        let client = &mut self.clients[who];
        client.doing = Doing::Nothing;
        (client.pause, client.limit) = (None, None);
        let ticket = client.waiter.take().and_then(|waiter| waiter.ticket());
        let owner = client.rounds.last().unwrap().round.spec().owner;
        if let Some(ticket) = ticket {
            let (resource, client) = (Resource::new("r").unwrap(), client.id);
            for node in 0..self.nodes.len() {
                let resource = resource.clone();
                self.send_one(who, node, owner, Command::Leave { resource, client, ticket });
            }
        }
        self.figures.gave_up += 1;
        self.checker.leaves(who);
        let soon = self.random_time(Duration::from_millis(20));
        self.schedule.put(self.now + soon, Event::Wants { who });
    }

    pub(super) fn releases(&mut self, who: Who, owner: Owner) {
        self.clients[who].doing = Doing::Nothing;
        self.checker.gives_back(who);
        self.freed = Some(self.now);
        for node in 0..self.nodes.len() {
            self.release(who, node, owner);
        }
        self.schedule.put(self.now, Event::Wants { who });
    }
}
