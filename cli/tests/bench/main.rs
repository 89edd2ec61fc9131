//! Goal: `quorlock bench` measures every line that it names, leaves nothing on the nodes, makes no more load than it has said,
//! and asks the servers of others for nothing but what a client asks for.
//!
//! Method: the program itself on real servers, with JSON and a picture that are read again, and with MONITOR on the servers of
//! others. No speed is expected of it.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod others;
mod program;
mod stopped;

use program::{Ended, bench};
use roxmltree::Document;

const ALL: [&str; 12] = [
    "ping",
    "one_server",
    "fan_out",
    "classic",
    "lease",
    "one_node_down",
    "clients",
    "permit",
    "read",
    "renewal",
    "handover_tasks",
    "handover_processes",
];

#[test]
fn every_line_is_measured_on_servers_of_its_own() {
    let ended = bench("--servers 3 --seconds 2 --clients 4 --json");
    ended.is_consistent(&ALL);
    assert_eq!(ended.found["own_servers"], true);
    assert_eq!(ended.found["nodes"].as_array().unwrap().len(), 3);
    assert!(ended.found["rate"].is_null() && ended.found["left"].is_null(), "{}", ended.found);
    // It is renewed before it ends, and not all the time.
    let renewals = ended.found["renewals_in_a_ttl"].as_f64().unwrap();
    assert!((1.0..20.0).contains(&renewals), "{renewals}");
    let of = ended.found["commands_per_held_lease_node_and_second"].as_f64().unwrap();
    assert!((of - renewals / 10.0).abs() < 0.02, "of a ttl of 10 s: {of}");

    let options = roxmltree::ParsingOptions::default();
    let document = Document::parse_with_options(&ended.picture, options).expect("well-formed");
    let has = |class: &str| {
        let all = document.descendants();
        all.filter(|node| node.attribute("class") == Some(class)).count()
    };
    assert_eq!(has("lane"), ALL.len());
    let title = document.descendants().find(|node| node.attribute("id") == Some("headline"));
    assert_eq!(title.and_then(|title| title.text()), ended.found["headline"].as_str());
    assert!(ended.picture.contains("prefers-color-scheme:dark"));
}

#[test]
fn people_get_a_screen_of_eighty_columns() {
    let ended = bench("--servers 1 --seconds 1 --clients 2");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines.len() <= 25, "{}", ended.out);
    let table = lines.iter().filter(|line| line.ends_with(|c: char| c.is_ascii_digit()));
    assert!(table.clone().count() >= 11, "{}", ended.out);
    assert!(table.into_iter().all(|line| line.len() <= 80), "{}", ended.out);
    assert!(ended.out.contains("a lease with a token") && !ended.out.contains("one node is down"));
    assert!(ended.err.contains("as many operations as"), "it is said first: {}", ended.err);
}

#[test]
fn figures_are_told_where_there_is_no_room_for_the_picture() {
    for json in ["", "--json"] {
        let args = format!("--servers 1 --seconds 1 --clients 2 {json}");
        let command = program::command_to(&args, "/dev/full".into(), tempfile::tempdir().unwrap());
        let output = { command }.command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (code, out, err) = (output.status.code(), text(&output.stdout), text(&output.stderr));
        assert_eq!(code, Some(78), "{err}");
        assert!(err.contains("/dev/full") && err.contains("--out"), "{err}");
        assert!(out.contains("SET NX PX") || out.contains("one_server"), "{out}");
        assert!(!out.contains("/dev/full"), "{out}");
    }
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is_done() {
    for (args, code, why) in [
        ("--servers 2", 64, "take 1, or 3 to 15"),
        ("--servers 3 --nodes redis://127.0.0.1:1", 64, "cannot be used with"),
        ("--clients 0", 64, "take 1 to 1000"),
        ("--rate 1", 64, "take 10 to 1000, or max"),
        ("--nodes redis://127.0.0.1:1 --set ttl=never", 78, "ttl"),
        // Nobody listens there.
        ("--nodes redis://127.0.0.1:1", 69, "127.0.0.1:1"),
    ] {
        let ended = bench(args);
        assert_eq!(ended.code, code, "{args}: {}", ended.err);
        assert!(ended.err.contains(why), "{args}: {}", ended.err);
        assert_eq!(ended.picture, "", "{args}: no file is left");
    }
    let mut command = program::command("--seconds 1");
    command.command.env("PATH", "/nowhere").env_remove("REDIS_SERVER_BIN");
    let Ended { code, err, .. } = command.run();
    assert_eq!(code, 78);
    assert!(err.contains("valkey-server") && err.contains("--nodes"), "{err}");
}
