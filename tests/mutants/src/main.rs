//! Which changes of the code do its tests find?
//!
//! Goal: the score and the survivors of `docs/mutants.md`, by a command that anybody can run. Method: `part` says what
//! is judged together, and by which test programs. `cargo mutants` lists the mutants of Rust code (`list`). All of them
//! are woven into one copy (`weave`): one build serves for all, and an environment variable picks the mutant of a
//! process. Mutants of the scripts are written over their texts in the built programs (`lua`). The tests that reach a
//! mutant's function or branch judge it (`judge`); one run of each test has told what it reaches. A mutant that cannot
//! be woven is put into a copy of its own in the core (`alone`), and left out elsewhere. Each survivor needs its reason
//! in `reasons.txt` (`page`).
//!
//! Not everything judges: neither the models, nor the simulations, nor chaos.
//!
//! - `cargo install cargo-mutants`, once;
//! - `cargo run -p quorlock-mutants`: the core, whose figures are in `tests/evidence/mutants.jsonl`, and `docs/mutants.md`;
//! - `… -- FOLDER…`: these rows of that page, such as `src/engine`; of all others what is recorded in `judged.jsonl`;
//! - `… -- FILE…`: these files anew, such as `queue.rs`; the row changes where the folder was judged in this checkout before;
//! - `… --sample N --seed S`: so many of each folder, drawn from that seed;
//! - `… --again`: survivors of the last run; `… --rest`: mutants that have not been judged; `… --only NAME,NAME`: by
//!   these tests alone;
//! - `… --jobs N`: so many side by side; `… --seconds S`: so long for one mutant, where tests wait for servers;
//! - `… --page`: the page again, of what was found last.
//!
//! `cargo mutants` asks the same of one mutant after the other, by a build for each (`.cargo/mutants.toml`).

#![allow(clippy::disallowed_methods, reason = "it measures how long tests take")]

mod alone;
mod judge;
mod list;
mod lua;
mod page;
mod part;
mod weave;
mod work;

use std::{
    collections::BTreeSet,
    error::Error,
    fs,
    path::Path,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use self::{
    judge::{Chosen, Found, Judges},
    list::Mutant,
    part::{PARTS, Part},
    work::{Program, Work},
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What has become of a mutant.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Verdict {
    /// It does not compile, or not where it is woven in.
    Unviable,
    Judged(Found),
}

/// What is to be judged.
#[derive(Debug, Default)]
struct Asked {
    /// Folders as the page has them, or beginnings or ends of paths; the core where there is none.
    files: Vec<String>,
    sample: Option<usize>,
    seed: u64,
    jobs: usize,
    seconds: u64,
    /// Only survivors of the last run.
    again: bool,
    /// Of the sample, only mutants that have not been judged yet.
    rest: bool,
    /// Parts of the names of the judges.
    only: String,
    /// Nothing: the page alone.
    page: bool,
}

impl Asked {
    fn of(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut asked = Self { jobs: 2, seconds: 60, ..Self::default() };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} what?"));
            match argument.as_str() {
                "--page" => asked.page = true,
                "--rest" => asked.rest = true,
                "--again" => asked.again = true,
                "--sample" => asked.sample = Some(value()?.parse()?),
                "--seed" => asked.seed = value()?.parse()?,
                "--jobs" => asked.jobs = value()?.parse()?,
                "--seconds" => asked.seconds = value()?.parse()?,
                "--only" => asked.only = value()?,
                _ => asked.files.push(argument),
            }
        }
        Ok(asked)
    }

    /// Whether any file of a part may be meant.
    fn asks_part(&self, part: &Part) -> bool {
        let may_be_here = |file: &String| {
            let is_path = ["src/", "core/", "cli/"].iter().any(|root| file.starts_with(root));
            let mut folders = part.folders.iter();
            if part::folders().contains(file.as_str()) {
                folders.any(|of| part::folder(of) == file)
            } else {
                !is_path || folders.any(|of| file.starts_with(of) || of.starts_with(file.as_str()))
            }
        };
        let is_core = part::CORES.contains(&part.folders[0]);
        if self.files.is_empty() { is_core } else { self.files.iter().any(may_be_here) }
    }

    /// Whether a whole folder is meant, with all tests as judges.
    fn asks_whole(&self, folder: &str) -> bool {
        let is_meant = self.files.is_empty() || self.files.iter().any(|file| file == folder);
        is_meant && !self.again && self.only.is_empty()
    }

    fn asks(&self, mutant: &Mutant) -> bool {
        let folder = part::folder(&mutant.file);
        let is_meant = |file: &String| {
            let is_here = mutant.file.starts_with(file) || mutant.file.ends_with(file);
            if part::folders().contains(file.as_str()) { folder == file } else { is_here }
        };
        if self.files.is_empty() {
            part::CORES.contains(&folder)
        } else {
            self.files.iter().any(is_meant)
        }
    }
}

fn run(root: &Path, asked: &Asked) -> Result<bool> {
    let work = Work::new(root, asked.jobs, Duration::from_secs(asked.seconds))?;
    if !asked.page {
        for part in PARTS.into_iter().filter(|part| asked.asks_part(part)) {
            judge_part(&work, part, asked)?;
        }
    }
    page::write(root, &work)
}

fn judge_part(work: &Work, part: &Part, asked: &Asked) -> Result<()> {
    let is_scripts = part.checks.is_empty();
    let listed = if is_scripts { lua::list(work)? } else { list::list(&work.root, part)? };
    let mut mutants: Vec<Mutant> = listed.into_iter().filter(|it| asked.asks(it)).collect();
    let folders: BTreeSet<&str> = mutants.iter().map(|it| part::folder(&it.file)).collect();
    let is_done = || {
        let mut whole = folders.iter().filter(|folder| asked.asks_whole(folder));
        whole.try_for_each(|folder| work.set_whole(folder, true))
    };
    if asked.again {
        let kept = work.kept()?;
        mutants.retain_mut(|mutant| {
            let last = kept.iter().find(|one| one["name"] == mutant.name);
            mutant.drawn = last.and_then(|it| it["drawn"].as_str()).unwrap_or_default().to_owned();
            last.is_some_and(|last| last["verdict"] == "survivor")
        });
    } else if let Some(count) = asked.sample {
        let all = mutants.len();
        mutants = part::sample(mutants, count, asked.seed);
        say(&format!("{} of {all} drawn", mutants.len()));
        for mutant in mutants.chunk_by(|a, b| part::folder(&a.file) == part::folder(&b.file)) {
            if !asked.rest {
                work.forget(part::folder(&mutant[0].file), |_| true)?;
                work.set_whole(part::folder(&mutant[0].file), false)?;
            }
        }
    }
    if asked.rest {
        let kept = work.kept()?;
        mutants.retain(|mutant| kept.iter().all(|one| one["name"] != mutant.name));
    }
    if mutants.is_empty() {
        return is_done();
    }
    say(&format!("{} mutants", mutants.len()));

    let woven = weave::weave(work, part, if is_scripts { &[] } else { &mutants })?;
    let mut programs = Vec::new();
    for selected in part.programs {
        programs.extend(work.build(work.copy_of(part), selected)?);
    }
    say(&format!("{} of them in one build; which tests reach what?", woven.groups.len()));
    let places = if is_scripts { Some(lua::Places::find(work, &programs)?) } else { None };
    let judges = if let Some(places) = &places {
        let telling = copied(work, &programs, work.jobs)?;
        places.tell(&telling)?;
        let judges = judge::reach(work, &programs, &telling, part, &asked.only);
        telling.iter().try_for_each(|copy| fs::remove_file(&copy.path))?;
        judges?
    } else {
        judge::reach(work, &programs, &programs, part, &asked.only)?
    };
    say(&format!("{} tests judge", judges.tests.len()));
    let (next, forgotten, alone) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(()));
    let judge = |number: usize| -> Result<()> {
        let copies = if is_scripts { copied(work, &programs, number)? } else { Vec::new() };
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = if let Some(places) = &places {
                places.choose(&copies, mutant, true)?;
                let found = judges.judge(mutant, mutant.group, Chosen::Script(&copies));
                places.choose(&copies, mutant, false)?;
                Verdict::Judged(found?)
            } else {
                judge_woven(work, part, &judges, &woven, mutant, &alone)?
            };
            if !matches!(verdict, Verdict::Unviable | Verdict::Judged(Found::Killed(_))) {
                say(&format!("{verdict:?}: {}", mutant.name));
            }
            // Each result is kept at once: a run that ended early can go on with other files.
            let mut forgotten = forgotten.lock().map_err(|_| "a poisoned list")?;
            let stays = asked.again || asked.rest || forgotten.contains(&mutant.file);
            if !stays {
                work.forget(part::folder(&mutant.file), |file| file == mutant.file)?;
                forgotten.push(mutant.file.clone());
            }
            work.keep(mutant, &verdict)?;
        }
        copies.iter().try_for_each(|copy| Ok(fs::remove_file(&copy.path)?))
    };
    side_by_side(work.jobs, judge)?;
    is_done()
}

fn judge_woven(
    work: &Work,
    part: &Part,
    judges: &Judges,
    woven: &weave::Woven,
    mutant: &Mutant,
    alone: &Mutex<()>,
) -> Result<Verdict> {
    match woven.groups.get(&mutant.number) {
        Some(group) => {
            judges.judge(mutant, *group, Chosen::Woven(mutant.number)).map(Verdict::Judged)
        }
        None if !part.is_whole && alone::may_compile(work, mutant) => {
            // There is one copy for it.
            let _alone = alone.lock().map_err(|_| "a poisoned lock")?;
            alone::judge(work, judges, mutant)
        }
        None => Ok(Verdict::Unviable),
    }
}

/// A copy of the programs, for one of those that judge side by side.
fn copied(work: &Work, programs: &[Program], number: usize) -> Result<Vec<Program>> {
    let folder = work.below.join(format!("programs-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let copy = |program: &Program| {
        let path = folder.join(&program.name);
        fs::copy(&program.path, &path)?;
        Ok(Program { path, ..program.clone() })
    };
    programs.iter().map(copy).collect()
}

/// So many at the same time, each with its number.
fn side_by_side(count: usize, each: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || each(number))).collect();
        threads.into_iter().try_for_each(|it| it.join().map_err(|_| "one has panicked")?)
    })
}

fn say(what: &str) {
    eprintln!("quorlock-mutants: {what}");
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let done = Asked::of(std::env::args().skip(1)).and_then(|asked| run(&root, &asked));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
