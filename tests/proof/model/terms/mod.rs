//! Leases over time: clients and nodes with clocks of their own, in ticks.
//!
//! Goal: of all clients only one has not been told that its lease is lost, as long as clocks run within the drift and step
//! by no more than the lock-delay; not a tick less will do. Tokens of leases that are handed on are unique and rise all the
//! same. Method: the production's rounds, tallies, lifecycles and rows (`holder.rs`); three `NodeStore`s by clocks
//! that may run ahead; clients whose clocks run at a rate; messages that are executed and heard at any tick, or never.
//!
//! Not modelled here: connections that break, and keys that vanish (`leases`), timers that are late: a
//! client that is stopped is told when it goes on, which no lock can do anything about.

pub(crate) mod following;
pub(crate) mod holder;
pub(crate) mod mine;
pub(crate) mod setup;
pub(crate) mod steps;
pub(crate) mod wire;

use core::time::Duration;

pub(crate) use self::setup::Setup;
use self::{
    holder::{Holder, Letter, NODES, Outbox, Stage, TICK},
    steps::Step,
    wire::Wire,
};
use super::{
    node::{Node, Nodes, Said},
    pool::{Part, Pool},
    prober::Prober,
    search::{Sometimes, Space},
};
use crate::protocol::Timestamp;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Clock {
    now: u8,
    hand_overs: u8,
    timeouts: u8,
    cuts: u8,
    wipes: u8,
    probes: u8,
}

#[derive(Clone)]
pub(crate) struct State {
    nodes: [Part<Node>; NODES],
    holders: Vec<Option<Part<Holder>>>,
    wires: Vec<Part<[Wire; NODES]>>,
    clock: Part<Clock>,
    prober: Part<Prober>,
    deaf: usize,
}

pub(crate) struct LeaseTerms {
    setup: Setup,
    nodes: Nodes<(u8, u8, Letter)>,
    holders: Pool<Holder>,
    wires: Pool<[Wire; NODES]>,
    clocks: Pool<Clock>,
    probers: Pool<Prober>,
}

/// The properties of this world.
pub(crate) const ONE: &str = "at most one client has not been told that its lease is over";
pub(crate) const TOKENS: &str = "tokens are unique, and rise, also of leases that are handed on";
pub(crate) const KEPT: &str =
    "what is held for a least time, or was lost with a lock-delay, is nobody else's before";

impl LeaseTerms {
    pub(crate) fn new(setup: Setup) -> Self {
        let (nodes, holders) = (Nodes::new(), Pool::new());
        let (wires, clocks, probers) = (Pool::new(), Pool::new(), Pool::new());
        Self { setup, nodes, holders, wires, clocks, probers }
    }

    /// All that is under way for a client is executed and heard at once.
    fn answered(&mut self, mut state: State, client: usize) -> State {
        loop {
            let open = |at: &usize| !state.wires[client][*at].is_idle();
            let Some(at) = (0..NODES).find(open) else { return state };
            let is_back = !state.wires[client][at].back.is_empty();
            let step = if is_back { Step::Hear(client, at) } else { Step::Execute(client, at) };
            state = self.step(&state, step).expect("it can happen");
        }
    }

    /// A node executes what a client has sent.
    fn execute(&mut self, state: &mut State, at: usize, client: usize, letter: Letter) -> Said {
        let (now, client) = (state.clock.now, client as u8);
        self.nodes.ask(&mut state.nodes[at], (client, now, letter), |node| {
            node.execute(letter.command(client), node_time(node, now))
        })
    }

    fn own_time(&self, client: usize, now: u8) -> Timestamp {
        let millis = TICK + u64::from(now) * self.setup.rates[client];
        Timestamp::from_origin(Duration::from_millis(millis))
    }
}

/// What the clock of a node shows.
fn node_time(node: &Node, now: u8) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(u64::from(now + node.ahead) * TICK))
}

impl State {
    fn holder(&self, client: usize) -> Option<&Holder> {
        self.holders[client].as_deref()
    }

    fn edit(&mut self, client: usize) -> &mut Holder {
        self.holders[client].as_mut().expect("it has begun").edit()
    }

    fn send(&mut self, client: usize, sent: Outbox) {
        if !sent.is_empty() {
            let wires = self.wires[client].edit();
            let sent = sent.into_iter().filter(|(at, _)| *at < NODES - self.deaf);
            sent.for_each(|(at, letter)| wires[at].there.push(letter));
        }
    }

    /// For how long nobody else is to have what has just been lost. Where clocks step, they may take that much.
    fn promise(&mut self, client: usize, before: &Self, setup: &Setup) {
        let is = |state: &Self, stage| state.holder(client).is_some_and(|it| it.stage == stage);
        let counts = setup.delay_ticks > 0 && setup.step_ticks == 0;
        if counts && is(before, Stage::Held) && is(self, Stage::Over) {
            self.edit(client).delayed_until = self.clock.now + setup.delay_ticks;
        }
    }

    fn expire(&mut self) {
        for node in &mut self.nodes {
            let now = node_time(node, self.clock.now);
            if node.until.is_some_and(|until| now >= until) {
                node.edit().expire(now);
            }
        }
    }
}

impl Space for LeaseTerms {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        NODES + 2 * self.setup.clients + 2
    }

    fn first(&mut self) -> State {
        let Setup { clients, counters, hand_overs, timeouts, cuts, wipes, probes, .. } = self.setup;
        let longest = Duration::from_millis(u64::from(self.setup.longest_ticks) * TICK);
        let node = |counter| Part::new(Node::new(counter));
        let mut state = State {
            nodes: counters.map(node),
            holders: vec![None; clients],
            wires: vec![Part::new(Default::default()); clients],
            clock: Part::new(Clock { now: 0, hand_overs, timeouts, cuts, wipes, probes }),
            prober: Part::new(Prober::new(longest)),
            deaf: self.setup.deaf,
        };
        if self.setup.held > 0 {
            let answered = |at| [Step::Execute(0, at), Step::Hear(0, at)];
            let answers = (0..self.setup.held).flat_map(answered);
            for step in std::iter::once(Step::Begin(0)).chain(answers) {
                state = self.step(&state, step).expect("it is won");
            }
            // To the others it has got lost.
            for wire in state.wires[0].edit() {
                wire.there.clear();
            }
            assert!(state.holder(0).is_some_and(|holder| holder.stage == Stage::Held));
        }
        state
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        for holder in &state.holders {
            row.push(holder.as_ref().map_or(0, |holder| self.holders.number(holder) + 1));
        }
        row.extend(state.wires.iter().map(|wires| self.wires.number(wires)));
        row.push(self.clocks.number(&state.clock));
        row.push(self.probers.number(&state.prober));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let count = self.setup.clients;
        let (holders, wires) = (&row[NODES..NODES + count], &row[NODES + count..NODES + 2 * count]);
        State {
            nodes: [0, 1, 2].map(|at| self.nodes.part(row[at])),
            holders: holders
                .iter()
                .map(|number| number.checked_sub(1).map(|number| self.holders.part(number)))
                .collect(),
            wires: wires.iter().map(|number| self.wires.part(*number)).collect(),
            clock: self.clocks.part(row[NODES + 2 * count]),
            prober: self.probers.part(row[NODES + 2 * count + 1]),
            deaf: self.setup.deaf,
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        self.possible(state, into);
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let now = next.clock.now;
        match step {
            Step::Tick => {
                next.clock.edit().now += 1;
                next.expire();
                for client in 0..self.setup.clients {
                    if next.holder(client).is_some_and(Holder::is_timed) {
                        let now = self.own_time(client, now + 1);
                        let sent = next.edit(client).tick(now);
                        next.send(client, sent);
                    }
                }
            }
            Step::Jump(at) => {
                next.nodes[at].edit().ahead = self.setup.step_ticks;
                next.expire();
            }
            Step::Wipe(at) => {
                next.clock.edit().wipes -= 1;
                next.nodes[at].edit().forget();
            }
            Step::Probe => {
                next.clock.edit().probes -= 1;
                next.prober.edit().begin(self.own_time(2, now));
            }
            Step::Look(at) => {
                let (own, node) = (self.own_time(2, now), next.nodes[at].edit());
                next.prober.edit().answer(at, node, node_time(node, now), own);
            }
            Step::Begin(client) => {
                let won = |other: &usize| {
                    next.holder(*other).is_some_and(|other| !other.tokens.is_empty())
                };
                let after = (0..self.setup.clients).filter(won).fold(0, |mask, at| mask | 1 << at);
                let marks = [0, 1, 2].map(|at| next.nodes[at].mark());
                let now = self.own_time(client, now);
                let (holder, sent) = Holder::begin(client as u8, &self.setup, marks, after, now);
                next.holders[client] = Some(Part::new(holder));
                next.send(client, sent);
                if self.setup.swift && client == 1 {
                    next = self.answered(next, client);
                }
            }
            Step::Execute(client, at) => {
                let wire = &mut next.wires[client].edit()[at];
                let letter = wire.there.remove(0);
                let said = self.execute(&mut next, at, client, letter);
                let wire = &mut next.wires[client].edit()[at];
                let is_heard = state.holder(client).is_some_and(|holder| holder.hears(at, letter));
                // No refusal makes a winner, so that it is heard at once.
                if is_heard && matches!(said, Said::Denied | Said::Refused) && wire.back.is_empty()
                {
                    let now = self.own_time(client, now);
                    let sent = next.edit(client).hear(at, letter, said.reply(), now);
                    next.send(client, sent);
                } else if is_heard {
                    wire.back.push((letter, said));
                }
                if matches!(letter, Letter::Release { keep: 1.. })
                    && matches!(said, Said::Granted(_))
                {
                    next.edit(client).kept_on += 1;
                }
            }
            Step::Hear(client, at) => {
                let (letter, said) = next.wires[client].edit()[at].back.remove(0);
                let now = self.own_time(client, now);
                let sent = next.edit(client).hear(at, letter, said.reply(), now);
                next.send(client, sent);
            }
            Step::HandOn(client) => {
                next.clock.edit().hand_overs -= 1;
                let now = self.own_time(client, now);
                next.edit(client).hand_on(&self.setup, now)?;
            }
            Step::Linger(client) => {
                let now = self.own_time(client, now);
                next.edit(client).linger(&self.setup, now)?;
            }
            Step::Downgrade(client) => {
                let now = self.own_time(client, now);
                let sent = next.edit(client).downgrade(now);
                next.send(client, sent);
            }
            Step::Reconnect(client) => {
                next.clock.edit().cuts -= 1;
                next.wires[client].edit().iter_mut().for_each(Wire::reconnect);
            }
            Step::Arrive(client, at) => {
                let letter = next.wires[client].edit()[at].late.remove(0);
                self.execute(&mut next, at, client, letter);
            }
            Step::GiveBack(client) => {
                let holder = next.edit(client);
                if holder.stage == Stage::Held && holder.tokens.len() > 1 {
                    (holder.keep, holder.kept_until) =
                        (self.setup.hold_ticks, now + self.setup.hold_ticks);
                }
                // A release ends what was to be kept from its loss.
                holder.delayed_until = 0;
                let now = self.own_time(client, now);
                let sent = next.edit(client).give_back(now);
                next.send(client, sent);
                if self.setup.swift && client == 1 {
                    next = self.answered(next, client);
                }
            }
            Step::GiveUpExtension(client) => {
                next.clock.edit().timeouts -= 1;
                let now = self.own_time(client, now);
                let sent = next.edit(client).give_up_extension(now);
                next.send(client, sent);
            }
        }
        for client in 0..self.setup.clients {
            next.promise(client, state, &self.setup);
            if next.holder(client).is_some_and(Holder::is_done)
                && next.wires[client].iter().all(Wire::is_idle)
            {
                next.edit(client).forget();
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, _stuck: bool) -> Option<&'static str> {
        let held = |client: &usize| {
            state.holder(*client).is_some_and(|holder| holder.stage == Stage::Held)
        };
        if (0..self.setup.clients).filter(held).count() > 1 {
            return Some(ONE);
        }
        let is_out_of_turn = |client: usize, holder: &Holder| {
            let is_kept = usize::from(holder.kept_on) > NODES / 2;
            let kept = if is_kept { holder.kept_until } else { 0 };
            kept.max(holder.delayed_until) > state.clock.now
                && (0..self.setup.clients).any(|at| at != client && held(&at))
        };
        for (client, holder) in state.holders.iter().enumerate() {
            if holder.as_deref().is_some_and(|holder| is_out_of_turn(client, holder)) {
                return Some(KEPT);
            }
        }
        for holder in state.holders.iter().flatten() {
            if holder.wrong.is_some() {
                return holder.wrong;
            }
            if !holder.tokens.is_sorted_by(|a, b| a < b) {
                return Some(TOKENS);
            }
            for (client, other) in state.holders.iter().enumerate() {
                let Some(other) = other.as_deref().filter(|other| **other != **holder) else {
                    continue;
                };
                let later = holder.after & 1 << client != 0;
                let least = holder.tokens.iter().min().copied();
                let is_wrong = |token: &u16| {
                    holder.tokens.contains(token) || later && least.is_some_and(|own| own < *token)
                };
                if other.tokens.iter().any(is_wrong) {
                    return Some(TOKENS);
                }
            }
        }
        None
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let any = |is: fn(&Holder) -> bool| state.holders.iter().flatten().any(|part| is(part));
        let won = state.holders.iter().flatten().filter(|holder| !holder.tokens.is_empty());
        sometimes.note("two have won", won.count() >= 2);
        sometimes.note("a lease was lost in time", any(|it| it.stage == Stage::Over));
        sometimes.note("a lease was extended", any(|it| it.extended));
        sometimes.note("a lease was handed on", any(|it| it.tokens.len() > 1));
        sometimes.note("a grant was nobody's", any(|it| it.stage == Stage::Lingers));
        sometimes
            .note("a writer went on as a reader", state.nodes.iter().any(|node| node.is_shared));
        sometimes.note("a key was kept behind a release", any(|it| it.keep > 0));
        let late = |wires: &Part<[Wire; NODES]>| wires.iter().any(|wire| !wire.late.is_empty());
        sometimes.note("commands were late by connection", state.wires.iter().any(late));
        let again = |node: &Part<Node>| node.was_let_in();
        sometimes.note("a node was let in again", state.nodes.iter().any(again));
        sometimes.note("a clock has stepped", state.nodes.iter().any(|node| node.ahead > 0));
    }

    fn heal(&mut self, _state: &State) -> Result<bool, &'static str> {
        Ok(false)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        self.words(state, step)
    }
}
