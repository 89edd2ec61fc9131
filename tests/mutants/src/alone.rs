//! A mutant in a copy of its own: one that stands in no function, or cannot be woven.

use std::fs;

use super::{
    Result, Verdict,
    judge::{self, Found, Test},
    list::Mutant,
    work::{PROGRAMS, Work},
};

/// Whether one that could not be woven may compile by itself: outside of functions, and where what is returned has no name, so
/// that there can be but one kind of it.
pub(crate) fn may_compile(work: &Work, mutant: &Mutant) -> bool {
    let Some(function) = &mutant.function else { return true };
    let Ok(text) = fs::read_to_string(work.root.join(&mutant.file)) else { return true };
    let head = text[function.clone()].split('{').next().unwrap_or_default();
    head.contains("-> impl")
}

/// All tests, the quickest first, or that it does not compile.
pub(crate) fn judge(work: &Work, tests: &[Test], mutant: &Mutant) -> Result<Verdict> {
    let path = work.plain.join(&mutant.file);
    let original = fs::read_to_string(work.root.join(&mutant.file))?;
    let mut text = original.clone();
    text.replace_range(mutant.place.clone(), &mutant.replacement);
    fs::write(&path, text)?;
    let verdict = of_copy(work, tests);
    fs::write(&path, original)?;
    verdict
}

fn of_copy(work: &Work, tests: &[Test]) -> Result<Verdict> {
    if !work.check(&work.plain)?.is_empty() {
        return Ok(Verdict::Unviable);
    }
    for program in PROGRAMS {
        // A constant of the tests may be made of it.
        let Ok(programs) = work.build(&work.plain, &[program]) else {
            return Ok(Verdict::Unviable);
        };
        for program in programs {
            match judge::judge_copy(tests, &program)? {
                Found::Nothing => {}
                found => return Ok(Verdict::Judged(found)),
            }
        }
    }
    Ok(Verdict::Judged(Found::Nothing))
}
