//! Goal: the clients in `clients/` acquire, tell a loss before the lease ends, give the lease back however their caller ends, and
//! leave neither processes nor descriptors behind.
//!
//! Method: a small program in each language, on real servers, which takes orders (`caller.rs`). Losses, kills and stops are real.
//! What a time is asserted of is the least of several tries: a busy machine may be late, and not each time. Where a language is
//! not installed its tests are undecided.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod caller;
#[path = "../hold/fleet.rs"]
#[allow(dead_code, reason = "the tests of the program use all of it")]
mod fleet;
mod page;

use std::{
    collections::BTreeSet, fs::Permissions, os::unix::fs::PermissionsExt as _, path::Path,
    time::Duration,
};

use nix::sys::signal::Signal;
use quorlock_harness::eventually;
use tempfile::TempDir;

use self::{
    caller::{Caller, Language},
    fleet::{Fleet, SOON},
    page::what_the_page_shows_runs,
};

fn acquires_and_gives_back(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    let mut other = Caller::start(language, &fleet).unwrap();
    let first = caller.granted("job");
    assert_eq!(other.ask("hold job wait=0s"), "busy");
    assert!(caller.number("check", "held") > 0.0);
    assert_eq!(caller.ask("release"), "released");
    fleet.is_given_back("job");
    assert_eq!(caller.ask("check"), "lost", "a lease that was given back is over");
    assert!(other.granted("job") > first, "tokens rise");
    // What is wrong is no loss, and nobody is busy.
    let wrong = caller.ask("hold other no-such-option=1");
    assert!(wrong.starts_with("error ") && wrong.contains("'--no-such-option' found"), "{wrong}");
    let wrong = caller.ask("hold other wait=5");
    assert!(wrong.starts_with("error ") && wrong.contains("a whole number and a unit"), "{wrong}");
    let wrong = caller.ask("hold other nodes=redis://10.0.0.1:1:1");
    assert!(wrong.starts_with("error ") && wrong.contains("address of node 0"), "{wrong}");
    assert!(other.number("check", "held") > 0.0);
    // Where a name looks like an option.
    caller.granted("--help");
    assert_eq!(caller.ask("release"), "released");
    fleet.servers[0].kill();
    fleet.servers[1].kill();
    assert_eq!(caller.ask("hold job wait=0s"), "no_quorum");
}

fn another_program_in_its_place_is_an_error(language: Language) {
    let fleet = Fleet::start();
    for program in ["/nowhere/quorlock", "/bin/echo", "/bin/false", "/"] {
        let Some(mut caller) = Caller::start_by(language, &fleet, program) else { return };
        let answer = caller.ask("hold job");
        assert!(answer.starts_with("error ") && answer.len() > 20, "{program}: {answer}");
    }
}

/// A program that says this, and reads until its input ends.
fn program(says: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\n{says}\ncat >/dev/null\n")).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    let path = program.to_str().unwrap().to_owned();
    (dir, path)
}

fn granted_for(ms: u64) -> String {
    format!(
        r#"echo '{{"event":"granted","resource":"job","owner":"o","token":"5","slot":null,"term":null,"validity_ms":{ms}}}'"#
    )
}

/// Granted, and the first question answered.
fn held_for(ms: u64) -> String {
    let granted = granted_for(ms);
    let held = format!(
        r#"echo "{{\"event\":\"held\",\"validity_ms\":{ms},\"asked\":\"${{line#check }}\"}}""#
    );
    format!("{granted}\nread -r line\n{held}")
}

/// Its answers, and its silence, are worth what it was asked.
fn a_helper_that_is_mute_or_says_too_much_is_not_believed(language: Language) {
    let fleet = Fleet::start();
    let start = |said: &str| {
        let (dir, program) = program(said);
        Caller::start_by(language, &fleet, &program).map(|caller| (dir, caller))
    };
    // Mute behind the grant, as where it is stopped.
    let Some((_dir, mut caller)) = start(&granted_for(1_500)) else { return };
    let said = caller.ask("hold job");
    assert!(said.starts_with("error ") || said == "lost", "{said}");
    let (_dir, mut caller) = start(&granted_for(60_000)).unwrap();
    caller.ask("begin job");
    eventually("it has begun", SOON, || !caller.children().is_empty());
    assert_eq!(caller.ask("cancel"), "cancelled");
    let again = r#"{"event":"held","validity_ms":60000,"asked":"1"}"#;
    for more in [
        format!("echo '{again}'\necho '{again}'"),
        again.replace("\"1\"", "\"other\"").replace('{', "echo '{").replace('}', "}'"),
        "read -r line\nexec >&-".to_owned(),
        // An answer that is over when it comes, though the one before is not.
        format!("sleep 3\n{}", held_for(1_500).split_once('\n').unwrap().1),
    ] {
        let first = held_for(if more.starts_with("sleep") { 6_000 } else { 1_500 });
        let (_dir, mut caller) = start(&format!("{first}\n{more}")).unwrap();
        assert_eq!(caller.ask("hold job"), "granted 5");
        let told = || caller.ask("is-lost") == "true";
        eventually(&format!("it is told, behind {more}"), Duration::from_secs(30), told);
        assert_eq!(caller.ask("check"), "lost", "{more}");
    }
}

/// What a program says that is not `quorlock`, or another version of it.
fn what_is_no_event_ends_the_lease(language: Language) {
    let fleet = Fleet::start();
    for (said, is_granted) in [
        ("echo '{bad'", false),
        (&*format!("{}\nread -r line\necho '{{bad'", held_for(60_000)), true),
    ] {
        let (_dir, program) = program(said);
        let Some(mut caller) = Caller::start_by(language, &fleet, &program) else { return };
        let answer = caller.ask("hold job");
        if is_granted {
            assert_eq!(answer, "granted 5");
            assert_eq!(caller.ask("check"), "lost");
            assert_eq!(caller.ask("is-lost"), "true");
        } else {
            assert!(answer.starts_with("error ") || answer == "lost", "{answer}");
        }
    }
}

fn a_check_in_the_moment_of_a_release_ends(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    for _ in 0..5 {
        caller.granted("job");
        assert_eq!(caller.ask("race"), "raced 0");
        fleet.is_given_back("job");
    }
}

fn a_loss_is_told_before_the_end(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    caller.granted("job");
    fleet.servers.iter().for_each(|server| assert!(server.del("job")));
    let [_, late] = caller.told("told");
    assert!(late < 0.0, "{late} ms behind the end");
    assert_eq!(caller.ask("check"), "lost");
    assert_eq!(caller.ask("release"), "lost");
    // And where the nodes are gone.
    let least = caller::least(5, || {
        let fleet = Fleet::start();
        let mut caller = Caller::start(language, &fleet).unwrap();
        caller.granted("job ttl=2s");
        fleet.servers[0].kill();
        fleet.servers[1].kill();
        let [_, late] = caller.told("told");
        assert_eq!(caller.ask("check"), "lost");
        late
    });
    assert!(least < 0.0, "{least} ms behind the end");
}

fn a_killed_helper_is_told_at_once(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    let least = caller::least(5, || {
        caller.granted("job ttl=2s");
        let [took, _] = caller.told(&format!("kill {}", caller.helper()));
        assert_eq!(caller.ask("check"), "lost");
        assert_eq!(caller.ask("release"), "lost");
        // A second one says the same, or nothing.
        let again = caller.ask("release");
        assert!(again == "lost" || language == Language::Python && again == "released", "{again}");
        took
    });
    println!("{language:?} is told {least} ms behind the kill");
    assert!(least < 100.0, "{least} ms");
}

fn a_stopped_helper_is_told_before_the_end(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    let least = caller::least(5, || {
        caller.granted("job ttl=2s");
        let helper = caller.helper();
        let [_, late] = caller.told(&format!("stop {helper}"));
        assert_eq!(caller.ask("check"), "lost");
        assert_eq!(caller.ask("release"), "lost");
        // It is killed, and nobody waits for it.
        eventually("the stopped helper is gone", SOON, || !caller::is_there(helper));
        late
    });
    assert!(least < 0.0, "{least} ms behind the end");
}

/// The caller stands still for half of the lease with an answer unread, and the helper behind that.
fn an_answer_that_is_read_late_counts_from_before_it_was_asked(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    let mut other = Caller::start(language, &fleet).unwrap();
    caller.granted("job ttl=6s");
    let helper = caller.helper();
    caller::stop(helper);
    let written = caller::written(caller.pid());
    caller.order("check");
    eventually("it is asked", SOON, || caller::written(caller.pid()) > written);
    caller::stop(caller.pid());
    let written = caller::written(helper);
    caller::send(helper, Signal::SIGCONT);
    eventually("it is answered", SOON, || caller::written(helper) > written);
    caller::stop(helper);
    eventually("time has passed", SOON, || fleet.servers[0].pttl("job") < 3_000);
    caller::send(caller.pid(), Signal::SIGCONT);
    let answer = caller.answer("check");
    other.granted("job");
    // Counted from when it was read, it would hold for three seconds beyond the end.
    let second = Duration::from_secs(1);
    eventually(&format!("it is told, behind {answer}"), second, || caller.ask("is-lost") == "true");
}

/// The caller is stopped with a question under way, for longer than its lease: it is told, and nothing waits for ever.
fn a_caller_that_was_stopped_is_told_when_it_goes_on(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    for _ in 0..6 {
        caller.granted("job ttl=1s");
        let helper = caller.helper();
        caller.order("check");
        caller::stop(caller.pid());
        caller::stop(helper);
        eventually("the lease is over", SOON, || fleet.keys("job") == 0);
        caller::send(helper, Signal::SIGCONT);
        caller::send(caller.pid(), Signal::SIGCONT);
        let answer = caller.answer("check");
        assert!(answer == "lost" || answer.starts_with("held "), "{answer}");
        eventually("it is told", SOON, || caller.ask("is-lost") == "true");
        assert_eq!(caller.ask("release"), "lost");
    }
}

fn a_killed_caller_leaves_no_lease(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    caller.granted("job");
    // A child that outlives it, with what it has inherited.
    let child = caller.number("fork", "forked") as i32;
    let helper = caller.helper();
    drop(caller);
    eventually("the helper has ended", SOON, || !caller::is_there(helper));
    fleet.is_given_back("job");
    assert!(caller::is_there(child), "it lives on");
    caller::send(child, Signal::SIGKILL);
    // And one that is killed while it waits for the nodes' answer, or in line.
    let mut holder = Caller::start(language, &fleet).unwrap();
    holder.granted("job");
    let mut waits = Caller::start(language, &fleet).unwrap();
    waits.order("hold job");
    let helper = waits.helper();
    drop(waits);
    eventually("the helper has ended", SOON, || !caller::is_there(helper));
    assert_eq!(holder.ask("release"), "released");
    fleet.is_given_back("job");
}

fn a_wait_that_is_cancelled_leaves_nothing(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    let mut holder = Caller::start(language, &fleet).unwrap();
    holder.granted("job");
    let orders = ["begin job", "begin-in-asyncio job"];
    for order in orders.iter().take(1 + usize::from(language == Language::Python)) {
        for is_stopped in [false, true] {
            assert_eq!(caller.ask(order), "begun");
            let helper = caller.helper();
            let lines = || {
                fleet.servers.iter().filter(|server| server.pttl("quorlock:line:job") > 0).count()
            };
            eventually("it stands in line", SOON, || lines() == 3);
            if is_stopped {
                caller::stop(helper);
            }
            assert_eq!(caller.ask("cancel"), "cancelled");
            eventually("the helper has ended", SOON, || !caller::is_there(helper));
            eventually("nobody stands in line", SOON, || lines() == 0);
        }
    }
    // A helper that is killed has lost nothing.
    caller.ask("begin job");
    caller::send(caller.helper(), Signal::SIGKILL);
    let said = caller.ask("ended");
    assert!(said.contains("quorlock") && !said.to_lowercase().contains("lost"), "{said}");
    assert!(holder.number("check", "held") > 0.0);
    assert_eq!(holder.ask("release"), "released");
    fleet.is_given_back("job");
    // And where it has been granted.
    if language == Language::Python {
        caller.ask("begin-in-asyncio job");
        eventually("it holds", SOON, || fleet.keys("job") == 3);
        assert_eq!(caller.ask("cancel"), "cancelled");
        fleet.is_given_back("job");
    }
}

fn a_helper_that_stands_still_at_the_release_is_no_loss(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    caller.granted("job");
    caller::stop(caller.helper());
    assert_eq!(caller.ask("release"), "no_quorum");
    // One that asks once more is told the same, or nothing.
    let again = caller.ask("release");
    assert!(again == "no_quorum" || language == Language::Python && again == "released", "{again}");
}

fn cycles_leak_neither_processes_nor_descriptors(language: Language) {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(language, &fleet) else { return };
    let times = std::env::var("QUORLOCK_CLIENT_CYCLES").unwrap_or_else(|_| "30".to_owned());
    let [before, after, left] = caller.cycles(&times);
    println!(
        "{language:?}: {before} descriptors before {times} cycles, {after} after, {left} left"
    );
    assert_eq!((after, left), (before, 0.0));
    assert!(caller.children().is_empty());
}

macro_rules! for_each_language {
    ($($test:ident),* $(,)?) => {
        for_each_language!(python Python: $($test),*);
        for_each_language!(node Node: $($test),*);
        for_each_language!(go Go: $($test),*);
    };
    ($module:ident $language:ident: $($test:ident),*) => {
        mod $module {
            $(#[test]
            fn $test() {
                super::$test(super::Language::$language);
            })*
        }
    };
}

for_each_language![
    acquires_and_gives_back,
    another_program_in_its_place_is_an_error,
    what_is_no_event_ends_the_lease,
    a_helper_that_is_mute_or_says_too_much_is_not_believed,
    a_check_in_the_moment_of_a_release_ends,
    a_loss_is_told_before_the_end,
    a_killed_helper_is_told_at_once,
    a_stopped_helper_is_told_before_the_end,
    an_answer_that_is_read_late_counts_from_before_it_was_asked,
    a_caller_that_was_stopped_is_told_when_it_goes_on,
    a_killed_caller_leaves_no_lease,
    a_wait_that_is_cancelled_leaves_nothing,
    a_helper_that_stands_still_at_the_release_is_no_loss,
    cycles_leak_neither_processes_nor_descriptors,
    what_the_page_shows_runs,
];

/// Those that no compiler finds.
#[test]
fn mistakes_are_refused_before_anything_is_sent() {
    let fleet = Fleet::start();
    for language in [Language::Python, Language::Node] {
        let Some(mut caller) = Caller::start(language, &fleet) else { continue };
        assert_eq!(caller.ask("mistakes job"), "refused");
        fleet.is_given_back("job");
    }
}

/// What the types say is there is there.
#[test]
fn the_types_of_node_name_what_the_client_has() {
    let of = |file: &str| {
        std::fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/node").join(file),
        )
        .unwrap()
    };
    let exported = |text: &str, words: &[&str]| -> BTreeSet<String> {
        let names = text.lines().filter_map(|line| {
            let line = words.iter().find_map(|word| line.strip_prefix(word))?;
            Some(line.split(|c: char| !c.is_alphanumeric()).next()?.to_owned())
        });
        names.collect()
    };
    let client = exported(&of("quorlock.mjs"), &["export class ", "export async function "]);
    let types = exported(&of("quorlock.d.mts"), &["export class ", "export function "]);
    assert_eq!(client, types);
    assert!(client.len() > 5, "{client:?}");
}

/// The others start no copies of themselves.
#[test]
fn a_forked_child_in_python_has_no_lease_and_takes_none_away() {
    let fleet = Fleet::start();
    let Some(mut caller) = Caller::start(Language::Python, &fleet) else { return };
    caller.granted("job");
    assert_eq!(caller.ask("in-a-child"), "lost");
    assert!(caller.number("check", "held") > 0.0);
    assert_eq!(caller.ask("release"), "released");
}
