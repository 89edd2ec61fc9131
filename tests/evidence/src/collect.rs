//! Adds up the lines that runs have left: `NAME.jsonl` is the part of that name, and lines of one configuration become one.
//!
//! Counts are added. A search that begins anew each time, as those of `model` and `planted` do, counts once, by the run that saw
//! the most states; its violations are added all the same. Seeds by which a run can be repeated are no counts. Nothing is left out: a line that is no JSON is an error.

use std::{collections::BTreeMap, error::Error, fs, path::Path, process::Command};

use serde_json::{Map, Value, json};

/// Parts of which one run does not add to another.
const ANEW: [&str; 2] = ["model", "planted"];

/// All figures of a directory, with when and of which commit they are.
pub(crate) fn figures(runs: &Path) -> Result<Value, Box<dyn Error>> {
    let read = |name: &str| fs::read_to_string(runs.join(name)).unwrap_or_default();
    let mut parts = Map::new();
    let mut files: Vec<_> = fs::read_dir(runs)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files.iter().map(fs::DirEntry::path) {
        let Some(part) = file.file_name().and_then(|it| it.to_str()?.strip_suffix(".jsonl")) else {
            continue;
        };
        let text = fs::read_to_string(&file)?;
        parts.insert(part.to_owned(), lines(part, &text).map_err(|it| format!("{part}: {it}"))?);
    }
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    Ok(json!({
        "date": read("date").trim(),
        "commit": read("commit").trim(),
        "machine": format!("{cores} cores, {}", server()),
        "parts": parts,
    }))
}

fn server() -> String {
    let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".to_owned());
    let said = Command::new(program).arg("--version").output();
    let text = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    let version = text.split("v=").nth(1).and_then(|it| it.split(' ').next());
    version.map_or_else(|| "no server".to_owned(), |version| format!("Redis {version}"))
}

/// The lines of one part, one for each configuration, in the order of their names.
fn lines(part: &str, text: &str) -> Result<Value, Box<dyn Error>> {
    let mut all: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: Map<String, Value> = serde_json::from_str(line)?;
        let word = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        let key = format!("{}: {}", word("configuration"), word("name"));
        let before = all.remove(&key);
        let mut sum = match before {
            None => Map::from_iter([("runs".to_owned(), json!(0))]),
            Some(before) if ANEW.contains(&part) => before,
            Some(before) => {
                all.insert(key, added(before, &line));
                continue;
            }
        };
        let states = |line: &Map<String, Value>| line.get("states").and_then(Value::as_u64);
        let violations = |line: &Map<String, Value>| line.get("violations").and_then(Value::as_u64);
        let runs = sum.get("runs").and_then(Value::as_u64).unwrap_or(0) + 1;
        let found = violations(&sum).unwrap_or(0) + violations(&line).unwrap_or(0);
        let known = violations(&line).is_some();
        if states(&line) >= states(&sum) {
            sum = line;
        }
        sum.insert("runs".to_owned(), json!(runs));
        if known {
            sum.insert("violations".to_owned(), json!(found));
        }
        all.insert(key, sum);
    }
    Ok(all.into_values().map(Value::Object).collect())
}

fn added(mut sum: Map<String, Value>, line: &Map<String, Value>) -> Map<String, Value> {
    let one = Map::from_iter([("runs".to_owned(), json!(1))]);
    let counts = line.iter().filter(|(key, _)| !key.ends_with("seed"));
    for (key, value) in counts.chain(&one) {
        let before = sum.remove(key);
        let after = match (before, value) {
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

    #[test]
    fn counts_are_added_and_a_search_that_begins_anew_counts_once() {
        let text = r#"{"configuration": "a", "seeds": 3, "violations": 0, "seconds": 1.5, "reached": {"S1": 2}}
            {"configuration": "b", "seeds": 1, "violations": 0, "first_seed": 7}
            {"configuration": "b", "seeds": 1, "violations": 0, "first_seed": 8}
            {"configuration": "a", "seeds": 4, "violations": 1, "seconds": 2.0, "reached": {"S1": 1, "S2": 1}}"#;
        let a = json!({"configuration": "a", "runs": 2, "seeds": 7, "violations": 1, "seconds": 3.5,
            "reached": {"S1": 3, "S2": 1}});
        let b =
            json!({"configuration": "b", "runs": 2, "seeds": 2, "violations": 0, "first_seed": 7});
        assert_eq!(lines("sim", text).unwrap(), json!([a, b]));
        let text = r#"{"configuration": "a", "states": 9, "violations": 1, "exhausted": true}
            {"configuration": "a", "states": 3, "violations": 0, "exhausted": false}"#;
        let a = json!({"configuration": "a", "runs": 2, "states": 9, "violations": 1, "exhausted": true});
        assert_eq!(lines("model", text).unwrap(), json!([a]));
        assert!(lines("sim", "half a li").is_err());
    }
}
