//! The world: clients, nodes, what is under way between them, and what goes wrong.

use std::{collections::HashMap, time::Duration};

use quorlock::protocol::{
    ClientId, Command, Failure, LineHint, NodeId, Owner, Reply, Resource, Round, Stand, Verdict,
    WaitPolicy,
};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng, seq::IteratorRandom};

use super::{
    checker::Checker,
    client::{After, Asked, Client, Doing, NODE_TIMEOUT, Said, stamp},
    figures::Figures,
    network::{Agenda, Event, Who},
    node::{Around, Node},
    setup::{Bug, HOLD, Setup},
};

/// How long everybody who waits may take once nothing goes wrong any more: leases of those who were killed end, and those
/// who were not told ask again.
const AFTERWARDS: Duration = Duration::from_secs(15);

pub(crate) struct World {
    pub(super) setup: Setup,
    pub(super) rng: StdRng,
    pub(super) now: Duration,
    pub(super) agenda: Agenda,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    by_name: HashMap<ClientId, Who>,
    /// Whether all that happens is printed, to see what has led to a failure.
    is_traced: bool,
    /// When the resource was given back last, where nobody has had it since.
    freed: Option<Duration>,
    pub(crate) checker: Checker,
    pub(crate) figures: Figures,
}

/// What a run has come to.
pub(crate) struct Outcome {
    pub(crate) checker: Checker,
    pub(crate) figures: Figures,
    /// Those who wait still, long after the last failure.
    pub(crate) unserved: Vec<(Who, Duration)>,
}

impl Outcome {
    /// That it was safe, and everybody was served.
    #[track_caller]
    pub(crate) fn assert_sound(&self, setup: &Setup) {
        assert!(self.checker.unsafe_at.is_empty(), "{setup:?}: {:#?}", self.checker.unsafe_at);
        assert!(self.unserved.is_empty(), "{setup:?}: they wait still: {:?}", self.unserved);
    }

    /// That nobody was overtaken to whom nothing had happened.
    #[track_caller]
    pub(crate) fn assert_in_order(&self, setup: &Setup) {
        let overtaken = self.checker.overtaken.as_slice();
        assert!(overtaken.is_empty(), "{setup:?}: {} times, {:#?}", overtaken.len(), overtaken[0]);
    }
}

pub(crate) fn run(setup: Setup) -> Outcome {
    let mut world = World::new(setup);
    let end = setup.time + AFTERWARDS;
    while let Some((at, event)) = world.agenda.next() {
        if at > end {
            break;
        }
        world.now = at;
        world.happens(event);
        if world.now > setup.time && world.checker.waiting().is_empty() {
            break;
        }
    }
    let unserved = world.checker.waiting();
    Outcome { checker: world.checker, figures: world.figures, unserved }
}

impl World {
    fn new(setup: Setup) -> Self {
        let mut rng = StdRng::seed_from_u64(setup.seed);
        let faults = setup.faults;
        let mut nodes: Vec<Node> = (0..setup.nodes)
            .map(|_| {
                let ahead = 1_000_000 * rng.random_range(0..=faults.apart);
                let fast = rng.random_range(-faults.rates..=faults.rates);
                Node::new(setup.lines, ahead, fast, setup.bug, faults.lie)
            })
            .collect();
        if faults.down {
            nodes.last_mut().unwrap().is_up = false;
        }
        let figures = Figures { nodes: setup.nodes, time: setup.time, ..Figures::default() };
        let mut world = Self {
            setup,
            rng,
            // Not at the origin, so that an underflow would show.
            now: Duration::ZERO,
            agenda: Agenda::default(),
            nodes,
            clients: Vec::new(),
            by_name: HashMap::new(),
            is_traced: std::env::var_os("QUORLOCK_LINE_TRACE").is_some(),
            freed: None,
            checker: Checker::default(),
            figures,
        };
        for _ in 0..setup.clients {
            let soon = world.random_time(Duration::from_millis(1));
            world.spawn(soon);
        }
        world.plan_faults();
        world
    }

    pub(super) fn random_time(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.random())
    }

    /// A new client, which wants the resource after a while.
    pub(super) fn spawn(&mut self, after: Duration) {
        let who = self.clients.len();
        let mut client = Client::new(who, self.nodes.len());
        client.own_clock = self.rng.random_range(-5_000_000..=5_000_000);
        // It has looked at the nodes when it connected.
        for (clock, node) in
            client.clocks.iter_mut().zip(&self.nodes).filter(|(_, node)| node.is_up)
        {
            *clock = Some(i128::from(node.clock_us(self.now)) - self.now.as_micros() as i128);
        }
        self.by_name.insert(client.id, who);
        self.clients.push(client);
        self.figures.grants.insert(who, 0);
        self.agenda.put(self.now + after, Event::Wants { who });
    }

    fn happens(&mut self, event: Event) {
        let who = match &event {
            Event::Answered { who, .. }
            | Event::Told { who, .. }
            | Event::TimedOut { who, .. }
            | Event::Looks { who }
            | Event::Wants { who }
            | Event::Connected { who, .. }
            | Event::Releases { who, .. } => Some(*who),
            Event::Arrives { .. } | Event::Fault(_) => None,
        };
        if let Some(client) = who.map(|who| &self.clients[who]) {
            if !client.alive {
                return;
            }
            // Whatever happens to one that is stopped happens when it goes on.
            if client.stopped > self.now {
                self.agenda.put(client.stopped, event);
                return;
            }
        }
        if self.is_traced {
            eprintln!("{:?} {event:?}", self.now);
        }
        match event {
            Event::Arrives { who, node, life, owner, command } => {
                self.arrives(who, node, life, owner, &command);
            }
            Event::Answered { who, node, life, owner, reply } => {
                if self.clients[who].links[node].life == life {
                    self.answered(who, node, owner, reply);
                }
            }
            Event::Told { who, node, life, hint } => {
                if self.clients[who].links[node].life == life {
                    self.told(who, node, hint);
                }
            }
            Event::TimedOut { who, owner } => self.timed_out(who, owner),
            Event::Looks { who } => self.looks(who),
            Event::Wants { who } => self.wants(who),
            Event::Releases { who, owner } => self.releases(who, owner),
            Event::Connected { who, node, life } => self.connected(who, node, life),
            Event::Fault(fault) => self.fails(fault),
        }
    }

    fn wants(&mut self, who: Who) {
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

    fn begin(&mut self, who: Who) {
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
            *ticket =
                quorlock::protocol::Ticket::new((own - (now.as_micros() as i128 - since)) as u64);
        }
        self.figures.awakened += u64::from(waiter.is_awakened());
        // Whoever does not stand there says no more than it must, as one that knows of no line.
        let stand: Option<Stand> = stand.ticket.is_some().then_some(stand);
        client.begin(owner, ttl, now.as_micros() as u64, stand, now);
        self.agenda.put(now + NODE_TIMEOUT, Event::TimedOut { who, owner });
        self.send(who, self.clients[who].rounds.len() - 1);
    }

    /// Sends what a round wants to be sent.
    fn send(&mut self, who: Who, index: usize) {
        loop {
            let asked = &mut self.clients[who].rounds[index];
            let owner = asked.round.spec().owner;
            let Some((node, command)) = asked.round.poll_command() else { return };
            self.send_one(who, node.index(), owner, command);
        }
    }

    fn send_one(&mut self, who: Who, node: usize, owner: Owner, command: Command) {
        let client = &mut self.clients[who];
        let link = &mut client.links[node];
        let is_release = matches!(command, Command::Release { .. });
        if is_release && !client.unreleased.contains(&(node, owner)) {
            client.unreleased.push((node, owner));
        }
        if !(link.is_up && self.nodes[node].is_up) {
            if !is_release && !matches!(command, Command::Leave { .. }) {
                let (life, reply) = (link.life, Err(Failure::NOT_SENT));
                self.agenda.put(self.now, Event::Answered { who, node, life, owner, reply });
            }
            return;
        }
        let (life, at) = (link.life, link.sends(self.now, &mut self.rng));
        self.agenda.put(at, Event::Arrives { who, node, life, owner, command });
    }

    fn arrives(&mut self, who: Who, node: usize, life: u64, owner: Owner, command: &Command) {
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
        self.agenda.put(at, Event::Answered { who, node, life, owner, reply: Ok(reply) });
    }

    fn tell(&mut self, who: Who, node: usize, hint: LineHint) {
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
                self.agenda.put(at, Event::Told { who, node, life, hint });
            }
        }
    }

    fn answered(&mut self, who: Who, node: usize, owner: Owner, reply: Result<Reply, Failure>) {
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

    fn decided(&mut self, who: Who, index: usize, verdict: Verdict) {
        match verdict {
            Verdict::Pending => {}
            Verdict::Won => self.won(who, index),
            Verdict::Lost => self.lost(who),
        }
    }

    /// Rounds of which nothing more can come are forgotten.
    fn forget_answered(&mut self, who: Who) {
        let client = &mut self.clients[who];
        let last = client.rounds.len() - 1;
        let mut index = 0;
        client.rounds.retain(|asked| {
            let is_open = asked.answers.iter().any(Option::is_none);
            index += 1;
            index > last || is_open
        });
    }

    fn timed_out(&mut self, who: Who, owner: Owner) {
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

    fn won(&mut self, who: Who, index: usize) {
        let now = self.now;
        let client = &mut self.clients[who];
        let asked = &client.rounds[index];
        let token = Round::token(&asked.round).unwrap().get();
        let (begun, until) = (asked.begun, asked.round.deadline().since_origin());
        let owner = asked.round.spec().owner;
        client.trip.sample(now - begun);
        client.doing = Doing::Holding;
        (client.waiter, client.pause, client.limit) = (None, None, None);
        self.figures.waits.push(now - client.wants_since);
        if now <= self.setup.time {
            *self.figures.grants.get_mut(&who).unwrap() += 1;
        }
        if let Some(freed) = self.freed.take() {
            // Afterwards nobody comes any more, who would see that somebody else is missing.
            if now <= self.setup.time {
                self.figures.hand_overs.push(now - freed);
            }
        }
        self.checker.granted(who, token, begun, until, now);
        self.agenda.put(now + HOLD, Event::Releases { who, owner });
    }

    fn lost(&mut self, who: Who) {
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
        // One that is planned already is not planned again.
        if let Some(at) = next.map(|at| at.max(self.now)).filter(|at| client.looks != Some(*at)) {
            client.looks = Some(at);
            self.agenda.put(at, Event::Looks { who });
        }
    }

    fn looks(&mut self, who: Who) {
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
    fn gives_up(&mut self, who: Who) {
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
        self.agenda.put(self.now + soon, Event::Wants { who });
    }

    fn told(&mut self, who: Who, node: usize, hint: LineHint) {
        let now = stamp(self.now);
        if let Some(waiter) = &mut self.clients[who].waiter {
            waiter.handle_hint(NodeId::new(node), hint, now);
            self.plan(who);
        }
    }

    fn releases(&mut self, who: Who, owner: Owner) {
        self.clients[who].doing = Doing::Nothing;
        self.checker.gives_back(who);
        self.freed = Some(self.now);
        for node in 0..self.nodes.len() {
            self.release(who, node, owner);
        }
        self.agenda.put(self.now, Event::Wants { who });
    }

    fn release(&mut self, who: Who, node: usize, owner: Owner) {
        let resource = Resource::new("r").unwrap();
        self.send_one(who, node, owner, Command::Release { resource, owner, keep: None });
    }

    fn connected(&mut self, who: Who, node: usize, life: u64) {
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
