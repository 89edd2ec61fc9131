//! What the tests say of a mutant.
//!
//! Tests that wait for servers and for each other are limited by time too. Where one of them fails, it runs again
//! without the mutant: where it fails then too, it is no judge any more.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hasher as _},
    os::unix::process::ExitStatusExt,
    process::{Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    Result,
    list::Mutant,
    part::{self, Part},
    say,
    work::{Program, Work},
};

/// Tests that take less are run together.
const QUICK: Duration = Duration::from_millis(50);

/// How many of them run together.
const TOGETHER: usize = 12;

/// Processor seconds that a run may take, beside ten times what its tests take without a mutant.
const SECONDS: u64 = 3;

/// How many endless tests are met before no other is tried.
const PATIENCE: u32 = 2;

/// Seconds that a run of waiting tests may take, beside five times what they take without a mutant.
const WAITS: u64 = 15;

/// A test that waits for longer is no judge.
const LONGEST: u64 = 40;

/// No limit.
const ENDLESS: u64 = 1_000_000;

/// What has been found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Found {
    /// This test fails.
    Killed(String),
    /// This test has not ended in ten times its time, or took all memory; of a few others none has failed.
    Endless(String),
    Nothing,
}

/// One test without a mutant.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    program: Program,
    name: String,
    takes: Duration,
    /// The functions, or branches of scripts, that it reaches.
    reaches: BTreeSet<u32>,
}

/// The tests that judge a part, and what they have found.
#[derive(Debug)]
pub(crate) struct Judges {
    pub(crate) tests: Vec<Test>,
    /// Whether they wait for servers.
    waits: bool,
    /// How long the waiting tests may take together for one mutant.
    budget: Duration,
    /// How many mutants of a file a test has found.
    finds: Mutex<BTreeMap<(String, String), u32>>,
    /// Tests that fail without a mutant.
    unfit: Mutex<BTreeSet<String>>,
}

/// What runs with a mutant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen<'a> {
    /// The programs of another copy, as they are.
    Copy,
    /// The mutant of this number, in the programs that have all of them.
    Woven(u32),
    /// These programs have the mutant in their scripts; those from which they were copied do not.
    Script(&'a [Program]),
}

/// Runs each test by itself, without a mutant, in programs that tell what the test reaches. The quickest comes first.
pub(crate) fn reach(
    work: &Work,
    programs: &[Program],
    telling: &[Program],
    part: &Part,
    only: &str,
) -> Result<Judges> {
    let mut all = Vec::new();
    let cache =
        work.below.join(if part.checks.is_empty() { "branches.json" } else { "reach.json" });
    let known: BTreeMap<String, (f64, Vec<u32>)> = match fs::read(&cache) {
        Ok(known) => serde_json::from_slice(&known)?,
        Err(_) => BTreeMap::new(),
    };
    let mut identities = BTreeMap::new();
    for program in programs {
        identities.insert(&program.name, identity(program)?);
        let is_asked = |name: &String| only.split(',').any(|it| name.contains(it));
        let names = names(program)?.into_iter().filter(is_asked);
        all.extend(names.map(|name| (program.clone(), name)));
    }
    let (next, tests, waits) = (AtomicUsize::new(0), Mutex::new(Vec::new()), part.is_whole);
    let key = |program: &Program, name: &str| format!("{:016x} {name}", identities[&program.name]);
    let runner = |number: usize| -> Result<()> {
        let reached = work.below.join(format!("reached-{}-{number}", std::process::id()));
        while let Some((program, name)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some((takes, reaches)) = known.get(&key(program, name)) {
                let (takes, reaches) =
                    (Duration::from_secs_f64(*takes), reaches.iter().copied().collect());
                let test = Test { program: program.clone(), name: name.clone(), takes, reaches };
                tests.lock().map_err(|_| "a poisoned list")?.push(test);
                continue;
            }
            let _ = fs::remove_file(&reached);
            let began = Instant::now();
            let limit = if waits { LONGEST } else { ENDLESS };
            let in_it = telling.iter().find(|it| it.name == program.name).unwrap_or(program);
            let mut run = command(in_it, &[name], (600, limit));
            run.env("REACHED", &reached);
            if part.checks.is_empty() {
                run.env("REDIS_SERVER_BIN", work.below.join("server"));
            }
            if !run.output()?.status.success() {
                if !waits {
                    return Err(format!("{name} fails without a mutant").into());
                }
                say(&format!("no judge, as it fails or takes {LONGEST} s: {name}"));
                let _ = fs::remove_file(&reached);
            }
            let takes = began.elapsed();
            let said = fs::read(&reached).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let groups =
                said.lines().filter_map(|line| line.rsplit('@').next()?.trim().parse().ok());
            let test = Test {
                program: program.clone(),
                name: name.clone(),
                takes,
                reaches: groups.collect(),
            };
            tests.lock().map_err(|_| "a poisoned list")?.push(test);
        }
        Ok(())
    };
    super::side_by_side(work.jobs, runner)?;
    let mut tests = tests.into_inner().map_err(|_| "a poisoned list")?;
    let mut told = known;
    told.extend(tests.iter().map(|test| {
        let reaches: Vec<u32> = test.reaches.iter().copied().collect();
        (key(&test.program, &test.name), (test.takes.as_secs_f64(), reaches))
    }));
    fs::write(cache, serde_json::to_vec(&told)?)?;
    tests.sort_by_key(|test| test.takes);
    let (finds, unfit) = (Mutex::default(), Mutex::default());
    Ok(Judges { tests, waits, budget: work.budget, finds, unfit })
}

/// Identifies the build of a program: what its tests reach is asked once for each build.
fn identity(program: &Program) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(&program.path)?);
    Ok(hasher.finish())
}

/// The names of the tests of a program.
fn names(program: &Program) -> Result<Vec<String>> {
    let listed = Command::new(&program.path).args(["--list", "--format", "terse"]).output()?;
    let listed = String::from_utf8(listed.stdout)?;
    Ok(listed.lines().filter_map(|it| it.strip_suffix(": test")).map(str::to_owned).collect())
}

impl Judges {
    /// Runs the tests that reach the function of a mutant until one fails: first those that have found most in its
    /// file, then likely ones, and of those the quickest.
    pub(crate) fn judge(&self, mutant: &Mutant, group: u32, chosen: Chosen<'_>) -> Result<Found> {
        let finds = self.finds.lock().map_err(|_| "a poisoned list")?.clone();
        let unfit = self.unfit.lock().map_err(|_| "a poisoned list")?.clone();
        let mut tests: Vec<&Test> =
            self.tests.iter().filter(|test| test.reaches.contains(&group)).collect();
        tests.retain(|test| !unfit.contains(&test.name));
        let found = |test: &Test| finds.get(&(mutant.file.clone(), test.name.clone())).copied();
        let is_other = |test: &Test| !part::is_likely(&test.name, &mutant.file);
        tests.sort_by_key(|test| (Reverse(found(test)), is_other(test), test.takes));
        if self.waits {
            let mut left = Some(self.budget);
            tests.retain(|test| {
                left = left.and_then(|left| left.checked_sub(test.takes));
                left.is_some()
            });
        }
        let found = self.first_to_fail(tests, chosen)?;
        if let Found::Killed(by) | Found::Endless(by) = &found {
            let mut finds = self.finds.lock().map_err(|_| "a poisoned list")?;
            *finds.entry((mutant.file.clone(), by.clone())).or_default() += 1;
        }
        Ok(found)
    }

    /// All tests of a program in another copy, the quickest first, until one fails.
    pub(crate) fn judge_copy(&self, program: &Program) -> Result<Found> {
        let tests = self.tests.iter().filter(|test| test.program.name == program.name);
        let tests: Vec<Test> =
            tests.map(|test| Test { program: program.clone(), ..test.clone() }).collect();
        self.first_to_fail(tests.iter().collect(), Chosen::Copy)
    }

    /// What some tests find. A test that waits, and fails without the mutant too, is left out.
    fn run(&self, tests: &[&Test], chosen: Chosen<'_>) -> Result<Found> {
        let found = run(tests, chosen, self.waits)?;
        let (Found::Killed(by) | Found::Endless(by)) = &found else { return Ok(found) };
        let Some(test) = tests.iter().find(|test| test.name == *by) else { return Ok(found) };
        if !self.waits || run(&[*test], Chosen::Copy, true)? == Found::Nothing {
            return Ok(found);
        }
        say(&format!("no judge any more, as it fails without a mutant: {by}"));
        self.unfit.lock().map_err(|_| "a poisoned list")?.insert(by.clone());
        let others: Vec<&Test> = tests.iter().filter(|test| test.name != *by).copied().collect();
        if others.is_empty() { Ok(Found::Nothing) } else { self.run(&others, chosen) }
    }

    fn first_to_fail(&self, tests: Vec<&Test>, chosen: Chosen<'_>) -> Result<Found> {
        let (quick, slow): (Vec<&Test>, Vec<&Test>) =
            tests.into_iter().partition(|test| test.takes < QUICK);
        let mut programs: Vec<Vec<&Test>> = Vec::new();
        for test in quick {
            match programs.iter_mut().find(|it| it[0].program.path == test.program.path) {
                Some(program) => program.push(test),
                None => programs.push(vec![test]),
            }
        }
        let together = programs.iter().flat_map(|program| program.chunks(TOGETHER));
        let (mut endless, mut times) = (None, 0);
        for some in together.chain(slow.chunks(1)) {
            match self.run(some, chosen)? {
                Found::Nothing => {}
                Found::Killed(by) => return Ok(Found::Killed(by)),
                Found::Endless(by) if self.waits && some.len() == 1 => {
                    return Ok(Found::Endless(by));
                }
                Found::Endless(_) => {
                    // A test may fail beside an endless one. The failure is found by running each alone, up to so many
                    // endless ones.
                    let mut left = PATIENCE;
                    for one in some {
                        match self.run(&[*one], chosen)? {
                            Found::Nothing => {}
                            Found::Killed(by) => return Ok(Found::Killed(by)),
                            Found::Endless(by) => {
                                endless = endless.or(Some(Found::Endless(by)));
                                left -= 1;
                            }
                        }
                        if left == 0 {
                            break;
                        }
                    }
                    times += 1;
                }
            }
            if times >= PATIENCE && endless.is_some() {
                break;
            }
        }
        Ok(endless.unwrap_or(Found::Nothing))
    }
}

fn run(tests: &[&Test], chosen: Chosen<'_>, waits: bool) -> Result<Found> {
    let takes: Duration = tests.iter().map(|test| test.takes).sum();
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let original = &tests[0].program;
    let program = match chosen {
        Chosen::Script(programs) => programs.iter().find(|it| it.name == original.name),
        Chosen::Copy | Chosen::Woven(_) => None,
    };
    let limit = if waits { WAITS + 5 * takes.as_secs() } else { ENDLESS };
    let limits = (SECONDS + 10 * takes.as_secs(), limit);
    let mut command = command(program.unwrap_or(original), &names, limits);
    if let Chosen::Woven(mutant) = chosen {
        command.env("MUTANT", mutant.to_string());
    }
    Ok(found(&command.output()?, names[0]))
}

/// What a run of tests, of which this is the first, has found.
fn found(run: &Output, first: &str) -> Found {
    if run.status.success() {
        return Found::Nothing;
    }
    let said = String::from_utf8_lossy(&run.stdout);
    let failed = said.lines().find_map(|line| {
        line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned)
    });
    match failed {
        Some(test) => Found::Killed(test),
        // As `timeout` says that it has ended it.
        None if run.status.signal().is_some() || run.status.code() == Some(124) => {
            Found::Endless(first.to_owned())
        }
        None => Found::Killed(first.to_owned()),
    }
}

/// A run of these tests within so much processor time, so much time, and six gigabytes.
fn command(program: &Program, tests: &[&str], (seconds, time): (u64, u64)) -> Command {
    let limited =
        format!("ulimit -v 6291456; ulimit -t {seconds}; exec timeout -k 1 {time} \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &limited, "bash"]).arg(&program.path);
    command.args(["--test-threads=1", "--exact"]).args(tests);
    // Failures of earlier runs are neither tried first nor shrunk.
    command
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .current_dir(&program.directory)
        .stderr(Stdio::null());
    command
}
