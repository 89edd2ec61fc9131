//! A fleet that changes its list of nodes while clients run: with the old list, with both, and with the new one.
//!
//! Goal: at most one client holds, and tokens rise, whoever looks, seals, waits, opens, asks, extends and admits in which
//! order, and whichever node forgets meanwhile. Method: the production's `Admission`, `Probe`, `Round` and `Tally` of each
//! client, and `NodeStore`, one message after the other, over time. The orders are searched from the first state on, and
//! by random walks, since no search ends here (`walk.rs`).
//!
//! A message is executed and heard in one step, or executed and not heard. A prolonging command is for a node in the state
//! in which the client has read it: the scripts compare the identity, which names the record.
//!
//! Not modelled: claims (`tests/proof/protocol/admission/members.rs`), clocks that differ, lines, several resources.

mod client;
pub(crate) mod walk;

use core::time::Duration;

pub(crate) use self::client::Kind;
use self::client::{Client, Lease};
use super::{
    pool::{Part, Pool},
    search::{Sometimes, Space},
    terms::{ONE, TOKENS},
};
use crate::protocol::{Floor, Members, NodeId, NodeSet, NodeStore, Quorum, Serves, Timestamp};

/// A tick in milliseconds; a lease lasts for two, and a quarantine for more than two.
const TICK: u64 = 1_000;
const TTL: Duration = Duration::from_millis(2 * TICK);

/// Which fleet changes, and what may happen how often.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) before: &'static [usize],
    pub(crate) after: &'static [usize],
    /// The nodes of the new list alone have never been used; or else clients with both lists have let them in.
    pub(crate) fresh: bool,
    pub(crate) clients: &'static [Kind],
    pub(crate) forgets: u8,
    pub(crate) losses: u8,
    pub(crate) from: From,
    /// How many rounds each client begins.
    pub(crate) rounds: u8,
    pub(crate) until: u8,
}

/// How far the world has come when a search begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum From {
    /// Nobody has looked at any node.
    Start,
    /// All clients have looked at all nodes, so that the end of the change is asked for, and the first one holds.
    Held,
    /// The second client has sealed the first node, and not the others yet. That node has forgotten, has waited, and was
    /// admitted by the first client.
    Sealing,
}

/// A node, and how often it has forgotten.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Node {
    store: NodeStore,
    life: u64,
    /// It has forgotten, and was not admitted since.
    lost: bool,
}

/// Which state of a node a client has read.
type Stamp = (u64, Option<Members>);

impl Node {
    fn stamp(&self) -> Stamp {
        (self.life, self.store.members().cloned())
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Grant {
    /// How many grants there had been when its round began.
    began: u8,
    token: u64,
}

#[derive(Clone)]
pub(crate) struct State {
    nodes: Vec<Part<Node>>,
    clients: Vec<Part<Client>>,
    rest: Part<Rest>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Rest {
    now: u8,
    forgets: u8,
    losses: u8,
    grants: Vec<Grant>,
    wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Forget(usize),
    /// A client begins to see to its nodes.
    Probe(usize),
    /// It looks at one.
    Look(usize, usize, Fate),
    Begin(usize),
    Vote(usize, usize, Fate),
    Extend(usize),
    Extended(usize, usize, Fate),
    /// It does nothing more with what it asked for or holds.
    GiveUp(usize),
    GiveBack(usize),
}

/// What becomes of a message and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// It is executed and heard of.
    Heard,
    /// It is executed.
    Unheard,
    Lost,
}

impl Step {
    /// The client that does it, if one does.
    pub(crate) const fn actor(&self) -> Option<usize> {
        match self {
            Self::Tick | Self::Forget(_) => None,
            Self::Probe(at)
            | Self::Look(at, ..)
            | Self::Begin(at)
            | Self::Vote(at, ..)
            | Self::Extend(at)
            | Self::Extended(at, ..)
            | Self::GiveUp(at)
            | Self::GiveBack(at) => Some(*at),
        }
    }

    /// What would end too much if it came as often as all else.
    pub(crate) const fn is_rare(&self) -> bool {
        matches!(self, Self::Tick | Self::GiveUp(_) | Self::GiveBack(_) | Self::Forget(_))
    }
}

pub(crate) struct Changes {
    setup: Setup,
    nodes: Pool<Node>,
    clients: Pool<Client>,
    rests: Pool<Rest>,
}

impl Changes {
    pub(crate) fn new(setup: Setup) -> Self {
        let (nodes, clients, rests) = (Pool::new(), Pool::new(), Pool::new());
        Self { setup, nodes, clients, rests }
    }

    fn all(&self) -> usize {
        let all = self.setup.before.iter().chain(self.setup.after);
        all.copied().max().unwrap_or_default() + 1
    }

    fn quorum(&self) -> Quorum {
        let set = |nodes: &[usize]| nodes.iter().copied().map(NodeId::new).collect::<NodeSet>();
        Quorum::of_both(set(self.setup.before), set(self.setup.after))
    }

    /// The state behind these steps, which are possible.
    fn after(&mut self, state: &State, steps: impl IntoIterator<Item = Step>) -> State {
        let mut state = state.clone();
        for step in steps {
            state = self.step(&state, step).expect("it is possible");
        }
        state
    }

    /// A client sees to its nodes, from the beginning of a probe to its end.
    fn see_to(&mut self, state: &State, at: usize) -> State {
        let mut state = self.after(state, [Step::Probe(at)]);
        while state.clients[at].probe.is_some() {
            let own = (0..state.clients[at].nodes.len()).find(|own| state.clients[at].asks(*own));
            state = self.after(&state, [Step::Look(at, own.expect("it waits"), Fate::Heard)]);
        }
        state
    }

    fn come_to(&mut self, state: &State) -> State {
        let mut state = state.clone();
        if self.setup.from == From::Start {
            return state;
        }
        for at in 0..self.setup.clients.len() {
            state = self.see_to(&state, at);
        }
        if self.setup.from == From::Held {
            state = self.after(&state, [Step::Begin(0)]);
            while let Some(own) =
                (0..state.clients[0].nodes.len()).find(|own| state.clients[0].votes(*own))
            {
                state = self.after(&state, [Step::Vote(0, own, Fate::Heard)]);
            }
            return state;
        }
        let first = self.setup.before[0];
        let both = client::members(&self.setup, Kind::Both);
        let is_sealed = |state: &State| state.nodes[first].store.members() == Some(&both);
        state = self.after(&state, [Step::Probe(1)]);
        while !is_sealed(&state) {
            let own = (0..state.clients[1].nodes.len()).find(|own| state.clients[1].asks(*own));
            state = self.after(&state, [Step::Look(1, own.expect("it waits"), Fate::Heard)]);
        }
        state = self.after(&state, [Step::Forget(first)]);
        state = self.see_to(&state, 0);
        state = self.after(&state, [Step::Tick; 3]);
        self.see_to(&state, 0)
    }

    /// No more than a minority of each list has forgotten at a time.
    fn may_forget(&self, state: &State, node: usize) -> bool {
        let is_lost = |at: &usize| state.nodes[*at].lost || *at == node;
        let lost: NodeSet = (0..self.all()).filter(is_lost).map(NodeId::new).collect();
        let is_before = self.setup.before.contains(&node);
        let quorum = self.quorum();
        let there = quorum.everyone().without(lost);
        state.rest.forgets > 0
            && !state.nodes[node].lost
            && (!is_before || quorum.is_met_before_by(there))
            && (!self.setup.after.contains(&node) || quorum.is_met_after_by(there))
    }
}

pub(crate) const fn now_of(tick: u8) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(tick as u64 * TICK))
}

impl Space for Changes {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        self.all() + self.setup.clients.len() + 1
    }

    fn first(&mut self) -> State {
        let both = client::members(&self.setup, Kind::Both);
        let node = |at: usize| {
            let (is_old, mut store) = (self.setup.before.contains(&at), NodeStore::in_life(0));
            let serves = if is_old { Serves::Before } else { Serves::Both };
            let lost = self.setup.fresh && !is_old;
            if !lost {
                assert!(store.admit_for(0, Floor::new(0, 0), &both, serves, 1), "it was joining");
            }
            Part::new(Node { store, life: 0, lost })
        };
        let Setup { forgets, losses, .. } = self.setup;
        let first = State {
            nodes: (0..self.all()).map(node).collect(),
            clients: (0..self.setup.clients.len())
                .map(|at| Part::new(Client::new(&self.setup, at)))
                .collect(),
            rest: Part::new(Rest { now: 0, forgets, losses, grants: Vec::new(), wrong: None }),
        };
        self.come_to(&first)
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        row.extend(state.clients.iter().map(|client| self.clients.number(client)));
        row.push(self.rests.number(&state.rest));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let (nodes, rest) = row.split_at(self.all());
        let (clients, rest) = rest.split_at(self.setup.clients.len());
        State {
            nodes: nodes.iter().map(|number| self.nodes.part(*number)).collect(),
            clients: clients.iter().map(|number| self.clients.part(*number)).collect(),
            rest: self.rests.part(rest[0]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        if state.rest.now < self.setup.until {
            into.push(Step::Tick);
        }
        into.extend((0..self.all()).filter(|at| self.may_forget(state, *at)).map(Step::Forget));
        let fates: &[Fate] = match state.rest.losses {
            0 => &[Fate::Heard],
            _ => &[Fate::Heard, Fate::Unheard, Fate::Lost],
        };
        // Clients with both lists see to the new nodes before any comes with these alone: nobody could tell them from a fleet
        // of their own.
        let is_used = |at: &usize| state.nodes[*at].store.members().is_some();
        let used = (0..self.all()).filter(is_used).map(NodeId::new).collect();
        let are_used = self.quorum().is_met_after_by(used);
        for (at, client) in state.clients.iter().enumerate() {
            if client.kind == Kind::New && !are_used {
                continue;
            }
            if client.probe.is_none() {
                into.push(Step::Probe(at));
            }
            let may_ask = client.attempt.is_none() && client.lease.is_none();
            let rounds = client.rounds < self.setup.rounds;
            if may_ask && rounds && client.may_win(now_of(state.rest.now)) {
                into.push(Step::Begin(at));
            }
            if client.attempt.is_some() || client.lease.is_some() {
                into.push(Step::GiveUp(at));
            }
            if client.lease.is_some() {
                into.push(Step::GiveBack(at));
            }
            let extends = client.lease.as_ref().is_some_and(|lease| lease.extension.is_none());
            if extends {
                into.push(Step::Extend(at));
            }
            for own in 0..client.nodes.len() {
                for fate in fates {
                    if client.asks(own) {
                        into.push(Step::Look(at, own, *fate));
                    }
                    if client.votes(own) {
                        into.push(Step::Vote(at, own, *fate));
                    }
                    if client.extends(own) {
                        into.push(Step::Extended(at, own, *fate));
                    }
                }
            }
        }
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let now = now_of(state.rest.now);
        let fate = match step {
            Step::Look(.., fate) | Step::Vote(.., fate) | Step::Extended(.., fate) => fate,
            _ => Fate::Heard,
        };
        if fate != Fate::Heard {
            next.rest.edit().losses -= 1;
        }
        match step {
            Step::Tick => next.rest.edit().now += 1,
            Step::Forget(at) => {
                next.rest.edit().forgets -= 1;
                let node = next.nodes[at].edit();
                node.life += 1;
                (node.store, node.lost) = (NodeStore::in_life(node.life), true);
            }
            Step::Probe(at) => next.clients[at].edit().begin_probe(now),
            Step::Look(at, own, fate) => {
                let node = next.nodes[state.clients[at].nodes[own]].edit();
                next.clients[at].edit().look(own, node, fate, now);
            }
            Step::Begin(at) => {
                let grants = u8::try_from(state.rest.grants.len()).ok()?;
                next.clients[at].edit().begin_round(at, grants, now);
            }
            Step::Vote(at, own, fate) => {
                let node = next.nodes[state.clients[at].nodes[own]].edit();
                if let Some(grant) = next.clients[at].edit().vote(own, node, fate, now) {
                    next.won(grant);
                }
            }
            Step::Extend(at) => next.clients[at].edit().extend(now),
            Step::Extended(at, own, fate) => {
                let node = next.nodes[state.clients[at].nodes[own]].edit();
                next.clients[at].edit().extended(own, node, fate, now);
            }
            Step::GiveUp(at) => {
                let client = next.clients[at].edit();
                (client.attempt, client.lease) = (None, None);
            }
            Step::GiveBack(at) => {
                let lease = next.clients[at].edit().lease.take()?;
                for node in &state.clients[at].nodes {
                    lease.release(next.nodes[*node].edit(), now);
                }
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, _stuck: bool) -> Option<&'static str> {
        let now = now_of(state.rest.now);
        let holds = |lease: &Lease| lease.deadline > now;
        let holders =
            state.clients.iter().filter(|client| client.lease.as_ref().is_some_and(holds));
        if holders.count() > 1 { Some(ONE) } else { state.rest.wrong }
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let now = now_of(state.rest.now);
        for (kind, what) in [
            (Kind::Old, "a client with the old list held"),
            (Kind::Both, "a client with both lists held"),
            (Kind::New, "a client with the new list held"),
        ] {
            let holds = |client: &&Part<Client>| {
                client.kind == kind
                    && client.lease.as_ref().is_some_and(|lease| lease.deadline > now)
            };
            sometimes.note(what, state.clients.iter().any(|client| holds(&client)));
        }
        let is = |serves: Serves| {
            let both = client::members(&self.setup, Kind::Both);
            state.nodes.iter().any(|node| {
                node.store.members().is_some_and(|record| both.served_by(record) == Some(serves))
            })
        };
        sometimes.note("a node was open", is(Serves::After));
        let again = |node: &Part<Node>| node.life > 0 && !node.lost;
        sometimes.note("a node that forgot was admitted", state.nodes.iter().any(again));
    }

    fn heal(&mut self, _state: &State) -> Result<bool, &'static str> {
        Ok(false)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        let record = |node: &Part<Node>| {
            let record = node.store.members().map_or("nothing", Members::text).to_owned();
            if node.store.marker().ready { record } else { format!("({record})") }
        };
        let nodes: Vec<String> = state.nodes.iter().map(record).collect();
        format!("{} {step:?} [{}]", state.rest.now, nodes.join("; "))
    }
}

impl State {
    fn won(&mut self, grant: Grant) {
        let rest = self.rest.edit();
        let before = &rest.grants[..usize::from(grant.began)];
        let rises = before.iter().all(|earlier| earlier.token < grant.token);
        let is_new = rest.grants.iter().all(|other| other.token != grant.token);
        if !rises || !is_new {
            rest.wrong = Some(TOKENS);
        }
        rest.grants.push(grant);
    }
}
