//! What the decisions cost: the pure core alone, driven by hand over five nodes, without I/O.
//!
//! Run it with `cargo bench --bench core`.

use std::{hint::black_box, time::Duration};

use divan::Bencher;
use quorlock::protocol::{
    Denial, NodeId, Owner, Quorum, Reply, Resource, Round, RoundSpec, Timestamp, Verdict,
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
fn drive(mut round: Round, reply: &Reply) -> Round {
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

fn acquire(resource: Resource, reply: &Reply) -> Round {
    let spec = RoundSpec::new(resource, owner(), TTL);
    drive(Round::acquire(Quorum::of(NODES), spec, Timestamp::ORIGIN), reply)
}

#[divan::bench]
fn acquire_won(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(resource).bench_values(|resource| {
        let round = acquire(resource?, &Reply::Granted(None));
        assert_eq!(round.verdict(), Verdict::Won);
        Some(round)
    });
}

#[divan::bench]
fn acquire_lost(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(resource).bench_values(|resource| {
        let round = acquire(resource?, &Reply::Denied(Denial::default()));
        assert_eq!(round.verdict(), Verdict::Lost);
        Some(round)
    });
}

#[divan::bench]
fn release(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(resource).bench_values(|resource| {
        let held = (0..NODES).map(NodeId::new);
        let round = Round::release(Quorum::of(NODES), resource?, owner(), held);
        let round = drive(round, &Reply::Granted(None));
        assert_eq!(round.verdict(), Verdict::Won);
        Some(round)
    });
}
