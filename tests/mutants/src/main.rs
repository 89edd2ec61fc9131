//! Which changes of the core do its tests find? Every one that `cargo mutants` knows, in half an hour of one core.
//!
//! Goal: the score and the survivors of `docs/mutants.md`, by a command that anybody can run. Method: `cargo mutants` lists
//! the mutants (`list`); all of them are woven into one copy of `src/protocol`, in a crate that is that alone (`weave`), so
//! that one build serves for all, and an environment variable says which of them a process runs with. Each is judged by the
//! tests that reach its function, the quickest first (`judge`): the unit tests in `src/protocol`, and those of
//! `tests/proof/protocol`. What cannot be woven is put into a copy of its own (`alone`). What nobody has found is to have its
//! reason in `reasons.txt` (`page`).
//!
//! Not the whole crate judges: neither the model, nor the simulations, nor the tests on servers.
//!
//! - `cargo install cargo-mutants`, once;
//! - `cargo run -p quorlock-mutants`: the figures in `tests/evidence/mutants.jsonl`, and `docs/mutants.md`;
//! - `… -- FILE…`: the mutants of these files of `src/protocol` anew, such as `queue.rs`; of the others what was found last;
//! - `… -- --page`: the page again, of what was found last.
//!
//! `cargo mutants` asks the same of one mutant after the other, by a build for each (`.cargo/mutants.toml`).

#![allow(clippy::disallowed_methods, reason = "it measures how long tests take")]

mod alone;
mod judge;
mod list;
mod page;
mod weave;
mod work;

use std::{error::Error, path::Path, process::ExitCode};

use self::{
    judge::Found,
    list::Mutant,
    work::{PROGRAMS, Work},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What has become of a mutant.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Verdict {
    /// It does not compile.
    Unviable,
    Judged(Found),
}

fn run(root: &Path, files: &[String]) -> Result<bool> {
    let work = Work::new(root)?;
    let is_asked =
        |mutant: &Mutant| files.is_empty() || files.iter().any(|file| mutant.file.ends_with(file));
    let mutants: Vec<Mutant> = list::list(root)?.into_iter().filter(is_asked).collect();
    say(&format!("{} mutants", mutants.len()));

    let woven = weave::weave(&work, &mutants)?;
    let programs = work.build(&work.woven, &PROGRAMS)?;
    say(&format!("{} of them in one build; which tests reach what?", woven.groups.len()));
    let tests = judge::reach(&work, &programs)?;
    let judge_one = |mutant: &Mutant| match woven.groups.get(&mutant.number) {
        Some(group) => judge::judge(&tests, mutant.number, *group).map(Verdict::Judged),
        None if alone::may_compile(&work, mutant) => alone::judge(&work, &tests, mutant),
        None => Ok(Verdict::Unviable),
    };
    // What was found of a file is kept at once: where a run ends early, it can go on with the others.
    for of_file in mutants.chunk_by(|a, b| a.file == b.file) {
        let mut verdicts = Vec::new();
        for mutant in of_file {
            let verdict = judge_one(mutant)?;
            if !matches!(verdict, Verdict::Unviable | Verdict::Judged(Found::Killed(_))) {
                say(&format!("{verdict:?}: {}", mutant.name));
            }
            verdicts.push((mutant, verdict));
        }
        work.keep(&verdicts)?;
        say(&format!("{} is judged", of_file[0].file));
    }
    page::write(root, &work)
}

fn say(what: &str) {
    eprintln!("quorlock-mutants: {what}");
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = if arguments == ["--page"] {
        Work::new(&root).and_then(|work| page::write(&root, &work))
    } else {
        run(&root, &arguments)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
