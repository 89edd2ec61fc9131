//! How it ends: by its caller's word, by its caller's end, and by a signal only where a person may have sent it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::json;

use super::fleet::{Fleet, Helper};

#[test]
fn the_end_of_its_input_gives_the_lease_back() {
    let fleet = Fleet::start();
    let (mut helper, _) = fleet.granted("job --json");
    // What is cut off asks for nothing.
    helper.write(b"check");
    helper.input = None;
    assert_eq!(helper.rest(), [json!({ "event": "released" })]);
    assert_eq!(helper.ends(), 0);
    fleet.is_given_back("job");
}

#[test]
fn signals_are_for_its_caller_where_that_is_a_program() {
    let fleet = Fleet::start();
    let (mut helper, _) = fleet.granted("job --json");
    for signal in
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGTSTP, Signal::SIGQUIT]
    {
        helper.signal(signal);
        helper.ask("check", "held");
    }
    assert_eq!(helper.ask("release", "released"), json!({ "event": "released" }));
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut helper = fleet.hold("job");
        assert!(helper.line().starts_with("holds "));
        helper.signal(signal);
        assert_eq!((helper.line(), helper.ends()), ("released".to_owned(), 0), "{signal}");
        fleet.is_given_back("job");
    }
}

#[test]
fn it_ends_where_nobody_reads_its_output() {
    let fleet = Fleet::start();
    let mut command = fleet.command("job --json");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut helper = Helper::of(child);
    let mut line = String::new();
    while !line.contains("granted") {
        assert_ne!(output.read_line(&mut line).unwrap(), 0);
    }
    drop(output);
    // Its input is open all the while.
    assert_eq!(helper.ends(), 0);
    fleet.is_given_back("job");
}

#[test]
fn it_ends_with_its_caller_though_a_child_of_that_keeps_its_input_open() {
    let fleet = Fleet::start();
    let mut caller = Command::new("sleep").arg("600").spawn().unwrap();
    let (mut helper, _) = fleet.granted(&format!("job --json --caller {}", caller.id()));
    caller.kill().unwrap();
    // Not reaped yet: a zombie is gone too.
    helper.event("released");
    assert_eq!(helper.ends(), 0);
    fleet.is_given_back("job");
    caller.wait().unwrap();
    // Nor does it begin where the caller is gone.
    let (said, code) = fleet.ended(&format!("job --json --caller {}", caller.id()));
    assert_eq!((&said[0]["what"], code), (&json!("no"), 1), "{said:?}");
    for wrong in ["0", "-1", "x"] {
        let (said, code) = fleet.ended(&format!("job --json --caller={wrong}"));
        assert_eq!((&said[0]["what"], code), (&json!("usage"), 64), "{wrong}: {said:?}");
    }
}

#[test]
fn whoever_waits_and_is_not_wanted_any_more_leaves_its_place() {
    let fleet = Fleet::start();
    let (mut first, _) = fleet.granted("job --json");
    let mut waits = [fleet.hold("job --json"), fleet.hold("job --json")];
    let is_told =
        |value: &serde_json::Value| value["reason"] == "nothing is held yet: wait for `granted`";
    for waits in &mut waits {
        let answer = waits.ask("check 1", "refused");
        assert!(is_told(&answer) && answer["asked"] == "1", "{answer}");
    }
    waits[0].input = None;
    waits[1].say("release");
    for waits in &mut waits {
        let failed = waits.event("failed");
        assert_eq!((&failed["what"], waits.ends()), (&json!("no"), 1), "{failed}");
    }
    first.ask("release", "released");
    fleet.granted("job --json --try");
}
