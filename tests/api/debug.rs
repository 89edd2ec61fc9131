//! `{:?}` of an error is its text, since that is what `unwrap` prints, and a `main` that returns a `Box<dyn Error>`.
//!
//! Goal: users read the text of an error, never its fields. Method: errors are printed as those two print them, and no
//! error of the source derives `Debug`.

use std::{error::Error, fmt, fs, panic, path::Path};

use quorlock::{
    AcquireError, ConfigError, ConnectError, LeaseLost, LossReason, NodeStates, Redlock, RunError,
    node::{MemoryNode, NodeError, Refusal},
    protocol::{Owner, ResourceError},
};

/// What a process prints whose `main` returned this.
fn by_main(error: impl Error + 'static) -> String {
    let error: Box<dyn Error> = error.into();
    format!("Error: {error:?}")
}

fn by_unwrap<E: fmt::Debug + Send + 'static>(error: E) -> String {
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        std::hint::black_box(Result::<(), E>::Err(error)).unwrap();
    }));
    *panicked.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn main_and_unwrap_print_the_text() {
    let refused = || ConnectError::Refused { nodes: NodeStates::default() };
    assert_eq!(by_main(refused()), format!("Error: {}", refused()));
    assert_eq!(by_main(RunError::from(refused_name())), format!("Error: {}", refused_name()));
    assert!(by_unwrap(refused()).ends_with(&format!("value: {}", refused())));
    let none = || Redlock::builder().build().unwrap_err();
    assert!(by_unwrap(none()).ends_with(&format!("value: {}", none())));
    let no_owner = "x".parse::<Owner>().unwrap_err();
    assert_eq!(by_main(no_owner), format!("Error: {no_owner}"));
    let lost = LeaseLost::new(LossReason::Gone);
    assert_eq!(format!("{:?}", Some(&lost)), format!("Some({lost})"));
}

fn refused_name() -> AcquireError {
    AcquireError::from(ResourceError::TooLong { bytes: 70_000 })
}

#[test]
fn the_fields_are_there_for_whoever_asks_for_them() {
    let shown = format!("{:#?}", refused_name());
    assert_eq!(shown, "Resource(\n    TooLong {\n        bytes: 70000,\n    },\n)");
    assert_eq!(format!("{:#?}", ConfigError::NoNodes), "NoNodes");
    let cause = Box::new(NodeError::Refused(Refusal::Replica));
    let unreadable = NodeError::MarkerUnreadable { cause };
    let expected = "MarkerUnreadable {\n    cause: Refused(\n        Replica,\n    ),\n}";
    assert_eq!(format!("{unreadable:#?}"), expected);
    assert!(format!("{:#?}", LeaseLost::new(LossReason::Gone)).contains("reason: Gone"));
}

fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// What of a source is an error, and whether `Debug` of it is its text.
fn errors(source: &str) -> Vec<(&str, bool)> {
    let name = |line: &'_ str, behind: &str| -> Option<usize> {
        line.find(behind).map(|at| at + behind.len())
    };
    let mut found = Vec::new();
    let mut derives = false;
    for line in source.lines() {
        if line.starts_with("#[derive(") {
            derives = line.contains("Error,") || line.contains("Error)");
        }
        let declared = ["pub enum ", "pub struct "].iter().find_map(|word| name(line, word));
        let by_hand = line.starts_with("impl ").then(|| name(line, "error::Error for ")).flatten();
        let begins = match declared {
            Some(at) => Some(at).filter(|_| std::mem::take(&mut derives)),
            None => by_hand,
        };
        let Some(rest) = begins.map(|at| &line[at..]) else { continue };
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let error = &rest[..end];
        let kinds = ["enum", "struct"];
        let is_text =
            kinds.iter().any(|kind| source.contains(&format!("debug_is_text! {{ {kind} {error} ")));
        found.push((error, is_text));
    }
    found
}

#[test]
fn no_error_has_another_debug_than_its_text() {
    let mut sources = Vec::new();
    for folder in ["src", "core/src"] {
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut sources);
    }
    let found: Vec<_> = sources.iter().flat_map(|source| errors(source)).collect();
    assert!(found.len() > 25, "{found:?}");
    let others: Vec<_> = found.iter().filter(|(_, is_text)| !is_text).collect();
    assert!(others.is_empty(), "without `debug_is_text!`: {others:?}");
}

#[test]
fn a_request_shows_what_is_asked_for_in_whatever_form() {
    let redlock = Redlock::builder().node(MemoryNode::new()).build().unwrap();
    let handle = redlock.reentrant();
    let asks = format!("{:?}", redlock.acquire("a name"));
    assert!(asks.contains("a name"), "{asks}");
    assert_eq!(format!("{:?}", handle.acquire("a name")), asks);
    let reads = format!("{:?}", redlock.read("a name"));
    assert!(reads.contains("a name") && reads.len() >= asks.len(), "{reads}");
}
