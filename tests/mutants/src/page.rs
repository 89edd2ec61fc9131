//! `docs/mutants.md`, and the lines of `tests/evidence/mutants.jsonl`, of what was found last.
//!
//! Each mutant that nobody has found has a reason in `reasons.txt`: a paragraph of its file and of what is done, of the line in
//! which that is, and of the reason. One without a reason, and a reason without a mutant, are told.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use serde_json::json;

use super::{Result, say, work::Work};

#[derive(Debug, Default)]
struct Counts {
    mutants: u64,
    killed: u64,
    endless: u64,
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
}

/// Writes both. False says that the reasons are not those of the survivors.
pub(crate) fn write(root: &Path, work: &Work) -> Result<bool> {
    let found = work.kept()?;
    let (mut files, mut all) = (BTreeMap::<&str, Counts>::new(), Counts::default());
    let mut survivors = Vec::new();
    let mut unviable = 0;
    for one in &found {
        let text = |of: &str| one[of].as_str().unwrap_or_default();
        let file = text("file").trim_start_matches("src/protocol/");
        if text("verdict") == "unviable" {
            unviable += 1;
            continue;
        }
        for counts in [files.entry(file).or_default(), &mut all] {
            counts.mutants += 1;
            counts.at.insert((text("date").to_owned(), text("commit").to_owned()));
            counts.killed += u64::from(text("verdict") == "killed");
            counts.endless += u64::from(text("verdict") == "endless");
        }
        if text("verdict") == "survivor" {
            survivors.push((file, text("what"), text("line")));
        }
    }
    let mut lines = String::new();
    for (file, counts) in &files {
        let caught = counts.killed + counts.endless;
        let (date, commit) = counts.at.last().cloned().unwrap_or_default();
        let line = json!({
            "configuration": file, "mutants": counts.mutants, "caught": caught, "time limit": counts.endless,
            "survivors": counts.mutants - caught, "commit": commit, "date": date,
        });
        writeln!(lines, "{line}")?;
    }
    fs::write(root.join("tests/evidence/mutants.jsonl"), lines)?;

    let reasons = fs::read_to_string(root.join("tests/mutants/reasons.txt"))?;
    let mut reasons: BTreeMap<(&str, &str, &str), String> =
        reasons.split("\n\n").filter_map(reason).collect();
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
    reasons.retain(|reason, _| !used.contains(reason));
    for (file, what, line) in reasons.keys() {
        is_whole = false;
        say(&format!("a reason for what is no survivor: {file}: {what}\n    {line}"));
    }

    let counts: String = files.iter().map(|(file, counts)| counts.row(file)).collect();
    let at: Vec<String> =
        all.at.iter().map(|(date, commit)| format!("{date} at {commit}")).collect();
    let page = include_str!("page.md.txt")
        .replace("{share}", &all.share())
        .replace("{caught}", &(all.killed + all.endless).to_string())
        .replace("{mutants}", &all.mutants.to_string())
        .replace("{endless}", &all.endless.to_string())
        .replace("{unviable}", &unviable.to_string())
        .replace("{at}", &at.join(", "))
        .replace("{files}\n", &(counts + &all.row("all")))
        .replace("{survivors}\n", &table);
    fs::write(root.join("docs/mutants.md"), page)?;
    say(&format!("{} of {} are found: {}", all.killed + all.endless, all.mutants, all.share()));
    Ok(is_whole)
}

/// A paragraph of the reasons.
fn reason(paragraph: &str) -> Option<((&str, &str, &str), String)> {
    let mut lines = paragraph.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (file, what) = lines.next()?.split_once(": ")?;
    let line = lines.next()?.trim();
    Some(((file, what, line), lines.map(str::trim).collect::<Vec<_>>().join(" ")))
}
