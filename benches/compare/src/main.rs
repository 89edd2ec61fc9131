//! quorlock beside a bare fan-out, rslock and redlock, on five real servers in one run; and beside rlock, on one.
//!
//! The contenders take turns in short blocks, so that other work of the machine hits all alike.
//! Only ratios within one run mean anything; absolute times say how fast the machine was that minute.
//! It prints tables and never fails because of a number in them. `lost` is what each lock loses under faults.
#![allow(
    clippy::disallowed_methods,
    reason = "the ban on clocks, sleeps and spawns is for the library; a benchmark is outside it"
)]

mod baseline;
mod columns;
mod contenders;
mod cpu;
mod held;
mod lost;
mod options;
mod plots;
mod report;
mod results;
mod scenarios;
mod settle;
mod stats;
mod targets;
mod waiting;

use std::{fs, process::ExitCode, thread, time::Instant};

use tokio::runtime::Builder;

use options::{Options, Scenario};
use results::Measured;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let Some(part) = waiting::part(&args) {
        return waiting::serve(part);
    }
    if lost::is_worker(&args) {
        return ExitCode::SUCCESS;
    }
    if let Some(("lost", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return lost::run(rest);
    }
    if let Some(("baseline", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest))
    {
        return baseline(rest);
    }
    if let Some(("held", rest)) = args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return held(rest);
    }
    let options = match Options::parse(args.into_iter()) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let started = Instant::now();
    if let Some(path) = &options.from {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
        return finish(&options, text.and_then(|text| waiting::Rows::from_json(&text)));
    }
    println!(
        "redis-servers and their clients on one machine with {} processors{}",
        thread::available_parallelism().map_or(1, usize::from),
        if options.quick { ", a quick run" } else { "" },
    );
    let (mut results, mut waits) = (Vec::new(), waiting::Rows::default());
    for run in 1..=options.runs {
        if options.runs > 1 {
            println!("\nrun {run} of {}", options.runs);
        }
        for scenario in &options.scenarios {
            let measured = measure(*scenario, &options);
            print!("{}", report::table(&[&measured]));
            results.push(measured);
        }
        for case in &options.waits {
            let rows = waiting::run(*case, &options.waiters, options.quick, run);
            let rows = waiting::Rows(rows);
            print!("{}", waiting::table(&rows, *case, 1));
            waits.0.extend(rows.0);
        }
    }
    if options.runs > 1 {
        for scenario in &options.scenarios {
            let runs: Vec<_> = results.iter().filter(|run| run.scenario == *scenario).collect();
            print!("{}", report::table(&runs));
        }
        for case in &options.waits {
            print!("{}", waiting::table(&waits, *case, options.runs));
        }
    }
    if !results.is_empty() {
        print!("{}", targets::summary(&results));
    }
    print!("{}", waiting::summary(&waits));
    let code = finish(&options, Ok(waits));
    println!("\ntook {:.0} s", started.elapsed().as_secs_f64());
    code
}

/// Holds many leases, 100,000 unless another number is given, and says what that costs.
fn held(args: &[String]) -> ExitCode {
    let Some(count) = args.first().map_or(Some(100_000), |count| count.parse().ok()) else {
        eprintln!("how many is to be a number");
        return ExitCode::FAILURE;
    };
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a tokio runtime");
    println!("{}", runtime.block_on(held::measure(count)));
    ExitCode::SUCCESS
}

/// Measures the baseline for a change of structure, and writes it to a file or to the screen.
fn baseline(args: &[String]) -> ExitCode {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a tokio runtime");
    let text = format!("{:#}\n", runtime.block_on(baseline::measure()));
    match args.first().map(|path| fs::write(path, &text)) {
        None => print!("{text}"),
        Some(Ok(())) => {}
        Some(Err(error)) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Writes the results of waiting and draws them, where that is asked for.
fn finish(options: &Options, rows: Result<waiting::Rows, String>) -> ExitCode {
    let write = || {
        let rows = rows?;
        if let Some(path) = &options.json {
            fs::write(path, rows.to_json())
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if let Some(path) = &options.plots {
            let drawn = plots::draw(&rows, path);
            let drawn = drawn.map_err(|error| format!("{}: {error}", path.display()))?;
            println!("\n{}: {}", path.display(), drawn.join(", "));
        }
        Ok::<(), String>(())
    };
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a scenario in a runtime of its own, which ends with it: nothing goes on in the next one.
fn measure(scenario: Scenario, options: &Options) -> Measured {
    let mut builder = match scenario {
        Scenario::Current => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let options = options.clone();
    let work = move || {
        let runtime = builder.enable_all().build().expect("a tokio runtime");
        // A service calls from a task, and not from the future that the runtime was entered with.
        let work = runtime.spawn(scenarios::run(scenario, options));
        runtime.block_on(work).expect("the scenario ran to its end")
    };
    thread::spawn(work).join().expect("the scenario ran to its end")
}
