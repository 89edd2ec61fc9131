//! Leases on three nodes, in every order of everything that can happen, with no clock at all.
//!
//! Goal: tokens are unique and rise, whatever happens; of two leases that exclude each other only one is held unless a key
//! has vanished; what was set is deleted in the end; a release never comes before the end of the grant. Method: the
//! production's rounds, footprints, tallies and unconfirmed releases (`attempt.rs`), its `NodeStore`, and
//! between each two a connection that keeps its order until it breaks. Then what is under way goes astray: it is executed
//! at any time, or never, and its answer is not heard. A `Budget` says how often what is wrong may happen.
//!
//! Not modelled here: time. A key may vanish whenever it likes, which is more than time can do to tokens, and a grant may
//! end whenever it likes. What rests on clocks is in the worlds that have ticks.

pub(crate) mod asking;
pub(crate) mod attempt;
pub(crate) mod letter;
pub(crate) mod properties;
pub(crate) mod state;
pub(crate) mod steps;

use core::time::Duration;

use self::{
    asking::Want,
    attempt::{Attempt, BEGUN, NODES, Outbox, Stage, Wire},
    letter::Letter,
    state::State,
    steps::Step,
};
use super::{
    node::{KEYS, Node, Nodes, Said},
    pool::{Part, Pool},
    prober::Prober,
    search::{Found, Limits, Sometimes, Space, search},
};
use crate::protocol::TokenRange;

/// What one attempt asks for. The attempts of a client follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) client: u8,
    pub(crate) reads: bool,
    pub(crate) hint: u64,
    pub(crate) count: u64,
    pub(crate) want: Want,
}

impl Ask {
    pub(crate) const fn any(client: u8, first: u8) -> Self {
        Self { want: Want::Any(first), ..Self::write(client, 1) }
    }

    pub(crate) const fn set(client: u8, keys: u8) -> Self {
        Self { want: Want::Set(keys), ..Self::write(client, 1) }
    }

    pub(crate) const fn write(client: u8, hint: u64) -> Self {
        Self { client, reads: false, hint, count: 1, want: Want::One }
    }

    /// Two clients, who want it once each.
    pub(crate) fn two_writers() -> Vec<Self> {
        vec![Self::write(0, 1), Self::write(1, 1)]
    }

    pub(crate) const fn read(client: u8, hint: u64) -> Self {
        Self { client, reads: true, hint, count: 1, want: Want::One }
    }
}

/// How often what is wrong may happen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Budget {
    /// A node gives no answer to a look.
    pub(crate) silent: u8,
    /// A key, or a reader's entry, vanishes: it has expired, or somebody has deleted it.
    pub(crate) vanish: u8,
    /// A node restarts with all that it knew: all connections to it break.
    pub(crate) restarts: u8,
    /// A node restarts with nothing. It votes no more until it is let in.
    pub(crate) wipes: u8,
    /// How often a client begins to see to nodes that do not vote.
    pub(crate) probes: u8,
    /// One connection breaks.
    pub(crate) cuts: u8,
    /// A command arrives a second time.
    pub(crate) doubles: u8,
    /// An answer is heard twice.
    pub(crate) echoes: u8,
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) asks: Vec<Ask>,
    pub(crate) counters: [u16; NODES],
    pub(crate) budget: Budget,
    /// Refusals are heard as soon as they are said, which makes for fewer states.
    pub(crate) prompt: bool,
    /// What has happened before the first state.
    pub(crate) before: Vec<Step>,
    /// The client that sees to the nodes asks one after the other.
    pub(crate) orderly: bool,
    /// Keys of ended attempts are gone at once, and nothing is released: where only tokens are looked at, a key that
    /// stands there longer could do no more than refuse.
    pub(crate) tokens_only: bool,
}

impl Setup {
    /// These attempts, at nodes whose counters differ.
    pub(crate) fn of(asks: Vec<Ask>, budget: Budget) -> Self {
        Self { asks, budget, counters: [5, 0, 7], ..Self::default() }
    }

    pub(crate) fn search(self, limits: Limits) -> Found {
        search(&mut Leases::new(self), limits)
    }
}

/// What an attempt asks a node, or the key of its that vanishes there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Asked {
    Letter(Letter),
    Vanish(usize),
}

pub(crate) struct Leases {
    setup: Setup,
    nodes: Nodes<(u8, Asked)>,
    attempts: Pool<Attempt>,
    wires: Pool<[Wire; NODES]>,
    budgets: Pool<Budget>,
    probers: Pool<Prober>,
}

impl Leases {
    pub(crate) fn new(setup: Setup) -> Self {
        let (nodes, attempts) = (Nodes::new(), Pool::new());
        let (wires, budgets, probers) = (Pool::new(), Pool::new(), Pool::new());
        Self { setup, nodes, attempts, wires, budgets, probers }
    }

    /// A node executes what an attempt has sent.
    fn execute(&mut self, state: &mut State, at: usize, number: u8, letter: Letter) -> Said {
        let reads = self.setup.asks.get(usize::from(number)).is_some_and(|ask| ask.reads);
        self.nodes.ask(&mut state.nodes[at], (number, Asked::Letter(letter)), |node| {
            node.execute(letter.command(number, reads), BEGUN)
        })
    }

    /// A key, or an entry of it, of this owner is gone.
    fn vanish(&mut self, state: &mut State, at: usize, number: u8, key: usize) {
        let reads = self.setup.asks[usize::from(number)].reads;
        self.nodes.ask(&mut state.nodes[at], (number, Asked::Vanish(key)), |node| {
            let (again, several, beside, late) = (None, false, false, false);
            let end = Letter::Release { beside, again, late, several, keys: 1 << key };
            node.execute(end.command(number, reads), BEGUN)
        });
    }

    /// Nothing is left of ended attempts.
    fn clear(&mut self, state: &mut State) {
        for number in 0..state.attempts.len() {
            if !state.is_in(number, Stage::Ended) {
                continue;
            }
            for at in 0..NODES {
                let keys = state.nodes[at].keys_of(number as u8);
                for key in (0..KEYS).filter(|key| keys & 1 << key != 0) {
                    self.vanish(state, at, number as u8, key);
                }
                let releases = |letter: &Letter| {
                    matches!(letter, Letter::Release { .. } | Letter::Confirm { .. })
                };
                if state.wires[number][at].there.iter().any(releases) {
                    state.wires[number].edit()[at].there.retain(|letter| !releases(letter));
                }
                if !state.wires[number][at].back.is_empty() {
                    state.wires[number].edit()[at].back.clear();
                }
            }
        }
    }

    /// One more attempt, of a new client: at all resources, or any slot.
    fn fresh(&self, state: &State) -> (Attempt, Outbox) {
        let marks = [0, 1, 2].map(|at| state.nodes[at].mark());
        let want = match self.setup.asks[0].want {
            Want::Set(_) => Want::Set(7),
            want => want,
        };
        Attempt::begin(7, &Ask { want, ..Ask::write(7, 1) }, marks, 0)
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
        NODES + 2 * self.setup.asks.len() + 2
    }

    fn first(&mut self) -> State {
        let state = State {
            nodes: self.setup.counters.map(|counter| Part::new(Node::new(counter))),
            attempts: vec![None; self.setup.asks.len()],
            wires: vec![Part::new(Default::default()); self.setup.asks.len()],
            budget: Part::new(self.setup.budget),
            // No lease lasts at all, so that nobody waits: tokens rest on no time.
            prober: Part::new(Prober::new(Duration::ZERO)),
        };
        let before = self.setup.before.clone();
        before
            .into_iter()
            .fold(state, |state, step| self.step(&state, step).expect("it can happen"))
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        for attempt in &state.attempts {
            row.push(attempt.as_ref().map_or(0, |attempt| self.attempts.number(attempt) + 1));
        }
        row.extend(state.wires.iter().map(|wires| self.wires.number(wires)));
        row.push(self.budgets.number(&state.budget));
        row.push(self.probers.number(&state.prober));
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
            prober: self.probers.part(row[NODES + 2 * count + 1]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        self.possible(state, into);
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Begin(number) => {
                let won = (0..self.setup.asks.len()).filter(|other| next.tokens(*other).is_some());
                let after = won.fold(0, |mask, other| mask | 1 << other);
                let marks = [0, 1, 2].map(|at| next.nodes[at].mark());
                let (attempt, sent) =
                    Attempt::begin(number as u8, &self.setup.asks[number], marks, after);
                next.attempts[number] = Some(Part::new(attempt));
                next.send(number, sent);
            }
            Step::Execute(number, at) => {
                let wire = &mut next.wires[number].edit()[at];
                let letter = wire.there.remove(0);
                let said = self.execute(&mut next, at, number as u8, letter);
                let wire = &mut next.wires[number].edit()[at];
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
            Step::HearTwice(number, at) => {
                spend(&mut next.budget.edit().echoes)?;
                let heard = next.wires[number].edit()[at].back.remove(0);
                next.hear(number, at, heard, false);
                next.hear(number, at, heard, false);
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
                let _unheard = self.execute(&mut next, at, number as u8, letter);
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
            Step::Probe => {
                spend(&mut next.budget.edit().probes)?;
                next.prober.edit().begin(BEGUN);
            }
            Step::Look(at) => {
                next.prober.edit().answer(at, next.nodes[at].edit(), BEGUN, BEGUN);
            }
            Step::Silent(at) => {
                spend(&mut next.budget.edit().silent)?;
                next.prober.edit().no_answer(at, BEGUN);
            }
            Step::Vanish(number, at, key) => {
                spend(&mut next.budget.edit().vanish)?;
                let held = next.is_in(number, Stage::Asking) || next.is_in(number, Stage::Held);
                if held {
                    next.edit(number).broken = true;
                }
                self.vanish(&mut next, at, number as u8, key);
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
        if self.setup.tokens_only {
            self.clear(&mut next);
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
        self.violated(state, stuck)
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        self.count(state, sometimes);
    }

    fn heal(&mut self, state: &State) -> Result<bool, &'static str> {
        self.healed(state)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        self.words(state, step)
    }
}
