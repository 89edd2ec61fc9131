//! What can happen to leases on three nodes, and how that is said.
//!
//! Goal: all that can happen, and little that cannot. Method: from the state and from what is left of the budget.

use super::{Ask, Leases, NODES, Stage, State, Want, letter::Letter};
use crate::model::node::KEYS;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Begin(usize),
    Execute(usize, usize),
    Hear(usize, usize),
    HearLate(usize, usize),
    HearTwice(usize, usize),
    Double(usize, usize),
    SendScript(usize, usize),
    Land(usize, usize, usize),
    Lose(usize, usize, usize),
    Cut(usize, usize),
    Restart(usize),
    Wipe(usize),
    Probe,
    Look(usize),
    Silent(usize),
    /// The key, or an entry of it, of an attempt at a node.
    Vanish(usize, usize, usize),
    Abandon(usize),
    Extend(usize),
    Restore(usize, usize),
    Over(usize),
    GiveBack(usize),
    ReleaseAgain(usize, usize),
}

impl Leases {
    pub(super) fn possible(&self, state: &State, into: &mut Vec<Step>) {
        let budget = *state.budget;
        for number in 0..self.setup.asks.len() {
            let Some(attempt) = state.attempt(number) else {
                let client = self.setup.asks[number].client;
                let before = (0..number).filter(|at| self.setup.asks[*at].client == client);
                if before.clone().all(|before| state.is_in(before, Stage::Ended)) {
                    into.push(Step::Begin(number));
                }
                continue;
            };
            let mut add = |possible: bool, step: Step| into.extend(possible.then_some(step));
            add(attempt.stage == Stage::Asking && budget.abandons > 0, Step::Abandon(number));
            add(
                attempt.stage == Stage::Held || attempt.stage == Stage::Over,
                Step::GiveBack(number),
            );
            add(attempt.stage == Stage::Held && budget.overs > 0, Step::Over(number));
            let extends = attempt.stage == Stage::Held && !attempt.is_extending();
            add(extends && budget.extensions > 0, Step::Extend(number));
            for at in 0..NODES {
                let wire = &state.wires[number][at];
                add(!wire.there.is_empty(), Step::Execute(number, at));
                add(!wire.back.is_empty(), Step::Hear(number, at));
                add(!wire.back.is_empty() && budget.late > 0, Step::HearLate(number, at));
                add(!wire.back.is_empty() && budget.echoes > 0, Step::HearTwice(number, at));
                add(!wire.there.is_empty() && budget.doubles > 0, Step::Double(number, at));
                let overtaken = wire.there.len() > 1 && wire.there[0].sets();
                add(overtaken && budget.scripts > 0, Step::SendScript(number, at));
                let cut = budget.cuts > 0 && !state.is_broken_off(number, at);
                add(cut, Step::Cut(number, at));
                for index in 0..wire.stray.len() {
                    add(true, Step::Land(number, at, index));
                    // Before that it is as good as one that has not arrived yet.
                    add(attempt.waits_to_release(at), Step::Lose(number, at, index));
                }
                // Whether it may still be sent, the footprint says.
                let restores = attempt.is_extended();
                add(
                    restores && attempt.lost_at[at] && budget.restores > 0,
                    Step::Restore(number, at),
                );
                let is_release = |letter: &Letter| matches!(letter, Letter::Release { .. });
                let releasing = wire.there.iter().any(is_release)
                    || wire.back.iter().any(|(letter, _)| is_release(letter));
                add(!releasing && attempt.waits_to_release(at), Step::ReleaseAgain(number, at));
                let keys = state.nodes[at].keys_of(number as u8);
                for key in (0..KEYS).filter(|key| budget.vanish > 0 && keys & 1 << key != 0) {
                    add(true, Step::Vanish(number, at, key));
                }
            }
        }
        let is_needed = state.nodes.iter().any(|node| !node.votes());
        if budget.probes > 0 && is_needed && state.prober.is_idle() {
            into.push(Step::Probe);
        }
        for at in 0..NODES {
            if budget.restarts > 0 {
                into.push(Step::Restart(at));
            }
            let asks =
                if self.setup.orderly { state.prober.asks_next(at) } else { state.prober.asks(at) };
            if asks {
                into.push(Step::Look(at));
                into.extend((budget.silent > 0).then_some(Step::Silent(at)));
            }
            if budget.wipes > 0 && state.nodes[at].votes() {
                into.push(Step::Wipe(at));
            }
        }
    }

    pub(super) fn words(&self, state: &State, step: Step) -> String {
        let who = |number: usize| char::from(b'A' + number as u8);
        let first = |number: usize, at: usize| state.wires[number][at].there[0].tell();
        let stray =
            |number: usize, at: usize, index: usize| state.wires[number][at].stray[index].tell();
        match step {
            Step::Begin(number) => {
                let Ask { client, reads, hint, count, want } = self.setup.asks[number];
                let what = match want {
                    Want::One if reads => "to read".into(),
                    Want::One => "to write".into(),
                    Want::Set(keys) => format!("to write the set {keys:03b}"),
                    Want::Any(first) => format!("for any slot from {first} on"),
                };
                format!("client {client} asks {what} as {}: {count} from hint {hint}", who(number))
            }
            Step::Execute(number, at) => {
                let mut node = (*state.nodes[at]).clone();
                let letter = state.wires[number][at].there[0];
                let command = letter.command(number as u8, self.setup.asks[number].reads);
                let said = node.execute(command, super::BEGUN);
                format!("node {at} executes {} of {}: {}", letter.tell(), who(number), said.tell())
            }
            Step::Hear(number, at) | Step::HearLate(number, at) | Step::HearTwice(number, at) => {
                let (letter, said) = state.wires[number][at].back[0];
                let late = match step {
                    Step::HearLate(..) => ", after its deadline",
                    Step::HearTwice(..) => ", twice",
                    _ => "",
                };
                let (letter, said) = (letter.tell(), said.tell());
                format!("{} hears of node {at}, of {letter}: {said}{late}", who(number))
            }
            Step::Double(number, at) => {
                format!("{} of {} to node {at} is there twice", first(number, at), who(number))
            }
            Step::SendScript(number, at) => format!(
                "node {at} does not know the script, and {} of {} is sent again, behind the rest",
                first(number, at),
                who(number)
            ),
            Step::Land(number, at, index) => {
                format!(
                    "node {at} executes {} of {}, astray",
                    stray(number, at, index),
                    who(number)
                )
            }
            Step::Lose(number, at, index) => {
                format!("{} of {} to node {at} is lost", stray(number, at, index), who(number))
            }
            Step::Cut(number, at) => {
                format!("the connection of {} to node {at} breaks", who(number))
            }
            Step::Restart(at) => format!("node {at} restarts, and has forgotten nothing"),
            Step::Wipe(at) => format!("node {at} restarts, and has forgotten everything"),
            Step::Probe => "somebody begins to see to the nodes that do not vote".into(),
            Step::Look(at) => format!("node {at} is {}", state.prober.tell(at)),
            Step::Silent(at) => format!("node {at} gives no answer to that"),
            Step::Vanish(number, at, key) => {
                format!("key {key} of {} at node {at} vanishes", who(number))
            }
            Step::Abandon(number) => format!("nobody waits for {} any more", who(number)),
            Step::Extend(number) => format!("{} is extended", who(number)),
            Step::Restore(number, at) => format!("{} is restored at node {at}", who(number)),
            Step::Over(number) => format!("the validity of {} is over", who(number)),
            Step::GiveBack(number) => format!("{} is given back", who(number)),
            Step::ReleaseAgain(number, at) => {
                format!("the release of {} at node {at} is sent again", who(number))
            }
        }
    }
}
