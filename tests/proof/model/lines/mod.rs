//! Clients that wait for one resource in the lines on three nodes, in every order of what they send, over time.
//!
//! Goal: whatever the lines say, one holds at most; every waiter gets it in the end, also behind a client that never
//! asks again and where nobody hears what nodes tell; nobody is overtaken where nothing goes wrong; and a client that
//! waits no more stands in no line.
//! Method: the production's `Client`, whole (`client.rs`), and its `NodeStore`. Commands are executed in any
//! order but that of a connection, and answered at once; time goes on to the next moment at which somebody asks,
//! once nothing is under way.
//!
//! Not modelled here: answers that are late or lost (`leases`), several who wait in one process, readers.

pub(crate) mod client;

use core::time::Duration;

use self::client::{Call, Client, Doing, NODES, Outbox, id};
use super::{
    node::counting,
    pool::{Part, Pool},
    search::{Sometimes, Space},
};
use crate::protocol::{
    Answer, ClientId, Command, Denial, Failure, LineHint, NodeNews, NodeStore, Reply, Sending,
    Timestamp,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) clients: usize,
    pub(crate) counters: [u64; NODES],
    pub(crate) budget: Budget,
    /// The first one holds it already.
    pub(crate) held: bool,
    /// The second one stands in line already.
    pub(crate) stands: bool,
    /// The last millisecond at which time goes on.
    pub(crate) until: u64,
}

/// How often what is wrong may happen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Budget {
    /// Nobody hears what a node tells because of a command.
    pub(crate) unheard: u8,
    /// A waiter never asks again.
    pub(crate) hangs: u8,
    /// A waiter gives up.
    pub(crate) leaves: u8,
    /// A client goes away while it asks.
    pub(crate) cancels: u8,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Clock {
    now: Timestamp,
    budget: Budget,
}

type Wires = [Vec<Call>; NODES];

#[derive(Clone)]
pub(crate) struct State {
    nodes: [Part<NodeStore>; NODES],
    clients: Vec<Option<Part<Client>>>,
    wires: Vec<Part<Wires>>,
    clock: Part<Clock>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Begin(usize),
    Look(usize),
    Execute(usize, usize),
    ExecuteUnheard(usize, usize),
    GiveBack(usize),
    GiveUp(usize),
    Hang(usize),
    Wait,
}

pub(crate) struct Lines {
    setup: Setup,
    nodes: Pool<NodeStore>,
    clients: Pool<Client>,
    wires: Pool<Wires>,
    clocks: Pool<Clock>,
}

/// The properties of this world.
pub(crate) const ONE: &str = "at most one holds, whatever the lines say";
pub(crate) const TOKENS: &str = "tokens are unique, and rise in the order of grants, also in line";
pub(crate) const ASKS: &str = "a waiter asks again within a poll";
pub(crate) const ORDER: &str = "where nothing goes wrong, nobody overtakes one who stands in line";
pub(crate) const LEAVES: &str = "who waits no more stands in no line, and has no key";
pub(crate) const WINS: &str = "a waiter gets it in the end";

/// A poll and a half: the longest that a waiter hears nothing.
const LONGEST: Duration = Duration::from_millis(1_500);

impl State {
    fn client(&self, number: usize) -> Option<&Client> {
        self.clients[number].as_deref()
    }

    fn edit(&mut self, number: usize) -> &mut Client {
        self.clients[number].as_mut().expect("it has begun").edit()
    }

    fn send(&mut self, number: usize, sent: Outbox) {
        if !sent.is_empty() {
            let wires = self.wires[number].edit();
            sent.into_iter().for_each(|(at, command)| wires[at].push(command));
        }
    }

    fn is_quiet(&self) -> bool {
        self.wires.iter().all(|wires| wires.iter().all(Vec::is_empty))
    }

    fn is_due(&self, number: usize) -> bool {
        let now = self.clock.now;
        let next = self.client(number).and_then(|client| client.next_look(now));
        next.is_some_and(|next| next <= now)
    }

    fn mask(&self, is: impl Fn(usize, &Client) -> bool) -> u8 {
        let bit = |number: usize| self.client(number).is_some_and(|client| is(number, client));
        (0..self.clients.len()).filter(|number| bit(*number)).fold(0, |mask, at| mask | 1 << at)
    }
}

impl Lines {
    pub(crate) fn new(setup: Setup) -> Self {
        let (nodes, clients) = (Pool::new(), Pool::new());
        Self { setup, nodes, clients, wires: Pool::new(), clocks: Pool::new() }
    }

    fn execute(state: &mut State, number: usize, at: usize, is_heard: bool) {
        let now = state.clock.now;
        let (call, sending) = state.wires[number].edit()[at].remove(0);
        let (answer, told) = ask(state.nodes[at].edit(), &sending, now);
        let sent = state.edit(number).hear(call, answer, now);
        state.send(number, sent);
        for (client, hint) in told.into_iter().filter(|_| is_heard) {
            let of = (0..state.clients.len()).find(|other| id(*other as u8) == client);
            if let Some(of) = of.filter(|of| state.client(*of).is_some()) {
                let sent = state.edit(of).handle_hint(at, hint, now);
                state.send(of, sent);
            }
        }
    }

    /// Whether all clients have gone, and something of theirs has not.
    fn is_left_behind(&self, state: &State) -> bool {
        let is_over = state.mask(|_, client| client.doing != Doing::Done) == 0 && state.is_quiet();
        let stands =
            |node: &NodeStore| (0..self.setup.clients).any(|number| stands_in(node, number));
        let has_key = |node: &NodeStore| !node.clone().keys(Timestamp::ORIGIN).is_empty();
        is_over && state.nodes.iter().any(|node| has_key(node) || stands(node))
    }

    /// When somebody asks next, if nothing is told until then.
    fn next_moment(&self, state: &State) -> Option<Timestamp> {
        let now = state.clock.now;
        state.clients.iter().flatten().filter_map(|client| client.next_look(now)).min()
    }
}

/// What a node answers, and what it tells whom.
fn ask(
    node: &mut NodeStore,
    sending: &Sending,
    now: Timestamp,
) -> (Answer<Failure>, Vec<(ClientId, LineHint)>) {
    let mut told = Vec::new();
    let mut execute = |command: &Command| {
        let (reply, news) = node.execute(command.clone(), now, u64::MAX, &|_| true);
        told.extend(news.into_iter().filter_map(|news| match news {
            NodeNews::Line { client, hint, .. } => Some((client, hint)),
            NodeNews::Freed(_) => None,
        }));
        Ok(reply.expect("it votes"))
    };
    let answer = match sending {
        Sending::One(command) => Answer::One(execute(command)),
        Sending::Several(commands) => Answer::Several(commands.iter().map(execute).collect()),
    };
    (answer, told)
}

/// Whether a client stands in the line of a node.
fn stands_in(node: &NodeStore, client: usize) -> bool {
    let line = node.line(&client::resource());
    line.is_some_and(|line| line.waiting().any(|other| other == id(client as u8)))
}

impl Space for Lines {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        NODES + 2 * self.setup.clients + 1
    }

    fn first(&mut self) -> State {
        let Setup { clients, counters, budget, held, stands, .. } = self.setup;
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let mut state = State {
            nodes: counters.map(|counter| Part::new(counting(counter))),
            clients: vec![None; clients],
            wires: vec![Part::new(Default::default()); clients],
            clock: Part::new(Clock { now, budget }),
        };
        for number in 0..usize::from(held) + usize::from(stands) {
            state = self.step(&state, Step::Begin(number)).expect("it can begin");
            while let Some(at) = (0..NODES).find(|at| !state.wires[number][*at].is_empty()) {
                state = self.step(&state, Step::Execute(number, at)).expect("it is executed");
            }
        }
        state
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        for client in &state.clients {
            row.push(client.as_ref().map_or(0, |client| self.clients.number(client) + 1));
        }
        row.extend(state.wires.iter().map(|wires| self.wires.number(wires)));
        row.push(self.clocks.number(&state.clock));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let count = self.setup.clients;
        let of_client = |number: &u32| number.checked_sub(1).map(|at| self.clients.part(at));
        let wires = &row[NODES + count..NODES + 2 * count];
        State {
            nodes: [0, 1, 2].map(|at| self.nodes.part(row[at])),
            clients: row[NODES..NODES + count].iter().map(of_client).collect(),
            wires: wires.iter().map(|number| self.wires.part(*number)).collect(),
            clock: self.clocks.part(row[NODES + 2 * count]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        let mut add = |possible: bool, step: Step| into.extend(possible.then_some(step));
        let budget = state.clock.budget;
        for number in 0..self.setup.clients {
            let Some(client) = state.client(number) else {
                // They differ in their names alone, so that they begin in one order.
                add(number == 0 || state.client(number - 1).is_some(), Step::Begin(number));
                continue;
            };
            let waits = client.doing == Doing::Waiting;
            add(state.is_due(number), Step::Look(number));
            add(client.doing == Doing::Holding, Step::GiveBack(number));
            let asks = client.doing == Doing::Asking;
            let goes = waits && budget.leaves > 0 || asks && budget.cancels > 0;
            add(goes, Step::GiveUp(number));
            add(waits && budget.hangs > 0, Step::Hang(number));
            for at in 0..NODES {
                let is_open = !state.wires[number][at].is_empty();
                add(is_open, Step::Execute(number, at));
                add(is_open && budget.unheard > 0, Step::ExecuteUnheard(number, at));
            }
        }
        let is_due = (0..self.setup.clients).any(|number| state.is_due(number));
        let is_early = |next: Timestamp| {
            next.since_origin() <= Duration::from_millis(1_000 + self.setup.until)
        };
        let goes_on = state.is_quiet() && !is_due && self.next_moment(state).is_some_and(is_early);
        add(goes_on, Step::Wait);
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let (mut next, now) = (state.clone(), state.clock.now);
        match step {
            Step::Begin(number) => {
                let after = next.mask(|_, client| client.token.is_some());
                let stands = |at: &Part<NodeStore>, other: usize| stands_in(at, other);
                let behind = next.mask(|other, client| {
                    client.doing == Doing::Waiting && next.nodes.iter().all(|at| stands(at, other))
                });
                next.clients[number] = Some(Part::new(Client::new(number as u8, after, behind)));
                // No two clients come at one moment, at which their names would say who is the first.
                let now = now.saturating_add(Duration::from_micros(1));
                next.clock.edit().now = now;
                let sent = next.edit(number).ask(now);
                next.send(number, sent);
            }
            Step::Look(number) => {
                let sent = next.edit(number).look(now);
                next.send(number, sent);
            }
            Step::Execute(number, at) => Self::execute(&mut next, number, at, true),
            Step::ExecuteUnheard(number, at) => {
                next.clock.edit().budget.unheard -= 1;
                Self::execute(&mut next, number, at, false);
            }
            Step::GiveBack(number) => {
                let sent = next.edit(number).give_back(now);
                next.send(number, sent);
            }
            Step::GiveUp(number) => {
                let budget = &mut next.clock.edit().budget;
                let waits = state.client(number).is_some_and(|it| it.doing == Doing::Waiting);
                if waits {
                    budget.leaves -= 1;
                } else {
                    budget.cancels -= 1;
                }
                let sent = next.edit(number).give_up(now);
                next.send(number, sent);
            }
            Step::Hang(number) => {
                next.clock.edit().budget.hangs -= 1;
                next.edit(number).doing = Doing::Hangs;
            }
            Step::Wait => next.clock.edit().now = self.next_moment(&next)?,
        }
        for number in 0..self.setup.clients {
            if next.client(number).is_some_and(|client| client.doing == Doing::Done)
                && next.wires[number].iter().all(Vec::is_empty)
            {
                next.edit(number).forget();
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, _stuck: bool) -> Option<&'static str> {
        let count = self.setup.clients;
        let is_unharmed = state.clock.budget == self.setup.budget;
        if state.mask(|_, client| client.doing == Doing::Holding).count_ones() > 1 {
            return Some(ONE);
        }
        let waits = state.mask(|_, client| matches!(client.doing, Doing::Waiting | Doing::Asking));
        for (number, client) in state.clients.iter().enumerate() {
            let Some(client) = client else { continue };
            if client.wrong.is_some() {
                return client.wrong;
            }
            let now = state.clock.now;
            if client.waits_for(now) > LONGEST {
                return Some(ASKS);
            }
            if client.doing == Doing::Holding && is_unharmed && client.behind & waits != 0 {
                return Some(ORDER);
            }
            for other in (0..count).filter(|other| *other != number) {
                let of_other = state.client(other).and_then(|other| other.token);
                let (Some(own), Some(of_other)) = (client.token, of_other) else { continue };
                if own == of_other || client.after & 1 << other != 0 && own < of_other {
                    return Some(TOKENS);
                }
            }
        }
        self.is_left_behind(state).then_some(LEAVES)
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let is = |doing: Doing| state.mask(|_, client| client.doing == doing);
        let won = state.mask(|_, client| client.token.is_some()).count_ones();
        sometimes.note("two have won", won >= 2);
        sometimes.note("three have won", won >= 3);
        sometimes.note("two wait", is(Doing::Waiting).count_ones() >= 2);
        sometimes.note("one who waited has won behind one who hangs", {
            is(Doing::Hangs) != 0 && won >= 2
        });
        let is_over = state.mask(|_, client| client.doing != Doing::Done) == 0;
        sometimes.note("all is at rest", is_over && state.is_quiet());
    }

    /// From here on nothing goes wrong, and nobody else comes: every waiter gets it within half a minute.
    fn heal(&mut self, state: &State) -> Result<bool, &'static str> {
        let mut state = state.clone();
        let end = state.clock.now.saturating_add(Duration::from_secs(30));
        state.clock.edit().budget = Budget::default();
        self.setup.until += 60_000;
        let mut possible = Vec::new();
        while state.clock.now < end {
            possible.clear();
            self.steps(&state, &mut possible);
            possible.retain(|step| !matches!(step, Step::Begin(_)));
            let Some(step) = possible.first() else { break };
            state = self.step(&state, *step).expect("it can happen");
        }
        self.setup.until -= 60_000;
        let waits = state.mask(|_, client| matches!(client.doing, Doing::Waiting | Doing::Asking));
        match (waits, self.is_left_behind(&state)) {
            (0, false) => Ok(true),
            (0, true) => Err(LEAVES),
            _ => Err(WINS),
        }
    }

    fn tell(&self, state: &State, step: Step) -> String {
        let first = |number: usize, at: usize| {
            let (mut node, now) = ((*state.nodes[at]).clone(), state.clock.now);
            let (_, sending) = &state.wires[number][at][0];
            let (answer, told) = ask(&mut node, sending, now);
            let command = match sending {
                Sending::One(command) => format!("{command:?}"),
                Sending::Several(commands) => format!("{commands:?}"),
            };
            let name = command.split([' ', '{']).next().unwrap_or_default().to_string();
            let said = match answer {
                Answer::One(Ok(Reply::Granted(granted))) => {
                    let token = granted.token.map(|token| format!(", the counter is {token}"));
                    format!("granted{}", token.unwrap_or_default())
                }
                Answer::One(Ok(Reply::Denied(Denial { behind: Some(first), .. }))) => {
                    format!("denied, it is free and {first} is the first")
                }
                Answer::One(Ok(Reply::Denied(Denial { rank: Some(rank), .. }))) => {
                    format!("denied, {rank} stand before it in the line")
                }
                Answer::One(Ok(Reply::Denied(_))) => "denied".into(),
                answer => format!("{answer:?}"),
            };
            let told = told.iter().map(|(to, hint)| format!(", and tells {to}: {hint:?}"));
            let told: String = told.collect();
            format!("node {at} executes {name} of client {number}: {said}{told}")
        };
        match step {
            Step::Begin(number) => format!("client {number} ({}) comes", id(number as u8)),
            Step::Look(number) => format!("the time of client {number} comes"),
            Step::Execute(number, at) => first(number, at),
            Step::ExecuteUnheard(number, at) => format!("{}, and nobody hears", first(number, at)),
            Step::GiveBack(number) => format!("client {number} gives back"),
            Step::GiveUp(number) => format!("client {number} waits no more"),
            Step::Hang(number) => format!("client {number} will never ask again"),
            Step::Wait => format!("time goes on to {:?}", self.next_moment(state)),
        }
    }
}
