//! A second process of a test speaks, stands still while it is stopped, and ends with its input.
#![allow(clippy::disallowed_methods, reason = "the ban is for the library")]

use std::{
    io::{BufRead, BufReader, Read},
    process::Command,
    sync::mpsc,
    time::{Duration, Instant},
};

use quorlock_harness::{Companion, eventually};

const ROLE: &str = "QUORLOCK_TEST_COMPANION";
const SOON: Duration = Duration::from_secs(60);

/// Prints lines until its input ends.
fn tick() {
    let input = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    while !input.is_finished() {
        println!("\ntick");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_companion_stands_still_while_it_is_paused_and_ends_with_its_input() {
    if std::env::var_os(ROLE).is_some() {
        return tick();
    }
    let test = "a_companion_stands_still_while_it_is_paused_and_ends_with_its_input";
    let mut companion = Companion::start(test, ROLE, "1");
    let (tell, ticks) = mpsc::channel();
    let output = BufReader::new(companion.output());
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).filter(|line| line == "tick").for_each(|_| {
            let _ = tell.send(());
        });
    });
    ticks.recv_timeout(SOON).expect("it speaks");
    companion.pause();
    // What it had written before is read first.
    eventually("nothing more comes", SOON, || {
        ticks.recv_timeout(Duration::from_millis(200)).is_err()
    });
    companion.resume();
    ticks.recv_timeout(SOON).expect("it goes on");
    let since = Instant::now();
    let status = companion.end(SOON);
    assert!(status.ends_with(": 0"), "{status}");
    assert!(since.elapsed() < SOON);
}

/// Says each line that it reads, and then that it has ended.
fn echo() {
    std::io::stdin().lines().map_while(Result::ok).for_each(|line| println!("\necho {line}"));
    println!("\necho ended");
}

#[test]
fn a_companion_hears_what_it_is_told_and_says_nothing_once_it_is_killed() {
    if std::env::var_os(ROLE).is_some() {
        return echo();
    }
    let test = "a_companion_hears_what_it_is_told_and_says_nothing_once_it_is_killed";
    let mut companion = Companion::start(test, ROLE, "1");
    let mut output = BufReader::new(companion.output()).lines().map_while(Result::ok);
    companion.say("one");
    assert!(output.by_ref().any(|line| line == "echo one"), "it hears");
    companion.kill();
    let rest: Vec<String> = output.collect();
    assert!(!rest.iter().any(|line| line == "echo ended"), "it has not come to its end: {rest:?}");
}

/// A shell that waits for another process is harmed with it.
#[test]
fn what_a_command_has_started_stops_and_ends_with_it() {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "(while :; do echo tick; sleep 0.01; done); true"]);
    let mut companion = Companion::run(shell);
    let (tell, ticks) = mpsc::channel();
    let output = BufReader::new(companion.output());
    let reader = std::thread::spawn(move || {
        output.lines().map_while(Result::ok).for_each(|_| {
            let _ = tell.send(());
        });
    });
    ticks.recv_timeout(SOON).expect("it speaks");
    assert!(companion.pause_unless_gone());
    eventually("nothing more comes", SOON, || {
        ticks.recv_timeout(Duration::from_millis(200)).is_err()
    });
    companion.resume();
    ticks.recv_timeout(SOON).expect("it goes on");
    companion.kill();
    eventually("nobody holds the output open", SOON, || reader.is_finished());
}

#[test]
fn whoever_is_gone_is_not_paused() {
    let mut companion = Companion::run(Command::new("true"));
    eventually("it has ended", SOON, || companion.exited().is_some());
    assert!(!companion.pause_unless_gone());
}
