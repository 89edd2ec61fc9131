//! Every message that a user may meet in the first ten minutes and in the night, in one file to read.
//!
//! Goal: each says what happened, what is left and what to do, and no change of one goes unread. Method: the mistakes are
//! made, on real servers, and what `{error}` prints is compared with `messages.txt`, in which addresses, owners and
//! measured times are replaced. After a change that is meant, this writes the file anew; read what has changed in it:
//!
//! ```text
//! QUORLOCK_MESSAGES=write cargo test -p quorlock --all-features --test messages
//! ```
//!
//! What a build cannot show, as that it has no TLS, stays as it stands in the file, and is compared by one that can:
//! `cargo test -p quorlock --no-default-features --features redis --test messages`.
#![cfg(feature = "redis")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod cases;
mod normal;

use std::{fmt::Write as _, path::PathBuf};

const HEAD: &str = "\
# What users read when something is wrong. Written by tests/messages, which says how; addresses are numbered, an owner is
# OWNER, and a measured time is _.
";

fn file() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "messages", "messages.txt"].iter().collect()
}

/// The messages of the file, by name, in order.
fn read(text: &str) -> Vec<(String, String)> {
    let sections = text.split("\n== ").skip(1);
    let section = |section: &str| {
        let (name, message) = section.split_once('\n').expect("a name and a message");
        (name.to_owned(), message.trim_end().to_owned())
    };
    sections.map(section).collect()
}

fn written(messages: &[(String, String)]) -> String {
    let mut text = HEAD.to_owned();
    for (name, message) in messages {
        write!(text, "\n== {name}\n{message}\n").unwrap();
    }
    text
}

#[test]
fn every_message_is_the_one_that_was_read() {
    let before = read(&std::fs::read_to_string(file()).unwrap_or_default());
    let of_before = |name: &str| before.iter().find(|(named, _)| named == name).cloned();
    let found: Vec<(String, String)> = std::thread::scope(|scope| {
        let case = |(name, case): (&'static str, cases::Case)| {
            (name, scope.spawn(move || case().map(|found| found.text())))
        };
        let running: Vec<_> = cases::ALL.into_iter().map(case).collect();
        let message = |(name, running): (&str, std::thread::ScopedJoinHandle<'_, _>)| {
            let message: Option<String> = running.join().unwrap_or_else(|_| panic!("{name}"));
            message.map(|message| (name.to_owned(), message)).or_else(|| of_before(name))
        };
        running.into_iter().filter_map(message).collect()
    });
    for (name, message) in &found {
        let ones =
            [" 1 nodes", " 1 are ", " 1 releases", " 1 others", "of 1 nodes", " 1 needed nodes"];
        assert!(ones.iter().all(|one| !format!(" {message}").contains(one)), "{name}: {message}");
        assert!(!message.contains("sesame") && !message.contains("hunter2"), "{name}: {message}");
    }
    if std::env::var("QUORLOCK_MESSAGES").is_ok_and(|wanted| wanted == "write") {
        std::fs::write(file(), written(&found)).unwrap();
        return;
    }
    let differs = found
        .iter()
        .filter(|(name, message)| of_before(name).is_none_or(|(_, before)| before != *message));
    let told: Vec<String> = differs
        .map(|(name, message)| {
            let before = of_before(name).map_or_else(|| "not there".to_owned(), |(_, text)| text);
            format!("== {name}\nin the file: {before}\nand now:     {message}")
        })
        .collect();
    assert!(told.is_empty(), "QUORLOCK_MESSAGES=write writes them anew\n{}", told.join("\n"));
    let names = |list: &[(String, String)]| -> Vec<String> {
        list.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&before), names(&found), "the file has others");
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let messages = [("a", "x: y"), ("b", "z")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(read(&written(&messages)), messages);
}
