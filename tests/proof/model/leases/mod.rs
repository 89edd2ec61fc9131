//! Leases on three nodes, in every order of everything that can happen, with no clock at all.
//!
//! Goal: tokens are unique and rise, whatever happens; of two leases that exclude each other only one is held unless a key
//! has vanished; what was set is deleted in the end; a release never comes before the end of the grant. Method: the
//! production's rounds, footprints, tallies and unconfirmed releases (`attempt.rs`), nodes in a few bytes (`node.rs`), and
//! between each two a connection that keeps its order until it breaks. Then what is under way goes astray: it is executed
//! at any time, or never, and its answer is not heard. A `Budget` says how often what is wrong may happen.
//!
//! Not modelled here: time. A key may vanish whenever it likes, which is more than time can do to tokens, and a grant may
//! end whenever it likes. What rests on clocks is in the worlds that have ticks.

pub(crate) mod attempt;
pub(crate) mod node;

use self::{
    attempt::{Attempt, BEGUN, LATE, NODES, Outbox, Stage, Wire},
    node::{Letter, Node, Said},
};
use super::{
    pool::{Part, Pool},
    search::{Sometimes, Space},
};
use crate::protocol::{FencingToken, TokenRange, Verdict};

/// What one attempt asks for. The attempts of a client follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) client: u8,
    pub(crate) reads: bool,
    pub(crate) hint: u64,
    pub(crate) count: u64,
}

impl Ask {
    pub(crate) const fn write(client: u8, hint: u64) -> Self {
        Self { client, reads: false, hint, count: 1 }
    }

    pub(crate) const fn read(client: u8, hint: u64) -> Self {
        Self { client, reads: true, hint, count: 1 }
    }
}

/// How often what is wrong may happen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Budget {
    /// A key, or a reader's entry, vanishes: it has expired, or somebody has deleted it.
    pub(crate) vanish: u8,
    /// A node restarts with all that it knew: all connections to it break.
    pub(crate) restarts: u8,
    /// A node restarts with nothing. It votes no more.
    pub(crate) wipes: u8,
    /// One connection breaks.
    pub(crate) cuts: u8,
    /// A command arrives a second time.
    pub(crate) doubles: u8,
    /// An answer is heard after the deadline of its round.
    pub(crate) late: u8,
    /// A node does not know a script, which is sent again behind what else is under way there.
    pub(crate) scripts: u8,
    pub(crate) abandons: u8,
    pub(crate) extensions: u8,
    pub(crate) restores: u8,
    /// A holder finds its validity over.
    pub(crate) overs: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) asks: Vec<Ask>,
    pub(crate) counters: [u16; NODES],
    pub(crate) budget: Budget,
    /// Refusals are heard as soon as they are said, which makes for fewer states.
    pub(crate) prompt: bool,
}

#[derive(Clone)]
pub(crate) struct State {
    nodes: [Part<Node>; NODES],
    attempts: Vec<Option<Part<Attempt>>>,
    wires: Vec<Part<[Wire; NODES]>>,
    budget: Part<Budget>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Begin(usize),
    Execute(usize, usize),
    Hear(usize, usize),
    HearLate(usize, usize),
    Double(usize, usize),
    SendScript(usize, usize),
    Land(usize, usize, usize),
    Lose(usize, usize, usize),
    Cut(usize, usize),
    Restart(usize),
    Wipe(usize),
    Vanish(usize, usize),
    Abandon(usize),
    Extend(usize),
    Restore(usize, usize),
    Over(usize),
    GiveBack(usize),
    ReleaseAgain(usize, usize),
}

pub(crate) struct Leases {
    setup: Setup,
    nodes: Pool<Node>,
    attempts: Pool<Attempt>,
    wires: Pool<[Wire; NODES]>,
    budgets: Pool<Budget>,
}

impl Leases {
    pub(crate) fn new(setup: Setup) -> Self {
        let (nodes, attempts) = (Pool::new(), Pool::new());
        Self { setup, nodes, attempts, wires: Pool::new(), budgets: Pool::new() }
    }
}

impl State {
    fn attempt(&self, number: usize) -> Option<&Attempt> {
        self.attempts[number].as_deref()
    }

    fn edit(&mut self, number: usize) -> &mut Attempt {
        self.attempts[number].as_mut().expect("it has begun").edit()
    }

    fn is_in(&self, number: usize, stage: Stage) -> bool {
        self.attempt(number).is_some_and(|attempt| attempt.stage == stage)
    }

    fn tokens(&self, number: usize) -> Option<TokenRange> {
        self.attempt(number)?.tokens.clone()
    }

    fn send(&mut self, number: usize, sent: Outbox) {
        if !sent.is_empty() {
            let wires = self.wires[number].edit();
            sent.into_iter().for_each(|(at, letter)| wires[at].there.push(letter));
        }
    }

    fn strays(&self, number: usize, at: usize) -> bool {
        self.wires[number][at].stray.iter().any(|letter| letter.sets())
    }

    fn hear(&mut self, number: usize, at: usize, heard: (Letter, Said), late: bool) {
        let now = if late { LATE } else { BEGUN };
        let sent = self.edit(number).hear(at, heard, now);
        self.send(number, sent);
    }

    /// Everything that is under way between the two goes astray.
    fn cut(&mut self, number: usize, at: usize) {
        let wire = &mut self.wires[number].edit()[at];
        let there = std::mem::take(&mut wire.there);
        let open: Vec<Letter> =
            wire.back.drain(..).map(|(letter, _)| letter).chain(there.iter().copied()).collect();
        // A release that goes astray can delete no more than the one that is sent again.
        wire.stray.extend(there.into_iter().filter(|it| !matches!(it, Letter::Release { .. })));
        for letter in open {
            self.hear(number, at, (letter, Said::Unknown), false);
        }
    }

    fn is_broken_off(&self, number: usize, at: usize) -> bool {
        let wire = &self.wires[number][at];
        wire.there.is_empty() && wire.back.is_empty()
    }

    /// Nothing is under way, nobody holds anything, and nothing is left to be released.
    fn is_at_rest(&self) -> bool {
        // What is astray may never arrive. Where it arrives, and leaves something, that is a state at rest of its own.
        let idle = |wire: &Wire| wire.there.is_empty() && wire.back.is_empty();
        self.wires.iter().all(|wires| wires.iter().all(idle))
            && self
                .attempts
                .iter()
                .flatten()
                .all(|attempt| attempt.stage == Stage::Ended && !attempt.is_waiting_to_release())
    }

    /// A key of an attempt that is asked for or held is not there any more.
    fn note_broken(&mut self, at: usize) {
        for number in 0..self.attempts.len() {
            if self.nodes[at].is_of(number as u8)
                && (self.is_in(number, Stage::Asking) || self.is_in(number, Stage::Held))
            {
                self.edit(number).broken = true;
            }
        }
    }
}

fn spend(budget: &mut u8) -> Option<()> {
    *budget = budget.checked_sub(1)?;
    Some(())
}

impl Space for Leases {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        NODES + 2 * self.setup.asks.len() + 1
    }

    fn first(&mut self) -> State {
        State {
            nodes: self.setup.counters.map(|counter| Part::new(Node::new(counter))),
            attempts: vec![None; self.setup.asks.len()],
            wires: vec![Part::new(Default::default()); self.setup.asks.len()],
            budget: Part::new(self.setup.budget),
        }
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        for attempt in &state.attempts {
            row.push(attempt.as_ref().map_or(0, |attempt| self.attempts.number(attempt) + 1));
        }
        row.extend(state.wires.iter().map(|wires| self.wires.number(wires)));
        row.push(self.budgets.number(&state.budget));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let count = self.setup.asks.len();
        let attempts = &row[NODES..NODES + count];
        let wires = &row[NODES + count..NODES + 2 * count];
        State {
            nodes: [0, 1, 2].map(|at| self.nodes.part(row[at])),
            attempts: attempts
                .iter()
                .map(|number| number.checked_sub(1).map(|number| self.attempts.part(number)))
                .collect(),
            wires: wires.iter().map(|number| self.wires.part(*number)).collect(),
            budget: self.budgets.part(row[NODES + 2 * count]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
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
                let open = !wire.back.is_empty() && attempt.stage == Stage::Asking;
                add(open && budget.late > 0, Step::HearLate(number, at));
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
                let restores = attempt.stage == Stage::Held && attempt.is_extended();
                add(
                    restores && attempt.lost_at[at] && budget.restores > 0,
                    Step::Restore(number, at),
                );
                let releasing =
                    wire.there.iter().any(|letter| matches!(letter, Letter::Release { .. }));
                add(!releasing && attempt.waits_to_release(at), Step::ReleaseAgain(number, at));
                let has = state.nodes[at].is_of(number as u8);
                add(has && budget.vanish > 0, Step::Vanish(number, at));
            }
        }
        for at in 0..NODES {
            if budget.restarts > 0 {
                into.push(Step::Restart(at));
            }
            if budget.wipes > 0 && state.nodes[at].ready {
                into.push(Step::Wipe(at));
            }
        }
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Begin(number) => {
                let won = (0..self.setup.asks.len()).filter(|other| next.tokens(*other).is_some());
                let after = won.fold(0, |mask, other| mask | 1 << other);
                let eras = [0, 1, 2].map(|at| next.nodes[at].era);
                let (attempt, sent) =
                    Attempt::begin(number as u8, &self.setup.asks[number], eras, after);
                next.attempts[number] = Some(Part::new(attempt));
                next.send(number, sent);
            }
            Step::Execute(number, at) => {
                let wire = &mut next.wires[number].edit()[at];
                let letter = wire.there.remove(0);
                let reads = self.setup.asks[number].reads;
                let said = next.nodes[at].edit().execute(number as u8, reads, letter);
                // Its answer makes no difference but to whether it is sent again; and no refusal makes a winner.
                let prompt = matches!(letter, Letter::Release { .. })
                    || self.setup.prompt && matches!(said, Said::Denied | Said::Refused);
                if prompt && wire.back.is_empty() {
                    next.hear(number, at, (letter, said), false);
                } else {
                    wire.back.push((letter, said));
                }
            }
            Step::Hear(number, at) | Step::HearLate(number, at) => {
                let late = matches!(step, Step::HearLate(..));
                if late {
                    spend(&mut next.budget.edit().late)?;
                }
                let heard = next.wires[number].edit()[at].back.remove(0);
                next.hear(number, at, heard, late);
            }
            Step::Double(number, at) => {
                let wire = &mut next.wires[number].edit()[at];
                let first = *wire.there.first()?;
                if matches!(first, Letter::Release { .. }) {
                    return None;
                }
                wire.stray.push(first);
                spend(&mut next.budget.edit().doubles)?;
            }
            Step::SendScript(number, at) => {
                spend(&mut next.budget.edit().scripts)?;
                next.wires[number].edit()[at].there.rotate_left(1);
            }
            Step::Land(number, at, index) => {
                let letter = next.wires[number].edit()[at].stray.remove(index);
                let reads = self.setup.asks[number].reads;
                let _unheard = next.nodes[at].edit().execute(number as u8, reads, letter);
            }
            Step::Lose(number, at, index) => {
                next.wires[number].edit()[at].stray.remove(index);
            }
            Step::Cut(number, at) => {
                spend(&mut next.budget.edit().cuts)?;
                next.cut(number, at);
            }
            Step::Restart(at) => {
                spend(&mut next.budget.edit().restarts)?;
                let open: Vec<usize> = (0..next.wires.len())
                    .filter(|number| !next.is_broken_off(*number, at))
                    .collect();
                if open.is_empty() {
                    return None;
                }
                for number in open {
                    next.cut(number, at);
                    // What has reached a process that ends is gone with it.
                    next.wires[number].edit()[at].stray.clear();
                }
            }
            Step::Wipe(at) => {
                spend(&mut next.budget.edit().wipes)?;
                next.note_broken(at);
                for number in 0..next.wires.len() {
                    if !next.is_broken_off(number, at) {
                        next.cut(number, at);
                    }
                    if !next.wires[number][at].stray.is_empty() {
                        next.wires[number].edit()[at].stray.clear();
                    }
                }
                next.nodes[at].edit().forget();
            }
            Step::Vanish(number, at) => {
                spend(&mut next.budget.edit().vanish)?;
                let held = next.is_in(number, Stage::Asking) || next.is_in(number, Stage::Held);
                if held {
                    next.edit(number).broken = true;
                }
                next.nodes[at].edit().vanish(number as u8);
            }
            Step::Abandon(number) => {
                spend(&mut next.budget.edit().abandons)?;
                let sent = next.edit(number).abandon();
                next.send(number, sent);
            }
            Step::Extend(number) => {
                spend(&mut next.budget.edit().extensions)?;
                let sent = next.edit(number).extend();
                next.send(number, sent);
            }
            Step::Restore(number, at) => {
                spend(&mut next.budget.edit().restores)?;
                let sent = next.edit(number).restore(at)?;
                next.send(number, sent);
            }
            Step::Over(number) => {
                spend(&mut next.budget.edit().overs)?;
                next.edit(number).end_hold();
            }
            Step::GiveBack(number) => {
                let sent = next.edit(number).give_back();
                next.send(number, sent);
            }
            Step::ReleaseAgain(number, at) => {
                let strays = next.strays(number, at);
                let sent = next.edit(number).release_again(at, strays)?;
                next.send(number, sent);
            }
        }
        for number in 0..next.attempts.len() {
            let idle = |wire: &Wire| wire.there.is_empty() && wire.back.is_empty();
            if next.attempt(number).is_some_and(Attempt::is_done)
                && next.wires[number].iter().all(idle)
            {
                next.edit(number).forget();
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, stuck: bool) -> Option<&'static str> {
        let count = self.setup.asks.len();
        let reads = |number: usize| self.setup.asks[number].reads;
        for a in 0..count {
            let Some(one) = state.attempt(a) else { continue };
            if one.hasty {
                return Some(KEEPS);
            }
            if one.turned {
                return Some(SETTLED);
            }
            if one.verdict == Verdict::Won && state.tokens(a).is_none() {
                return Some(TOKENS);
            }
            for b in 0..count {
                let Some(other) = state.attempt(b).filter(|_| a != b) else { continue };
                let both_held = one.stage == Stage::Held && other.stage == Stage::Held;
                let exclude = !(one.broken || other.broken || reads(a) && reads(b));
                if both_held && exclude {
                    return Some(ONE);
                }
                if let (Some(of_a), Some(of_b)) = (state.tokens(a), state.tokens(b))
                    && !are_ordered((&of_a, reads(a)), (&of_b, reads(b)), other.after & 1 << a != 0)
                {
                    return Some(TOKENS);
                }
            }
        }
        // One that has arrived twice may be denied and set the key all the same: that one ends by itself.
        if state.is_at_rest() && state.budget.doubles == self.setup.budget.doubles {
            let is_left = |node: &Part<Node>| {
                (0..count)
                    .any(|number| state.attempts[number].is_some() && node.is_of(number as u8))
            };
            if state.nodes.iter().any(is_left) {
                return Some(RELEASED);
            }
        } else if stuck && !state.is_at_rest() {
            return Some(ENDS);
        }
        None
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let count = self.setup.asks.len();
        let won = (0..count).filter(|number| state.tokens(*number).is_some()).count();
        let held = (0..count).filter(|number| state.is_in(*number, Stage::Held)).count();
        let any = |is: fn(&Attempt) -> bool| state.attempts.iter().flatten().any(|part| is(part));
        sometimes.note("two have won", won >= 2);
        sometimes.note("somebody holds", held >= 1);
        sometimes.note("two hold at once", held >= 2);
        sometimes.note("something is left to release", any(Attempt::is_waiting_to_release));
        sometimes.note("an extension was confirmed", any(Attempt::is_extended));
        sometimes.note("a round was lost", any(|it| it.verdict == Verdict::Lost));
        sometimes.note("all is at rest", state.is_at_rest());
    }

    fn tell(&self, state: &State, step: Step) -> String {
        let who = |number: usize| char::from(b'A' + number as u8);
        let first = |number: usize, at: usize| state.wires[number][at].there[0].tell();
        let stray =
            |number: usize, at: usize, index: usize| state.wires[number][at].stray[index].tell();
        match step {
            Step::Begin(number) => {
                let Ask { client, reads, hint, count } = self.setup.asks[number];
                let what = if reads { "to read" } else { "to write" };
                format!("client {client} asks {what} as {}: {count} from hint {hint}", who(number))
            }
            Step::Execute(number, at) => {
                let mut node = *state.nodes[at];
                let letter = state.wires[number][at].there[0];
                let said = node.execute(number as u8, self.setup.asks[number].reads, letter);
                format!("node {at} executes {} of {}: {}", letter.tell(), who(number), said.tell())
            }
            Step::Hear(number, at) | Step::HearLate(number, at) => {
                let (letter, said) = state.wires[number][at].back[0];
                let late = if matches!(step, Step::HearLate(..)) { ", too late" } else { "" };
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
            Step::Vanish(number, at) => format!("the key of {} at node {at} vanishes", who(number)),
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

/// The properties of this world.
pub(crate) const ONE: &str =
    "at most one holds, or several read, while no key of theirs has vanished";
pub(crate) const TOKENS: &str = "tokens are unique, and rise in the order of grants";
pub(crate) const RELEASED: &str =
    "what was set is deleted in the end, also where a grant came late";
pub(crate) const KEEPS: &str =
    "nothing is released before the grant is over, as when an extension fails";
pub(crate) const SETTLED: &str = "a verdict never changes";
pub(crate) const ENDS: &str = "whatever happens, something leads on until all is at rest";

/// Whether the tokens of two grants go together; `later` says that the second began when the first had been won.
fn are_ordered(
    (first, first_reads): (&TokenRange, bool),
    (second, second_reads): (&TokenRange, bool),
    later: bool,
) -> bool {
    let (low, high): (FencingToken, FencingToken) = (first.last(), second.first());
    match (first_reads, second_reads) {
        (false, false) => low < high || !later && second.last() < first.first(),
        // A reader may see what was written before it; a writer behind a reader is not seen by that.
        (_, true) => !later || low <= high,
        (true, false) => !later || low < high,
    }
}
