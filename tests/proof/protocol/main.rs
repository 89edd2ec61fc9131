//! The pure core, by itself: state in, one input, the exact commands out.
//!
//! Goal: every decision of `core/src` is pinned without a node, a clock or a thread. Method: command
//! lists compared whole, golden text for quorums, properties for the arithmetic, and for the invariants
//! P1 to P6 a reference model (`model.rs`) beside which a round is driven at random and exhaustively.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod acquisition;
mod acquisition_histories;
mod acquisition_reference;
mod admission;
mod client;
mod clock_fault;
mod clock_world;
mod concurrency;
mod exhaustive;
mod fenced_model;
mod footprint;
mod footprint_search;
mod footprint_server;
mod footprint_steps;
mod footprint_world;
mod forgetting;
mod handover;
mod invariants;
mod leases;
mod leases_facts;
mod line;
mod line_book;
mod line_odd;
mod model;
mod names;
mod parsed;
mod patience;
mod proclaiming;
mod queue;
mod quorum;
mod rates;
mod releases;
mod round_acquire;
mod round_extend;
mod round_facts;
mod round_release;
mod round_token;
mod slots;
mod tokens;
mod validity;
mod values;

use std::time::Duration;

use quorlock_core::{
    Command, Denial, EpochMark, Failure, FencingToken, Granted, NodeId, Owner, Quorum, Reply,
    Resource, Round, RoundSpec, Tally, Timestamp,
};

/// The lifetime that these tests ask for: with the default drift, 9898 ms of it are validity.
const TTL: Duration = Duration::from_secs(10);

/// What a node says in place of a vote, or as one.
type Answered = Result<Reply, Failure>;

const GRANTED: Answered = Ok(Reply::Granted(Granted::DONE));
const UNKNOWN: Answered = Err(Failure::TIMED_OUT);
const NOT_SENT: Answered = Err(Failure::NOT_SENT);

fn denied() -> Answered {
    Ok(Reply::Denied(Denial::new(Some(b"other".as_slice().into()), Some(TTL))))
}

fn resource() -> Resource {
    Resource::new("r").unwrap()
}

const fn owner() -> Owner {
    Owner::from_random([7; 16])
}

const fn node(index: usize) -> NodeId {
    NodeId::new(index)
}

/// The round begins at one second, so that time before its start exists too.
fn start() -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(1))
}

/// A point `millis` after the start of the round.
fn at(millis: u64) -> Timestamp {
    start().saturating_add(Duration::from_millis(millis))
}

fn acquire(nodes: usize) -> Round {
    Round::acquire(Quorum::of(nodes), RoundSpec::new(resource(), owner(), TTL), start())
}

/// An acquire round whose first commands have been handed out.
fn sent(nodes: usize) -> Round {
    let mut round = acquire(nodes);
    assert_eq!(drain(&mut round), acquires(0..nodes));
    round
}

/// What yields commands.
trait Commands {
    fn next_command(&mut self) -> Option<(NodeId, Command)>;
}

impl Commands for Round {
    fn next_command(&mut self) -> Option<(NodeId, Command)> {
        self.poll_command()
    }
}

impl Commands for Tally {
    fn next_command(&mut self) -> Option<(NodeId, Command)> {
        self.poll_command()
    }
}

fn drain(round: &mut impl Commands) -> Vec<(NodeId, Command)> {
    std::iter::from_fn(|| round.next_command()).collect()
}

fn acquires(nodes: impl IntoIterator<Item = usize>) -> Vec<(NodeId, Command)> {
    let command = Command::Acquire {
        target: resource().into(),
        owner: owner(),
        ttl: TTL,
        hint: None,
        count: 1,
        first: 0,
        mark: EpochMark::default(),
        note: None,
        stand: None,
    };
    nodes.into_iter().map(|index| (node(index), command.clone())).collect()
}

fn releases(nodes: impl IntoIterator<Item = usize>) -> Vec<(NodeId, Command)> {
    let command = Command::Release { target: resource().into(), owner: owner(), keep: None };
    nodes.into_iter().map(|index| (node(index), command.clone())).collect()
}

/// The first and the last of the tokens that a round has won.
fn won_tokens(round: &Round) -> [u64; 2] {
    let tokens = round.tokens().expect("tokens for a win with a hint");
    [tokens.first(), tokens.last()].map(FencingToken::get)
}

/// The first pair of grants, each as when it began, when it was won and with which tokens, that has wrong ones: one that
/// both have, or a larger one for a grant that was won before the other began.
fn wrong_tokens(seed: u64, won: &[(usize, (usize, [u64; 2]))]) -> Option<String> {
    for (index, a) in won.iter().enumerate() {
        for b in &won[index + 1..] {
            let ((began_a, (won_a, tokens_a)), (began_b, (won_b, tokens_b))) = (*a, *b);
            let (a_first, b_first) = (tokens_a[1] < tokens_b[0], tokens_b[1] < tokens_a[0]);
            // Those that overlap have no order, and have no token in common all the same.
            let rises = (a_first || won_a >= began_b) && (b_first || won_b >= began_a);
            if !(a_first || b_first) || !rises {
                return Some(format!("seed {seed}: {a:?} and {b:?} of (began, (won, tokens))"));
            }
        }
    }
    None
}
