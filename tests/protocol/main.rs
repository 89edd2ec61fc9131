//! The pure core, by itself: state in, one input, the exact commands out.
//!
//! Goal: every decision of `src/protocol` is pinned without a node, a clock or a thread. Method: command
//! lists compared whole, golden text for quorums, properties for the arithmetic, and for the invariants
//! P1 to P6 a reference model (`model.rs`) beside which a round is driven at random and exhaustively.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod admission;
mod admission_world;
mod blame;
mod clock_world;
mod exhaustive;
mod fenced_model;
mod forgetting;
mod invariants;
mod model;
mod quorum;
mod round_acquire;
mod round_extend;
mod round_fencing;
mod round_release;
mod schedules;
mod validity;

use std::time::Duration;

use quorlock::protocol::{
    Command, Denial, Mark, NodeId, Owner, Quorum, Reply, Resource, Round, RoundSpec, Timestamp,
};

/// The lifetime that these tests ask for: with the default drift, 9898 ms of it are validity.
const TTL: Duration = Duration::from_secs(10);

const GRANTED: Reply = Reply::Granted(None);
const UNKNOWN: Reply = Reply::Failed { sent: true };
const NOT_SENT: Reply = Reply::Failed { sent: false };

fn denied() -> Reply {
    Reply::Denied(Denial::new(Some(b"other".as_slice().into()), Some(TTL)))
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

fn drain(round: &mut Round) -> Vec<(NodeId, Command)> {
    std::iter::from_fn(|| round.poll_command()).collect()
}

fn acquires(nodes: impl IntoIterator<Item = usize>) -> Vec<(NodeId, Command)> {
    let command = Command::Acquire {
        resource: resource(),
        owner: owner(),
        ttl: TTL,
        hint: None,
        mark: Mark::default(),
    };
    nodes.into_iter().map(|index| (node(index), command.clone())).collect()
}

fn releases(nodes: impl IntoIterator<Item = usize>) -> Vec<(NodeId, Command)> {
    let command = Command::Release { resource: resource(), owner: owner() };
    nodes.into_iter().map(|index| (node(index), command.clone())).collect()
}

/// The first pair of grants, each as when it began, when it was won and with which token, that has wrong tokens: equal
/// ones, or a larger one for a grant that was won before the other began.
fn wrong_tokens(seed: u64, won: &[(usize, (usize, u64))]) -> Option<String> {
    for (index, a) in won.iter().enumerate() {
        for b in &won[index + 1..] {
            let ((began_a, (won_a, token_a)), (began_b, (won_b, token_b))) = (*a, *b);
            let wrong = token_a == token_b
                || won_a < began_b && token_a > token_b
                || won_b < began_a && token_b > token_a;
            if wrong {
                return Some(format!("seed {seed}: {a:?} and {b:?} of (began, (won, token))"));
            }
        }
    }
    None
}
