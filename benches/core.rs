//! What the decisions cost: the pure core alone, driven by hand over five nodes, without I/O.
//!
//! Run it with `cargo bench -p quorlock --bench core`.

use std::{hint::black_box, time::Duration};

use divan::Bencher;
use quorlock::protocol::{
    Denial, Failure, Granted, NodeId, Owner, Quorum, Reply, Resource, Round, RoundSpec, Tally,
    Timestamp, Verdict,
};

const NODES: usize = 5;
const TTL: Duration = Duration::from_secs(10);

fn main() {
    divan::main();
}

fn resource() -> Option<Resource> {
    Resource::new("invoice:42").ok()
}

const fn owner() -> Owner {
    Owner::from_random([7; 16])
}

/// Hands out the commands, and answers every node with `reply`.
fn drive(mut round: Round, reply: &Result<Reply, Failure>) -> Round {
    let now = Timestamp::ORIGIN.saturating_add(Duration::from_micros(100));
    while let Some(command) = round.poll_command() {
        black_box(command);
    }
    for index in 0..NODES {
        round.handle_reply(NodeId::new(index), black_box(reply.clone()), now);
    }
    while let Some(command) = round.poll_command() {
        black_box(command);
    }
    round
}

fn acquire(resource: Resource, reply: &Result<Reply, Failure>) -> Round {
    let spec = RoundSpec::new(resource, owner(), TTL);
    drive(Round::acquire(Quorum::of(NODES), spec, Timestamp::ORIGIN), reply)
}

#[divan::bench]
fn acquire_won(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(resource).bench_values(|resource| {
        let round = acquire(resource?, &Ok(Reply::Granted(Granted::DONE)));
        assert_eq!(round.verdict(), Verdict::Won);
        Some(round)
    });
}

#[divan::bench]
fn acquire_lost(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(resource).bench_values(|resource| {
        let round = acquire(resource?, &Ok(Reply::Denied(Denial::default())));
        assert_eq!(round.verdict(), Verdict::Lost);
        Some(round)
    });
}

#[divan::bench]
fn release(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(resource).bench_values(|resource| {
        let held = (0..NODES).map(NodeId::new);
        let mut tally = Tally::release(Quorum::of(NODES), resource?, owner(), held);
        while let Some(command) = tally.poll_command() {
            black_box(command);
        }
        for index in 0..NODES {
            tally.handle_reply(
                NodeId::new(index),
                black_box(Ok(Reply::Granted(Granted::DONE))),
                Timestamp::ORIGIN,
            );
        }
        assert_eq!(tally.verdict(), Verdict::Won);
        Some(tally)
    });
}
