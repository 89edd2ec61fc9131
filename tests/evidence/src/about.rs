//! Finds the figures whose code has changed since they were made. `ABOUT` lists what each part is about; git says what
//! changed.
//!
//! It must never take a commit for the last one because nothing is known of it: a commit that the history lacks counts
//! as one before changes.

use std::{path::Path, process::Command};

use serde_json::{Map, Value, json};

/// What the figures of a part are about; every other part is about the whole crate. The worlds of the model are part of
/// what is exhausted.
const ABOUT: [(&str, &[&str]); 5] = [
    ("model", &["core/src", "tests/proof/model"]),
    ("planted", &["core/src", "tests/proof/model", "tests/proof/planted"]),
    ("mutants", &["core/src"]),
    ("scripts", &["src/node", "core/src/node_store", "core/src/line"]),
    ("sim", &["src", "core/src", ":(exclude)src/node/redis"]),
];

/// What is no code, as `tests/long` has it.
const NO_CODE: [&str; 5] = [
    ":(exclude,glob)core/src/**/*_test.rs",
    ":(exclude,glob)src/**/*_test.rs",
    ":(exclude,glob)src/**/*_test/**",
    ":(exclude,glob)src/guide*",
    ":(exclude,glob)src/guide/**",
];

fn about(part: &str) -> &'static [&'static str] {
    ABOUT.iter().find(|(name, _)| *name == part).map_or(&["src", "core/src"], |(_, paths)| paths)
}

/// Whether there is a whole history to ask.
pub(crate) fn has_history(root: &Path) -> bool {
    let asked = Command::new("git")
        .current_dir(root)
        .args(["rev-parse", "--is-shallow-repository"])
        .output();
    root.join(".git").exists() && asked.is_ok_and(|said| said.stdout.starts_with(b"false"))
}

/// Whether what a part is about differs between the commit and the work tree.
fn is_changed(root: &Path, part: &str, commit: &str) -> bool {
    let mut git = Command::new("git");
    git.current_dir(root).args(["diff", "--quiet", commit, "--"]).args(about(part)).args(NO_CODE);
    !git.output().is_ok_and(|said| said.status.success())
}

/// For each part, the commits of its lines after which the code in question changed.
pub(crate) fn changed(root: &Path, figures: &Value) -> Value {
    let parts = figures.get("parts").and_then(Value::as_object).into_iter().flatten();
    let parts = parts.filter_map(|(part, lines)| {
        let named = lines.as_array()?.iter().filter_map(|line| line.get("commit")?.as_str());
        let mut commits: Vec<&str> = named.flat_map(|commits| commits.split(", ")).collect();
        commits.sort_unstable();
        commits.dedup();
        commits.retain(|commit| is_changed(root, part, commit));
        (!commits.is_empty()).then(|| (part.clone(), json!(commits)))
    });
    Value::Object(parts.collect::<Map<_, _>>())
}
