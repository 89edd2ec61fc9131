//! A mutant in a copy of its own: it stands in no function, or cannot be woven.

use std::fs;

use super::{
    Result, Verdict,
    judge::{Found, Judges},
    list::Mutant,
    part::CORE,
    work::Work,
};

/// Whether a mutant that could not be woven may compile by itself: outside of functions, and in functions that return
/// `impl …`, which can be of only one type.
pub(crate) fn may_compile(work: &Work, mutant: &Mutant) -> bool {
    let Some(function) = &mutant.function else { return true };
    let Ok(text) = fs::read_to_string(work.root.join(&mutant.file)) else { return true };
    let head = text[function.clone()].split('{').next().unwrap_or_default();
    head.contains("-> impl")
}

/// All tests, the quickest first, or that it does not compile.
pub(crate) fn judge(work: &Work, judges: &Judges, mutant: &Mutant) -> Result<Verdict> {
    let path = work.plain.join(&mutant.file);
    let original = fs::read_to_string(work.root.join(&mutant.file))?;
    let mut text = original.clone();
    text.replace_range(mutant.place.clone(), &mutant.replacement);
    fs::write(&path, text)?;
    let verdict = of_copy(work, judges);
    fs::write(&path, original)?;
    verdict
}

fn of_copy(work: &Work, judges: &Judges) -> Result<Verdict> {
    if !work.check(&work.plain, CORE.checks[0])?.is_empty() {
        return Ok(Verdict::Unviable);
    }
    for programs in CORE.programs {
        // A constant of the tests may depend on the mutant.
        let Ok(programs) = work.build(&work.plain, programs) else {
            return Ok(Verdict::Unviable);
        };
        for program in programs {
            match judges.judge_copy(&program)? {
                Found::Nothing => {}
                found => return Ok(Verdict::Judged(found)),
            }
        }
    }
    Ok(Verdict::Judged(Found::Nothing))
}
