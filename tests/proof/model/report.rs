//! What a search has found, for people and for the page of evidence.
//!
//! Goal: figures that can be collected. Method: one line of JSON for each configuration, which is also appended to a file
//! where `QUORLOCK_EVIDENCE` says a directory; a trace is written out in numbered steps.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use super::search::Found;

/// Where files of evidence go, where that is wanted.
pub(crate) fn evidence() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("QUORLOCK_EVIDENCE")?);
    fs::create_dir_all(&directory).expect("a directory for the evidence");
    Some(directory)
}

/// Prints a line, and keeps it beside others of this kind.
pub(crate) fn line(kind: &str, line: &str) {
    println!("{line}");
    if let Some(directory) = evidence() {
        let path = directory.join(format!("{kind}.jsonl"));
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
        writeln!(file, "{line}").expect("a line");
    }
}

/// The figures of one search.
pub(crate) fn print(kind: &str, name: &str, found: &Found) {
    let mut sometimes = String::new();
    for (index, (what, count)) in found.sometimes.0.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(sometimes, r#"{comma}"{what}":{count}"#).expect("a string");
    }
    let Found { states, steps, depth, exhausted, seconds, .. } = found;
    let violations = u8::from(found.trace.is_some());
    line(
        kind,
        &format!(
            r#"{{"what":"{kind}","configuration":"{name}","states":{states},"steps":{steps},"depth":{depth},"exhausted":{exhausted},"violations":{violations},"seconds":{seconds:.1},"sometimes":{{{sometimes}}}}}"#
        ),
    );
}

/// What several searches of one process have found so far.
#[derive(Debug)]
struct Total {
    configurations: usize,
    exhausted: usize,
    states: usize,
    seconds: f64,
}

static TOTAL: Mutex<Total> =
    Mutex::new(Total { configurations: 0, exhausted: 0, states: 0, seconds: 0.0 });

/// Prints that with one more, in which nothing went wrong.
pub(crate) fn add_up(found: &Found) {
    let mut total = TOTAL.lock().unwrap_or_else(PoisonError::into_inner);
    total.configurations += 1;
    total.exhausted += usize::from(found.exhausted);
    total.states += found.states;
    total.seconds += found.seconds;
    let Total { configurations, exhausted, states, seconds } = &*total;
    println!(
        r#"{{"what":"model so far","configurations":{configurations},"exhausted":{exhausted},"states":{states},"violations":0,"seconds":{seconds:.1}}}"#
    );
}

/// The steps to what went wrong.
pub(crate) fn trace(name: &str, found: &Found) -> String {
    let Some(trace) = &found.trace else { return format!("{name}: nothing went wrong") };
    let mut text = format!("{name}: it does not hold that {}\n", trace.property);
    for (index, step) in trace.steps.iter().enumerate() {
        writeln!(text, "{:>3}. {step}", index + 1).expect("a string");
    }
    text
}
