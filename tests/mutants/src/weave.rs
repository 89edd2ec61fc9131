//! All mutants in one copy of the core.
//!
//! The body of each function becomes a choice between what stands there and what each of its mutants puts in its place:
//! `match crate::mutant::at(7) { 12 => { … } 13 => { … } _ => { … } }`, where 7 is the number of the function and 12 and 13
//! those of the mutants. What does not compile is left out, until the rest does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::Path,
};

use super::{
    Result,
    list::Mutant,
    part::Part,
    say,
    work::{Work, put},
};

/// What stands in the copy.
#[derive(Debug, Default)]
pub(crate) struct Woven {
    /// The number of the function, by that of the mutant.
    pub(crate) groups: BTreeMap<u32, u32>,
}

/// Weaves those that compile into the crate.
pub(crate) fn weave(work: &Work, part: &Part, mutants: &[Mutant]) -> Result<Woven> {
    work.lay_out(part)?;
    let copy = work.copy_of(part);
    // A mutant that has not compiled is not tried again while its line is the same.
    let before = work.below.join("unwoven.txt");
    let known = fs::read_to_string(&before).unwrap_or_default();
    let known: BTreeSet<&str> = known.lines().collect();
    let mut keys = BTreeMap::new();
    for mutant in mutants {
        let text = fs::read_to_string(work.root.join(&mutant.file))?;
        keys.insert(mutant.number, format!("{} @ {}", mutant.name, mutant.line(&text)));
    }
    let mut left_out: BTreeSet<u32> =
        keys.iter().filter(|(_, key)| known.contains(key.as_str())).map(|(it, _)| *it).collect();
    loop {
        let woven = write(work, copy, mutants, &left_out)?;
        let mut errors = Vec::new();
        for arguments in part.checks {
            errors.extend(work.check(copy, arguments)?);
        }
        if errors.is_empty() {
            let mut all: BTreeSet<&str> = known;
            all.extend(left_out.iter().map(|it| keys[it].as_str()));
            fs::write(&before, all.into_iter().map(|key| format!("{key}\n")).collect::<String>())?;
            return Ok(woven);
        }
        let count = left_out.len();
        for places in errors {
            let mutant = places.into_iter().find_map(|(file, line)| {
                mutant_at(&fs::read_to_string(copy.join(file)).ok()?, line)
            });
            left_out.extend(mutant);
        }
        say(&format!("{} do not compile so", left_out.len()));
        if left_out.len() == count {
            return Err("the copy does not compile, and no mutant is to blame".into());
        }
    }
}

/// The innermost mutant around a line of a woven file, or the first of the function that begins there.
fn mutant_at(text: &str, line: usize) -> Option<u32> {
    if text.lines().nth(line.checked_sub(1)?)?.contains("match crate::mutant::at(") {
        return text.lines().nth(line)?.strip_prefix("/*@")?.split("*/").next()?.parse().ok();
    }
    let mut open = Vec::new();
    for text in text.lines().take(line) {
        if let Some((_, rest)) = text.split_once("/*@end ") {
            let ended: u32 = rest.split("*/").next()?.parse().ok()?;
            open.retain(|number: &u32| *number != ended);
        }
        if let Some(rest) = text.trim_start().strip_prefix("/*@") {
            open.extend(rest.split("*/").next()?.parse::<u32>().ok());
        }
    }
    open.last().copied()
}

fn write(work: &Work, copy: &Path, mutants: &[Mutant], left_out: &BTreeSet<u32>) -> Result<Woven> {
    let mut woven = Woven::default();
    let mut groups = 0;
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    for (file, mutants) in files {
        let text = fs::read_to_string(work.root.join(file))?;
        let mut functions: BTreeMap<(usize, usize), Vec<&Mutant>> = BTreeMap::new();
        for mutant in mutants {
            let Some(function) = &mutant.function else { continue };
            let mutants = functions.entry((function.start, function.end)).or_default();
            if !left_out.contains(&mutant.number) {
                mutants.push(mutant);
            }
        }
        let mut file_of = File { text: &text, functions, groups: &mut groups, woven: &mut woven };
        let all = file_of.functions.keys().map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let woven = file_of.part(0..text.len(), &all)?;
        put(&copy.join(file), woven.as_bytes())?;
    }
    Ok(woven)
}

struct File<'a> {
    text: &'a str,
    functions: BTreeMap<(usize, usize), Vec<&'a Mutant>>,
    groups: &'a mut u32,
    woven: &'a mut Woven,
}

impl File<'_> {
    /// A part of the text, with the functions in it, some of which may stand in others.
    fn part(&mut self, part: Range<usize>, functions: &[Range<usize>]) -> Result<String> {
        let (mut woven, mut at, mut rest) = (String::new(), part.start, functions);
        while let [function, others @ ..] = rest {
            let inner = others.iter().take_while(|other| other.start < function.end).count();
            woven.push_str(&self.text[at..function.start]);
            woven.push_str(&self.function(function.clone(), &others[..inner])?);
            (at, rest) = (function.end, &others[inner..]);
        }
        woven.push_str(&self.text[at..part.end]);
        Ok(woven)
    }

    fn function(&mut self, function: Range<usize>, inner: &[Range<usize>]) -> Result<String> {
        *self.groups += 1;
        let group = *self.groups;
        let body = body(self.text, function.clone()).ok_or("a function without a body")?;
        let mutants = self.functions[&(function.start, function.end)].clone();
        let original = self.part(body.clone(), inner)?;
        let mut choice = String::new();
        for mutant in &mutants {
            let (number, place) = (mutant.number, &mutant.place);
            let (before, behind) =
                (&self.text[body.start..place.start], &self.text[place.end..body.end]);
            let replacement = &mutant.replacement;
            choice += &format!(
                "/*@{number}*/ {number} => {{\n{before} {replacement} {behind}\n}} /*@end {number}*/\n"
            );
            self.woven.groups.insert(number, group);
        }
        let head = &self.text[function.start..body.start];
        Ok(if mutants.is_empty() {
            format!("{head}{original}}}")
        } else {
            format!(
                "{head} match crate::mutant::at({group}) {{\n{choice}_ => {{\n{original}\n}} }} }}"
            )
        })
    }
}

/// What stands between the braces of a function.
fn body(text: &str, function: Range<usize>) -> Option<Range<usize>> {
    let (bytes, mut at, mut depth) = (text.as_bytes(), function.start, 0);
    while at < function.end {
        let rest = &text[at..function.end];
        match bytes[at] {
            b'/' if rest.starts_with("//") => at += rest.find('\n')?,
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
            }
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + 1..function.end - 1),
            _ => {}
        }
        at += 1;
    }
    None
}
