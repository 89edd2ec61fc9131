//! Tests that cannot decide on this machine, for a right, a program or a network that is missing: they say so, and are counted.
//!
//! Each leaves a note below `target/tmp/undecided`, which is gone when the test has decided again. `tests/run` shows
//! the notes and fails where there are more than three. That a machine is merely busy must never be the reason.

use std::{fmt::Display, fs, path::Path};

/// Where this is set every test must decide.
const STRICT: &str = "QUORLOCK_STRICT";

/// Says that this test cannot decide here, and why; where `QUORLOCK_STRICT` is set, it fails. The test returns after it.
#[macro_export]
macro_rules! undecided {
    ($reason:expr) => {{
        let test = $crate::here!();
        $crate::leave_undecided(::std::path::Path::new(env!("CARGO_TARGET_TMPDIR")), test, &$reason)
    }};
}

/// Says that this test can decide here, whatever it said before.
#[macro_export]
macro_rules! decided {
    () => {{
        let test = $crate::here!();
        $crate::decide(::std::path::Path::new(env!("CARGO_TARGET_TMPDIR")), test)
    }};
}

/// The path of the function around it.
#[doc(hidden)]
#[macro_export]
macro_rules! here {
    () => {{
        fn here() {}
        ::std::any::type_name_of_val(&here)
    }};
}

/// What [`undecided!`] does, below this directory.
pub fn leave_undecided(target: &Path, test: &str, reason: &dyn Display) {
    let test = name(test);
    let strict = std::env::var_os(STRICT).is_some_and(|it| !it.is_empty());
    assert!(!strict, "{STRICT} is set, and {test} is undecided: {reason}");
    println!("UNDECIDED {test}: {reason}");
    let directory = target.join("undecided");
    fs::create_dir_all(&directory).expect("a directory for notes");
    fs::write(directory.join(test), reason.to_string()).expect("a note");
}

/// What [`decided!`] does, below this directory.
pub fn decide(target: &Path, test: &str) {
    let _ = fs::remove_file(target.join("undecided").join(name(test)));
}

/// The name of the test around this function or closure.
fn name(inside: &str) -> String {
    let inside = inside.strip_suffix("::here").unwrap_or(inside);
    inside.trim_end_matches("::{{closure}}").to_owned()
}
