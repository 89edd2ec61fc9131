//! What the tests say of a mutant.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use super::{
    Result,
    work::{Program, Work},
};

/// Tests that take less are run together.
const QUICK: Duration = Duration::from_millis(50);

/// So many of them.
const TOGETHER: usize = 12;

/// A process has so many seconds of a processor, and ten times as much as its tests take without a mutant.
const SECONDS: u64 = 3;

/// So often one that does not end is met before no other is tried.
const PATIENCE: u32 = 2;

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
    /// The functions that it comes through.
    reaches: BTreeSet<u32>,
}

/// Runs each test by itself, without a mutant. The quickest comes first.
pub(crate) fn reach(work: &Work, programs: &[Program]) -> Result<Vec<Test>> {
    let reached = work.woven.with_extension("reached");
    let mut tests = Vec::new();
    for program in programs {
        for name in names(program)? {
            let _ = fs::remove_file(&reached);
            let began = Instant::now();
            let run = command(program, &[&name], 600).env("REACHED", &reached).output()?;
            if !run.status.success() {
                return Err(format!("{name} fails without a mutant").into());
            }
            let groups = fs::read_to_string(&reached).unwrap_or_default();
            let reaches = groups.lines().filter_map(|group| group.parse().ok()).collect();
            tests.push(Test { program: program.clone(), name, takes: began.elapsed(), reaches });
        }
    }
    tests.sort_by_key(|test| test.takes);
    Ok(tests)
}

/// The names of the tests of a program.
fn names(program: &Program) -> Result<Vec<String>> {
    let listed = Command::new(&program.path).args(["--list", "--format", "terse"]).output()?;
    let listed = String::from_utf8(listed.stdout)?;
    Ok(listed.lines().filter_map(|it| it.strip_suffix(": test")).map(str::to_owned).collect())
}

/// The tests that come through the function of a mutant, the quickest first, until one fails.
pub(crate) fn judge(tests: &[Test], mutant: u32, group: u32) -> Result<Found> {
    let tests = tests.iter().filter(|test| test.reaches.contains(&group)).collect();
    first_to_fail(tests, Some(mutant))
}

/// All tests of a program of another copy, the quickest first, until one fails.
pub(crate) fn judge_copy(tests: &[Test], program: &Program) -> Result<Found> {
    let tests = tests.iter().filter(|test| test.program.name == program.name);
    let tests: Vec<Test> =
        tests.map(|test| Test { program: program.clone(), ..test.clone() }).collect();
    first_to_fail(tests.iter().collect(), None)
}

fn first_to_fail(tests: Vec<&Test>, mutant: Option<u32>) -> Result<Found> {
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
        match run(some, mutant)? {
            Found::Nothing => {}
            Found::Killed(by) => return Ok(Found::Killed(by)),
            Found::Endless(_) => {
                // One may fail beside one that does not end. It is found as it is: a few are tried, and no more.
                let mut left = PATIENCE;
                for one in some {
                    match run(&[*one], mutant)? {
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

fn run(tests: &[&Test], mutant: Option<u32>) -> Result<Found> {
    let takes: Duration = tests.iter().map(|test| test.takes).sum();
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let mut command = command(&tests[0].program, &names, SECONDS + 10 * takes.as_secs());
    if let Some(mutant) = mutant {
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
        None if run.status.signal().is_some() => Found::Endless(first.to_owned()),
        None => Found::Killed(first.to_owned()),
    }
}

/// A run of these tests in so much processor time, and no more than six gigabytes.
fn command(program: &Program, tests: &[&str], seconds: u64) -> Command {
    let limited = format!("ulimit -v 6291456; ulimit -t {seconds}; exec \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &limited, "bash"]).arg(&program.path);
    command.args(["--test-threads=1", "--exact"]).args(tests);
    // What has failed once is not looked for again, nor made small.
    command
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .env("RUST_BACKTRACE", "0")
        .current_dir(&program.directory)
        .stderr(Stdio::null());
    command
}
