//! The decisions alone, driven by hand: no runtime, no Redis, no clock.
//!
//!     cargo run --example sans_io
//!
//! Replies go in with the time at which they arrived; commands and the verdict come out.

use std::{error::Error, time::Duration};

use quorlock::protocol::{
    Command, Denial, Failure, Granted, NodeId, Owner, Quorum, Reply, Resource, Round, RoundSpec,
    Timestamp, Verdict, validity,
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("-- won at the third grant, with one node down and one that never answers");
    let mut round = begin([1; 16])?;
    tell(&mut round, 3, Err(Failure::NOT_SENT), 1);
    tell(&mut round, 0, Ok(Reply::Granted(Granted::DONE)), 2);
    tell(&mut round, 2, Ok(Reply::Granted(Granted::DONE)), 3);
    tell(&mut round, 4, Ok(Reply::Granted(Granted::DONE)), 5);
    expect(&round, Verdict::Won)?;
    println!("   validity at 5 ms: {:?}", validity::left(round.deadline(), at(5)));

    println!("-- lost at the third denial; what was granted, or may yet be, is released");
    let mut round = begin([2; 16])?;
    tell(&mut round, 0, Ok(Reply::Granted(Granted::DONE)), 1);
    for node in [1, 2, 3] {
        tell(&mut round, node, Ok(Reply::Denied(Denial::default())), 2);
    }
    expect(&round, Verdict::Lost)?;
    println!("   because: {:?}", round.loss());
    tell(&mut round, 4, Err(Failure::TIMED_OUT), 100);

    println!("-- a quorum that comes after the ttl is no win");
    let mut round = begin([3; 16])?;
    for node in [0, 1, 2] {
        tell(&mut round, node, Ok(Reply::Granted(Granted::DONE)), 10_000);
    }
    expect(&round, Verdict::Lost)?;
    println!("   because: {:?}", round.loss());
    Ok(())
}

/// A round over five nodes for 10 s, at time zero. Real code draws the random bytes, afresh for every round.
fn begin(random: [u8; 16]) -> Result<Round, Box<dyn Error>> {
    let owner = Owner::from_random(random);
    let spec = RoundSpec::new(Resource::new("invoice:42")?, owner, Duration::from_secs(10));
    let mut round = Round::acquire(Quorum::of(5), spec, at(0));
    send(&mut round);
    Ok(round)
}

/// Hands one reply in, and sends what comes out.
fn tell(round: &mut Round, node: usize, reply: Result<Reply, Failure>, ms: u64) {
    println!("   {ms:>5} ms  node {node} replies {reply:?}");
    round.handle_reply(NodeId::new(node), reply, at(ms));
    println!("             {:?}", round.verdict());
    send(round);
}

/// What an engine would put on the wire, in this order.
fn send(round: &mut Round) {
    while let Some((node, command)) = round.poll_command() {
        match command {
            Command::Acquire { .. } => println!("             to {node}: acquire"),
            Command::Release { .. } => println!("             to {node}: release"),
            other => println!("             to {node}: {other:?}"),
        }
    }
}

fn expect(round: &Round, verdict: Verdict) -> Result<(), Box<dyn Error>> {
    if round.verdict() == verdict {
        return Ok(());
    }
    Err(format!("expected {verdict:?}, got {:?}", round.verdict()).into())
}

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(ms))
}
