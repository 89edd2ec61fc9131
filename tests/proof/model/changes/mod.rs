//! A fleet that changes its list of nodes while clients run: with the old list, with both, and with the new one.
//!
//! Goal: at most one client holds, and tokens rise, whoever looks, seals, waits, opens, asks, extends and admits in which
//! order, and whichever node forgets meanwhile. Method: `NodeStore`, and the production's machines of each client, one
//! message after the other, over time. A client is two actors: one sees to the nodes (`keeper.rs`), the other takes leases
//! and knows as much of the nodes as any client can (`voter.rs`). Small fleets are searched to the end, and larger ones,
//! with more clients, by random walks (`walk.rs`).
//!
//! A message is executed and heard in one step, or executed and not heard.
//!
//! Not modelled: claims (`tests/proof/protocol/admission/members.rs`), clocks that differ, lines, several resources.

mod keeper;
mod voter;
pub(crate) mod walk;

use core::time::Duration;

use self::{keeper::Keeper, voter::Voter};
use super::{
    pool::{Part, Pool},
    search::{Sometimes, Space},
    terms::{ONE, TOKENS},
};
use crate::protocol::{Floor, Members, NodeId, NodeSet, NodeStore, Quorum, Serves, Timestamp};

/// A tick in milliseconds; a lease lasts for two, and a quarantine for more than two.
const TICK: u64 = 1_000;
const TTL: Duration = Duration::from_millis(2 * TICK);

/// Which fleet changes, and what may happen how often.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) before: &'static [usize],
    pub(crate) after: &'static [usize],
    /// The nodes of the new list alone have never been used; or else clients with both lists have let them in.
    pub(crate) fresh: bool,
    /// Who sees to the nodes, each so often at the most.
    pub(crate) keepers: &'static [(Kind, u8)],
    /// Who takes leases.
    pub(crate) voters: &'static [Kind],
    /// How many rounds each begins, and how often it prolongs.
    pub(crate) rounds: u8,
    pub(crate) extensions: u8,
    pub(crate) forgets: u8,
    pub(crate) losses: u8,
    pub(crate) from: From,
    pub(crate) until: u8,
}

/// Which lists a client has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Old,
    Both,
    New,
}

impl Kind {
    fn nodes(self, setup: &Setup) -> Vec<usize> {
        let mut nodes = match self {
            Self::Old => setup.before.to_vec(),
            Self::Both => [setup.before, setup.after].concat(),
            Self::New => setup.after.to_vec(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The list or the lists.
    fn members(self, setup: &Setup) -> Members {
        let list = |nodes: &[usize]| Members::new("f", nodes.iter().map(|node| format!("n{node}")));
        let (before, after) = (list(setup.before), list(setup.after));
        match self {
            Self::Old => before,
            Self::Both => after.after(&before),
            Self::New => after,
        }
    }

    fn quorum(self, setup: &Setup) -> Quorum {
        let nodes = self.nodes(setup);
        let of = |list: &[usize]| {
            let places = nodes.iter().enumerate().filter(|(_, node)| list.contains(node));
            places.map(|(place, _)| NodeId::new(place)).collect::<NodeSet>()
        };
        match self {
            Self::Both => Quorum::of_both(of(setup.before), of(setup.after)),
            Self::Old | Self::New => Quorum::of(nodes.len()),
        }
    }
}

/// How far the world has come when a search begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum From {
    /// Nobody has looked at any node.
    Start,
    /// Every keeper has looked at all nodes, and the end of the change is asked for.
    Looked,
    /// The same, and the first voter holds.
    Held,
    /// The second keeper has sealed the first node, and not the others yet. That node has forgotten, has waited, and was
    /// admitted by the first keeper.
    Sealing,
}

/// A node, and how often it has forgotten.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Node {
    store: NodeStore,
    life: u64,
    /// It has forgotten, and was not admitted since.
    lost: bool,
}

/// A token that was granted, and the largest one before its round began.
#[derive(Clone, Copy, Debug)]
struct Grant {
    above: u64,
    token: u64,
}

#[derive(Clone)]
pub(crate) struct State {
    nodes: Vec<Part<Node>>,
    keepers: Vec<Part<Keeper>>,
    voters: Vec<Part<Voter>>,
    rest: Part<Rest>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Rest {
    now: u8,
    forgets: u8,
    losses: u8,
    /// The tokens that were granted, in their order.
    tokens: Vec<u64>,
    wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Tick,
    Forget(usize),
    /// A keeper begins to see to its nodes.
    Probe(usize),
    /// It looks at one.
    Look(usize, usize, Fate),
    Begin(usize),
    Vote(usize, usize, Fate),
    Extend(usize),
    Extended(usize, usize, Fate),
    /// It does nothing more with what it asked for or holds.
    GiveUp(usize),
    GiveBack(usize),
}

/// What becomes of a message and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// It is executed and heard of.
    Heard,
    /// It is executed.
    Unheard,
    Lost,
}

impl Step {
    /// Who does it, if it is done by a keeper or by a voter.
    pub(crate) const fn actor(&self) -> Option<(bool, usize)> {
        match self {
            Self::Tick | Self::Forget(_) => None,
            Self::Probe(at) | Self::Look(at, ..) => Some((true, *at)),
            Self::Begin(at)
            | Self::Vote(at, ..)
            | Self::Extend(at)
            | Self::Extended(at, ..)
            | Self::GiveUp(at)
            | Self::GiveBack(at) => Some((false, *at)),
        }
    }

    /// What would end too much if it came as often as all else.
    pub(crate) const fn is_rare(&self) -> bool {
        matches!(self, Self::Tick | Self::GiveUp(_) | Self::GiveBack(_) | Self::Forget(_))
    }
}

pub(crate) struct Changes {
    setup: Setup,
    nodes: Pool<Node>,
    keepers: Pool<Keeper>,
    voters: Pool<Voter>,
    rests: Pool<Rest>,
}

impl Changes {
    pub(crate) fn new(setup: Setup) -> Self {
        let (nodes, keepers, voters, rests) = (Pool::new(), Pool::new(), Pool::new(), Pool::new());
        Self { setup, nodes, keepers, voters, rests }
    }

    fn all(&self) -> usize {
        let all = self.setup.before.iter().chain(self.setup.after);
        all.copied().max().unwrap_or_default() + 1
    }

    fn quorum(&self) -> Quorum {
        let set = |nodes: &[usize]| nodes.iter().copied().map(NodeId::new).collect::<NodeSet>();
        Quorum::of_both(set(self.setup.before), set(self.setup.after))
    }

    /// The state behind these steps, which are possible.
    fn after(&mut self, state: &State, steps: impl IntoIterator<Item = Step>) -> State {
        let mut state = state.clone();
        for step in steps {
            state = self.step(&state, step).expect("it is possible");
        }
        state
    }

    /// A keeper sees to its nodes, from the beginning of a probe on, until it ends or a state is reached.
    fn see_to(&mut self, state: &State, at: usize, ends: impl Fn(&State) -> bool) -> State {
        let mut state = self.after(state, [Step::Probe(at)]);
        while state.keepers[at].probe.is_some() && !ends(&state) {
            let own = (0..state.keepers[at].nodes.len()).find(|own| state.keepers[at].asks(*own));
            state = self.after(&state, [Step::Look(at, own.expect("it waits"), Fate::Heard)]);
        }
        state
    }

    fn come_to(&mut self, state: &State) -> State {
        let mut state = state.clone();
        if self.setup.from == From::Start {
            return state;
        }
        for at in 0..self.setup.keepers.len() {
            state = self.see_to(&state, at, |_| false);
        }
        // Nobody with the new list alone asks for it.
        let is_asked = state.keepers.iter().any(|keeper| keeper.kind == Kind::New);
        state.keepers.iter_mut().for_each(|keeper| keeper.edit().stand(!is_asked));
        if self.setup.from == From::Looked {
            return state;
        }
        if self.setup.from == From::Held {
            state = self.after(&state, [Step::Begin(0)]);
            while let Some(own) =
                (0..state.voters[0].nodes.len()).find(|own| state.voters[0].votes(*own))
            {
                state = self.after(&state, [Step::Vote(0, own, Fate::Heard)]);
            }
            return state;
        }
        let (first, both) = (self.setup.before[0], Kind::Both.members(&self.setup));
        state = self.see_to(&state, 1, |state| state.nodes[first].store.members() == Some(&both));
        state = self.after(&state, [Step::Forget(first)]);
        state = self.see_to(&state, 0, |_| false);
        state = self.after(&state, [Step::Tick; 3]);
        let mut state = self.see_to(&state, 0, |_| false);
        state.keepers.iter_mut().for_each(|keeper| keeper.edit().stand(false));
        state
    }

    /// No more than a minority of each list has forgotten at a time.
    fn may_forget(&self, state: &State, node: usize) -> bool {
        let is_lost = |at: &usize| state.nodes[*at].lost || *at == node;
        let lost: NodeSet = (0..self.all()).filter(is_lost).map(NodeId::new).collect();
        let is_before = self.setup.before.contains(&node);
        let quorum = self.quorum();
        let there = quorum.everyone().without(lost);
        state.rest.forgets > 0
            && !state.nodes[node].lost
            && (!is_before || quorum.is_met_before_by(there))
            && (!self.setup.after.contains(&node) || quorum.is_met_after_by(there))
    }
}

pub(crate) const fn now_of(tick: u8) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(tick as u64 * TICK))
}

impl Space for Changes {
    type State = State;
    type Step = Step;

    fn width(&self) -> usize {
        self.all() + self.setup.keepers.len() + self.setup.voters.len() + 1
    }

    fn first(&mut self) -> State {
        let both = Kind::Both.members(&self.setup);
        let node = |at: usize| {
            let (is_old, mut store) = (self.setup.before.contains(&at), NodeStore::in_life(0));
            let serves = if is_old { Serves::Before } else { Serves::Both };
            let lost = self.setup.fresh && !is_old;
            if !lost {
                assert!(store.admit_for(0, Floor::new(0, 0), &both, serves, 1), "it was joining");
            }
            Part::new(Node { store, life: 0, lost })
        };
        let Setup { forgets, losses, .. } = self.setup;
        let keeper = |kind: &Kind| Part::new(Keeper::new(&self.setup, *kind));
        let voter = |kind: &Kind| Part::new(Voter::new(&self.setup, *kind));
        let first = State {
            nodes: (0..self.all()).map(node).collect(),
            keepers: self.setup.keepers.iter().map(|(kind, _)| keeper(kind)).collect(),
            voters: self.setup.voters.iter().map(voter).collect(),
            rest: Part::new(Rest { now: 0, forgets, losses, tokens: Vec::new(), wrong: None }),
        };
        self.come_to(&first)
    }

    fn pack(&mut self, state: &State, row: &mut Vec<u32>) {
        row.extend(state.nodes.iter().map(|node| self.nodes.number(node)));
        row.extend(state.keepers.iter().map(|keeper| self.keepers.number(keeper)));
        row.extend(state.voters.iter().map(|voter| self.voters.number(voter)));
        row.push(self.rests.number(&state.rest));
    }

    fn unpack(&self, row: &[u32]) -> State {
        let (nodes, rest) = row.split_at(self.all());
        let (keepers, rest) = rest.split_at(self.setup.keepers.len());
        let (voters, rest) = rest.split_at(self.setup.voters.len());
        State {
            nodes: nodes.iter().map(|number| self.nodes.part(*number)).collect(),
            keepers: keepers.iter().map(|number| self.keepers.part(*number)).collect(),
            voters: voters.iter().map(|number| self.voters.part(*number)).collect(),
            rest: self.rests.part(rest[0]),
        }
    }

    fn steps(&self, state: &State, into: &mut Vec<Step>) {
        if state.rest.now < self.setup.until {
            into.push(Step::Tick);
        }
        into.extend((0..self.all()).filter(|at| self.may_forget(state, *at)).map(Step::Forget));
        let fates: &[Fate] = match state.rest.losses {
            0 => &[Fate::Heard],
            _ => &[Fate::Heard, Fate::Unheard, Fate::Lost],
        };
        // Clients with both lists see to the new nodes before any comes with these alone: nobody could tell them from a fleet
        // of their own.
        let is_used = |at: &usize| state.nodes[*at].store.members().is_some();
        let used = (0..self.all()).filter(is_used).map(NodeId::new).collect();
        let are_used = self.quorum().is_met_after_by(used);
        let now = now_of(state.rest.now);
        for (at, keeper) in state.keepers.iter().enumerate() {
            if keeper.kind == Kind::New && !are_used {
                continue;
            }
            if keeper.probe.is_none() && keeper.probes < self.setup.keepers[at].1 {
                into.push(Step::Probe(at));
            }
            let asked = (0..keeper.nodes.len()).filter(|own| keeper.asks(*own));
            into.extend(
                asked.flat_map(|own| fates.iter().map(move |fate| Step::Look(at, own, *fate))),
            );
        }
        let nodes: Vec<&Node> = state.nodes.iter().map(|node| &**node).collect();
        for (at, voter) in state.voters.iter().enumerate() {
            if voter.kind == Kind::New && !are_used {
                continue;
            }
            let goes_on = voter.rounds < self.setup.rounds;
            if voter.is_idle() && goes_on && voter.may_win(&nodes, now) {
                into.push(Step::Begin(at));
            }
            if !voter.is_idle() && goes_on {
                into.push(Step::GiveUp(at));
            }
            if voter.has_lease() {
                into.push(Step::GiveBack(at));
            }
            if voter.may_extend(now) && voter.extensions < self.setup.extensions {
                into.push(Step::Extend(at));
            }
            for own in 0..voter.nodes.len() {
                for fate in fates {
                    if voter.votes(own) {
                        into.push(Step::Vote(at, own, *fate));
                    }
                    if voter.extends(own) {
                        into.push(Step::Extended(at, own, *fate));
                    }
                }
            }
        }
    }

    fn step(&mut self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let now = now_of(state.rest.now);
        let fate = match step {
            Step::Look(.., fate) | Step::Vote(.., fate) | Step::Extended(.., fate) => fate,
            _ => Fate::Heard,
        };
        if fate != Fate::Heard {
            next.rest.edit().losses -= 1;
        }
        match step {
            Step::Tick => {
                next.rest.edit().now += 1;
                let now = now_of(next.rest.now);
                for voter in &mut next.voters {
                    if !voter.is_idle() && voter.rounds == self.setup.rounds {
                        voter.edit().handle_time(now);
                    }
                }
            }
            Step::Forget(at) => {
                next.rest.edit().forgets -= 1;
                let node = next.nodes[at].edit();
                node.life += 1;
                (node.store, node.lost) = (NodeStore::in_life(node.life), true);
            }
            Step::Probe(at) => next.keepers[at].edit().begin_probe(now),
            Step::Look(at, own, fate) => {
                let node = next.nodes[state.keepers[at].nodes[own]].edit();
                next.keepers[at].edit().look(own, node, fate, now);
            }
            Step::Begin(at) => {
                let above = state.rest.tokens.last().copied().unwrap_or_default();
                let nodes: Vec<&Node> = state.nodes.iter().map(|node| &**node).collect();
                next.voters[at].edit().begin_round(at, (above, &nodes), now);
            }
            Step::Vote(at, own, fate) => {
                let node = next.nodes[state.voters[at].nodes[own]].edit();
                if let Some(grant) = next.voters[at].edit().vote(own, node, fate, now) {
                    next.won(grant);
                }
            }
            Step::Extend(at) => next.voters[at].edit().extend(now),
            Step::Extended(at, own, fate) => {
                let node = next.nodes[state.voters[at].nodes[own]].edit();
                next.voters[at].edit().extended(own, node, fate, now);
            }
            Step::GiveUp(at) => next.voters[at].edit().give_up(),
            Step::GiveBack(at) => {
                let command = next.voters[at].edit().give_back()?;
                for node in &state.voters[at].nodes {
                    let store = &mut next.nodes[*node].edit().store;
                    let _ = store.execute(command.clone(), now, 1, &|_| true);
                }
            }
        }
        Some(next)
    }

    fn wrong(&mut self, state: &State, _stuck: bool) -> Option<&'static str> {
        let now = now_of(state.rest.now);
        let holders = state.voters.iter().filter(|voter| voter.holds(now));
        if holders.count() > 1 { Some(ONE) } else { state.rest.wrong }
    }

    fn note(&mut self, state: &State, sometimes: &mut Sometimes) {
        let now = now_of(state.rest.now);
        for (kind, what) in [
            (Kind::Old, "a client with the old list held"),
            (Kind::Both, "a client with both lists held"),
            (Kind::New, "a client with the new list held"),
        ] {
            let holds = |voter: &Part<Voter>| voter.kind == kind && voter.holds(now);
            sometimes.note(what, state.voters.iter().any(holds));
        }
        let is = |serves: Serves| {
            let both = Kind::Both.members(&self.setup);
            state.nodes.iter().any(|node| {
                node.store.members().is_some_and(|record| both.served_by(record) == Some(serves))
            })
        };
        sometimes.note("a node was open", is(Serves::After));
        let again = |node: &Part<Node>| node.life > 0 && !node.lost;
        sometimes.note("a node that forgot was admitted", state.nodes.iter().any(again));
    }

    fn heal(&mut self, _state: &State) -> Result<bool, &'static str> {
        Ok(false)
    }

    fn tell(&self, state: &State, step: Step) -> String {
        let record = |node: &Part<Node>| {
            let record = node.store.members().map_or("nothing", Members::text).to_owned();
            if node.store.marker().ready { record } else { format!("({record})") }
        };
        let nodes: Vec<String> = state.nodes.iter().map(record).collect();
        format!("{} {step:?} [{}]", state.rest.now, nodes.join("; "))
    }
}

impl State {
    fn won(&mut self, grant: Grant) {
        let rest = self.rest.edit();
        match rest.tokens.binary_search(&grant.token) {
            Err(at) if grant.token > grant.above => rest.tokens.insert(at, grant.token),
            _ => rest.wrong = Some(TOKENS),
        }
    }
}
