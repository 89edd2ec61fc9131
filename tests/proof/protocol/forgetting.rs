//! Tokens while nodes forget: rounds of several clients over nodes that lose everything, a minority at a time, and are
//! admitted again by what the sealed others say.
//!
//! Goal: tokens are unique and rise, one by one and in ranges, whatever is under way when a node forgets or is admitted; no time occurs in it, so
//! that no clock can matter. Method: as in `tokens.rs`, with nodes that follow the rules of the admission and the
//! production's own probes, in which nobody waits; nodes with a flaw must be found out by the same search.
//! `QUORLOCK_SCHEDULES` sets how many schedules are tried.

use std::collections::VecDeque;

use quorlock_core::{
    Admission, AdmissionPolicy, ConnectionView, FencingToken, Floor, Granted, Join, Marker, Probe,
    ProbeStep, Verdict,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const ROUNDS: usize = 5;

/// What is wrong with the nodes, on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flaw {
    None,
    /// A node says how high its counters are and is not sealed by it.
    Unsealed,
    /// A confirm counts whatever the round knew of the node.
    ConfirmsOutdated,
    /// An acquire counts whatever the round knew of the node's seals, in the same epoch.
    GrantsOutdated,
    /// A node is admitted with what the others said before it forgot.
    AskedEarly,
    /// The high-water mark is raised to the first token of a range, and not to its last.
    MarksTheFirst,
    /// None: but clocks jump, so that more nodes are joining than have lost their data.
    Jumps,
}

struct Server {
    ready: bool,
    mark: EpochMark,
    holder: Option<Owner>,
    counter: Option<u64>,
    floor: u64,
    high: u64,
    /// It has lost its data, and has not been admitted since.
    lost: bool,
}

impl Server {
    fn execute(&mut self, command: Command, flaw: Flaw) -> Answered {
        let knows = |mark: EpochMark| self.ready && mark == self.mark;
        match command {
            Command::Acquire { mark, .. }
                if !(knows(mark)
                    || flaw == Flaw::GrantsOutdated
                        && self.ready
                        && mark.epoch == self.mark.epoch) =>
            {
                NOT_SENT
            }
            Command::Acquire { owner, hint: Some(hint), count, .. } if self.holder.is_none() => {
                self.holder = Some(owner);
                let counter = hint.max(self.counter.unwrap_or(self.floor) + count);
                self.counter = Some(counter);
                let unmarked = if flaw == Flaw::MarksTheFirst { count - 1 } else { 0 };
                self.high = self.high.max(counter - unmarked);
                Ok(Reply::Granted(Granted::at(FencingToken::new(counter))))
            }
            Command::Confirm { mark, .. } if !knows(mark) && flaw != Flaw::ConfirmsOutdated => {
                NOT_SENT
            }
            Command::Confirm { owner, token, .. }
                if self.holder == Some(owner)
                    && self.counter.is_some_and(|counter| counter <= token.get()) =>
            {
                self.counter = Some(token.get());
                self.high = self.high.max(token.get());
                Ok(Reply::Granted(Granted::at(token)))
            }
            Command::Release { owner, .. } if self.holder == Some(owner) => {
                self.holder = None;
                Ok(Reply::Granted(Granted::DONE))
            }
            _ => Ok(Reply::Denied(Denial::default())),
        }
    }

    fn begin_epoch(&mut self, ready: bool) {
        self.ready = ready;
        self.mark = EpochMark::new(self.mark.epoch + 1, 0);
    }

    fn forget(&mut self) {
        self.begin_epoch(false);
        (self.holder, self.counter, self.floor, self.high) = (None, None, 0, 0);
        self.lost = true;
    }

    /// Its clock has jumped: it has to join again, and has its high-water mark.
    fn jump(&mut self) {
        self.begin_epoch(false);
        self.counter = None;
    }

    /// The look of a client that is about to admit another node.
    fn seal(&mut self, flaw: Flaw) -> Marker {
        if self.ready && flaw != Flaw::Unsealed {
            self.mark.seal += 1;
        }
        self.marker()
    }

    fn marker(&self) -> Marker {
        let kept = !self.ready && !self.lost;
        Marker::new(self.ready, Duration::ZERO, self.high)
            .in_epoch(self.mark.epoch)
            .sealed(self.mark.seal)
            .kept(kept)
    }

    fn admit(&mut self, floor: u64) {
        self.begin_epoch(true);
        let floor = floor.max(self.high);
        (self.floor, self.high) = (floor, floor);
        self.lost = false;
    }
}

struct Client {
    round: Round,
    began: usize,
    won: Option<(usize, [u64; 2])>,
    there: Vec<VecDeque<Command>>,
    back: Vec<VecDeque<Option<Answered>>>,
}

impl Client {
    fn begin(random: u8, rng: &mut StdRng, servers: &[Server], began: usize) -> Self {
        let mut spec = RoundSpec::new(resource(), Owner::from_random([random; 16]), TTL);
        spec.hint = Some(rng.random_range(0..6));
        spec.count = [1, 1, 2, 5][rng.random_range(0..4)];
        spec.marks = servers.iter().map(|server| server.mark).collect();
        let nodes = servers.len();
        let round = Round::acquire(Quorum::of(nodes), spec, start());
        let (there, back) = (vec![VecDeque::new(); nodes], vec![VecDeque::new(); nodes]);
        let mut client = Self { round, began, won: None, there, back };
        client.send();
        client
    }

    fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            self.there[node.index()].push_back(command);
        }
    }
}

/// A client that admits a node: it knows nothing yet, and every quarantine is over for it at once.
struct Admitting {
    node: usize,
    admission: Admission,
    probe: Probe,
    /// The others that are still to be sealed in this step.
    sealing: Vec<(NodeId, Join)>,
    admits: Option<(u64, Floor)>,
    /// What the others have said before.
    early: Vec<Marker>,
}

impl Admitting {
    fn new(node: usize, nodes: usize, early: &[Marker]) -> Self {
        let (policy, zero) = (AdmissionPolicy::Quarantine, Duration::ZERO);
        let admission = Admission::new(Quorum::of(nodes), policy, zero, zero);
        let (probe, early) = (Probe::new(false), early.to_vec());
        Self { node, admission, probe, sealing: Vec::new(), admits: None, early }
    }

    /// Seals one of the others, goes on without those that are left, or admits the node. Says whether it has.
    fn go_on(&mut self, servers: &mut [Server], rng: &mut StdRng, flaw: Flaw) -> bool {
        if let Some((epoch, floor)) = self.admits.take() {
            let server = &mut servers[self.node];
            assert_eq!((server.ready, server.mark.epoch), (false, epoch));
            // Several that were joining one after the other look like a majority at once. The clock that would help
            // then does not exist here.
            if floor.wall_us == 0 {
                server.admit(floor.known);
                return true;
            }
        }
        if !self.sealing.is_empty() && !rng.random_bool(0.02) {
            let (other, join) = self.sealing.swap_remove(rng.random_range(0..self.sealing.len()));
            assert!(join.seal && other.index() != self.node);
            let said = servers[other.index()].seal(flaw);
            let said = self.early.get(other.index()).copied().unwrap_or(said);
            self.probe.handle_marker(&mut self.admission, other, said, start());
            if !self.sealing.is_empty() {
                return false;
            }
        }
        self.sealing.clear();
        // Another client sees to the other joining nodes.
        let view = |node| ConnectionView::new(Some(node == self.node), None, None);
        let views: Vec<ConnectionView> = (0..servers.len()).map(view).collect();
        loop {
            match self.probe.poll(&mut self.admission, &views, start(), 1_000) {
                ProbeStep::Look(joins) if joins.iter().any(|(_, join)| join.seal) => {
                    self.sealing = joins;
                    return false;
                }
                ProbeStep::Look(joins) => {
                    for (node, _) in joins {
                        let marker = servers[node.index()].marker();
                        self.probe.handle_marker(&mut self.admission, node, marker, start());
                    }
                }
                ProbeStep::Admit { node, epoch, floor, .. } => {
                    assert_eq!(node.index(), self.node);
                    self.admits = Some((epoch, floor));
                    return false;
                }
                ProbeStep::Done(_) => {
                    self.probe = Probe::new(false);
                    return false;
                }
            }
        }
    }
}

/// The first pair of grants with wrong tokens in one random schedule, and how many grants and admissions there were.
fn run(seed: u64, flaw: Flaw) -> (Option<String>, usize, usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let nodes = [3, 5][rng.random_range(0..2)];
    let quorum = Quorum::of(nodes);
    let new = |high| Server {
        ready: true,
        mark: EpochMark::new(1, 0),
        holder: None,
        counter: Some(high),
        floor: 0,
        high,
        lost: false,
    };
    let mut servers: Vec<Server> = (0..nodes).map(|_| new(rng.random_range(0..6))).collect();
    let mut clients: Vec<Client> = Vec::new();
    let mut admitting: Vec<Admitting> = Vec::new();
    let mut early: Vec<Marker> = Vec::new();
    let mut admissions = 0;
    for step in 0..250 {
        if clients.len() < ROUNDS && (clients.is_empty() || rng.random_bool(0.06)) {
            let random = u8::try_from(clients.len()).unwrap() + 1;
            clients.push(Client::begin(random, &mut rng, &servers, step));
        }
        let node = rng.random_range(0..nodes);
        if rng.random_bool(0.06) {
            servers[node].holder = None;
        }
        if flaw == Flaw::AskedEarly && rng.random_bool(0.1) {
            early = servers.iter_mut().map(|server| server.seal(flaw)).collect();
        }
        // Never more than a minority at a time.
        let gone = servers
            .iter()
            .filter(|server| if flaw == Flaw::Jumps { server.lost } else { !server.ready })
            .count();
        if flaw == Flaw::Jumps && rng.random_bool(0.05) && servers[node].ready {
            servers[node].jump();
            admitting.push(Admitting::new(node, nodes, &[]));
            continue;
        }
        if rng.random_bool(0.05) && servers[node].ready && gone < quorum.spare() {
            servers[node].forget();
            admitting.push(Admitting::new(node, nodes, &early));
        }
        if let Some(index) = (!admitting.is_empty()).then(|| rng.random_range(0..admitting.len()))
            && rng.random_bool(0.2)
            && admitting[index].go_on(&mut servers, &mut rng, flaw)
        {
            admissions += 1;
            admitting.swap_remove(index);
        }
        let chosen = rng.random_range(0..clients.len());
        let client = &mut clients[chosen];
        if rng.random_bool(0.5) {
            if let Some(command) = client.there[node].pop_front() {
                let is_answered = !matches!(command, Command::Release { .. });
                let reply = servers[node].execute(command, flaw);
                if is_answered {
                    client.back[node].push_back((!rng.random_bool(0.05)).then_some(reply));
                }
            }
        } else if let Some(reply) = client.back[node].pop_front() {
            client.round.handle_reply(super::node(node), reply.unwrap_or(UNKNOWN), at(1));
            client.send();
            if client.won.is_none() && client.round.verdict() == Verdict::Won {
                client.won = Some((step, won_tokens(&client.round)));
            }
        }
    }
    let won: Vec<_> = clients.iter().filter_map(|c| Some((c.began, c.won?))).collect();
    (wrong_tokens(seed, &won), won.len(), admissions)
}

#[test]
fn tokens_are_unique_and_rise_while_minorities_forget() {
    let seeds = std::env::var("QUORLOCK_SCHEDULES").map_or(12_000, |seeds| seeds.parse().unwrap());
    let (mut grants, mut admissions) = (0, 0);
    for seed in 0..seeds {
        let (wrong, won, admitted) = run(seed, Flaw::None);
        assert_eq!(wrong, None);
        (grants, admissions) = (grants + won, admissions + admitted);
    }
    println!("schedules={seeds} grants={grants} admissions={admissions}");
    assert!(grants > 1_000 && admissions > 10_000, "too few to prove anything");
}

#[test]
fn nodes_that_forget_with_a_flaw_are_found_out() {
    let flaws = [
        Flaw::Unsealed,
        Flaw::ConfirmsOutdated,
        Flaw::GrantsOutdated,
        Flaw::AskedEarly,
        Flaw::MarksTheFirst,
    ];
    for flaw in flaws {
        let found = (0..200_000).find_map(|seed| run(seed, flaw).0);
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
}

#[test]
fn tokens_are_unique_and_rise_while_minorities_forget_and_clocks_jump() {
    let seeds = std::env::var("QUORLOCK_SCHEDULES").map_or(12_000, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let (wrong, ..) = run(seed, Flaw::Jumps);
        assert_eq!(wrong, None);
    }
}
