//! Tokens under any schedule: rounds of several clients over nodes that follow the rules of `fencing.rs`.
//!
//! Goal: tokens are unique, and a grant that came before another acquire began has the smaller one, under any
//! delay, any loss of replies, any hint, locks that expire whenever they like, and restores of whatever was won,
//! however late. Method: nodes written down a second time, in a few lines, and random schedules of single
//! messages, in order on each connection; nodes with a flaw must be found out by the same search.

use std::collections::VecDeque;

use quorlock::protocol::{FencingToken, Granted, Verdict};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const ROUNDS: u8 = 5;

/// What is wrong with the nodes, on purpose.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Flaw {
    None,
    /// A confirm is granted and leaves the counter as it is: "`INCR` on each node, the maximum over a majority".
    Maximum,
    /// A confirm does not look at the holder and the counter, and sets the latter.
    Blind,
    /// The counter is forgotten when the lock expires.
    Forgets,
    /// The key of a round is restored before the round is won.
    RestoresEarly,
}

#[derive(Default)]
struct Server {
    holder: Option<Owner>,
    counter: u64,
}

impl Server {
    fn execute(&mut self, command: Command, flaw: Flaw) -> Answered {
        match command {
            Command::Acquire { owner, hint: Some(hint), .. } if self.holder.is_none() => {
                self.holder = Some(owner);
                self.counter = hint.max(self.counter + 1);
                Ok(Reply::Granted(Granted::at(FencingToken::new(self.counter))))
            }
            Command::Confirm { token, .. } if flaw == Flaw::Maximum => {
                Ok(Reply::Granted(Granted::at(token)))
            }
            Command::Confirm { owner, token, .. }
                if flaw == Flaw::Blind
                    || self.holder == Some(owner) && self.counter <= token.get() =>
            {
                self.counter = token.get();
                Ok(Reply::Granted(Granted::at(token)))
            }
            Command::Restore { owner, .. } if self.holder.is_none() => {
                self.holder = Some(owner);
                Ok(Reply::Granted(Granted::DONE))
            }
            Command::Release { owner, .. } if self.holder == Some(owner) => {
                self.holder = None;
                Ok(Reply::Granted(Granted::DONE))
            }
            _ => Ok(Reply::Denied(Denial::default())),
        }
    }
}

struct Client {
    round: Round,
    began: usize,
    won: Option<(usize, [u64; 2])>,
    /// Commands and replies under way, of each node.
    there: Vec<VecDeque<Command>>,
    back: Vec<VecDeque<Option<Answered>>>,
}

impl Client {
    fn begin(random: [u8; 16], hint: u64, nodes: usize, began: usize) -> Self {
        let mut spec = RoundSpec::new(resource(), Owner::from_random(random), TTL);
        spec.hint = Some(hint);
        let round = Round::acquire(Quorum::of(nodes), spec, start());
        let (there, back) = (vec![VecDeque::new(); nodes], vec![VecDeque::new(); nodes]);
        let mut client = Self { round, began, won: None, there, back };
        client.send();
        client
    }

    fn restore(&self) -> Command {
        let RoundSpec { target, owner, ttl, .. } = self.round.spec().clone();
        Command::Restore { target, owner, ttl, until: start(), fenced: true, note: None }
    }

    fn send(&mut self) {
        for (node, command) in drain(&mut self.round) {
            self.there[node.index()].push_back(command);
        }
    }
}

/// The first pair of grants with wrong tokens in one random schedule, and how many grants there were.
fn run(seed: u64, flaw: Flaw) -> (Option<String>, usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let nodes = [3, 5][rng.random_range(0..2)];
    // Some counters are ahead, as after rounds of others.
    let mut servers: Vec<Server> =
        (0..nodes).map(|_| Server { holder: None, counter: rng.random_range(0..6) }).collect();
    let mut clients: Vec<Client> = Vec::new();
    for step in 0..250 {
        if clients.len() < usize::from(ROUNDS) && (clients.is_empty() || rng.random_bool(0.06)) {
            let random = [u8::try_from(clients.len()).unwrap() + 1; 16];
            clients.push(Client::begin(random, rng.random_range(0..6), nodes, step));
        }
        let node = rng.random_range(0..nodes);
        if rng.random_bool(0.06) {
            servers[node].holder = None;
            if flaw == Flaw::Forgets {
                servers[node].counter = 0;
            }
        }
        let chosen = rng.random_range(0..clients.len());
        let client = &mut clients[chosen];
        // Whether the holder has extended the lease before, or has lost it long since, is not asked.
        let early = flaw == Flaw::RestoresEarly && client.round.verdict() == Verdict::Pending;
        if (client.won.is_some() || early) && rng.random_bool(0.2) {
            let restore = client.restore();
            if rng.random_bool(0.5) {
                client.there[node].push_back(restore);
            } else {
                // On a newer connection than what is still under way.
                client.there[node].push_front(restore);
            }
        }
        if rng.random_bool(0.5) {
            if let Some(command) = client.there[node].pop_front() {
                let is_answered =
                    !matches!(command, Command::Release { .. } | Command::Restore { .. });
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
    (wrong_tokens(seed, &won), won.len())
}

#[test]
fn tokens_are_unique_and_rise_under_any_schedule() {
    let (seeds, mut grants) = (12_000, 0);
    for seed in 0..seeds {
        let (wrong, won) = run(seed, Flaw::None);
        assert_eq!(wrong, None);
        grants += won;
    }
    println!("schedules={seeds} grants={grants}");
    assert!(grants > 10_000, "too few grants to prove anything: {grants}");
}

#[test]
fn nodes_with_a_flaw_are_found_out() {
    for flaw in [Flaw::Maximum, Flaw::Blind, Flaw::Forgets, Flaw::RestoresEarly] {
        let found = (0..20_000).find_map(|seed| run(seed, flaw).0);
        println!("{found:?}");
        assert!(found.is_some(), "a search that finds nothing proves nothing");
    }
}
