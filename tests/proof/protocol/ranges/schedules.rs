//! Random schedules of several processes that win ranges and hand their leases on.
//!
//! Goal: the tokens of all tenures are unique, those of one process rise, and a tenure that began before a round has a
//! smaller token than any under what that round wins. Method: two or three processes with two to four rounds between them
//! on three or five nodes; single messages, in order on each connection, some of them lost or doubled; keys that vanish,
//! releases, restores of whatever was won, however late. A tenure begins whenever its process believes that it holds the resource,
//! also where the key is long gone. Every answer is compared with that of a node in memory.

use std::collections::VecDeque;

use futures::FutureExt as _;
use quorlock::{
    node::{MemoryNode, Node as _},
    protocol::{Drift, Join, Lifecycle, Offer, OthersWait, RenewalPolicy, Row, Verdict, Wanted},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

/// A round, and the grant that it may become.
struct Attempt {
    round: Round,
    began: usize,
    won: Option<(usize, TokenRange)>,
    /// Its tenures, once the first has begun.
    row: Option<Row>,
    /// Commands under way to each node, and whether their reply comes back; and replies under way.
    there: Vec<VecDeque<(Command, bool)>>,
    back: Vec<VecDeque<Option<Answered>>>,
}

impl Attempt {
    fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            let is_answered = !matches!(command, Command::Release { .. });
            self.there[node.index()].push_back((command, is_answered));
        }
    }

    fn restore(&self) -> Command {
        let RoundSpec { target, owner, ttl, .. } = self.round.spec().clone();
        Command::Restore { target, owner, ttl, until: start(), fenced: true, note: None }
    }
}

/// The grant is handed on, by a process that takes it to hold: no time passes here.
fn next(row: &mut Row) -> Option<FencingToken> {
    let (drift, policy) = (Drift::default(), RenewalPolicy::default());
    let lifecycle = Lifecycle::new(start(), at(9_000), TTL, drift, policy);
    let (others, turn, now) = (OthersWait::Nobody, TTL, start());
    let offer = Offer {
        lifecycle: &lifecycle,
        lock_delay: Duration::ZERO,
        alone: false,
        is_kept: false,
        others,
        turn,
        now,
    };
    let (lock_delay, min_validity) = (Duration::ZERO, Duration::ZERO);
    row.next(&offer, Wanted { ttl: TTL, lock_delay, min_validity, alone: false }).ok().flatten()
}

#[derive(Clone, Copy)]
struct Tenure {
    process: usize,
    /// When the round of its grant began.
    began: usize,
    from: usize,
    token: u64,
}

/// What has come of one schedule.
#[derive(Default)]
struct Outcome {
    wrong: Option<String>,
    grants: usize,
    tenures: usize,
    /// Tenures that began when their key stood on fewer nodes than a quorum.
    stale: usize,
    confirmed: usize,
}

struct World {
    flaw: Flaw,
    mark: Mark,
    servers: Vec<Server>,
    memory: Vec<MemoryNode>,
    attempts: Vec<Attempt>,
    /// The attempt of each process that is not over, and what it has not used of its grants before.
    processes: Vec<(Option<usize>, Vec<Row>)>,
    tenures: Vec<Tenure>,
    outcome: Outcome,
}

impl World {
    fn new(rng: &mut StdRng, flaw: Flaw) -> Self {
        let nodes = [3, 5][rng.random_range(0..2)];
        let counters: Vec<u64> = (0..nodes).map(|_| [0, 4, 7][rng.random_range(0..3)]).collect();
        let mut world = Self {
            flaw,
            mark: Mark::default(),
            servers: counters
                .iter()
                .enumerate()
                .map(|(index, of)| Server::new(index, *of))
                .collect(),
            memory: counters.iter().map(|_| MemoryNode::with_clock(|| Timestamp::ORIGIN)).collect(),
            attempts: Vec::new(),
            processes: vec![(None, Vec::new()); [2, 3][rng.random_range(0..2)]],
            tenures: Vec::new(),
            outcome: Outcome::default(),
        };
        let look = world.memory[0].join(Join::look(Duration::ZERO)).now_or_never().unwrap();
        world.mark = look.unwrap().mark();
        for (node, counter) in counters.into_iter().enumerate().filter(|(_, of)| *of > 0) {
            let (ttl, hint, mark) = (TTL, Some(counter), world.mark);
            let (resource, owner) = (resource(), owner());
            world.in_memory(
                node,
                Command::Acquire {
                    target: resource.into(),
                    owner,
                    ttl,
                    hint,
                    count: 1,
                    first: 0,
                    mark,
                    note: None,
                    stand: None,
                },
            );
            world.vanish(node);
        }
        world
    }

    fn in_memory(&self, node: usize, command: Command) -> Option<Answered> {
        let answer = self.memory[node].call(command).now_or_never();
        Some(answer?.map_err(|error| error.failure()))
    }

    fn vanish(&mut self, node: usize) {
        self.servers[node].holder = None;
        self.memory[node].set(resource().as_bytes(), "", Some(Duration::ZERO));
    }

    fn execute(&mut self, node: usize, command: Command) -> Answered {
        let reply = self.servers[node].execute(&command, self.flaw);
        if self.flaw == Flaw::None {
            let said = format!("{command:?}");
            let memory = self.in_memory(node, command).expect("it answers at once");
            match (&reply, &memory) {
                (Ok(Reply::Denied(_)), Ok(Reply::Denied(_))) => {}
                _ => assert_eq!(reply, memory, "{said}"),
            }
        }
        reply
    }

    /// A process without a grant or a round begins one.
    fn begin(&mut self, process: usize, step: usize, rng: &mut StdRng) {
        let number = u8::try_from(self.attempts.len()).unwrap();
        let mut spec = RoundSpec::new(resource(), Owner::from_random([number + 100; 16]), TTL);
        spec.count = [1, 2, 3, 8][rng.random_range(0..4)];
        spec.hint = Some([3, 5, 9, 12][rng.random_range(0..4)]);
        let nodes = self.servers.len();
        spec.marks = vec![self.mark; nodes].into();
        let round = Round::acquire(Quorum::of(nodes), spec, start());
        let (there, back) = (vec![VecDeque::new(); nodes], vec![VecDeque::new(); nodes]);
        let mut attempt = Attempt { round, began: step, won: None, row: None, there, back };
        attempt.send();
        self.processes[process].0 = Some(self.attempts.len());
        self.attempts.push(attempt);
    }

    /// What a process does that has begun a round: the next tenure, or the end of its grant.
    fn go_on(&mut self, process: usize, step: usize, rng: &mut StdRng) {
        let (flaw, nodes) = (self.flaw, self.servers.len());
        let Some(current) = self.processes[process].0 else { return };
        let attempt = &mut self.attempts[current];
        let spec = attempt.round.spec();
        let (target, owner) = (spec.target.clone(), spec.owner);
        let Some((_, range)) = &attempt.won else {
            if attempt.round.verdict() == Verdict::Lost {
                self.processes[process].0 = None;
            } else if rng.random_bool(0.02) {
                attempt.round.handle_timeout(at(100));
                attempt.send();
            }
            return;
        };
        let older = &mut self.processes[process].1;
        let older = older.iter_mut().find(|row| flaw == Flaw::OldRange && row.leases() < 3);
        let token = match (older.filter(|_| rng.random_bool(0.5)), &mut attempt.row) {
            (Some(row), _) | (None, Some(row)) => next(row),
            (None, none) => {
                let (row, first) = Row::begin(Some(range.clone()), start());
                *none = Some(row);
                first
            }
        };
        let ends = rng.random_bool(0.2);
        if let Some(token) = token.filter(|_| !ends) {
            let stands = self.servers.iter().filter(|server| server.holder == Some(owner)).count();
            self.outcome.stale += usize::from(2 * stands < nodes);
            let (began, token) = (attempt.began, token.get());
            self.tenures.push(Tenure { process, began, from: step, token });
            return;
        }
        for there in &mut attempt.there {
            let (target, owner) = (target.clone(), owner);
            there.push_back((Command::Release { target, owner, keep: None }, false));
        }
        let left = attempt.row.clone();
        self.processes[process].0 = None;
        self.processes[process].1.extend(left);
    }

    /// A message arrives, one way or the other.
    fn deliver(&mut self, chosen: usize, node: usize, step: usize, rng: &mut StdRng) {
        let flaw = self.flaw;
        let attempt = &mut self.attempts[chosen];
        let early = flaw == Flaw::RestoreVotes && attempt.round.verdict() == Verdict::Pending;
        if (attempt.won.is_some() || early) && rng.random_bool(0.1) {
            let restore = (attempt.restore(), early);
            if rng.random_bool(0.5) {
                attempt.there[node].push_back(restore);
            } else {
                // On a newer connection than what is still under way.
                attempt.there[node].push_front(restore);
            }
        }
        if rng.random_bool(0.5) {
            let Some((command, is_answered)) = attempt.there[node].pop_front() else { return };
            // Somebody on the way sends it twice.
            if rng.random_bool(0.03) {
                attempt.there[node].push_front((command.clone(), false));
            }
            let reply = self.execute(node, command);
            if is_answered {
                let heard = (!rng.random_bool(0.05)).then_some(reply);
                self.attempts[chosen].back[node].push_back(heard);
            }
            return;
        }
        let Some(reply) = attempt.back[node].pop_front() else { return };
        attempt.round.handle_reply(super::node(node), reply.unwrap_or(UNKNOWN), at(1));
        attempt.send();
        if attempt.won.is_none()
            && let Some(tokens) = taken(&attempt.round, flaw)
        {
            let confirms = |there: &VecDeque<(Command, bool)>| {
                there.iter().any(|(command, _)| matches!(command, Command::Confirm { .. }))
            };
            self.outcome.confirmed += usize::from(attempt.there.iter().any(confirms));
            attempt.won = Some((step, tokens));
            self.outcome.grants += 1;
        }
    }

    fn wrong(&self, seed: u64) -> Option<String> {
        // Whole ranges, whatever has been used of them.
        let ends = |tokens: &TokenRange| [tokens.first(), tokens.last()].map(FencingToken::get);
        let won = |attempt: &Attempt| {
            let (won, tokens) = attempt.won.as_ref()?;
            Some((attempt.began, (*won, ends(tokens))))
        };
        let won: Vec<_> = self.attempts.iter().filter_map(won).collect();
        let tenure = |tenure: &Tenure| (tenure.began, (tenure.from, [tenure.token; 2]));
        let all: Vec<_> = self.tenures.iter().map(tenure).collect();
        let falls = self.tenures.iter().enumerate().any(|(index, tenure)| {
            let before = &self.tenures[..index];
            before
                .iter()
                .any(|other| other.process == tenure.process && other.token >= tenure.token)
        });
        wrong_tokens(seed, &won)
            .or_else(|| wrong_tokens(seed, &all))
            .or_else(|| falls.then(|| format!("seed {seed}: {all:?} of one")))
    }
}

fn run(seed: u64, flaw: Flaw) -> Outcome {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new(&mut rng, flaw);
    let (nodes, most) = (world.servers.len(), rng.random_range(2..=4));
    for step in 0..250 {
        let process = rng.random_range(0..world.processes.len());
        let idle = world.processes[process].0.is_none();
        if idle && world.attempts.len() < most && (step == 0 || rng.random_bool(0.1)) {
            world.begin(process, step, &mut rng);
        } else if rng.random_bool(0.15) {
            world.go_on(process, step, &mut rng);
        }
        let node = rng.random_range(0..nodes);
        if rng.random_bool(0.06) {
            world.vanish(node);
        }
        let chosen = rng.random_range(0..world.attempts.len());
        world.deliver(chosen, node, step, &mut rng);
    }
    let wrong = world.wrong(seed);
    Outcome { wrong, tenures: world.tenures.len(), ..world.outcome }
}

#[test]
fn tokens_of_tenures_are_unique_and_rise_under_any_schedule() {
    let seeds = 12_000;
    let (mut grants, mut tenures, mut stale, mut confirmed) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let outcome = run(seed, Flaw::None);
        assert_eq!(outcome.wrong, None);
        grants += outcome.grants;
        tenures += outcome.tenures;
        stale += outcome.stale;
        confirmed += outcome.confirmed;
    }
    println!(
        "schedules={seeds} grants={grants} tenures={tenures} stale={stale} confirmed={confirmed}"
    );
    assert!(grants > 10_000 && tenures > 20_000, "too few to prove anything: {grants}");
    assert!(
        stale > 1_000 && confirmed > 100,
        "nothing went wrong on the way: {stale}, {confirmed}"
    );
}

#[test]
fn nodes_and_holders_with_a_flaw_are_found_out() {
    let flaws = [
        Flaw::OneCountsByOne,
        Flaw::AllCountByOne,
        Flaw::GoesOnFromTheFirst,
        Flaw::OneTooMany,
        Flaw::RestoreVotes,
        Flaw::OldRange,
    ];
    for flaw in flaws {
        let found = (0..60_000).find_map(|seed| run(seed, flaw).wrong);
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}: a search that finds nothing proves nothing");
    }
}
