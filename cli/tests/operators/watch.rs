//! `watch` tells each change, and ends well by a signal or when nobody reads.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use quorlock_harness::connected;
use serde_json::Value;

use super::{admitted, on, patient, quorlock};

fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn changes_are_told_as_they_come_and_a_signal_ends_it_well() {
    let cluster = admitted(3);
    let redlock = connected(patient().nodes(cluster.urls()).label("web-1"));
    for name in ["TERM", "INT"] {
        let mut watch = quorlock("watch");
        watch.args(["r", "--json", "--every", "20ms"]).args(on(&cluster.urls()));
        let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut next =
            || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next()["state"], "free");
        let mut tokens = Vec::new();
        for _ in 0..2 {
            let lease = redlock.acquire("r").blocking().unwrap();
            let held = next();
            assert_eq!(
                (&held["state"], &held["label"]),
                (&"held".into(), &"web-1".into()),
                "{held}"
            );
            assert_eq!(held["owner"], lease.owner().to_string());
            assert!(held["since"].as_f64().is_some() && held["at"].as_f64().is_some(), "{held}");
            tokens.push(held["token"].as_str().unwrap().parse::<u64>().unwrap());
            lease.blocking_release().unwrap();
            assert_eq!(next()["state"], "free");
        }
        assert!(tokens[0] < tokens[1], "{tokens:?}");
        signal(&watch, name);
        assert_eq!(watch.wait().unwrap().code(), Some(0), "{name}");
    }
}

#[test]
fn it_ends_when_nobody_reads_any_more() {
    let cluster = admitted(3);
    let redlock = connected(patient().nodes(cluster.urls()));
    let mut watch = quorlock("watch");
    watch.args(["r", "--every", "20ms"]).args(on(&cluster.urls()));
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let said = lines.next().unwrap().unwrap();
    assert!(said.ends_with("nobody holds it"), "{said}");
    drop(lines);
    let _lease = redlock.acquire("r").blocking().unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
}
