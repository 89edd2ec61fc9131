//! Fills figures into the text of the page. Pure: the same text and the same figures give the same page.
//!
//! In the text stands, between two braces on each side:
//! - `date`, `machine`, and `commits PART`: the commits of its figures. Here and in the column `commit`, commits after
//!   which the code in question changed come first, and say so;
//! - `sum PART FIELD`, `count PART`: one number; `yes PART FIELD`: how many of all lines it is true of;
//!   `share PART A/B`: the one sum in percent of the other;
//! - `kinds PART GROUP`, `all PART GROUP`, `least PART GROUP`: how many fields have a name that begins so, such as the kinds of
//!   `fault`; their sum, and the least of them. `S#` is S and a number;
//! - `table PART FIELD, FIELD`: a row for each configuration; `A/B` is a share in percent;
//! - `families PART FIELD, FIELD`: a row for all configurations whose names share their first word, with sums, or how
//!   many it is true of. `configurations` counts them; `OTHER/FIELD` takes the lines of another part, of the same
//!   family.
//!
//! A paragraph in which a figure is missing says that it has not been run, and nothing else; in a row of a table that is written
//! out, a dash stands for the figure alone. A word that is not known is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::Value;

const NOT_RUN: &str = "*This has not been run yet.*";

/// The lines of a part; none where it has not been run.
fn lines<'a>(figures: &'a Value, part: &str) -> Option<&'a Vec<Value>> {
    figures.get("parts")?.get(part)?.as_array().filter(|lines| !lines.is_empty())
}

fn number(line: &Value, field: &str) -> Option<u64> {
    let value = line.get(field)?;
    // Of seconds the fraction is of no interest.
    value.as_u64().or_else(|| value.as_f64().map(|it| it as u64))
}

/// The sums of all fields `GROUP NAME`, of those inside of an object `GROUP`, or of `S1`, `S2` and so on for `S#`, by name.
fn group(lines: &[Value], group: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let mut add = |name: &str, count: Option<u64>| {
        *sums.entry(name.to_owned()).or_default() += count.unwrap_or(0);
    };
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    for line in lines.iter().filter_map(Value::as_object) {
        for (key, value) in line {
            if let Some(letter) = group.strip_suffix('#') {
                if key.strip_prefix(letter).is_some_and(is_number) {
                    add(key, value.as_u64());
                }
            } else if let Some(name) =
                key.strip_prefix(group).and_then(|rest| rest.strip_prefix(' '))
            {
                add(name, value.as_u64());
            } else if let Some(inner) = value.as_object().filter(|_| key == group) {
                inner.iter().for_each(|(name, count)| add(name, count.as_u64()));
            }
        }
    }
    sums
}

/// With commas between thousands.
fn shown(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rounded; less than all is never 100 %.
fn share(part: u64, whole: u64) -> String {
    let most = if part < whole { 9_999 } else { u64::MAX };
    let share = (part * 20_000 + whole).checked_div(2 * whole).unwrap_or(0).min(most);
    format!("{}.{:02} %", share / 100, share % 100)
}

fn cell(line: &Value, field: &str, changed: &[&str]) -> String {
    if let Some((part, whole)) = field.split_once('/') {
        let (Some(part), Some(whole)) = (number(line, part), number(line, whole)) else {
            return String::new();
        };
        return share(part, whole);
    }
    match line.get(field) {
        Some(Value::Bool(true)) => "yes".to_owned(),
        Some(Value::Bool(false)) => "no".to_owned(),
        Some(Value::String(text)) if field == "commit" => told(text.split(", "), changed),
        Some(Value::String(text)) => text.clone(),
        _ => number(line, field).map(shown).unwrap_or_default(),
    }
}

fn table(lines: &[Value], fields: &str, changed: &[&str]) -> String {
    let fields: Vec<&str> = fields.split(',').map(str::trim).collect();
    let heading =
        |field: &&str| if field.contains('/') { "share".to_owned() } else { (*field).to_owned() };
    let headings: Vec<String> = fields.iter().map(heading).collect();
    let mut text = format!("| {} |\n|{}", headings.join(" | "), " --- |".repeat(fields.len()));
    for line in lines {
        let cells: Vec<String> = fields.iter().map(|field| cell(line, field, changed)).collect();
        let _ = write!(text, "\n| {} |", cells.join(" | "));
    }
    text
}

/// The first word of the name of a configuration.
fn family(line: &Value) -> &str {
    let name = line.get("configuration").and_then(Value::as_str).unwrap_or_default();
    name.split('_').next().unwrap_or_default()
}

/// How many of all lines it is true of.
fn yes(lines: &[&Value], field: &str) -> String {
    let so = lines.iter().filter(|line| line.get(field) == Some(&Value::Bool(true)));
    format!("{} of {}", so.count(), lines.len())
}

fn families(figures: &Value, part: &str, fields: &str) -> String {
    let of = |part: &str, name: &str| -> Vec<&Value> {
        let all = lines(figures, part).into_iter().flatten();
        all.filter(|line| family(line) == name).collect()
    };
    let cell = |name: &str, field: &str| {
        let (part, field) = field.split_once('/').unwrap_or((part, field));
        let lines = of(part, name);
        if field == "configurations" {
            shown(lines.len() as u64)
        } else if lines.is_empty() {
            String::new()
        } else if lines.iter().any(|line| line.get(field).is_some_and(Value::is_boolean)) {
            yes(&lines, field)
        } else {
            shown(lines.iter().filter_map(|line| number(line, field)).sum())
        }
    };
    let fields: Vec<&str> = fields.split(',').map(str::trim).collect();
    let headings: Vec<String> = fields.iter().map(|field| field.replace('/', ": ")).collect();
    let mut text =
        format!("| family | {} |\n| --- |{}", headings.join(" | "), " --- |".repeat(fields.len()));
    let names: BTreeSet<&str> = lines(figures, part).into_iter().flatten().map(family).collect();
    for name in names {
        let cells: Vec<String> = fields.iter().map(|field| cell(name, field)).collect();
        let _ = write!(text, "\n| `{name}*` | {} |", cells.join(" | "));
    }
    text
}

/// The commits of a part after which the code in question changed.
fn changed<'a>(figures: &'a Value, part: &str) -> Vec<&'a str> {
    let changed = figures.get("changed").and_then(|parts| parts.get(part)?.as_array());
    changed.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Commits, and which of them are before changes.
fn told<'a>(commits: impl Iterator<Item = &'a str>, changed: &[&str]) -> String {
    let (before, last): (Vec<&str>, Vec<&str>) = commits.partition(|it| changed.contains(it));
    let shown = |commits: Vec<&str>, behind: &str| {
        let commits: Vec<String> = commits.iter().map(|commit| format!("`{commit}`")).collect();
        (!commits.is_empty()).then(|| commits.join(", ") + behind)
    };
    let both = [shown(before, ", before changes"), shown(last, "")];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The commits of all lines, each once.
fn commits(lines: &[Value], changed: &[&str]) -> String {
    let named = lines.iter().filter_map(|line| line.get("commit")?.as_str());
    let mut commits: Vec<&str> = named.flat_map(|commits| commits.split(", ")).collect();
    commits.sort_unstable();
    commits.dedup();
    told(commits.into_iter(), changed)
}

/// The text that replaces a request; `None` where the part has not been run.
fn answer(request: &str, figures: &Value) -> Result<Option<String>, String> {
    let words: Vec<&str> = request.splitn(3, ' ').collect();
    let unknown = || format!("unknown: {request}");
    if let [word @ ("date" | "machine")] = words[..] {
        let text = figures.get(word).and_then(Value::as_str).filter(|text| !text.is_empty());
        return Ok(text.map(str::to_owned));
    }
    let (&[word, part], rest) = words.split_at_checked(2).ok_or_else(unknown)? else {
        return Err(unknown());
    };
    let known =
        ["all", "commits", "count", "families", "kinds", "least", "share", "sum", "table", "yes"]
            .contains(&word);
    let Some(lines) = lines(figures, part).filter(|_| known) else {
        return known.then_some(None).ok_or_else(unknown);
    };
    let sum = |field: &str| lines.iter().filter_map(|line| number(line, field)).sum();
    Ok(Some(match (word, rest) {
        ("count", []) => shown(lines.len() as u64),
        ("commits", []) => commits(lines, &changed(figures, part)),
        ("yes", [field]) => yes(&lines.iter().collect::<Vec<_>>(), field),
        ("sum", [field]) => shown(sum(field)),
        ("share", [fields]) => {
            let (part, whole) = fields.split_once('/').ok_or_else(unknown)?;
            share(sum(part), sum(whole))
        }
        ("least", [name]) => match group(lines, name).into_values().min() {
            Some(least) => shown(least),
            None => return Ok(None),
        },
        ("kinds", [name]) => shown(group(lines, name).len() as u64),
        ("all", [name]) => shown(group(lines, name).into_values().sum()),
        ("table", [fields]) => table(lines, fields, &changed(figures, part)),
        ("families", [fields]) => families(figures, part, fields),
        _ => return Err(unknown()),
    }))
}

/// A text with its requests answered, and whether all of them have an answer.
fn filled(text: &str, figures: &Value) -> Result<(String, bool), String> {
    let (mut filled, mut rest, mut is_run) = (String::new(), text, true);
    while let Some((before, behind)) = rest.split_once("{{") {
        let (request, behind) = behind.split_once("}}").ok_or("braces that do not end")?;
        let answer = answer(request.trim(), figures)?;
        is_run &= answer.is_some();
        filled += before;
        filled += answer.as_deref().unwrap_or("\u{2013}");
        rest = behind;
    }
    Ok((filled + rest, is_run))
}

/// A paragraph with its requests answered, or the word that it has not been run.
fn paragraph(text: &str, figures: &Value) -> Result<String, String> {
    let (filled, is_run) = filled(text, figures)?;
    let is_table = text.starts_with('|');
    Ok(if is_run || is_table { filled } else { NOT_RUN.to_owned() })
}

/// The page: the text with all requests answered.
pub(crate) fn page(claims: &str, figures: &Value) -> Result<String, String> {
    let filled = claims.trim_end().split("\n\n").map(|text| paragraph(text, figures));
    let mut paragraphs = filled.collect::<Result<Vec<_>, _>>()?;
    // Once is enough for neighbours.
    paragraphs.dedup_by(|a, b| a == NOT_RUN && b == NOT_RUN);
    Ok(paragraphs.join("\n\n") + "\n")
}

/// A line for each configuration of each part, for people at a terminal, without the counts of scenarios and faults.
#[allow(dead_code, reason = "the test of the page takes this file too")]
pub(crate) fn summary(figures: &Value) -> String {
    let mut text = String::new();
    for (part, lines) in figures.get("parts").and_then(Value::as_object).into_iter().flatten() {
        for line in lines.as_array().into_iter().flatten() {
            let _ = write!(text, "{part}: {}", cell(line, "configuration", &[]));
            let fields = line.as_object().into_iter().flatten();
            let fields = fields.filter(|(key, value)| {
                let is_scenario = key.starts_with('S') || key.starts_with("fault ");
                !is_scenario && (value.is_number() || value.is_boolean())
            });
            for (key, value) in fields {
                let _ = write!(text, "; {key} {value}");
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_answered_and_what_was_not_run_says_so() {
        let figures = json!({"date": "2026-11-22", "parts": {
            "chaos": [
                {"configuration": "3 nodes", "leases": 1234, "fault Stop": 50, "fault Kill": 60, "commit": "b, a"},
                {"configuration": "5 nodes", "leases": 1_000_000, "fault Stop": 1, "reached": {"S1": 7}, "commit": "a"},
            ],
            "sim": [{"S1": 9, "S12": 3, "Seeds": 1}],
            "set": [{"lost": 1, "acknowledged": 72, "caught": true}],
            "worlds": [
                {"configuration": "late", "states": 1200, "exhausted": true},
                {"configuration": "late_all", "states": 4, "exhausted": false},
                {"configuration": "sets", "states": 7, "exhausted": true},
            ],
            "planted": [{"configuration": "late_all", "caught": true}],
        }, "changed": {"chaos": ["b"]}});
        let filled = |request: &str| paragraph(&format!("a {{{{{request}}}}} b"), &figures);
        assert_eq!(filled("date").unwrap(), "a 2026-11-22 b");
        assert_eq!(filled("commits chaos").unwrap(), "a `b`, before changes; `a` b");
        assert_eq!(filled("sum chaos leases").unwrap(), "a 1,001,234 b");
        assert_eq!(filled("least chaos fault").unwrap(), "a 51 b");
        assert_eq!(filled("least chaos reached").unwrap(), "a 7 b");
        assert_eq!(filled("least sim S#").unwrap(), "a 3 b");
        assert_eq!(filled("count chaos").unwrap(), "a 2 b");
        assert_eq!(filled("yes set caught").unwrap(), "a 1 of 1 b");
        assert_eq!(filled("share set lost/acknowledged").unwrap(), "a 1.39 % b");
        assert_eq!(filled("sum model states").unwrap(), NOT_RUN);
        assert_eq!(filled("machine").unwrap(), NOT_RUN);
        let text = "one\n\n{{machine}}\n\n{{date}} {{count model}}\n\n{{date}}\n";
        let filled_page = format!("one\n\n{NOT_RUN}\n\n2026-11-22\n");
        assert_eq!(page(text, &figures).unwrap(), filled_page);
        let rows = paragraph("| a | {{count model}} |\n| b | {{count set}} |", &figures).unwrap();
        assert_eq!(rows, "| a | \u{2013} |\n| b | 1 |");
        let table = "| configuration | leases |\n| --- | --- |\n| 3 nodes | 1,234 |\n| 5 nodes | 1,000,000 |";
        assert_eq!(filled("table chaos configuration, leases").unwrap(), format!("a {table} b"));
        assert!(filled("table set lost, lost/acknowledged").unwrap().ends_with("| 1 | 1.39 % | b"));
        assert!(
            filled("table chaos commit")
                .unwrap()
                .ends_with("| `b`, before changes; `a` |\n| `a` | b")
        );
        assert_eq!(
            (share(1_501, 1_550), share(99_999, 100_000), share(3, 3)),
            ("96.84 %".into(), "99.99 %".into(), "100.00 %".into())
        );
        assert_eq!(filled("kinds chaos fault").unwrap(), "a 2 b");
        assert_eq!(filled("all chaos fault").unwrap(), "a 111 b");
        let rows = "| `late*` | 2 | 1,204 | 1 of 2 | 1 of 1 |\n| `sets*` | 1 | 7 | 1 of 1 |  |";
        let head = "| family | configurations | states | exhausted | planted: caught |\n| --- | --- | --- | --- | --- |";
        assert_eq!(
            filled("families worlds configurations, states, exhausted, planted/caught").unwrap(),
            format!("a {head}\n{rows} b")
        );
        assert!(filled("average model leases").is_err() && filled("sum").is_err());
        assert!(page("{{date", &figures).is_err());
    }
}
