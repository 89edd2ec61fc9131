//! Tests that cannot decide are noted by their names, until they can.
#![allow(clippy::expect_used, reason = "tests are free to")]

use std::path::{Path, PathBuf};

use quorlock_harness::{decide, decided, here, leave_undecided, undecided};

fn note(test: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("undecided").join(test)
}

#[test]
fn a_test_is_noted_by_its_name_until_it_decides() {
    if std::env::var_os("QUORLOCK_STRICT").is_some_and(|it| !it.is_empty()) {
        let said = std::panic::catch_unwind(|| undecided!("planted")).expect_err("it is strict");
        let said = said.downcast_ref::<String>().expect("a message");
        assert!(said.contains("undecided") && said.contains("planted"), "{said}");
        return;
    }
    let note = note("undecided::a_test_is_noted_by_its_name_until_it_decides");
    undecided!("planted");
    let said = std::fs::read_to_string(&note).expect("a note");
    // Also from within a closure.
    let closure = || decided!();
    closure();
    assert_eq!((&*said, note.exists()), ("planted", false));
}

#[test]
fn several_tests_can_be_noted_as_one() {
    assert!(here!().ends_with("several_tests_can_be_noted_as_one::here"));
    let target = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        leave_undecided(target.path(), "beside x", &"there is none");
    }
    let notes = || std::fs::read_dir(target.path().join("undecided")).expect("notes").count();
    assert_eq!(notes(), 1);
    decide(target.path(), "beside x");
    assert_eq!(notes(), 0);
}
