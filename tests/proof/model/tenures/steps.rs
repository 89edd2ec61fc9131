//! What can happen to leases over time, and how that is said.
//!
//! Goal: all that can happen, and little that cannot. Method: from the state and from what is left of the budget.

use super::{NODES, Stage, State, Tenures};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Jump(usize),
    Wipe(usize),
    Visit,
    Look(usize),
    Begin(usize),
    Execute(usize, usize),
    Hear(usize, usize),
    HandOn(usize),
    GiveBack(usize),
    GiveUpExtension(usize),
}

impl Tenures {
    pub(super) fn possible(&self, state: &State, into: &mut Vec<Step>) {
        let mut add = |possible: bool, step: Step| into.extend(possible.then_some(step));
        for client in 0..self.setup.clients {
            let Some(holder) = state.holder(client) else {
                add(true, Step::Begin(client));
                continue;
            };
            let held = holder.stage == Stage::Held;
            add(held && state.clock.hand_overs > 0, Step::HandOn(client));
            add(held || holder.stage == Stage::Over, Step::GiveBack(client));
            let extending = holder.is_extending() && state.clock.timeouts > 0;
            add(extending, Step::GiveUpExtension(client));
            for at in 0..NODES {
                let wire = &state.wires[client][at];
                add(!wire.there.is_empty(), Step::Execute(client, at));
                add(!wire.back.is_empty(), Step::Hear(client, at));
            }
        }
        for at in 0..NODES - self.setup.deaf {
            add(self.setup.step_ticks > 0 && state.nodes[at].ahead == 0, Step::Jump(at));
        }
        for at in 0..NODES {
            add(state.clock.wipes > 0 && state.nodes[at].station.ready, Step::Wipe(at));
            add(state.visitor.asks_next(at), Step::Look(at));
        }
        let is_needed = state.nodes.iter().any(|node| !node.station.ready);
        add(state.clock.visits > 0 && is_needed && state.visitor.is_idle(), Step::Visit);
        add(state.clock.now < self.setup.until, Step::Tick);
    }

    pub(super) fn words(&self, state: &State, step: Step) -> String {
        let now = state.clock.now;
        match step {
            Step::Tick => format!("time goes on: it is tick {}", now + 1),
            Step::Jump(at) => {
                format!("the clock of node {at} steps forward by {}", self.setup.step_ticks)
            }
            Step::Wipe(at) => format!("node {at} restarts, and has forgotten everything"),
            Step::Visit => "somebody begins to see to the nodes that do not vote".into(),
            Step::Look(at) => format!("node {at} is {}", state.visitor.tell(at)),
            Step::Begin(client) => format!("client {client} asks"),
            Step::Execute(client, at) => {
                let letter = state.wires[client][at].there[0];
                let said = (*state.nodes[at]).clone().execute(client as u8, letter, now);
                format!("node {at} executes {letter:?} of client {client}: {}", said.tell())
            }
            Step::Hear(client, at) => {
                let (letter, said) = state.wires[client][at].back[0];
                format!("client {client} hears of node {at}, of {letter:?}: {}", said.tell())
            }
            Step::HandOn(client) => format!("client {client} hands its grant on to the next there"),
            Step::GiveBack(client) => format!("client {client} gives back"),
            Step::GiveUpExtension(client) => {
                format!("client {client} waits no more for its extension")
            }
        }
    }
}
