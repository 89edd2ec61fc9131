//! The world: clients, nodes, what is under way between them, and what goes wrong.

use std::{collections::HashMap, time::Duration};

use quorlock_core::ClientId;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    checker::Checker,
    client::Client,
    figures::Figures,
    network::{Agenda, Event, Who},
    node::Node,
    setup::Setup,
};

/// How long waiters may take once nothing goes wrong any more: leases of killed clients end, and clients that were not
/// told ask again.
const AFTERWARDS: Duration = Duration::from_secs(15);

pub(crate) struct World {
    pub(super) setup: Setup,
    pub(super) rng: StdRng,
    pub(super) now: Duration,
    pub(super) schedule: Agenda,
    pub(super) nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    pub(super) by_name: HashMap<ClientId, Who>,
    /// Whether all that happens is printed, to see what has led to a failure.
    is_traced: bool,
    /// When the resource was given back last, where nobody has had it since.
    pub(super) freed: Option<Duration>,
    pub(crate) checker: Checker,
    pub(crate) figures: Figures,
}

/// What a run has come to.
pub(crate) struct Outcome {
    pub(crate) checker: Checker,
    pub(crate) figures: Figures,
    /// Clients that still wait long after the last failure.
    pub(crate) unserved: Vec<(Who, Duration)>,
}

impl Outcome {
    /// That it was safe, and everybody was served.
    #[track_caller]
    pub(crate) fn assert_sound(&self, setup: &Setup) {
        assert!(self.checker.unsafe_at.is_empty(), "{setup:?}: {:#?}", self.checker.unsafe_at);
        assert!(self.unserved.is_empty(), "{setup:?}: they wait still: {:?}", self.unserved);
    }

    /// That no waiter was overtaken to which nothing had happened.
    #[track_caller]
    pub(crate) fn assert_in_order(&self, setup: &Setup) {
        let overtaken = self.checker.overtaken.as_slice();
        assert!(overtaken.is_empty(), "{setup:?}: {} times, {:#?}", overtaken.len(), overtaken[0]);
    }
}

pub(crate) fn run(setup: Setup) -> Outcome {
    let mut world = World::new(setup);
    let end = setup.time + AFTERWARDS;
    while let Some((at, event)) = world.schedule.next() {
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
                let set_back = faults.set_back.map_or(0, |(_, seconds)| 1_000_000 * seconds);
                let ahead = set_back + 1_000_000 * rng.random_range(0..=faults.apart);
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
            schedule: Agenda::default(),
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
        if who == 0 {
            client.links.iter_mut().for_each(|link| link.far = self.setup.faults.far);
        }
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
        self.schedule.put(self.now + after, Event::Wants { who });
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
            // What happens to a stopped client happens when it goes on.
            if client.stopped > self.now {
                self.schedule.put(client.stopped, event);
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
}
