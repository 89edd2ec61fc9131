//! What can happen to leases over time, and how that is said.
//!
//! Goal: all that can happen, and little that cannot. Method: from the state and from what is left of the budget.

use super::{LeaseTerms, NODES, Stage, State, holder::Letter, wire::Wire};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Jump(usize),
    Wipe(usize),
    Probe,
    Look(usize),
    Begin(usize),
    Execute(usize, usize),
    Hear(usize, usize),
    HandOn(usize),
    GiveBack(usize),
    GiveUpExtension(usize),
    Linger(usize),
    Downgrade(usize),
    Reconnect(usize),
    /// What the connection before has not delivered.
    Arrive(usize, usize),
}

impl LeaseTerms {
    pub(super) fn possible(&self, state: &State, into: &mut Vec<Step>) {
        if self.setup.asks && state.holder(1).is_some() {
            return;
        }
        let mut add = |possible: bool, step: Step| into.extend(possible.then_some(step));
        for client in 0..self.setup.clients {
            let Some(holder) = state.holder(client) else {
                add(true, Step::Begin(client));
                continue;
            };
            let held = holder.stage == Stage::Held;
            let lingers = holder.stage == Stage::Lingers;
            let goes_on = state.clock.hand_overs > 0;
            let may = if self.setup.lingers { lingers } else { held };
            add(may && goes_on, Step::HandOn(client));
            add(held && goes_on && self.setup.lingers, Step::Linger(client));
            add(held && self.setup.downgrades && !holder.is_downgraded(), Step::Downgrade(client));
            add(holder.is_timed() || holder.stage == Stage::Over, Step::GiveBack(client));
            let is_open = !state.wires[client].iter().all(Wire::is_idle);
            add(is_open && state.clock.cuts > 0, Step::Reconnect(client));
            let extending = holder.is_extending() && state.clock.timeouts > 0;
            add(extending, Step::GiveUpExtension(client));
            for at in 0..NODES {
                let wire = &state.wires[client][at];
                add(!wire.there.is_empty(), Step::Execute(client, at));
                add(!wire.back.is_empty(), Step::Hear(client, at));
                add(!wire.late.is_empty(), Step::Arrive(client, at));
            }
        }
        for at in 0..NODES - self.setup.deaf {
            add(self.setup.step_ticks > 0 && state.nodes[at].ahead == 0, Step::Jump(at));
        }
        for at in 0..NODES {
            add(state.clock.wipes > 0 && state.nodes[at].votes(), Step::Wipe(at));
            add(state.prober.asks_next(at), Step::Look(at));
        }
        let is_needed = state.nodes.iter().any(|node| !node.votes());
        add(state.clock.probes > 0 && is_needed && state.prober.is_idle(), Step::Probe);
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
            Step::Probe => "somebody begins to see to the nodes that do not vote".into(),
            Step::Look(at) => format!("node {at} is {}", state.prober.tell(at)),
            Step::Begin(client) => format!("client {client} asks"),
            Step::Execute(client, at) => {
                let letter = state.wires[client][at].there[0];
                let said = self.would_say(state, client, at, letter);
                format!("node {at} executes {letter:?} of client {client}: {said}")
            }
            Step::Arrive(client, at) => {
                let letter = state.wires[client][at].late[0];
                let said = self.would_say(state, client, at, letter);
                format!("node {at} executes what comes late, {letter:?} of client {client}: {said}")
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
            Step::Linger(client) => format!("client {client} keeps its grant, and nobody holds it"),
            Step::Downgrade(client) => {
                format!("client {client} shares it with readers from now on")
            }
            Step::Reconnect(client) => format!("client {client} connects anew to all nodes"),
        }
    }

    fn would_say(&self, state: &State, client: usize, at: usize, letter: Letter) -> String {
        let mut node = (*state.nodes[at]).clone();
        let now = super::node_time(&node, state.clock.now);
        node.execute(letter.command(client as u8), now).tell()
    }
}
