//! `docs/mutants.md`, and the lines of `tests/evidence/mutants.jsonl`, which are those of the core, of what was found last.
//!
//! Each mutant that nobody has found has a reason in `reasons.txt`: a paragraph of its file and of what is done, of the line in
//! which that is, and of the reason. One without a reason, and a reason without a mutant, are told.

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

#[derive(Debug, Default)]
struct Counts {
    mutants: u64,
    killed: u64,
    endless: u64,
    unviable: u64,
    /// Of how many they were drawn, if they were.
    drawn: String,
    /// When it was judged, and at which commit of `src`.
    at: BTreeSet<(String, String)>,
}

impl Counts {
    fn share(&self) -> String {
        let (found, mutants) = (self.killed + self.endless, self.mutants.max(1));
        let share = (20_000 * found + mutants) / (2 * mutants);
        // Less than all is never 100 %.
        let share = if found < mutants { share.min(9_999) } else { share };
        format!("{}.{:02} %", share / 100, share % 100)
    }

    fn row(&self, name: &str) -> String {
        let Self { mutants, killed, endless, .. } = self;
        let survivors = mutants - killed - endless;
        format!("| {name} | {mutants} | {killed} | {endless} | {survivors} | {} |\n", self.share())
    }

    fn row_of_folder(&self, name: &str) -> String {
        let at: Vec<String> = self.at.iter().map(|(date, at)| format!("{date} at {at}")).collect();
        let drawn = if self.drawn.is_empty() { "all" } else { &self.drawn };
        let row = self.row(name);
        format!("{} {} | {drawn} | {} |\n", row.trim_end(), self.unviable, at.join(", "))
    }
}

/// The folder of a file of the core, as the evidence names it.
fn core_of(file: &str) -> &'static str {
    part::folder(&format!("{}/{file}", CORE.folders[0]))
}

/// A path as the tables and the reasons have it.
fn short(file: &str) -> &str {
    file.strip_prefix("core/src/").unwrap_or(file)
}

/// Writes both. False says that the reasons are not those of the survivors.
pub(crate) fn write(root: &Path, work: &Work) -> Result<bool> {
    let found = work.kept()?;
    let (mut files, mut folders) = (BTreeMap::<&str, Counts>::new(), BTreeMap::<_, Counts>::new());
    let mut survivors = Vec::new();
    for one in &found {
        let text = |of: &str| one[of].as_str().unwrap_or_default();
        let file = short(text("file"));
        let folder = folders.entry(part::folder(text("file"))).or_default();
        text("drawn").clone_into(&mut folder.drawn);
        for counts in [files.entry(file).or_default(), folder] {
            if text("verdict") == "unviable" {
                counts.unviable += 1;
                continue;
            }
            counts.mutants += 1;
            counts.at.insert((text("date").to_owned(), text("commit").to_owned()));
            counts.killed += u64::from(text("verdict") == "killed");
            counts.endless += u64::from(text("verdict") == "endless");
        }
        if text("verdict") == "survivor" {
            survivors.push((file, text("what"), text("line")));
        }
    }
    let reasons = fs::read_to_string(root.join("tests/mutants/reasons.txt"))?;
    let mut reasons: BTreeMap<(&str, &str, &str), String> =
        reasons.split("\n\n").filter_map(reason).collect();
    let evidence = fs::read_to_string(root.join("tests/evidence/mutants.jsonl"))?;
    let evidence: Vec<Value> =
        evidence.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    let core = found.iter().filter_map(|one| one["file"].as_str());
    let mut core: BTreeSet<&str> =
        core.filter(|file| CORES.contains(&part::folder(file))).map(short).collect();
    // Of a half that has not been judged here, what is committed is what was found last.
    let judged: Vec<&str> = CORES.into_iter().filter(|of| folders.contains_key(of)).collect();
    let is_kept = |file: &str| !judged.contains(&core_of(file));
    for line in &evidence {
        let file = line["configuration"].as_str().unwrap_or_default();
        if !is_kept(file) {
            continue;
        }
        core.insert(file);
        let folder = folders.entry(core_of(file)).or_default();
        for counts in [files.entry(file).or_default(), folder] {
            let [date, commit] = ["date", "commit"].map(|of| line[of].as_str().unwrap_or_default());
            counts.at.insert((date.to_owned(), commit.to_owned()));
            let [mutants, caught, endless] =
                ["mutants", "caught", "time limit"].map(|of| line[of].as_u64().unwrap_or(0));
            counts.mutants += mutants;
            counts.killed += caught - endless;
            counts.endless += endless;
        }
    }
    let of_kept = |file: &str| core.contains(file) && is_kept(file);
    survivors.extend(reasons.keys().filter(|(file, ..)| of_kept(file)));
    let mut lines = String::new();
    // Of a file whose mutants do not compile nothing has been judged.
    let is_judged = |(file, counts): &(&&str, &Counts)| core.contains(**file) && counts.mutants > 0;
    for (file, counts) in files.iter().filter(is_judged) {
        let caught = counts.killed + counts.endless;
        let (date, commit) = counts.at.last().cloned().unwrap_or_default();
        let line = json!({
            "configuration": file, "mutants": counts.mutants, "caught": caught, "time limit": counts.endless,
            "survivors": counts.mutants - caught, "commit": commit, "date": date,
        });
        writeln!(lines, "{line}")?;
    }
    // A sample is no evidence of the core.
    if CORES.iter().all(|of| folders.get(of).is_some_and(|counts| counts.drawn.is_empty())) {
        fs::write(root.join("tests/evidence/mutants.jsonl"), lines)?;
    }

    let mut is_whole = true;
    let (mut table, mut used) = (String::new(), Vec::new());
    for survivor in survivors {
        let (file, what, line) = survivor;
        let reason = reasons.get(&survivor).map_or_else(
            || {
                is_whole = false;
                say(&format!("no reason is given for {file}: {what}\n    {line}"));
                "**not explained yet**"
            },
            String::as_str,
        );
        used.push(survivor);
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(table, "| {file} | `{}` | `{}` | {} |", cell(what), cell(line), cell(reason))?;
    }
    reasons.retain(|reason, _| !used.contains(reason) && files.contains_key(reason.0));
    for (file, what, line) in reasons.keys() {
        is_whole = false;
        say(&format!("a reason for what is no survivor: {file}: {what}\n    {line}"));
    }

    let rows = |of: &BTreeMap<&str, Counts>| of.iter().map(|(it, counts)| counts.row(it)).collect();
    let (by_file, by_folder): (String, String) = (
        rows(&files),
        folders.iter().map(|(folder, counts)| counts.row_of_folder(folder)).collect(),
    );
    let page = include_str!("page.md.txt")
        .replace("{folders}\n", &by_folder)
        .replace("{files}\n", &by_file)
        .replace("{survivors}\n", &table);
    fs::write(root.join("docs/mutants.md"), page)?;
    for (folder, counts) in &folders {
        say(&format!("{folder}: {} found", counts.share()));
    }
    Ok(is_whole)
}

/// A paragraph of the reasons.
fn reason(paragraph: &str) -> Option<((&str, &str, &str), String)> {
    let mut lines = paragraph.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (file, what) = lines.next()?.split_once(": ")?;
    let line = lines.next()?.trim();
    Some(((file, what, line), lines.map(str::trim).collect::<Vec<_>>().join(" ")))
}
