//! Several clients and the nodes that they lock on, with all that may happen to a node: it restarts, is flushed, its clock
//! jumps, it cannot be reached, and others seal it. Clients run rounds and the admission as production does: the engine
//! does no more than what is here in `Client::pump`.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use quorlock_core::{
    Admission, AdmissionPolicy, ConnectionView, Floor, Join, Marker, NodeClock, Probe, ProbeStep,
    Standing, Verdict, VoteGuard,
};
use rand::{Rng, rngs::StdRng};

use self::server::Server;
use super::{super::*, *};

mod answers;
mod rounds;
mod server;

/// The node timeout, in ms; an attempt lasts for two of them at the most.
const TIMEOUT: u64 = 500;
const ATTEMPT: Duration = Duration::from_millis(2 * TIMEOUT);
/// The longest ttl, a tenth of it, and an attempt.
const QUARANTINE: u64 = 12_000;
/// So far a node's clock jumps, in ms: no lease outlives that.
const JUMP: u64 = 60_000;
/// The wall clock at the beginning, in microseconds.
const WALL: u64 = 1_000_000_000_000;

/// What is wrong, on purpose, with the nodes or with the code that pumps the machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flaw {
    None,
    /// A node is let in, whatever its epoch is by then.
    AdmittedInAnyEpoch,
    /// A vote counts though its node's standing has been taken away since it was asked for.
    LapsedCounts,
    /// Nobody waits.
    NoQuarantine,
    /// Nodes that are joining are not told that a majority has forgotten.
    Untold,
}

enum Asked {
    /// In this round.
    Vote(usize, Command, VoteGuard),
    /// In this step of the probes.
    Look(usize, Join),
    /// Beside it.
    Beside(usize, Join),
    Admit(usize, u64, Floor),
}

enum Told {
    Vote(usize, Answered, VoteGuard),
    Marker(usize, Marker),
    Beside(usize, Marker),
    Admitted(usize, bool),
}

struct Letter {
    asked: Asked,
    sent: u64,
    series: u64,
}

struct Answer {
    told: Told,
    sent: u64,
    series: u64,
    node_us: u64,
    /// How often the node's clock had jumped when it was executed.
    jumps: u64,
}

/// How one client is connected to one node.
#[derive(Default)]
struct Link {
    connected: bool,
    /// Whether the node's session tells what it has seen of the node's clock. One that does not sees a jump by itself.
    tells: bool,
    clock: NodeClock,
    there: VecDeque<Letter>,
    back: VecDeque<Answer>,
    /// How often the node's clock had jumped when this client last saw it jump.
    seen: u64,
}

struct Attempt {
    round: Round,
    began: usize,
    at: Timestamp,
    until: u64,
    won: bool,
}

/// A round that was won: when it began, when it was won, with which tokens, and until when it held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Won {
    pub(crate) began: usize,
    pub(crate) step: usize,
    /// The first and the last.
    pub(crate) tokens: [u64; 2],
    at: u64,
    until: u64,
    owner: Owner,
}

struct Client {
    admission: Admission,
    probe: Probe,
    /// The number of the step of the probes that is under way, how many have to answer, and until when they may.
    asked: usize,
    open: BTreeSet<usize>,
    until: u64,
    /// It has paused, until then or until something happens.
    paused: bool,
    links: Vec<Link>,
    attempt: Option<Attempt>,
    rounds: usize,
    /// Its way to the nodes is long, and its clock stands still for as long as a round of its takes: such a round ends
    /// no earlier than it is settled. Its tokens are as good as any, and its leases are not.
    stalls: bool,
}

pub(crate) struct World {
    now: u64,
    step: usize,
    flaw: Flaw,
    pub(crate) servers: Vec<Server>,
    clients: Vec<Client>,
    pub(crate) won: Vec<Won>,
    pub(crate) admissions: usize,
    pub(crate) lapsed: usize,
    /// How many nodes were given their standing again beside a step.
    pub(crate) beside: usize,
    pub(crate) wrong: Option<String>,
}

impl World {
    pub(crate) fn new(nodes: usize, clients: usize, seed: u64, flaw: Flaw) -> Self {
        // One in four is a new deployment; in one of two the nodes do not tell their clocks, and in one of two the clock
        // of one client stands still now and then.
        let (ready, tells, stalls) = (!seed.is_multiple_of(4), seed % 2 == 1, seed % 8 < 4);
        let policy = match flaw {
            Flaw::NoQuarantine => AdmissionPolicy::DangerSkip,
            _ => AdmissionPolicy::Quarantine,
        };
        let client = |client| Client {
            admission: Admission::new(Quorum::of(nodes), policy, TTL, ATTEMPT),
            probe: Probe::new(false),
            asked: 0,
            open: BTreeSet::new(),
            until: 0,
            paused: true,
            links: (0..nodes).map(|_| Link { tells, connected: true, ..Link::default() }).collect(),
            attempt: None,
            rounds: 0,
            stalls: client == 0 && stalls,
        };
        let mut world = Self {
            now: 0,
            step: 0,
            flaw,
            servers: (0..nodes).map(|_| Server::new(ready)).collect(),
            clients: (0..clients).map(client).collect(),
            won: Vec::new(),
            admissions: 0,
            lapsed: 0,
            beside: 0,
            wrong: None,
        };
        // It may begin with a node down.
        if !ready && seed % 16 < 8 {
            (world.servers[nodes - 1].gone, world.servers[nodes - 1].up) = (true, false);
            (0..clients).for_each(|client| world.cut(client, nodes - 1));
        }
        world
    }

    pub(crate) fn lacks_a_node(&self) -> bool {
        self.servers.iter().any(|server| server.gone)
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_origin(Duration::from_millis(self.now))
    }

    const fn wall_us(&self) -> u64 {
        WALL + self.now * 1000
    }

    /// No more than a minority has lost its data at a time; while another is away, none.
    fn may_forget(&self, node: usize) -> bool {
        if self.lacks_a_node() {
            return false;
        }
        let lost = self.servers.iter().filter(|server| server.lost).count();
        !self.servers[node].lost && lost < Quorum::of(self.servers.len()).spare()
    }

    pub(crate) fn restart(&mut self, node: usize) {
        if self.may_forget(node) {
            self.servers[node].life += 1;
            self.servers[node].forget();
            (0..self.clients.len()).for_each(|client| self.cut(client, node));
        }
    }

    pub(crate) fn flush(&mut self, node: usize) {
        if self.may_forget(node) {
            self.servers[node].forget();
        }
    }

    pub(crate) fn jump(&mut self, node: usize) {
        self.servers[node].jumps += 1;
    }

    fn cut(&mut self, client: usize, node: usize) {
        let link = &mut self.clients[client].links[node];
        link.connected = false;
        link.there.clear();
        link.back.clear();
        self.clients[client].wake();
    }

    /// Does one thing that may happen next.
    pub(crate) fn act(&mut self, rng: &mut StdRng, faults: &[Fault]) {
        self.step += 1;
        // An answer takes some ms; now and then nothing happens for seconds.
        let pauses = rng.random_bool(0.01);
        self.now += rng.random_range(0..if pauses { 5_000 } else { 6 });
        let (client, node) =
            (rng.random_range(0..self.clients.len()), rng.random_range(0..self.servers.len()));
        if let Some(fault) = (!faults.is_empty()).then(|| faults[rng.random_range(0..faults.len())])
            && rng.random_bool(0.01)
        {
            match fault {
                Fault::Restart => self.restart(node),
                Fault::Flush => self.flush(node),
                Fault::Jump => self.jump(node),
                Fault::Cut => self.cut(client, node),
                Fault::Down => {
                    self.servers[node].up = !self.servers[node].up && !self.servers[node].gone;
                    (0..self.clients.len()).for_each(|client| self.cut(client, node));
                }
            }
        }
        match rng.random_range(0..10) {
            0 if !self.clients[client].links[node].connected && self.servers[node].up => {
                self.clients[client].links[node].connected = true;
                self.clients[client].wake();
            }
            0 | 1 => self.pump(client),
            // Where a client is slow, the others have less to do, so that its rounds find something to disturb.
            2 if self.clients.iter().all(|client| !client.stalls) || rng.random_bool(0.2) => {
                self.ask(client, rng);
            }
            kind => {
                let delivers = kind < 7;
                let busy = self.busy(delivers, rng.random_bool(0.05));
                if busy.is_empty() {
                    return;
                }
                let (client, node) = busy[rng.random_range(0..busy.len())];
                if delivers {
                    self.deliver(client, node);
                } else {
                    self.hear(client, node, rng.random_range(0..8));
                }
            }
        }
    }

    /// The pairs of client and node with something on its way there or back.
    fn busy(&self, there: bool, slow: bool) -> Vec<(usize, usize)> {
        let links = |(client, it): (usize, &Client)| {
            let busy =
                |link: &Link| if there { !link.there.is_empty() } else { !link.back.is_empty() };
            let busy = it.links.iter().map(busy).collect::<Vec<_>>();
            busy.into_iter()
                .enumerate()
                .filter(|(_, busy)| *busy)
                .map(move |(node, _)| (client, node))
        };
        let clients = self.clients.iter().enumerate();
        clients.filter(|(_, client)| slow || !client.stalls).flat_map(links).collect()
    }

    /// All that is left is done at once, for so long in ms, and all nodes can be reached that are not away for good.
    pub(crate) fn settle(&mut self, time: u64) {
        self.servers.iter_mut().for_each(|server| server.up = !server.gone);
        let until = self.now + time;
        while self.now < until {
            for client in 0..self.clients.len() {
                for (link, server) in self.clients[client].links.iter_mut().zip(&self.servers) {
                    link.connected = server.up;
                }
                self.pump(client);
                for node in 0..self.servers.len() {
                    while !self.clients[client].links[node].there.is_empty() {
                        self.deliver(client, node);
                    }
                    while !self.clients[client].links[node].back.is_empty() {
                        self.hear(client, node, 0);
                    }
                }
            }
            self.now += 200;
        }
    }

    /// The nodes that do not vote for some client.
    pub(crate) fn without_a_vote(&self) -> Vec<(usize, NodeId, Standing)> {
        let standing = |(index, client): (usize, &Client)| {
            let admission = client.admission.clone();
            (0..self.servers.len())
                .map(move |server| (index, node(server), admission.standing(node(server))))
        };
        let all = self.clients.iter().enumerate().flat_map(standing);
        let there = all.filter(|(_, node, _)| !self.servers[node.index()].gone);
        there.filter(|(.., standing)| *standing != Standing::Ready).collect()
    }
}

impl Client {
    fn wake(&mut self) {
        if self.paused {
            self.until = 0;
        }
    }

    fn send(&mut self, node: usize, asked: Asked, now: u64) {
        let link = &mut self.links[node];
        if matches!(asked, Asked::Look(..) | Asked::Admit(..)) && link.connected {
            self.open.insert(node);
        }
        if link.connected {
            link.there.push_back(Letter { asked, sent: now, series: link.clock.series() });
        }
    }

    /// Those that have refused meanwhile are looked at beside the step.
    fn look_beside(&mut self, views: &[ConnectionView], now: u64) {
        for (node, join) in self.probe.poll_beside(&self.admission, views) {
            self.send(node.index(), Asked::Beside(self.asked, join), now);
        }
    }

    fn answered(&mut self, asked: usize, node: usize) {
        if asked == self.asked {
            self.open.remove(&node);
        }
    }

    /// Sends what the round asks for, where the node may vote.
    fn send_round(&mut self, now: u64) {
        let at = Timestamp::from_origin(Duration::from_millis(now));
        loop {
            let Some(attempt) = &mut self.attempt else { return };
            let Some((node, command)) = attempt.round.poll_command() else { return };
            let votes = !matches!(command, Command::Release { .. });
            let reachable = self.links[node.index()].connected;
            if votes && (!reachable || self.admission.may_vote(node, at).is_err()) {
                attempt.round.handle_reply(node, NOT_SENT, at);
            } else {
                let vote_guard = self.admission.vote_guard(node);
                self.send(node.index(), Asked::Vote(self.rounds, command, vote_guard), now);
            }
        }
    }
}

/// What may happen to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    Restart,
    Flush,
    Jump,
    Cut,
    Down,
}
