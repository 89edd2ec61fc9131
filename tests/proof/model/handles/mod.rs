//! Whole handles: processes in each of which several want one resource, beside nodes and over time.
//!
//! Goal: of all who have asked in all processes one at most holds, is told so once, and is let in only while it is there;
//! whoever waits is served; nothing is left on the nodes. Method: the production's `Client` with its queues, grants,
//! footprints and timers (`handle.rs`), the production's rounds and tallies, and `NodeStore`s; messages that are executed and
//! heard at any time, in the order of their connection; callers that go away; nodes that forget.
//!
//! Not modelled here: clocks that drift (`tenures`), connections that break (`leases`), lines on the nodes (`lines`), pauses.

mod handle;

use core::time::Duration;

use self::handle::{Fate, Handle, Outbox};
use super::{
    node::{Node, Nodes, Said},
    pool::{Part, Pool},
    search::{Found, Limits, Sometimes, Space, search},
    tenures::{holder::Letter, wire::Wire},
};
use crate::protocol::{Mark, Timestamp};

/// A tick, in milliseconds.
const TICK: u64 = 1_000;

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) handles: usize,
    pub(crate) nodes: usize,
    /// How many ask in each process, and how many rounds there may be for them.
    pub(crate) requests: [usize; 2],
    pub(crate) rounds: usize,
    pub(crate) ttl_ticks: u8,
    pub(crate) lingers: bool,
    pub(crate) renews: bool,
    /// How many callers go away before they are answered.
    pub(crate) cancels: u8,
    /// How many nodes forget everything, and vote no more.
    pub(crate) vanishes: u8,
    /// The last tick that is looked at.
    pub(crate) until: u8,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self {
        handles: 2,
        nodes: 1,
        requests: [2, 2],
        rounds: 2,
        ttl_ticks: 4,
        lingers: false,
        renews: false,
        cancels: 0,
        vanishes: 0,
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
    vanishes: u8,
    /// The highest token of all leases that have begun.
    token: u16,
    wrong: bool,
}

type Message = (u8, Letter);

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
    Again(usize),
    Cancel(usize, usize),
    GiveBack(usize, usize),
    Execute(usize, usize),
    Hear(usize, usize),
    /// A node restarts with nothing, and votes no more.
    Vanish(usize),
}

pub(crate) const ONE: &str =
    "at most one in all processes has not been told that its lease is over";
pub(crate) const TOKENS: &str = "tokens rise in the order in which leases begin";
pub(crate) const LEFT: &str = "what was set is deleted";

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
    fn send(&mut self, handle: usize, sent: Outbox) {
        if !sent.is_empty() {
            let wires = self.wires[handle].edit();
            sent.into_iter().for_each(|(at, message)| wires[at].there.push(message));
        }
    }

    fn marks(&self) -> Vec<Mark> {
        self.nodes.iter().map(|node| node.mark()).collect()
    }

    fn is_idle(&self, handle: usize) -> bool {
        self.wires[handle].iter().all(Wire::is_idle)
    }

    /// What one handle does.
    fn does(
        &mut self,
        handle: usize,
        does: impl FnOnce(&mut Handle, &[Mark], Timestamp) -> Outbox,
    ) {
        let (marks, now) = (self.marks(), time(self.ghost.now));
        let of_it = self.handles[handle].edit();
        let sent = does(of_it, &marks, now);
        let begun = core::mem::take(&mut of_it.begun);
        self.send(handle, sent);
        for token in begun {
            let ghost = self.ghost.edit();
            ghost.wrong |= token <= ghost.token;
            ghost.token = token;
        }
    }
}

impl Space for Handles {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        self.setup.nodes + 2 * self.setup.handles + 1
    }

    fn first(&mut self) -> State {
        let Setup { handles, nodes, cancels, vanishes, .. } = self.setup;
        let wires = vec![Wire::default(); nodes];
        State {
            nodes: vec![Part::new(Node::new(0)); nodes],
            handles: (0..handles)
                .map(|number| Part::new(Handle::new(number as u8, &self.setup)))
                .collect(),
            wires: vec![Part::new(wires); handles],
            ghost: Part::new(Ghost { now: 0, cancels, vanishes, token: 0, wrong: false }),
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
            add(handle.fates.len() < self.setup.requests[at], Step::Ask(at));
            add(handle.pauses() && handle.has_rounds(&self.setup), Step::Again(at));
            let gives_up = handle.pauses() && !handle.has_rounds(&self.setup);
            for (index, fate) in handle.fates.iter().enumerate() {
                let waits = matches!(fate, Fate::Waits(_) | Fate::Asks(_));
                // Where there are no more rounds, whoever asks gives up.
                let goes = state.ghost.cancels > 0 || gives_up && handle.leads(index);
                add(waits && goes, Step::Cancel(at, index));
                let has = matches!(fate, Fate::Holds { .. } | Fate::Lost { .. });
                add(has, Step::GiveBack(at, index));
            }
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
        let (mut next, setup) = (state.clone(), self.setup.clone());
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
                    next.does(at, |handle, marks, now| handle.tick(&setup, marks, now));
                }
            }
            Step::Ask(at) => next.does(at, |handle, marks, now| handle.ask(&setup, marks, now)),
            Step::Again(at) => {
                next.does(at, |handle, marks, now| handle.again(&setup, marks, now));
            }
            Step::Cancel(at, index) => {
                let gives_up = next.handles[at].pauses() && !next.handles[at].has_rounds(&setup);
                let is_leader = next.handles[at].leads(index);
                if !(gives_up && is_leader) {
                    next.ghost.edit().cancels -= 1;
                }
                next.does(at, |handle, marks, now| handle.cancel(index, &setup, marks, now));
            }
            Step::GiveBack(at, index) => {
                next.does(at, |handle, marks, now| handle.give_back(index, &setup, marks, now));
            }
            Step::Execute(at, node) => {
                let message = next.wires[at].edit()[node].there.remove(0);
                let now = next.ghost.now;
                let said = self.nodes.ask(&mut next.nodes[node], (now, message), |it| {
                    it.execute(message.1.command(message.0), time(now))
                });
                let is_heard = next.handles[at].hears(message, &setup);
                let wire = &mut next.wires[at].edit()[node];
                // No refusal makes a winner, so that it is heard at once.
                let is_soon = matches!(said, Said::Denied | Said::Refused) && wire.back.is_empty();
                if is_heard && is_soon {
                    next.does(at, |handle, marks, now| {
                        handle.hear(node, message, said.reply(), &setup, marks, now)
                    });
                } else if is_heard {
                    wire.back.push((message, said));
                }
            }
            Step::Hear(at, node) => {
                let (message, said) = next.wires[at].edit()[node].back.remove(0);
                next.does(at, |handle, marks, now| {
                    handle.hear(node, message, said.reply(), &setup, marks, now)
                });
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
        if state.handles.iter().map(|handle| handle.holders()).sum::<usize>() > 1 {
            return Some(ONE);
        }
        if state.ghost.wrong {
            return Some(TOKENS);
        }
        if stuck && !state.handles.iter().all(|handle| handle.is_answered()) {
            return Some(handle::SERVED);
        }
        let owners = (self.setup.handles * self.setup.rounds) as u8;
        let has_keys = |node: &Part<Node>| (0..owners).any(|owner| node.is_of(owner));
        let is_at_rest = state.handles.iter().all(|handle| handle.is_at_rest());
        (stuck && is_at_rest && state.nodes.iter().any(has_keys)).then_some(LEFT)
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let any = |is: fn(&Handle) -> bool| state.handles.iter().any(|handle| is(handle));
        let holds = any(|it| it.holders() > 0);
        let passed =
            |it: &Handle| it.fates.iter().any(|it| matches!(it, Fate::Holds { number: 1.., .. }));
        let lost = |it: &Handle| it.fates.iter().any(|fate| matches!(fate, Fate::Lost { .. }));
        let waits = |it: &Handle| it.fates.iter().any(|fate| matches!(fate, Fate::Waits(_)));
        sometimes.note("somebody holds", holds);
        sometimes.note("a lease was handed on", any(passed));
        sometimes.note("a lease was lost in time", any(lost));
        sometimes.note("one pauses while another process holds", holds && any(Handle::pauses));
        sometimes.note("somebody waits", any(waits));
        sometimes.note("a grant was nobody's", any(Handle::keeps));
        sometimes.note("all is at rest", state.handles.iter().all(|it| it.is_at_rest()));
    }

    fn heal(&mut self, _state: &State) -> Result<bool, &'static str> {
        Ok(false)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        match step {
            Step::Tick => format!("time goes on: it is tick {}", state.ghost.now + 1),
            Step::Ask(at) => format!("somebody of process {at} asks"),
            Step::Again(at) => format!("who asks for process {at} asks again"),
            Step::Cancel(at, index) => format!("request {index} of process {at} goes away"),
            Step::GiveBack(at, index) => format!("request {index} of process {at} gives back"),
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
