//! quorlock beside a bare fan-out, rslock and redlock, on five real servers in one run.
//!
//! The contenders take turns in short blocks, so that whatever else the machine does hits all alike.
//! Only ratios within one run mean anything; absolute times say how fast the machine was that minute.
//! It prints tables and never fails because of a number in them.
#![allow(
    clippy::disallowed_methods,
    reason = "the ban on clocks, sleeps and spawns is for the library; a benchmark is outside it"
)]

mod contenders;
mod options;
mod report;
mod scenarios;
mod stats;

use std::{process::ExitCode, time::Instant};

use options::Options;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a tokio runtime with its default number of workers");
    let started = Instant::now();
    println!(
        "five redis-servers and their clients on one machine with {} processors{}",
        std::thread::available_parallelism().map_or(1, usize::from),
        if options.quick { ", a quick run" } else { "" },
    );
    let mut results = Vec::new();
    for scenario in &options.scenarios {
        // A service calls from a task on a worker thread, and not from the thread that made the runtime.
        let work = runtime.spawn(scenarios::run(*scenario, options.clone()));
        let result = runtime.block_on(work).expect("the scenario ran to its end");
        print!("{}", report::table(&result));
        results.push(result);
    }
    print!("{}", report::summary(&results));
    println!("\ntook {:.0} s", started.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
