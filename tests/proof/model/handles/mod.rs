//! Whole handles: processes in each of which several want one resource, beside nodes and over time.
//!
//! Goal: of all requests in all processes no two hold that exclude each other; each is told so once, and is let in only
//! while it is there; every waiter is served; nothing is left on the nodes. Method: the production's `Client` with its
//! queues, grants, footprints and timers (`handle.rs`), the production's rounds and tallies, and `NodeStore`s; for what
//! each one asks (`kind.rs`); messages that are executed and heard at any time, in the order of their connection;
//! callers that go away; nodes that forget.
//!
//! Not modelled here: clocks that drift (`terms`), connections that break (`leases`), lines on the nodes (`lines`), pauses.

mod account;
mod handle;
pub(crate) mod kind;
mod letter;

use core::time::Duration;

use self::{
    account::Fate,
    handle::{At, Handle, Message},
    kind::{Ask, Covers, SLOTS, Tokens, clash},
    letter::Letter,
};
use super::{
    node::{Node, Nodes, Said},
    pool::{Part, Pool},
    search::{Found, Limits, Sometimes, Space, search},
    terms::wire::Wire,
};
use crate::protocol::{EpochMark, Quorum, Timestamp};

/// A tick, in milliseconds.
const TICK: u64 = 1_000;

/// What a world is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) handles: usize,
    pub(crate) nodes: usize,
    /// Who asks in each process, and how many rounds there may be for them.
    pub(crate) requests: [&'static [Ask]; 2],
    pub(crate) rounds: usize,
    pub(crate) ttl_ticks: u8,
    pub(crate) lingers: bool,
    pub(crate) renews: bool,
    /// How many callers go away before they are answered.
    pub(crate) cancels: u8,
    /// How many exclusive holders go on as readers.
    pub(crate) downgrades: u8,
    /// How many grants are dropped without an end, as by a panic.
    pub(crate) drops: u8,
    /// How many processes close.
    pub(crate) closes: u8,
    /// How many nodes forget everything, and vote no more.
    pub(crate) vanishes: u8,
    /// Whether each answer is heard as soon as it is given.
    pub(crate) prompt: bool,
    /// The last tick that is looked at.
    pub(crate) until: u8,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self {
        handles: 2,
        nodes: 1,
        requests: [&[kind::ALONE; 2]; 2],
        rounds: 2,
        ttl_ticks: 4,
        lingers: false,
        renews: false,
        cancels: 0,
        downgrades: 0,
        drops: 0,
        closes: 0,
        vanishes: 0,
        prompt: false,
        until: 0,
    };

    pub(crate) fn search(self, limits: Limits) -> Found {
        search(&mut Handles::new(self), limits)
    }
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Ghost {
    now: u8,
    cancels: u8,
    downgrades: u8,
    drops: u8,
    closes: u8,
    vanishes: u8,
    /// The highest tokens of all leases that have begun.
    tokens: Tokens,
    wrong: bool,
}

#[derive(Clone)]
pub(crate) struct State {
    nodes: Vec<Part<Node>>,
    handles: Vec<Part<Handle>>,
    wires: Vec<Part<Vec<Wire<Message>>>>,
    ghost: Part<Ghost>,
}

pub(crate) struct Handles {
    setup: Setup,
    nodes: Nodes<(u8, Message)>,
    handles: Pool<Handle>,
    wires: Pool<Vec<Wire<Message>>>,
    ghosts: Pool<Ghost>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Ask(usize),
    Again(usize, usize),
    Cancel(usize, usize),
    GiveBack(usize, usize),
    /// A holder goes on as a reader.
    Downgrade(usize, usize),
    /// A holder's grant is dropped, and nobody says that it is over.
    Drop(usize, usize),
    Close(usize),
    Execute(usize, usize),
    Hear(usize, usize),
    /// A node restarts with nothing, and votes no more.
    Vanish(usize),
}

pub(crate) const TOKENS: &str = "tokens rise in the order in which leases begin";
pub(crate) const LEFT: &str = "what was set is deleted";
pub(crate) const RELEASED: &str = "what is said to be released is gone from a quorum";

impl Handles {
    fn new(setup: Setup) -> Self {
        let (nodes, handles) = (Nodes::new(), Pool::new());
        Self { setup, nodes, handles, wires: Pool::new(), ghosts: Pool::new() }
    }
}

fn time(now: u8) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(TICK + u64::from(now) * TICK))
}

impl State {
    fn marks(&self) -> Vec<EpochMark> {
        self.nodes.iter().map(|node| node.mark()).collect()
    }

    fn is_idle(&self, handle: usize) -> bool {
        self.wires[handle].iter().all(Wire::is_idle)
    }

    /// What one handle does.
    fn does(&mut self, handle: usize, setup: &Setup, does: impl FnOnce(&mut Handle, At<'_>)) {
        let marks = self.marks();
        let of_it = self.handles[handle].edit();
        does(of_it, At { setup, marks: &marks, now: time(self.ghost.now) });
        let (sent, begun) =
            (core::mem::take(&mut of_it.sent), core::mem::take(&mut of_it.account.begun));
        if !sent.is_empty() {
            let wires = self.wires[handle].edit();
            sent.into_iter().for_each(|(at, message)| wires[at].there.push(message));
        }
        for (covers, token) in begun {
            let ghost = self.ghost.edit();
            ghost.wrong |= !ghost.tokens.begin(covers, token);
        }
    }

    /// What all hold, as far as they have been told.
    fn held(&self) -> Vec<Covers> {
        self.handles.iter().flat_map(|handle| handle.held()).collect()
    }
}

impl Space for Handles {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        self.setup.nodes + 2 * self.setup.handles + 1
    }

    fn first(&mut self) -> State {
        let Setup { handles, nodes, cancels, downgrades, drops, closes, vanishes, .. } = self.setup;
        let (wires, tokens) = (vec![Wire::default(); nodes], Tokens::default());
        State {
            nodes: vec![Part::new(Node::new(0)); nodes],
            handles: (0..handles)
                .map(|number| Part::new(Handle::new(number as u8, &self.setup)))
                .collect(),
            wires: vec![Part::new(wires); handles],
            ghost: Part::new(Ghost {
                now: 0,
                cancels,
                downgrades,
                drops,
                closes,
                vanishes,
                tokens,
                wrong: false,
            }),
        }
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        row.extend(state.handles.iter().map(|handle| self.handles.number(handle)));
        row.extend(state.wires.iter().map(|wires| self.wires.number(wires)));
        row.push(self.ghosts.number(&state.ghost));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let Setup { handles, nodes, .. } = self.setup;
        let (of_nodes, rest) = row.split_at(nodes);
        let (of_handles, rest) = rest.split_at(handles);
        let (of_wires, ghost) = rest.split_at(handles);
        State {
            nodes: of_nodes.iter().map(|number| self.nodes.part(*number)).collect(),
            handles: of_handles.iter().map(|number| self.handles.part(*number)).collect(),
            wires: of_wires.iter().map(|number| self.wires.part(*number)).collect(),
            ghost: self.ghosts.part(ghost[0]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        let mut add = |possible: bool, step: Step| into.extend(possible.then_some(step));
        for (at, handle) in state.handles.iter().enumerate() {
            let entries = &handle.account.entries;
            add(entries.len() < self.setup.requests[at].len(), Step::Ask(at));
            for (index, fate) in entries.iter().map(|entry| entry.fate).enumerate() {
                let waits = matches!(fate, Fate::Waits(_) | Fate::Asks(_));
                let may_ask = handle.has_rounds(&self.setup) && handle.pauses(index);
                add(waits && may_ask, Step::Again(at, index));
                // Where no round is left, a request that asks gives up.
                let goes = state.ghost.cancels > 0 || handle.gives_up(index, &self.setup);
                add(waits && goes, Step::Cancel(at, index));
                let has = matches!(fate, Fate::Holds { .. } | Fate::Lost { .. });
                add(has, Step::GiveBack(at, index));
                add(has && state.ghost.drops > 0, Step::Drop(at, index));
                add(
                    state.ghost.downgrades > 0 && handle.may_downgrade(index),
                    Step::Downgrade(at, index),
                );
            }
            add(state.ghost.closes > 0 && !handle.is_closed, Step::Close(at));
            for (node, wire) in state.wires[at].iter().enumerate() {
                add(!wire.there.is_empty(), Step::Execute(at, node));
                add(!wire.back.is_empty(), Step::Hear(at, node));
            }
        }
        for node in 0..self.setup.nodes {
            add(state.ghost.vanishes > 0, Step::Vanish(node));
        }
        add(state.ghost.now < self.setup.until, Step::Tick);
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let (mut next, setup) = (state.clone(), self.setup);
        match step {
            Step::Tick => {
                let now = next.ghost.now + 1;
                next.ghost.edit().now = now;
                for node in &mut next.nodes {
                    if node.until.is_some_and(|until| time(now) >= until) {
                        node.edit().expire(time(now));
                    }
                }
                for at in 0..setup.handles {
                    next.does(at, &setup, Handle::tick);
                }
            }
            Step::Ask(at) => next.does(at, &setup, Handle::ask),
            Step::Again(at, index) => next.does(at, &setup, |it, at| it.again(index, at)),
            Step::Cancel(at, index) => {
                if !next.handles[at].gives_up(index, &setup) {
                    next.ghost.edit().cancels -= 1;
                }
                next.does(at, &setup, |it, at| it.cancel(index, at));
            }
            Step::GiveBack(at, index) => next.does(at, &setup, |it, at| it.give_back(index, at)),
            Step::Downgrade(at, index) => {
                next.ghost.edit().downgrades -= 1;
                next.does(at, &setup, |it, at| it.downgrade(index, at));
            }
            Step::Drop(at, index) => {
                next.ghost.edit().drops -= 1;
                next.does(at, &setup, |it, at| it.drop_lease(index, at));
            }
            Step::Close(at) => {
                next.ghost.edit().closes -= 1;
                next.does(at, &setup, Handle::close);
            }
            Step::Execute(at, node) => {
                let message = next.wires[at].edit()[node].there.remove(0);
                let now = next.ghost.now;
                let said = self.nodes.ask(&mut next.nodes[node], (now, message), |it| {
                    it.execute(message.1.command(message.0), time(now))
                });
                let is_heard = next.handles[at].hears(node, message);
                let wire = &mut next.wires[at].edit()[node];
                // No refusal makes a winner, so that it is heard at once, and so is what becomes of a release.
                let is_refused = matches!(said, Said::Denied | Said::Refused);
                let is_release = matches!(message.1, Letter::Release { .. });
                let is_soon = (setup.prompt || is_refused) && wire.back.is_empty() || is_release;
                if is_heard && is_soon {
                    next.does(at, &setup, |it, at| it.hear(node, message, said.reply(), at));
                } else if is_heard {
                    wire.back.push((message, said));
                }
            }
            Step::Hear(at, node) => {
                let (message, said) = next.wires[at].edit()[node].back.remove(0);
                next.does(at, &setup, |it, at| it.hear(node, message, said.reply(), at));
            }
            Step::Vanish(node) => {
                next.ghost.edit().vanishes -= 1;
                next.nodes[node].edit().forget();
            }
        }
        for at in 0..setup.handles {
            let is_idle = next.is_idle(at);
            let mut forgotten = next.handles[at].clone();
            forgotten.edit().forget(is_idle);
            if *forgotten != *next.handles[at] {
                next.handles[at] = forgotten;
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, stuck: bool) -> Option<&'static str> {
        let now = time(state.ghost.now);
        if let Some(wrong) = state.handles.iter().find_map(|handle| handle.wrong(now)) {
            return Some(wrong);
        }
        if let Some(wrong) = clash(&state.held()) {
            return Some(wrong);
        }
        if state.ghost.wrong {
            return Some(TOKENS);
        }
        let is_somewhere = |owner: &u8| {
            let nodes = state.nodes.iter().filter(|node| node.is_of(*owner)).count();
            nodes > state.nodes.len() - Quorum::of(state.nodes.len()).needed()
        };
        if state.handles.iter().any(|handle| handle.released.iter().any(is_somewhere)) {
            return Some(RELEASED);
        }
        if stuck && !state.handles.iter().all(|handle| handle.is_answered()) {
            return Some(handle::SERVED);
        }
        let owners = (self.setup.handles * self.setup.rounds) as u8;
        let has_keys = |node: &Part<Node>| (0..owners).any(|owner| node.is_of(owner));
        let is_at_rest = state.handles.iter().all(|handle| handle.is_at_rest());
        // Of what was dropped the keys are left to expire.
        let is_at_rest = is_at_rest && state.ghost.drops == self.setup.drops;
        (stuck && is_at_rest && state.nodes.iter().any(has_keys)).then_some(LEFT)
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let any = |is: fn(&Handle) -> bool| state.handles.iter().any(|handle| is(handle));
        let has = |is: fn(Fate) -> bool| {
            state.handles.iter().any(|it| it.account.entries.iter().any(|it| is(it.fate)))
        };
        let held = state.held();
        let read = held.iter().filter(|covers| covers.reads()).count();
        let pauses = |it: &Handle| (0..it.account.entries.len()).any(|index| it.pauses(index));
        let holds = !held.is_empty();
        sometimes.note("somebody holds", holds);
        sometimes.note(
            "a lease was handed on",
            has(|fate| matches!(fate, Fate::Holds { number: 1.., .. }))
                && !held.contains(&Covers::Downgraded),
        );
        sometimes.note("a lease was lost in time", has(|fate| matches!(fate, Fate::Lost { .. })));
        sometimes.note("one pauses while another process holds", holds && any(pauses));
        sometimes.note("somebody waits", has(|fate| matches!(fate, Fate::Waits(_))));
        sometimes.note("several ask at a time in a process", any(Handle::several_ask));
        sometimes.note("a grant was nobody's", any(Handle::keeps));
        sometimes.note("several read", read > 1);
        sometimes.note("one pauses while others read", read > 0 && any(pauses));
        sometimes.note("a writer reads on", held.contains(&Covers::Downgraded));
        let slots = held.iter().filter(|covers| matches!(covers, Covers::Slot(_))).count();
        sometimes.note("all permits are held", slots == SLOTS);
        sometimes.note("all is at rest", state.handles.iter().all(|it| it.is_at_rest()));
    }

    fn heal(&mut self, _state: &State) -> Result<bool, &'static str> {
        Ok(false)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        match step {
            Step::Tick => format!("time goes on: it is tick {}", state.ghost.now + 1),
            Step::Ask(at) => format!("somebody of process {at} asks"),
            Step::Again(at, index) => format!("request {index} of process {at} asks again"),
            Step::Cancel(at, index) => format!("request {index} of process {at} goes away"),
            Step::GiveBack(at, index) => format!("request {index} of process {at} gives back"),
            Step::Drop(at, index) => format!("what request {index} of process {at} has is dropped"),
            Step::Close(at) => format!("process {at} closes"),
            Step::Downgrade(at, index) => format!("request {index} of process {at} reads on"),
            Step::Execute(at, node) => {
                let message = state.wires[at][node].there[0];
                format!("node {node} executes {message:?} of process {at}")
            }
            Step::Hear(at, node) => {
                let (message, said) = state.wires[at][node].back[0];
                format!("process {at} hears of node {node}, of {message:?}: {}", said.tell())
            }
            Step::Vanish(node) => format!("node {node} restarts, and has forgotten everything"),
        }
    }
}
