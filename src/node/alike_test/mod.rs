//! Goal: a node in memory decides as the scripts do on a real server, whatever is asked of it.
//!
//! Method: sequences of commands, drawn from a seed, are sent through the production node of each kind: by four clients
//! with a connection each, by one in classic mode, or by so many that more than twenty stand in one line. The server's
//! clock stands still until the test moves it (`clock`), so that answers are compared exactly, with times. A sequence
//! that shows a difference is shortened, and printed with the command that replays it. `QUORLOCK_SCRIPTS` says how many
//! commands, a million in the long run; `QUORLOCK_SCRIPTS_SEED` plays one sequence. `known` keeps what was found, and
//! `kept` what both nodes have to say.
//!
//! Not compared: which number an epoch has, how far the high-water mark runs ahead of the counters, the milliseconds by
//! which a server keeps a key too long, generations of counters (the node in memory has one), and what others have
//! written into the counters, the marker or a line of a server.

mod client;
mod clock;
mod commands;
mod drawn;
mod kept;
mod known;
mod names;
mod pair;
mod shown;
mod steps;

use std::{collections::BTreeSet, time::Instant};

use quorlock_harness::Evidence;

use self::{
    drawn::drawn,
    pair::Pair,
    steps::{CLASSIC, Taken},
};

/// The steps of one sequence.
const STEPS: usize = 2_000;

/// The steps of each part in `tests/run`, the same ones each time.
const SHORT: u64 = 10_000;

/// How many parts there are, which may run side by side.
const PARTS: u64 = 4;

#[test]
fn a_node_in_memory_decides_as_the_scripts_do_in_the_first_part() {
    decide_alike(0);
}

#[test]
fn a_node_in_memory_decides_as_the_scripts_do_in_the_second_part() {
    decide_alike(1);
}

#[test]
fn a_node_in_memory_decides_as_the_scripts_do_in_the_third_part() {
    decide_alike(2);
}

#[test]
fn a_node_in_memory_decides_as_the_scripts_do_in_the_fourth_part() {
    decide_alike(3);
}

#[allow(
    clippy::disallowed_methods,
    reason = "the time of this test, and of nothing that is tested"
)]
fn decide_alike(part: u64) {
    if let Some(seed) = number("QUORLOCK_SCRIPTS_SEED") {
        // One sequence is one part.
        let count = number("QUORLOCK_SCRIPTS").unwrap_or(STEPS as u64);
        if part == 0 {
            plays(seed, usize::try_from(count).expect("a number"));
        }
        return;
    }
    let (wanted, started) = (number("QUORLOCK_SCRIPTS"), Instant::now());
    let length = wanted.map_or(SHORT, |wanted| wanted / PARTS);
    let base = wanted.map_or(part * (SHORT / STEPS as u64), |_| rand::random::<u32>().into());
    let (mut steps, mut sequences, mut lengths) = (0_u64, 0_u64, BTreeSet::new());
    while steps < length {
        let (seen, taken) = plays(base + sequences, STEPS);
        lengths.extend(seen);
        sequences += 1;
        steps += taken as u64;
    }
    // One of five sequences is that of a crowd; those of the second part have the longest lines.
    let longest = if part == 1 { 20 } else { 12 };
    let has_all = (0..=longest).all(|length| lengths.contains(&length));
    assert!(has_all || wanted.is_some(), "lines of {lengths:?}");
    Evidence::new("scripts", "random commands to the scripts and to MemoryNode", &version())
        .count("sequences", sequences)
        .count("commands", steps)
        .count("first_seed", base)
        .count("violations", 0_u8)
        .seconds(started.elapsed())
        .tell();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, no number")))
}

/// The server that it was run on.
fn version() -> String {
    let program = quorlock_harness::server_program().expect("a server");
    let said = std::process::Command::new(&program).arg("--version").output().expect("a server");
    String::from_utf8_lossy(&said.stdout).split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Returns the lengths of the lines, and how many steps were compared.
#[track_caller]
fn plays(seed: u64, count: usize) -> (BTreeSet<usize>, usize) {
    let steps = drawn(seed, count);
    play(&steps).unwrap_or_else(|(at, _)| {
        let stays_as_it_is = std::env::var("PROPTEST_MAX_SHRINK_ITERS").is_ok_and(|it| it == "0");
        let short = steps[..=at].to_vec();
        let short = if stays_as_it_is { short } else { shortened(short) };
        let (at, difference) = play(&short).expect_err("it still differs");
        let told: Vec<String> =
            short.iter().map(|taken| format!("  {} {:?}", taken.client, taken.step)).collect();
        panic!(
            "seed {seed}: after these steps of the clients\n{}\n  step {at}: {difference}\nto play it again: \
             QUORLOCK_SCRIPTS_SEED={seed} QUORLOCK_SCRIPTS={count} cargo test -p quorlock --all-features --lib decides_as_the_scripts_do",
            told.join("\n"),
        );
    })
}

/// Plays steps on empty nodes, and returns the lengths of the lines. The error says at which step the nodes differ.
fn play(steps: &[Taken]) -> Result<(BTreeSet<usize>, usize), (usize, String)> {
    let clients = steps.iter().map(|taken| taken.client + 1).max().unwrap_or(0).max(CLASSIC + 1);
    let says = steps.iter().any(|taken| !taken.says.is_empty());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut pair = Pair::new(clients).await;
        for (at, taken) in steps.iter().enumerate() {
            let mut said = pair.take(taken).await.map_err(|difference| (at, difference))?;
            pair.measure();
            if pair.is_apart {
                return Ok((pair.lengths, at + 1));
            }
            if says || at % 20 == 19 || at + 1 == steps.len() {
                said += &pair.compare().await.map_err(|difference| (at, difference))?;
            }
            if !taken.says.is_empty() && taken.says != said {
                return Err((
                    at,
                    format!("both say\n      {said}\n    and not\n      {}", taken.says),
                ));
            }
        }
        Ok((pair.lengths, steps.len()))
    })
}

/// Fewer steps that show a difference, not necessarily the same one.
fn shortened(mut steps: Vec<Taken>) -> Vec<Taken> {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            match play(&fewer) {
                Err((end, _)) => {
                    fewer.truncate(end + 1);
                    steps = fewer;
                }
                Ok(_) => at += size,
            }
        }
        size /= 2;
    }
    steps
}
