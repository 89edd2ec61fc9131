//! `docs/mutants.md`, with what it is made of: `judged.jsonl` and `reasons.txt`.
//!
//! Goal: each folder has the row of its last judgement, whichever checkout that was in. Method: `judged.jsonl` has a line for each
//! folder, and behind it one for each of its survivors. A folder that was judged as a whole in this checkout gets new ones; those of
//! all others stay. Of the core the lines of `tests/evidence/mutants.jsonl`, one for each file, are treated alike.
//!
//! Each survivor has a reason in `reasons.txt`: a paragraph of its file and of what is done, of the line in which that is, and of
//! the reason, below a heading that says of which kind it is. One without a reason, and a reason without a survivor, are told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use serde_json::{Value, json};

use super::{
    Result,
    part::{self, CORE, CORES},
    say,
    work::Work,
};

const JUDGED: &str = "tests/mutants/judged.jsonl";
const REASONS: &str = "tests/mutants/reasons.txt";
const EVIDENCE: &str = "tests/evidence/mutants.jsonl";

/// Its file, what is done, and the line in which that is.
type Survivor = [String; 3];

/// What was found of a folder, or of a file.
#[derive(Debug, Default, Eq, PartialEq)]
struct Judged {
    mutants: u64,
    killed: u64,
    endless: u64,
    unviable: u64,
    /// The size and the seed of the sample, if they were drawn.
    drawn: String,
    /// When, and at which commit of the code: `2026-11-27 at 44f1792f`.
    at: BTreeSet<String>,
    survivors: Vec<Survivor>,
}

/// By folder.
type Record = BTreeMap<String, Judged>;

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

impl Judged {
    fn of(found: &[&Value]) -> Self {
        let mut judged = Self::default();
        for one in found {
            if !text(one, "drawn").is_empty() {
                text(one, "drawn").clone_into(&mut judged.drawn);
            }
            if text(one, "verdict") == "unviable" {
                judged.unviable += 1;
                continue;
            }
            judged.mutants += 1;
            judged.at.insert(format!("{} at {}", text(one, "date"), text(one, "commit")));
            match text(one, "verdict") {
                "killed" => judged.killed += 1,
                "endless" => judged.endless += 1,
                _ => judged.survivors.push(
                    [short(text(one, "file")), text(one, "what"), text(one, "line")]
                        .map(str::to_owned),
                ),
            }
        }
        judged.survivors.sort();
        judged
    }

    fn caught(&self) -> u64 {
        self.killed + self.endless
    }

    fn share(&self) -> String {
        let (caught, mutants) = (self.caught(), self.mutants.max(1));
        let share = (20_000 * caught + mutants) / (2 * mutants);
        // Less than all is never 100 %.
        let share = if caught < mutants { share.min(9_999) } else { share };
        format!("{}.{:02} %", share / 100, share % 100)
    }

    fn row(&self, folder: &str) -> String {
        let Self { mutants, killed, endless, unviable, .. } = self;
        let (left, share) = (mutants - self.caught(), self.share());
        let drawn = if self.drawn.is_empty() { "all" } else { &self.drawn };
        let at = self.at.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!(
            "| {folder} | {mutants} | {killed} | {endless} | {left} | {share} | {unviable} | {drawn} | {at} |\n"
        )
    }

    /// The line of a file among the evidence.
    fn line(&self, file: &str) -> Value {
        let at = self.at.last().and_then(|at| at.split_once(" at "));
        let (date, commit) = at.unwrap_or_default();
        json!({
            "configuration": file, "mutants": self.mutants, "caught": self.caught(), "time limit": self.endless,
            "survivors": self.mutants - self.caught(), "commit": commit, "date": date,
        })
    }
}

/// A path as the reasons have it.
fn short(file: &str) -> &str {
    file.strip_prefix("core/src/").unwrap_or(file)
}

/// The folder of a path as the reasons have it.
fn folder(short: &str) -> &'static str {
    let is_core = !["src/", "cli/"].iter().any(|root| short.starts_with(root));
    if is_core {
        part::folder(&format!("{}/{short}", CORE.folders[0]))
    } else {
        part::folder(short)
    }
}

fn record_of(lines: &str) -> Result<Record> {
    let (mut record, mut folder) = (Record::new(), String::new());
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line)?;
        if !text(&line, "folder").is_empty() {
            text(&line, "folder").clone_into(&mut folder);
            let [mutants, killed, endless, unviable] =
                ["mutants", "killed", "endless", "unviable"].map(|of| line[of].as_u64());
            let at = line["judged"].as_array().into_iter().flatten();
            let judged = Judged {
                mutants: mutants.ok_or("a folder without mutants")?,
                killed: killed.unwrap_or(0),
                endless: endless.unwrap_or(0),
                unviable: unviable.unwrap_or(0),
                drawn: text(&line, "drawn").to_owned(),
                at: at.filter_map(Value::as_str).map(str::to_owned).collect(),
                survivors: Vec::new(),
            };
            record.insert(folder.clone(), judged);
        } else {
            let judged = record.get_mut(&folder).ok_or("a survivor without a folder")?;
            judged.survivors.push(["file", "what", "line"].map(|of| text(&line, of).to_owned()));
        }
    }
    Ok(record)
}

fn lines_of(record: &Record) -> Result<String> {
    let mut lines = String::new();
    for (folder, judged) in record {
        let Judged { mutants, killed, endless, unviable, drawn, at, survivors } = judged;
        let line = json!({
            "folder": folder, "mutants": mutants, "killed": killed, "endless": endless,
            "unviable": unviable, "drawn": drawn, "judged": at,
        });
        writeln!(lines, "{line}")?;
        for [file, what, line] in survivors {
            writeln!(lines, "{}", json!({ "file": file, "what": what, "line": line }))?;
        }
    }
    Ok(lines)
}

/// The lines of the evidence, by file.
fn evidence_of(lines: &str) -> Result<BTreeMap<String, Value>> {
    let line = |line| -> Result<(String, Value)> {
        let line: Value = serde_json::from_str(line)?;
        Ok((text(&line, "configuration").to_owned(), line))
    };
    lines.lines().map(line).collect()
}

/// Replaces the record of a whole folder by what was found.
fn take(
    record: &mut Record,
    evidence: &mut BTreeMap<String, Value>,
    of: &'static str,
    found: &[Value],
) {
    let judged = Judged::of(&found.iter().collect::<Vec<_>>());
    // A sample is no evidence of the core.
    if CORES.contains(&of) && judged.drawn.is_empty() {
        let mut files = BTreeMap::<&str, Vec<&Value>>::new();
        for one in found {
            files.entry(short(text(one, "file"))).or_default().push(one);
        }
        evidence.retain(|file, _| folder(file) != of);
        let files = files.into_iter().map(|(file, found)| (file, Judged::of(&found)));
        // Of a file whose mutants do not compile nothing has been judged.
        evidence.extend(
            files
                .filter(|(_, judged)| judged.mutants > 0)
                .map(|(file, judged)| (file.to_owned(), judged.line(file))),
        );
    }
    record.insert(of.to_owned(), judged);
}

/// Why no test fails.
#[derive(Debug, Default)]
struct Reasons {
    /// In the order of the file.
    kinds: Vec<String>,
    /// The kind of reason that explains each survivor.
    kind: BTreeMap<Survivor, usize>,
}

fn reasons(text: &str) -> Result<Reasons> {
    let mut reasons = Reasons::default();
    for paragraph in text.trim_end().split("\n\n") {
        if let Some(kind) = paragraph.strip_prefix("## ") {
            reasons.kinds.push(kind.to_owned());
        } else if !paragraph.starts_with('#') {
            let wrong = || format!("no reason, and no kind of one: {paragraph}");
            let [head, line, reason @ ..] = &paragraph.lines().collect::<Vec<_>>()[..] else {
                return Err(wrong().into());
            };
            let (file, what) = head.split_once(": ").ok_or_else(wrong)?;
            let kind = reasons.kinds.len().checked_sub(1).filter(|_| !reason.is_empty());
            let survivor = [file, what, line.trim()].map(str::to_owned);
            reasons.kind.insert(survivor, kind.ok_or_else(wrong)?);
        }
    }
    Ok(reasons)
}

fn page(record: &Record, reasons: &Reasons) -> String {
    let mut folders: BTreeSet<&str> = part::folders();
    folders.extend(record.keys().map(String::as_str));
    let row = |folder: &&str| match record.get(*folder) {
        Some(judged) => judged.row(folder),
        None => format!("| {folder} | | | | | | | | not yet |\n"),
    };
    let by_folder: String = folders.iter().map(row).collect();
    // Of each kind how many are in the core, and how many elsewhere.
    let mut counts = vec![(0, 0); reasons.kinds.len() + 1];
    let of_folder = |(folder, judged): (&String, &Judged)| {
        let is_core = CORES.contains(&folder.as_str());
        judged.survivors.iter().map(move |it| (is_core, it.clone())).collect::<Vec<_>>()
    };
    for (is_core, survivor) in record.iter().flat_map(of_folder) {
        let kind = reasons.kind.get(&survivor).copied().unwrap_or(reasons.kinds.len());
        let (core, others) = &mut counts[kind];
        *(if is_core { core } else { others }) += 1;
    }
    let kinds = reasons.kinds.iter().map(String::as_str).chain(["**not explained yet**"]);
    let by_kind: String = kinds
        .zip(counts)
        .map(|(kind, (core, others))| format!("| {kind} | {core} | {others} |\n"))
        .collect();
    include_str!("page.md.txt").replace("{folders}\n", &by_folder).replace("{kinds}\n", &by_kind)
}

/// Writes them. False: the reasons do not match the survivors.
pub(crate) fn write(root: &Path, work: &Work) -> Result<bool> {
    let read = |file: &str| fs::read_to_string(root.join(file));
    let (mut record, reasons) = (record_of(&read(JUDGED)?)?, reasons(&read(REASONS)?)?);
    let mut evidence = evidence_of(&read(EVIDENCE)?)?;
    let mut judged = Vec::new();
    for of in part::folders() {
        let found = work.kept_of(of)?;
        if work.is_whole(of) {
            take(&mut record, &mut evidence, of, &found);
            judged.push(of);
        } else if !found.is_empty() {
            say(&format!("{of}: a part of it was judged here; its row stays as it is"));
        }
    }
    fs::write(root.join(JUDGED), lines_of(&record)?)?;
    let lines = evidence.values().map(|line| format!("{line}\n"));
    fs::write(root.join(EVIDENCE), lines.collect::<String>())?;
    fs::write(root.join("docs/mutants.md"), page(&record, &reasons))?;

    let mut is_whole = true;
    let survivors: Vec<&Survivor> = record.values().flat_map(|it| &it.survivors).collect();
    for survivor in survivors.iter().filter(|it| !reasons.kind.contains_key(**it)) {
        is_whole = false;
        let [file, what, line] = survivor;
        say(&format!("no reason is given for {file}: {what}\n    {line}"));
    }
    let is_over = |it: &&Survivor| judged.contains(&folder(&it[0])) && !survivors.contains(it);
    for [file, what, line] in reasons.kind.keys().filter(is_over) {
        is_whole = false;
        say(&format!("a reason for what is no survivor: {file}: {what}\n    {line}"));
    }
    for (folder, judged) in &record {
        say(&format!("{folder}: {} found", judged.share()));
    }
    Ok(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        fs::read_to_string(root.join(file)).unwrap()
    }

    #[test]
    fn the_page_and_the_evidence_are_what_is_recorded() {
        let record = record_of(&read(JUDGED)).unwrap();
        assert_eq!(lines_of(&record).unwrap(), read(JUDGED));
        let is_same = page(&record, &reasons(&read(REASONS)).unwrap()) == read("docs/mutants.md");
        assert!(is_same, "docs/mutants.md is another: `cargo run -p quorlock-mutants -- --page`");
        for (folder, judged) in &record {
            let survivors = u64::try_from(judged.survivors.len()).unwrap();
            assert_eq!(survivors, judged.mutants - judged.caught(), "{folder}");
        }
        let evidence = evidence_of(&read(EVIDENCE)).unwrap();
        for core in CORES.into_iter().filter(|core| record[*core].drawn.is_empty()) {
            let lines = evidence.iter().filter(|(file, _)| folder(file) == core);
            let sums = lines.fold((0, 0), |(mutants, caught), (_, line)| {
                (
                    mutants + line["mutants"].as_u64().unwrap(),
                    caught + line["caught"].as_u64().unwrap(),
                )
            });
            assert_eq!(sums, (record[core].mutants, record[core].caught()), "{core}");
        }
    }

    #[test]
    fn a_folder_that_was_judged_here_gets_new_lines_and_all_others_stay() {
        let before = r#"{"drawn":"","endless":1,"folder":"core/src","judged":["2026-01-01 at a"],"killed":2,"mutants":4,"unviable":0}
{"file":"line.rs","line":"x","what":"y"}
{"drawn":"9 of 10 drawn with seed 1","endless":0,"folder":"src/engine","judged":["2026-01-01 at a"],"killed":8,"mutants":9,"unviable":1}
{"file":"src/engine/line.rs","line":"if a < b {","what":"replace < with <="}
"#;
        let mut record = record_of(before).unwrap();
        let lines = "{\"configuration\":\"line.rs\",\"mutants\":4}\n{\"configuration\":\"client/undo.rs\",\"mutants\":5}";
        let mut evidence = evidence_of(lines).unwrap();
        let one = |file: &str, verdict: &str| json!({"file": file, "verdict": verdict, "what": "w", "line": "l", "date": "2026-01-02", "commit": "b", "drawn": ""});
        let found = [
            one("core/src/queue.rs", "killed"),
            one("core/src/queue.rs", "survivor"),
            one("core/src/rare.rs", "unviable"),
        ];
        take(&mut record, &mut evidence, "core/src", &found);
        let (_, engine) = before.split_once("\"y\"}\n").unwrap();
        let core = r#"{"drawn":"","endless":0,"folder":"core/src","judged":["2026-01-02 at b"],"killed":1,"mutants":2,"unviable":1}
{"file":"queue.rs","line":"l","what":"w"}
"#;
        assert_eq!(lines_of(&record).unwrap(), format!("{core}{engine}"));
        assert_eq!(evidence.keys().collect::<Vec<_>>(), ["client/undo.rs", "queue.rs"]);
        assert_eq!(evidence["queue.rs"]["survivors"], 1);

        let kinds =
            "# Of each\n# one.\n\n## the same\n\nqueue.rs: w\nl\nBoth are\none.\n\n## never\n";
        let page = page(&record, &reasons(kinds).unwrap());
        let rows = [
            "| core/src | 2 | 1 | 0 | 1 | 50.00 % | 1 | all | 2026-01-02 at b |",
            "| src/engine | 9 | 8 | 0 | 1 | 88.89 % | 1 | 9 of 10 drawn with seed 1 | 2026-01-01 at a |",
            "| src/node | | | | | | | | not yet |",
            "| the same | 1 | 0 |\n| never | 0 | 0 |\n| **not explained yet** | 0 | 1 |",
        ];
        for row in rows {
            assert!(page.contains(row), "{row}\n{page}");
        }
        assert!(
            reasons("queue.rs: w\nl\nOf no kind.").is_err() && reasons("## a\n\nb: c\nd").is_err()
        );
        assert_eq!(
            (folder("node_store/slots.rs"), folder("src/holder.rs")),
            ("src/node", "leases")
        );
    }
}
