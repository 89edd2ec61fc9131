//! What it says: the events and the answers, for each kind of lease, and where nothing is granted.

use std::process::Stdio;

use quorlock_harness::eventually;
use serde_json::{Value, json};

use super::fleet::{Fleet, SOON};

fn token(granted: &Value) -> u64 {
    granted["token"].as_str().unwrap().parse().unwrap()
}

#[test]
fn each_thing_is_an_object_and_an_answer_repeats_the_word_behind_its_line() {
    let fleet = Fleet::start();
    let mut helper = fleet.hold("job --json");
    assert_eq!(
        serde_json::from_str::<Value>(&helper.line()).unwrap(),
        json!({ "event": "waiting" })
    );
    let granted = helper.event("granted");
    assert_eq!(granted["resource"], "job");
    assert!(granted["owner"].as_str().unwrap().len() == 32 && token(&granted) > 0, "{granted}");
    assert_eq!([&granted["slot"], &granted["term"]], [&Value::Null, &Value::Null]);
    assert!((1..=10_000).contains(&granted["validity_ms"].as_u64().unwrap()), "{granted}");
    eventually("it is held everywhere", SOON, || fleet.keys("job") == 3);
    for (line, event, asked) in [
        ("check", "held", Value::Null),
        ("check 7", "held", json!("7")),
        ("extend x-1", "extended", json!("x-1")),
    ] {
        let answer = helper.ask(line, event);
        assert_eq!(answer["asked"], asked, "{answer}");
        assert!((1..=10_000).contains(&answer["validity_ms"].as_u64().unwrap()), "{answer}");
    }
    assert_eq!(helper.ask("release 9", "released"), json!({ "event": "released", "asked": "9" }));
    assert_eq!((helper.ends(), helper.rest()), (0, vec![]));
    fleet.is_given_back("job");
    let (_next, later) = fleet.granted("job --json --try");
    assert!(token(&later) > token(&granted));
}

#[test]
fn an_extension_is_from_now_on() {
    let fleet = Fleet::start();
    // Long enough that no renewal comes between.
    let (mut helper, _) = fleet.granted("job --json --ttl 60s --set max_ttl=60s");
    let left = |answer: Value| answer["validity_ms"].as_u64().unwrap();
    let first = left(helper.ask("check", "held"));
    let mut before = first;
    eventually("some time has passed", SOON, || {
        before = left(helper.ask("check", "held"));
        before + 200 < first
    });
    assert!(left(helper.ask("extend", "extended")) > before);
}

#[test]
fn it_holds_whatever_run_can_hold() {
    let fleet = Fleet::start();
    let (_first, one) = fleet.granted("pool --json --semaphore 2");
    let (_second, two) = fleet.granted("pool --json --semaphore 2");
    let mut slots = [&one["slot"], &two["slot"]].map(|slot| slot.as_u64().unwrap());
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
    let (_reader, _) = fleet.granted("tree --json --shared");
    let (_another, _) = fleet.granted("tree --json --shared");
    let (_set, set) = fleet.granted("a --json --also b --also c");
    assert_eq!((&set["resource"], &set["also"]), (&json!("a"), &json!(["b", "c"])));
    let (_leader, leads) = fleet.granted("scheduler --json --elect");
    assert!(leads["term"].is_string() && leads["term"] == leads["token"], "{leads}");
    let (_classic, classic) = fleet.granted("old --json --classic");
    assert_eq!(classic["token"], Value::Null);
    for busy in [
        "pool --json --semaphore 2 --try",
        "tree --json --try",
        "c --json --wait 100ms",
        "scheduler --json --elect --try",
    ] {
        let (said, code) = fleet.ended(busy);
        assert_eq!((said.len(), code), (1, 75), "{busy}: {said:?}");
        assert_eq!((&said[0]["event"], &said[0]["what"]), (&json!("failed"), &json!("busy")));
    }
    // Whoever looks finds this process, which has started it.
    let (said, _) = fleet.ended("a --json --try");
    let caller = format!("/{}/", std::process::id());
    assert!(said[0]["reason"].as_str().unwrap().contains(&caller), "{said:?}");
}

#[test]
fn where_nothing_is_granted_it_says_why() {
    let fleet = Fleet::start();
    for (args, what, code) in [
        ("job --json --nodes nonsense", "settings", 78),
        ("job --json --ttl 1us", "usage", 64),
        ("job --json --hold-at-least 1h", "usage", 64),
        ("job --json --semaphore 0", "usage", 64),
    ] {
        let (said, status) = fleet.ended(args);
        assert_eq!(
            (&said[0]["event"], &said[0]["what"]),
            (&json!("failed"), &json!(what)),
            "{args}"
        );
        assert_eq!((said.len(), status), (1, code), "{args}: {said:?}");
    }
    // The command line itself is wrong.
    for (args, reason) in [
        (
            "job --json --no-such-option",
            "unexpected argument '--no-such-option' found; tip: to pass '--no-such-option' as a value, use '-- --no-such-option'",
        ),
        (
            "job --json --wat=5s",
            "unexpected argument '--wat' found; tip: a similar argument exists: '--wait'",
        ),
        (
            "job --json --wait=5",
            "invalid value '5' for '--wait <TIME>': write a whole number and a unit (us, ms, s, m, h or d), as in `10s`",
        ),
        ("job --json --try --wait=5s", "the argument '--try' cannot be used with '--wait <TIME>'"),
    ] {
        let failed = json!({ "event": "failed", "what": "usage", "reason": reason });
        assert_eq!(fleet.ended(args), (vec![failed], 64), "{args}");
    }
    assert_eq!(fleet.ended("job --no-such-option"), (vec![], 64));
    let help = fleet.command("job --json --help").output().unwrap();
    let said = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success() && !said.contains("\"event\""), "{said}");
    fleet.servers[0].kill();
    fleet.servers[1].kill();
    let (said, code) = fleet.ended("job --json --try");
    assert_eq!((&said[0]["what"], code), (&json!("broken"), 69), "{said:?}");
    assert_eq!(fleet.keys("job"), 0);
}

#[test]
fn people_are_told_in_words() {
    let fleet = Fleet::start();
    let mut helper = fleet.hold("job");
    let said = helper.line();
    assert!(said.starts_with("holds `job`, token 1"), "{said}");
    helper.say("check");
    let said = helper.line();
    assert!(said.starts_with("held for "), "{said}");
    helper.say("what");
    assert_eq!(helper.line(), "`what`: write check, extend or release");
    let mut busy = fleet.command("job --try");
    let piped = busy.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut busy = piped.spawn().unwrap();
    // Its end would end it before it has asked.
    let input = busy.stdin.take();
    let output = busy.wait_with_output().unwrap();
    drop(input);
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(75), &b""[..]), "{words}");
    assert!(words.starts_with("quorlock: the resource `job` is held by "), "{words}");
    helper.input = None;
    assert_eq!((helper.line(), helper.ends()), ("released".to_owned(), 0));
}
