//! Adds up the lines that runs have left. `COMMIT/NAME.jsonl` is part NAME, run at that commit of `src`. The lines of
//! one configuration become one line that names its commits.
//!
//! Counts are added. A search that begins anew each time, as those of `model` and `planted` do, counts once, by the run that saw
//! the most states; its violations are added all the same. Seeds by which a run can be repeated are no counts. Nothing is left
//! out: a line that is no JSON is an error. What `tests/long` does not run is kept by hand in `tests/evidence/*.jsonl`, each line
//! with its commit, and stands beside it.

use std::{collections::BTreeMap, error::Error, fs, path::Path, process::Command};

use serde_json::{Map, Value, json};

/// Parts of which one run does not add to another.
const ANEW: [&str; 2] = ["model", "planted"];

/// Lines of each part.
type Lines = BTreeMap<String, Vec<Map<String, Value>>>;

/// All figures, with their dates and commits: from these directories, each named by its commit, and from the one kept
/// by hand.
pub(crate) fn figures(runs: &[&Path], by_hand: Option<&Path>) -> Result<Value, Box<dyn Error>> {
    let (mut all, mut dates) = (Lines::new(), Vec::new());
    for directory in runs {
        let commit = directory.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        read(directory, Some(commit), &mut all)?;
        let text = fs::read_to_string(directory.join("runs")).unwrap_or_default();
        dates.extend(text.lines().filter_map(|run| Some(run.split(' ').next()?.to_owned())));
    }
    if let Some(directory) = by_hand {
        read(directory, None, &mut all)?;
    }
    if let Some(root) = by_hand.and_then(|it| it.ancestors().nth(2)) {
        let configurations = root.join("tests/proof/model/configs");
        all.entry("model".to_owned())
            .or_default()
            .iter_mut()
            .for_each(|line| tell(line, &configurations));
        all.retain(|_, lines| !lines.is_empty());
    }
    dates.sort_unstable();
    dates.dedup();
    let date = match &dates[..] {
        [] => String::new(),
        [day] => day.clone(),
        [first, .., last] => format!("{first} to {last}"),
    };
    let parts = all.into_iter().map(|(part, lines)| {
        let sums = sums(&part, lines);
        (part, sums)
    });
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let machine = format!("{cores} cores, {}", server());
    Ok(json!({ "date": date, "machine": machine, "parts": Value::Object(parts.collect()) }))
}

/// The lines of all files of a directory.
fn read(directory: &Path, commit: Option<&str>, into: &mut Lines) -> Result<(), Box<dyn Error>> {
    let mut files: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files.iter().map(fs::DirEntry::path) {
        let Some(part) = file.file_name().and_then(|it| it.to_str()?.strip_suffix(".jsonl")) else {
            continue;
        };
        let lines = into.entry(part.to_owned()).or_default();
        for line in fs::read_to_string(&file)?.lines().filter(|line| !line.trim().is_empty()) {
            let mut line: Map<String, Value> =
                serde_json::from_str(line).map_err(|it| format!("{}: {it}", file.display()))?;
            if let Some(commit) = commit {
                line.insert("commit".to_owned(), json!(commit));
            }
            lines.push(line);
        }
    }
    Ok(())
}

/// What a configuration of the model is about: the first line of its source.
fn tell(line: &mut Map<String, Value>, configurations: &Path) {
    let name = line.get("configuration").and_then(Value::as_str).unwrap_or_default();
    let text = fs::read_to_string(configurations.join(format!("{name}.rs"))).unwrap_or_default();
    let about = text.lines().next().and_then(|first| first.strip_prefix("//! "));
    if let Some(about) = about {
        line.insert("about".to_owned(), json!(about.trim_end_matches('.')));
    }
}

fn server() -> String {
    let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".to_owned());
    let said = Command::new(program).arg("--version").output();
    let text = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    let version = text.split("v=").nth(1).and_then(|it| it.split(' ').next());
    version.map_or_else(|| "no server".to_owned(), |version| format!("Redis {version}"))
}

/// The lines of one part, one for each configuration, in the order of their names.
fn sums(part: &str, lines: Vec<Map<String, Value>>) -> Value {
    let mut all: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for line in lines {
        let word = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = format!("{}: {}", word("configuration"), word("name"));
        let sum = match all.remove(&key) {
            None => added(Map::new(), &line),
            Some(before) if ANEW.contains(&part) => larger(before, line),
            Some(before) => added(before, &line),
        };
        all.insert(key, sum);
    }
    all.into_values().map(Value::Object).collect()
}

/// The line that saw more states, with the violations of both.
fn larger(before: Map<String, Value>, line: Map<String, Value>) -> Map<String, Value> {
    let count = |line: &Map<String, Value>, key: &str| line.get(key).and_then(Value::as_u64);
    let of_both = |key: &str| match (count(&before, key), count(&line, key)) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
    };
    let (runs, violations) = (count(&before, "runs").unwrap_or(0) + 1, of_both("violations"));
    let is_larger = count(&line, "states") >= count(&before, "states");
    let mut larger = if is_larger { line } else { before };
    larger.insert("runs".to_owned(), json!(runs));
    if let Some(violations) = violations {
        larger.insert("violations".to_owned(), json!(violations));
    }
    larger
}

/// Both together.
fn added(mut sum: Map<String, Value>, line: &Map<String, Value>) -> Map<String, Value> {
    let one = Map::from_iter([("runs".to_owned(), json!(1))]);
    for (key, value) in line.iter().chain(&one) {
        let after = match (sum.remove(key), value) {
            (Some(before), _) if key.ends_with("seed") => before,
            (Some(Value::Object(before)), Value::Object(value)) => {
                let mut inner = added(before, value);
                inner.remove("runs");
                Value::Object(inner)
            }
            (Some(Value::Number(a)), Value::Number(b)) => match (a.as_u64(), b.as_u64()) {
                (Some(a), Some(b)) => json!(a + b),
                _ => json!(
                    ((a.as_f64().unwrap_or(0.) + b.as_f64().unwrap_or(0.)) * 10.).round() / 10.
                ),
            },
            (Some(Value::String(commits)), Value::String(commit)) if key == "commit" => {
                let is_there = commits.split(", ").any(|it| it == commit);
                json!(if is_there { commits } else { format!("{commits}, {commit}") })
            }
            (Some(before), _) if before != Value::Null => before,
            (_, value) => value.clone(),
        };
        sum.insert(key.clone(), after);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(directory: &Path, file: &str, text: &str) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(file), text).unwrap();
    }

    #[test]
    fn counts_are_added_and_a_search_that_begins_anew_counts_once() {
        let base = std::env::temp_dir().join(format!("quorlock-evidence-{}", std::process::id()));
        let (one, two, hand) = (base.join("abc"), base.join("def"), base.join("hand"));
        keep(&one, "runs", "2026-11-22 111 60 s: sim\n2026-11-24 222 60 s: sim\n");
        let text = r#"{"configuration": "a", "seeds": 3, "violations": 0, "seconds": 1.5, "reached": {"S1": 2}}
            {"configuration": "b", "seeds": 1, "violations": 0, "first_seed": 7}
            {"configuration": "b", "seeds": 1, "violations": 0, "first_seed": 8}"#;
        keep(&one, "sim.jsonl", text);
        let text = r#"{"configuration": "a", "seeds": 4, "violations": 1, "seconds": 2.0, "reached": {"S1": 1, "S2": 1}}"#;
        keep(&two, "sim.jsonl", text);
        let text = r#"{"configuration": "a", "states": 9, "violations": 1, "exhausted": true}
            {"configuration": "a", "states": 3, "violations": 0, "exhausted": false}"#;
        keep(&two, "model.jsonl", text);
        keep(&hand, "mutants.jsonl", r#"{"configuration": "a.rs", "mutants": 9, "commit": "123"}"#);
        let found = figures(&[&one, &two], Some(&hand)).unwrap();
        assert_eq!(found["date"], "2026-11-22 to 2026-11-24");
        let a = json!({"configuration": "a", "runs": 2, "seeds": 7, "violations": 1, "seconds": 3.5,
            "reached": {"S1": 3, "S2": 1}, "commit": "abc, def"});
        let b = json!({"configuration": "b", "runs": 2, "seeds": 2, "violations": 0, "first_seed": 7, "commit": "abc"});
        assert_eq!(found["parts"]["sim"], json!([a, b]));
        let a = json!({"configuration": "a", "runs": 2, "states": 9, "violations": 1, "exhausted": true, "commit": "def"});
        assert_eq!(found["parts"]["model"], json!([a]));
        let hand = json!({"configuration": "a.rs", "runs": 1, "mutants": 9, "commit": "123"});
        assert_eq!(found["parts"]["mutants"], json!([hand]));
        keep(&one, "sim.jsonl", "half a li");
        assert!(figures(&[&one], None).is_err());
        fs::remove_dir_all(&base).unwrap();
    }
}
