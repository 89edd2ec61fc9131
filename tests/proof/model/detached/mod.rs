//! A detached lease, those who try to adopt it, and one who waits until the resource is free.
//!
//! Goal: one at the most adopts it, nobody behind another holder; at most one holds, and tokens rise; what is given back ends
//! when it would have; whichever message is lost or late, whenever the keys end, and whichever node forgets. Method: the production's `Round` and `NodeStore`, one
//! message after the other, over time, searched to the end.
//!
//! What a node gets from one client comes in the order of sending, but for what is late. What is under way when a round is
//! won never comes, unless it is late. A node that has forgotten is
//! let in by one step, a quarantine later, as `changes` and the admission's worlds look at in detail.
//!
//! Not modelled: a round that acquires and is interrupted, an undo that is repeated, renewals, sets, clocks that differ.

mod actor;

use core::time::Duration;

use self::actor::Actor;
use super::{
    pool::{Part, Pool},
    search::{Sometimes, Space},
    terms::{ONE, TOKENS},
};
use crate::protocol::{Command, EpochMark, Floor, Join, NodeStore, Owner, Timestamp};

pub(crate) const ADOPTED: &str =
    "a detached lease is adopted once, and by nobody who comes behind another holder";

pub(crate) const ENDS: &str = "what nobody could adopt ends when it would have";

const NODES: usize = 3;
/// A tick in milliseconds.
const TICK: u64 = 1_000;
/// Of the lease that is detached, and the longest of those behind it.
const TTL: Duration = ticks(2);
/// In ticks.
const QUARANTINE: u8 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) adopters: usize,
    /// Whether one more acquires the resource once it is free.
    pub(crate) has_other: bool,
    /// For how long each adopter asks, in ticks: two at most.
    pub(crate) ttls: [u8; 2],
    /// How many rounds the first adopter begins; each other begins one, behind it.
    pub(crate) rounds: u8,
    /// How many answers are lost or late.
    pub(crate) losses: u8,
    pub(crate) forgets: u8,
    pub(crate) until: u8,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    above: u64,
    token: u64,
    adopts: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Node {
    store: NodeStore,
    life: u64,
    /// When it has forgotten, until it is let in.
    lost: Option<u8>,
}

impl Node {
    fn is_free(&self, now: Timestamp) -> bool {
        self.lost.is_none() && self.store.clone().keys(now).is_empty()
    }
}

#[derive(Clone)]
pub(crate) struct State {
    nodes: Vec<Part<Node>>,
    actors: Vec<Part<Actor>>,
    rest: Part<Rest>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Rest {
    now: u8,
    forgets: u8,
    losses: u8,
    /// The tokens that were granted, in their order; the detached lease's is the first.
    tokens: Vec<u64>,
    has_adopted: bool,
    wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Forget(usize),
    Admit(usize),
    Begin(usize),
    Send(usize, usize, Fate),
    /// What was late comes.
    Land(usize),
    Again(usize),
    GiveBack(usize),
}

/// What becomes of a message and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Heard,
    /// It is executed, and its time is up.
    Unheard,
    /// Its time is up, and it may be executed at any time.
    Late,
}

pub(crate) struct Detached {
    setup: Setup,
    nodes: Pool<Node>,
    actors: Pool<Actor>,
    rests: Pool<Rest>,
}

fn before() -> Owner {
    Owner::from_random([0xee; 16])
}

const fn ticks(count: u8) -> Duration {
    Duration::from_millis(count as u64 * TICK)
}

const fn now_of(tick: u8) -> Timestamp {
    Timestamp::from_origin(ticks(tick))
}

fn mark(store: &NodeStore) -> EpochMark {
    store.marker().mark()
}

impl Detached {
    pub(crate) fn new(setup: Setup) -> Self {
        Self { setup, nodes: Pool::new(), actors: Pool::new(), rests: Pool::new() }
    }

    const fn count(&self) -> usize {
        self.setup.adopters + self.setup.has_other as usize
    }
}

impl Space for Detached {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        NODES + self.count() + 1
    }

    fn first(&mut self) -> State {
        let node = |_| {
            let mut store = NodeStore::in_life(0);
            assert!(store.admit(0, Floor::new(0, 0), 1), "it was joining");
            let acquire = Command::Acquire {
                target: actor::resource().into(),
                owner: before(),
                ttl: TTL,
                hint: Some(1),
                count: 1,
                first: 0,
                mark: mark(&store),
                note: None,
                stand: None,
            };
            actor::execute(&mut store, acquire, now_of(0)).expect("it is free");
            Part::new(Node { store, life: 0, lost: None })
        };
        let Setup { forgets, losses, .. } = self.setup;
        let from = |at: usize| (at < self.setup.adopters).then(before);
        let ttl = |at: usize| self.setup.ttls.get(at).map_or(TTL, |count| ticks(*count));
        let tokens = vec![1];
        State {
            nodes: (0..NODES).map(node).collect(),
            actors: (0..self.count()).map(|at| Part::new(Actor::new(from(at), ttl(at)))).collect(),
            rest: Part::new(Rest {
                now: 0,
                forgets,
                losses,
                tokens,
                has_adopted: false,
                wrong: None,
            }),
        }
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        row.extend(state.actors.iter().map(|actor| self.actors.number(actor)));
        row.push(self.rests.number(&state.rest));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let (nodes, rest) = row.split_at(NODES);
        let (actors, rest) = rest.split_at(self.count());
        State {
            nodes: nodes.iter().map(|number| self.nodes.part(*number)).collect(),
            actors: actors.iter().map(|number| self.actors.part(*number)).collect(),
            rest: self.rests.part(rest[0]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        let Rest { now, forgets, losses, .. } = *state.rest;
        if now < self.setup.until {
            into.push(Step::Tick);
        }
        let is_lost = |node: &Part<Node>| node.lost.is_some();
        for (at, node) in state.nodes.iter().enumerate() {
            match node.lost {
                Some(since) if now >= since + QUARANTINE => into.push(Step::Admit(at)),
                Some(_) => {}
                // A minority at a time.
                None if forgets > 0 && !state.nodes.iter().any(is_lost) => {
                    into.push(Step::Forget(at));
                }
                None => {}
            }
        }
        for (at, actor) in state.actors.iter().enumerate() {
            let most = if at == 0 { self.setup.rounds } else { 1 };
            // Adopters are alike: one of them is the first.
            let comes = if actor.adopts() {
                at == 0 || state.actors[at - 1].rounds > 0
            } else {
                // Who asks before the resource is free is denied.
                let is_free = |node: &&Part<Node>| node.is_free(now_of(now));
                state.nodes.iter().filter(is_free).count() > NODES / 2
            };
            if comes && !actor.has_begun() && !actor.has_won() && actor.rounds < most {
                into.push(Step::Begin(at));
            }
            if actor.is_lost() {
                into.push(Step::Again(at));
            }
            if actor.has_won() {
                into.push(Step::GiveBack(at));
            }
            if actor.has_late() {
                into.push(Step::Land(at));
            }
            for node in 0..NODES {
                let Some(asks) = actor.next(node) else { continue };
                into.push(Step::Send(at, node, Fate::Heard));
                if losses > 0 {
                    into.push(Step::Send(at, node, Fate::Unheard));
                }
                if losses > 0 && asks && !actor.has_late() {
                    into.push(Step::Send(at, node, Fate::Late));
                }
            }
        }
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let now = now_of(state.rest.now);
        if let Step::Send(.., Fate::Unheard | Fate::Late) = step {
            next.rest.edit().losses -= 1;
        }
        match step {
            Step::Tick => {
                next.rest.edit().now += 1;
                let now = now_of(next.rest.now);
                next.actors.iter_mut().for_each(|actor| actor.edit().handle_time(now));
            }
            Step::Forget(at) => {
                next.rest.edit().forgets -= 1;
                let node = next.nodes[at].edit();
                node.life += 1;
                (node.store, node.lost) = (NodeStore::in_life(node.life), Some(state.rest.now));
            }
            Step::Admit(at) => {
                // The others are sealed, and tell how far they have counted.
                let others = (0..NODES).filter(|other| *other != at);
                let told = others.map(|other| {
                    next.nodes[other].edit().store.join(Join::look(TTL).seal(), now).high_water
                });
                let floor = Floor::new(told.max()?, 0);
                let node = next.nodes[at].edit();
                let epoch = node.store.join(Join::look(TTL), now).epoch;
                if !node.store.admit(epoch, floor, 1) {
                    return None;
                }
                node.lost = None;
            }
            Step::Begin(at) => {
                let above = state.rest.tokens.last().copied().unwrap_or_default();
                let marks = state.nodes.iter().map(|node| mark(&node.store)).collect();
                let number = u8::try_from(at).ok()? + 1;
                next.actors[at].edit().begin(number, above, marks, now);
                // Who acquires does so at once.
                while !state.actors[at].adopts()
                    && let Some(node) =
                        (0..NODES).find(|node| next.actors[at].next(*node).is_some())
                {
                    next = self.step(&next, Step::Send(at, node, Fate::Heard))?;
                }
            }
            Step::Send(at, node, fate) => {
                let store = &mut next.nodes[node].edit().store;
                let grant = next.actors[at].edit().send(node, store, fate, now);
                if let Some(grant) = grant {
                    next.won(grant);
                }
                next.ends_as_before(node);
            }
            Step::Land(at) => {
                let node = state.actors[at].late_node()?;
                next.actors[at].edit().land(&mut next.nodes[node].edit().store, now);
                next.ends_as_before(node);
            }
            Step::Again(at) => next.actors[at].edit().end_round(),
            Step::GiveBack(at) => {
                for command in next.actors[at].edit().releases() {
                    for node in &mut next.nodes {
                        let _ = actor::execute(&mut node.edit().store, command.clone(), now);
                    }
                }
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, _stuck: bool) -> Option<&'static str> {
        let now = now_of(state.rest.now);
        let holders = state.actors.iter().filter(|actor| actor.holds(now));
        if holders.count() > 1 { Some(ONE) } else { state.rest.wrong }
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let Rest { now, has_adopted, ref tokens, .. } = *state.rest;
        let other = tokens.len() > 1 && !has_adopted;
        sometimes.note("it was adopted", has_adopted);
        sometimes.note("another acquired what nobody adopted", other);
        let again = |actor: &Part<Actor>| actor.adopts() && actor.rounds > 1 && actor.has_won();
        sometimes.note("it was adopted behind a lost round", state.actors.iter().any(again));
        let is_back = |node: &Part<Node>| node.life > 0 && node.lost.is_none();
        sometimes.note("a node that forgot was admitted", state.nodes.iter().any(is_back));
        let late = state.actors.iter().any(|actor| actor.has_late());
        sometimes.note("a message was late", late && now > 0);
    }

    fn heal(&mut self, _state: &State) -> Result<bool, &'static str> {
        Ok(false)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        let key = |node: &Part<Node>| {
            let mut store = node.store.clone();
            let keys = store.keys(now_of(state.rest.now));
            let value = keys.get(&b"r"[..]).map(|key| key.value.escape_ascii().to_string());
            value.map_or_else(|| "free".to_owned(), |value| value[..2].to_owned())
        };
        let nodes: Vec<String> = state.nodes.iter().map(key).collect();
        format!("{} {step:?} [{}]", state.rest.now, nodes.join(", "))
    }
}

impl State {
    /// A key that is the first owner's ends with that one's lease.
    fn ends_as_before(&mut self, node: usize) {
        let now = now_of(self.rest.now);
        let keys = self.nodes[node].edit().store.keys(now);
        let key = keys.get(&b"r"[..]).filter(|key| key.value == before().to_hex());
        if key.is_some_and(|key| key.expires != Some(now_of(0).saturating_add(TTL))) {
            self.rest.edit().wrong = Some(ENDS);
        }
    }

    fn won(&mut self, grant: Grant) {
        let rest = self.rest.edit();
        if grant.adopts && rest.tokens.len() > 1 {
            rest.wrong = Some(ADOPTED);
        }
        rest.has_adopted |= grant.adopts;
        match rest.tokens.binary_search(&grant.token) {
            Err(at) if grant.token > grant.above => rest.tokens.insert(at, grant.token),
            _ => rest.wrong = Some(TOKENS),
        }
    }
}
