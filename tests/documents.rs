//! The documents name tests and files, and these are there.
//!
//! Goal: a table that says which test shows what cannot rot when a test is moved or renamed. Method: the names are
//! read from the text and looked for in the files. What a test shows is for a reader to judge.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

#[path = "evidence/src/about.rs"]
mod about;
#[path = "evidence/src/page.rs"]
mod page;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many scenarios of others there are; those after them are our own.
const OF_OTHERS: usize = 37;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))
}

/// What stands between backticks, outside of blocks of code.
fn quoted(text: &str) -> Vec<&str> {
    let mut block = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        block ^= fence;
        !fence && !block
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Whether the source has a test of this name: a function behind an attribute that ends with `test`, or begins so, or a line
/// of what is handed to a macro of the source that makes tests.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let begins = [format!("fn {name}("), format!("async fn {name}(")];
    let is_function = lines.iter().enumerate().any(|(at, line)| {
        let before = lines[..at].iter().rev();
        let mut above = before.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        begins.iter().any(|begin| line.starts_with(begin.as_str()))
            && above.any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    });
    let macros = source.split("macro_rules! ").skip(1).filter_map(|it| it.split_once(" {\n"));
    let mut makers = macros.filter(|(_, text)| {
        let body = text.split("\n}\n").next().unwrap();
        body.contains("#[test]") && body.contains("fn $")
    });
    is_function
        || makers.any(|(maker, _)| {
            let call = format!("\n{maker}! {{\n");
            let calls = source.split(&call).skip(1);
            let mut words =
                calls.flat_map(|call| call.split("\n}\n").next().unwrap().split_whitespace());
            words.any(|word| word.trim_end_matches([':', ',']) == name)
        })
}

/// What is wrong with a `file.rs::name`.
fn missing(test: &str) -> Option<String> {
    let Some((file, name)) = test.split_once("::") else {
        return Some(format!("{test} names no test"));
    };
    match read(file) {
        Ok(source) if has_test(&source, name) => None,
        Ok(_) => Some(format!("{file} has no test {name}")),
        Err(error) => Some(error),
    }
}

/// The rows of the table of scenarios, as cells.
fn scenarios(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| {
        let number = line.strip_prefix("| S").and_then(|rest| rest.split(' ').next());
        number.is_some_and(|number| number.parse::<usize>().is_ok())
    });
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn every_scenario_has_its_tests_or_says_that_it_has_none() {
    let page = read("docs/safety.md").unwrap();
    let rows = scenarios(&page);
    assert!(rows.len() >= OF_OTHERS, "only {} scenarios", rows.len());
    let mut wrong = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let [id, _, _, shown, _] = row[..] else { panic!("five cells, not {row:?}") };
        assert_eq!(id, format!("S{}", index + 1), "one row for each, in order");
        let tests: Vec<&str> = quoted(shown).into_iter().filter(|it| it.contains(".rs")).collect();
        if tests.is_empty() && !shown.to_lowercase().contains("no test") {
            wrong.push(format!("{id} names no test, and does not say that there is none"));
        }
        wrong.extend(tests.into_iter().filter_map(missing).map(|what| format!("{id}: {what}")));
    }
    assert!(wrong.is_empty(), "docs/safety.md\n{}", wrong.join("\n"));
}

/// A file without a folder is one of the scenarios.
#[test]
fn every_command_that_may_arrive_late_has_its_test() {
    let page = read("docs/algorithm.md").unwrap();
    let (_, text) = page.split_once("\n## What arrives late\n").unwrap();
    let (text, _) = text.split_once("\n## ").unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    let mut wrong = Vec::new();
    for row in &rows {
        let tests = row.trim_matches('|').rsplit(" | ").next().unwrap();
        let tests = quoted(tests);
        if tests.is_empty() {
            wrong.push(format!("{row}: names no test"));
        }
        wrong.extend(tests.into_iter().filter_map(|test| {
            let is_elsewhere = test.starts_with("tests/");
            missing(&if is_elsewhere { test.into() } else { format!("tests/scenarios/{test}") })
        }));
    }
    assert!(wrong.is_empty(), "docs/algorithm.md\n{}", wrong.join("\n"));
    assert!(rows.len() > 15, "only {} were found, which proves nothing", rows.len());
}

#[test]
fn every_file_of_a_test_that_a_document_names_is_there() {
    let mut documents = vec![PathBuf::from("README.md")];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let entry = entry.unwrap();
        // Pictures stand beside the pages.
        if entry.file_type().unwrap().is_file() {
            documents.push(Path::new("docs").join(entry.file_name()));
        }
    }
    let mut wrong = Vec::new();
    let mut named = 0;
    for document in &documents {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for path in quoted(&text).into_iter().filter(|it| it.starts_with("tests/")) {
            // A name of a test, or arguments of a program, may follow.
            let file = path.split("::").next().and_then(|it| it.split(' ').next()).unwrap();
            named += 1;
            if !root().join(file).exists() {
                wrong.push(format!("{}: {file}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "not there\n{}", wrong.join("\n"));
    assert!(named > 50, "only {named} were found, which proves nothing");
}

/// A figure does not stand for code that has changed since. Without a history that cannot be told.
#[test]
fn figures_of_code_that_has_been_changed_since_say_so() {
    let figures: serde_json::Value =
        serde_json::from_str(&read("docs/evidence.json").unwrap()).unwrap();
    assert!(figures["changed"].is_object(), "it is said of each part, or of none");
    if about::has_history(root()) {
        assert_eq!(
            about::changed(root(), &figures),
            figures["changed"],
            "other figures are of code that has been changed since: `cargo run -p quorlock-evidence -- --page`"
        );
    }
}

/// No figure of the page is typed by hand, and each sentence names tests that are there, or says why it has none.
#[test]
fn the_page_of_evidence_is_what_its_figures_and_claims_make() {
    let claims = read("tests/evidence/claims.txt").unwrap();
    let figures = serde_json::from_str(&read("docs/evidence.json").unwrap()).unwrap();
    let made = page::page(&claims, &figures).unwrap();
    assert!(
        made == read("docs/evidence.md").unwrap(),
        "docs/evidence.md is another: `cargo run -p quorlock-evidence -- --page`"
    );
    let (_, table) = claims.split_once("| | sentence |").unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let (_, list) = table.split_once("Tried by:\n\n").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let items: Vec<&str> = list.split("\n").filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(items.len(), rows.len(), "an item for each sentence");
    let mut wrong = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let number = index + 1;
        let begins = format!("\n{number}. ");
        let list = format!("\n{list}\n");
        let (_, item) = list.split_once(&begins).unwrap_or_else(|| panic!("no item {number}"));
        let item = item.split(&format!("\n{}. ", number + 1)).next().unwrap();
        if !row.starts_with(&format!("| {number} |")) || !item.contains(".rs::") {
            wrong.push(format!("{row}: names no test"));
        }
    }
    let named = quoted(&claims).into_iter().filter(|it| it.contains(".rs::"));
    wrong.extend(named.filter_map(missing));
    assert!(wrong.is_empty(), "tests/evidence/claims.txt\n{}", wrong.join("\n"));
    assert!(rows.len() > 12, "only {} were found, which proves nothing", rows.len());
}

/// The errors of a source, each as the words of which one must stand in the page: an enum's variants, or a struct's name.
fn errors(source: &str) -> Vec<(String, String)> {
    let mut errors = Vec::new();
    let mut of: Option<String> = None;
    let mut is_error = false;
    let word =
        |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric()).collect() };
    for line in source.lines() {
        if line.starts_with("#[derive(") {
            is_error = line.contains("Error");
        } else if let Some(name) = line.strip_prefix("pub enum ").filter(|_| is_error) {
            of = Some(word(name));
        } else if let Some(name) = line.strip_prefix("pub struct ").filter(|_| is_error) {
            errors.push((word(name), word(name)));
        } else if line == "}" {
            (of, is_error) = (None, false);
        } else if let (Some(of), Some(variant)) = (&of, line.strip_prefix("    "))
            && variant.starts_with(char::is_uppercase)
        {
            errors.push((of.clone(), word(variant)));
        }
    }
    errors
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    let mut found: Vec<PathBuf> = entries.flat_map(below).collect();
    found.sort();
    found
}

fn sources(folder: &Path) -> Vec<String> {
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    files(folder)
        .iter()
        .filter(|path| is_source(path))
        .map(fs::read_to_string)
        .map(Result::unwrap)
        .collect()
}

/// The most words that the page of the architecture has.
const MOST_WORDS: usize = 3000;

/// Whether it is a path, by its form; from the root of the repository, or it is not found there.
fn is_path(quoted: &str) -> bool {
    let is_file = |ends: &str| quoted.ends_with(ends);
    quoted.contains('/') || [".rs", ".lua", ".md", ".toml"].into_iter().any(is_file)
}

/// The parts of a name in the code: `a::b` has two. Nothing of anything else.
fn parts(quoted: &str) -> Vec<&str> {
    let is_name = quoted.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    if is_name { quoted.split("::").collect() } else { Vec::new() }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|it| it == word)
}

/// What a page says of the code that is not so: paths that are not there, and names that are in none of the files of their
/// row of a table or item of a list, or in no file of the source where there are none.
fn not_so(page: &str, source: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in page.lines() {
        let quoted = quoted(line);
        let (paths, names): (Vec<&str>, Vec<&str>) = quoted.into_iter().partition(|it| is_path(it));
        let absent = paths.iter().filter(|path| !root().join(path).exists());
        wrong.extend(absent.map(|path| format!("{path} is not there")));
        let is_row = line.starts_with("| ") || line.starts_with(|c: char| c.is_ascii_digit());
        let files: Vec<String> =
            paths.iter().filter(|_| is_row).filter_map(|path| read(path).ok()).collect();
        for part in names.iter().flat_map(|name| parts(name)) {
            let is_there = if files.is_empty() {
                has_word(source, part)
            } else {
                files.iter().any(|file| has_word(file, part))
            };
            if !is_there {
                wrong.push(format!("no {part}: {line}"));
            }
        }
    }
    wrong
}

#[test]
fn the_architecture_is_short_and_every_path_and_name_in_it_is_there() {
    let page = read("docs/architecture.md").unwrap();
    let words = page.split_whitespace().count();
    assert!(words <= MOST_WORDS, "{words} words, and {MOST_WORDS} are the most");
    let source =
        [sources(&root().join("src")), sources(&root().join("core/src"))].concat().join("\n");
    let wrong = not_so(&page, &source);
    assert!(wrong.is_empty(), "docs/architecture.md\n{}", wrong.join("\n"));
    let named = quoted(&page).into_iter().filter(|it| is_path(it)).count();
    assert!(named > 100, "only {named} were found, which proves nothing");
}

/// Whether a file opens with what it is for. Attributes of a crate may stand before that.
fn is_headed(text: &str) -> bool {
    let lines = text.lines().skip_while(|line| line.starts_with("#!["));
    let header =
        lines.map_while(|line| line.strip_prefix("//!").or_else(|| line.strip_prefix("--")));
    header.flat_map(str::split_whitespace).count() > 1
}

#[test]
fn every_file_of_the_source_opens_with_what_it_is_for() {
    for (folder, least) in [("src", 100), ("core/src", 50)] {
        let files = files(&root().join(folder));
        let is_code =
            |path: &&PathBuf| path.extension().is_some_and(|it| it == "rs" || it == "lua");
        let files: Vec<&PathBuf> = files.iter().filter(is_code).collect();
        let without = files.iter().filter(|path| !is_headed(&fs::read_to_string(path).unwrap()));
        let without: Vec<_> = without.map(|path| path.display().to_string()).collect();
        assert!(without.is_empty(), "these do not\n{}", without.join("\n"));
        assert!(files.len() > least, "only {} were found, which proves nothing", files.len());
    }
}

/// The locks of a source, and what wakes: the names of fields, or of a struct that is one.
fn locks(source: &str) -> Vec<&str> {
    let name = |line| -> Option<&str> {
        let line = str::trim(line);
        let is_lock = line.contains("Lock<") && !line.contains("OnceLock<");
        let wakes = line.trim_end_matches([',', '>']).ends_with("Notify") && line.contains(": ");
        if line.starts_with("//") || line.contains("fn ") || !(is_lock || wakes) {
            return None;
        }
        // Of a field, or of a struct that is one.
        let (name, _) = line.split_once(": ").or_else(|| line.split_once("(Lock<"))?;
        name.split_whitespace().next_back()
    };
    source.lines().filter_map(name).collect()
}

#[test]
fn the_architecture_names_every_lock_of_the_engine() {
    let page = read("docs/architecture.md").unwrap();
    let (_, section) = page.split_once("\n## The locks\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let quoted = quoted(section);
    let (mut wrong, mut found) = (Vec::new(), 0);
    for path in files(&root().join("src/engine")) {
        let source = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
        for lock in locks(&source) {
            found += 1;
            if !quoted.contains(&lock) || !quoted.contains(&&*path) {
                wrong.push(format!("{path}: {lock}"));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/architecture.md says nothing of\n{}", wrong.join("\n"));
    assert!(found > 10, "only {found} were found, which proves nothing");
}

#[test]
fn the_architecture_has_a_row_for_each_layer_in_the_order_that_is_checked() {
    let checks = read(".ci/layers").unwrap();
    let layers = checks.lines().find_map(|line| line.strip_prefix("layers=\"")).unwrap();
    let layers: Vec<&str> = layers.trim_end_matches('"').split(' ').collect();
    let page = read("docs/architecture.md").unwrap();
    let (_, table) = page.split_once("\n## Layers\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), layers);
}

#[test]
fn every_error_has_a_row_in_its_page() {
    let page = read("docs/errors.md").unwrap();
    let quoted = quoted(&page);
    let sources = [sources(&root().join("src")), sources(&root().join("core/src"))].concat();
    let errors: Vec<(String, String)> = sources.iter().flat_map(|source| errors(source)).collect();
    let stands = |of: &str, variant: &str| {
        let full = format!("{of}::{variant}");
        quoted.iter().any(|it| *it == full || *it == variant)
    };
    let missing: Vec<String> = errors
        .iter()
        .filter(|(of, variant)| !stands(of, variant))
        .map(|(of, variant)| format!("{of}::{variant}"))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md says nothing of\n{}", missing.join("\n"));
    assert!(errors.len() > 70, "only {} were found, which proves nothing", errors.len());
}

/// Monitoring knows a finding by its word, and an operator woken by one looks for it there.
#[test]
fn every_finding_of_doctor_has_its_word_in_its_page() {
    let source = read("src/inspect/finding.rs").unwrap();
    let (_, list) = source.split_once("\nills! {\n").expect("the list of what may be found");
    let (list, _) = list.split_once("\n}\n").unwrap();
    let words: Vec<&str> = list.lines().filter_map(|line| line.split('"').nth(1)).collect();
    let page = read("docs/observing.md").unwrap();
    let (_, page) = page.split_once("\n## Is this fleet fit\n").unwrap();
    let page = page.split("\n## ").next().unwrap();
    let quoted = quoted(page);
    let missing: Vec<&&str> = words.iter().filter(|word| !quoted.contains(word)).collect();
    assert!(missing.is_empty(), "docs/observing.md says nothing of {missing:?}");
    assert!(words.len() > 20, "only {} were found, which proves nothing", words.len());
}

/// The lines of a list of what is logged: of each the text, as far as it is always the same and comes before any advice, and
/// the names of its fields, with those that its list has in common.
fn events(source: &str) -> Vec<(String, Vec<String>)> {
    const LISTS: [(&str, &[&str]); 5] = [
        ("of_leases", &["resource", "owner", "token"]),
        ("of_requests", &["resource"]),
        ("of_process", &[]),
        ("of_nodes", &["node", "address"]),
        ("of_fleet", &[]),
    ];
    let blocks = LISTS.iter().filter_map(|(list, common)| {
        let (_, rows) = source.split_once(&format!("\n{list}! {{\n"))?;
        Some((rows.split("\n}\n").next()?, *common))
    });
    let rows = blocks.flat_map(|(rows, common)| rows.split(";\n").map(move |row| (row, common)));
    let event = |(row, common): (&str, &[&str])| {
        let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, rest) = row.split_once(") [")?;
        let (fields, rest) = rest.split_once(']')?;
        let text = rest.split('"').nth(1)?.split(';').next()?;
        let text = text.split(['{', '}']).max_by_key(|piece| piece.len())?.trim().to_owned();
        let name = |field: &str| {
            field
                .split('=')
                .next()
                .unwrap_or_default()
                .trim()
                .trim_start_matches(['?', '%'])
                .to_owned()
        };
        let fields = fields.split(',').map(name).filter(|name| !name.is_empty());
        Some((text, common.iter().copied().map(str::to_owned).chain(fields).collect()))
    };
    rows.filter_map(event).collect()
}

#[test]
fn every_event_has_a_row_with_its_fields() {
    let page = read("docs/observing.md").unwrap();
    let (_, table) = page.split_once("### What is logged").unwrap();
    let mut events = events(&read("src/telemetry/leases.rs").unwrap());
    let of_nodes = self::events(&read("src/telemetry/nodes.rs").unwrap());
    assert!(of_nodes.len() > 12, "only {} were found, which proves nothing", of_nodes.len());
    events.extend(of_nodes);
    let mut wrong = Vec::new();
    for (text, fields) in &events {
        let mut rows = table.lines().filter(|line| line.split('|').count() == 6);
        let Some(row) = rows.find(|row| row.split('|').nth(2).unwrap().contains(text)) else {
            wrong.push(format!("{text}: no row"));
            continue;
        };
        let named: Vec<&str> = row.split('|').nth(3).unwrap().split(',').map(str::trim).collect();
        // Those of the level for developers are named alone.
        let missing = fields.iter().filter(|field| !named.contains(&field.as_str()));
        wrong.extend(
            missing.filter(|_| !row.starts_with("| trace")).map(|field| format!("{text}: {field}")),
        );
    }
    let (table, _) = table.split_once("\n\n**What repeats").unwrap();
    let rows: Vec<&str> = table.lines().filter_map(|line| line.split('|').nth(2)).collect();
    let twice = |(at, row): &(usize, &&str)| rows[..*at].contains(row) && !row.contains("---");
    wrong.extend(rows.iter().enumerate().filter(twice).map(|(_, row)| format!("{row}: twice")));
    assert!(wrong.is_empty(), "docs/observing.md\n{}", wrong.join("\n"));
    assert!(events.len() > 22, "only {} were found, which proves nothing", events.len());
}

/// The rows of the table of settings: the first cell, the variable and the default of each.
fn settings(page: &str) -> Vec<[String; 3]> {
    let (_, table) = page.split_once("| method | of | variable | default |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cell = |row: &str, at: usize| row.split('|').nth(at).unwrap().trim().to_owned();
    rows.map(|row| [cell(row, 1), cell(row, 3), cell(row, 4)]).collect()
}

/// What takes a request or a builder, and gives it back with a setting.
fn setters(source: &str) -> Vec<&str> {
    let heads = source.lines().filter(|line| line.contains("(mut self"));
    let heads = heads.filter_map(|line| line.trim().strip_prefix("pub "));
    heads.filter_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next()).collect()
}

#[cfg(feature = "tokio")]
#[test]
fn every_setting_has_a_row_with_its_variable_and_its_default() {
    let page = read("docs/settings.md").unwrap();
    let rows = settings(&page);
    let row_of = |name: &str| rows.iter().find(|[first, ..]| quoted(first).contains(&name));
    let mut wrong = Vec::new();
    // What says where the nodes are is in the sections above the table.
    let nodes = ["node", "nodes"];
    let mut methods = 0;
    for file in ["src/builder/mod.rs", "src/builder/nodes.rs", "src/acquire/mod.rs"] {
        let source = read(file).unwrap();
        for name in setters(&source).into_iter().filter(|name| !nodes.contains(name)) {
            methods += 1;
            let is_there = row_of(name).is_some()
                || quoted(&page).iter().any(|it| it.ends_with(&format!("::{name}")));
            if !is_there {
                wrong.push(format!("{file}: {name} has no row"));
            }
        }
    }
    let source = read("src/settings/mod.rs").unwrap();
    let (_, named) = source.split_once("\nsettings! {\n").unwrap();
    let named = named.split("\n}\n").next().unwrap();
    let named: Vec<&str> = named.lines().filter_map(|line| line.trim().split(':').next()).collect();
    for name in &named {
        let variable = format!("`QUORLOCK_{}`", name.to_uppercase());
        if row_of(name).is_none_or(|[_, shown, _]| *shown != variable) {
            wrong.push(format!("{name}: no row has {variable}"));
        }
    }
    let defaults = format!("{:?}", quorlock::Redlock::builder());
    let mut compared = 0;
    for [name, _, default] in &rows {
        let shown = match &**default {
            "0" => "0ns".to_owned(),
            "1 hour" => "3600s".to_owned(),
            "off" => "false".to_owned(),
            // Text is shown in quotes.
            text if text.starts_with('`') => text.replace('`', "\""),
            other => other.replace(' ', ""),
        };
        let field =
            quoted(name)[0].trim_start_matches("wait_through_").trim_start_matches("danger_");
        let field = if field == "outages" { "through_outages" } else { field };
        let Some((_, is)) = defaults.split_once(&format!(" {field}: ")) else { continue };
        compared += 1;
        if !is.starts_with(&shown) && !is.starts_with("None") && default != "none" {
            wrong.push(format!("{field} is {}, and not {default}", is.split(',').next().unwrap()));
        }
    }
    assert!(wrong.is_empty(), "docs/settings.md\n{}", wrong.join("\n"));
    assert!(
        named.len() > 12 && methods > 30 && compared > 12,
        "{} {methods} {compared}",
        named.len()
    );
}

#[test]
fn what_is_not_there_is_found() {
    let here = "tests/documents.rs";
    assert_eq!(missing(&format!("{here}::what_is_not_there_is_found")), None);
    for wrong in ["what_is_not_there", "missing", "is_found"] {
        assert_eq!(
            missing(&format!("{here}::{wrong}")),
            Some(format!("{here} has no test {wrong}"))
        );
    }
    assert!(missing("tests/nowhere.rs::test").unwrap().starts_with("tests/nowhere.rs: "));
    assert!(missing(here).is_some());
    assert!(has_test("#[tokio::test]\nasync fn a() {}", "a"));
    assert!(!has_test("#[cfg(test)]\nfn a() {}", "a"));
    let source = "#[derive(Error)]\npub enum E {\n    A,\n    B {\n        c: D,\n    },\n}\npub enum F {\n    G,\n}";
    let pair = |variant: &str| ("E".to_owned(), variant.to_owned());
    assert_eq!(errors(source), [pair("A"), pair("B")]);
    let source = "\nof_fleet! {\n    WARN a(b: B) [c = b.c(), ?d,] \"one\";\n    INFO e(n: u8)\n        [%e,] \"{n} of two; no\";\n}\n\nof_nodes! {\n    INFO f() [] \"three\";\n}\n";
    let told = |text: &str, fields: &[&str]| {
        (text.to_owned(), fields.iter().copied().map(str::to_owned).collect::<Vec<_>>())
    };
    let three = told("three", &["node", "address"]);
    assert_eq!(events(source), [three, told("one", &["c", "d"]), told("of two", &["e"])]);
    let page = "`tests/nowhere.rs`\n1. `tests/documents.rs` `root`, `not_so`\n`is::nowhere`";
    let wrong = ["tests/nowhere.rs is not there", "no nowhere: `is::nowhere`"];
    assert_eq!(not_so(page, "is"), wrong);
    assert_eq!(
        not_so("| `tests/fork.rs` `not_so` |", "not_so"),
        ["no not_so: | `tests/fork.rs` `not_so` |"]
    );
    assert_eq!(not_so("`documents.rs`", ""), ["documents.rs is not there"]);
    assert!(is_headed("#![no_std]\n//! Of the crate.\n") && is_headed("-- Of a script.\n"));
    assert!(
        !is_headed("use super::*;\n\n//! Too late.\n") && !is_headed("//! One\n") && !is_headed("")
    );
    let source = "struct A {\n    b: Lock<C>,\n    pub(super) d: Arc<Notify>,\n    e: OnceLock<F>,\n    f: OnceLock<Box<Notify>>,\n}\npub(super) struct G(Lock<H>);\nfn i(j: Lock<K>) {}";
    assert_eq!(locks(source), ["b", "d", "f", "G"]);
    assert_eq!(quoted("`a` b `c`\n```text\n`d`\n```\n`e`"), ["a", "c", "e"]);
}

/// What `tests/run` says and does on a machine without a server, for a user who is not root. `apt-get` is there, and `sudo` only
/// notes that it was called.
#[cfg(unix)]
fn run_without_server(install: Option<&str>) -> (Option<i32>, String, bool) {
    use std::{os::unix::fs::PermissionsExt as _, process::Command};

    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for program in ["bash", "dirname"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(program))
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), at(program)).unwrap();
    }
    let called = at("called");
    let sudo = format!("echo \"$@\" >> {}\nexit 1", called.display());
    for (program, does) in [("id", "echo 1000"), ("apt-get", "exit 1"), ("sudo", &*sudo)] {
        fs::write(at(program), format!("#!{}\n{does}\n", at("bash").display())).unwrap();
        fs::set_permissions(at(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(at("bash"));
    command.arg(root().join("tests/run")).env_clear().env("PATH", directory.path());
    command.envs(install.map(|install| ("QUORLOCK_INSTALL", install)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said, called.exists())
}

#[cfg(unix)]
#[test]
fn a_server_is_installed_only_after_it_was_said_how_and_how_to_say_no() {
    let (status, said, called) = run_without_server(Some("no"));
    assert_eq!((status, called), (Some(1), false), "{said}");
    let (status, said, called) = run_without_server(None);
    assert!(called && status != Some(0), "{said}");
    let place = |text: &str| said.find(text).unwrap_or_else(|| panic!("no `{text}` in {said}"));
    let begins = place("installing it");
    assert!(place("sudo apt-get install redis-server") < begins, "{said}");
    assert!(place("QUORLOCK_INSTALL=no") < begins, "{said}");
}
