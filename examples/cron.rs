//! A job that a timer starts on every host at the same minute, and that runs once.
//!
//!     QUORLOCK_NODES=redis://127.0.0.1:7401,... cargo run --example cron
//!
//! Exit status: 0 the job ran here, or somewhere else; 1 it failed, or it is not known whether it ran.

use std::{env, error::Error, process::ExitCode, time::Duration};

use quorlock::{Builder, Redlock};

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run() {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<&'static str, Box<dyn Error>> {
    // Longer than the hosts' clocks are apart, and not longer than the timer's interval.
    let at_least = Duration::from_secs(env::var("AT_LEAST").map_or(Ok(8), |text| text.parse())?);
    let redlock: Redlock = Builder::from_env()?.blocking_connect()?;
    // New servers do not vote for eleven seconds. The time that this process watches them counts for the next one too.
    redlock.blocking_ready(Duration::from_secs(30))?;

    // A job that ends within a second must not run again on a host whose clock is three seconds late.
    let request = redlock.try_acquire("report:daily").hold_at_least(at_least);
    let lease = match request.blocking() {
        Ok(lease) => lease,
        Err(busy) if busy.is_contended() => return Ok("another host runs it"),
        Err(broken) => return Err(broken.into()),
    };
    println!("writing the report, token {}", lease.token()?);
    lease.check()?;
    lease.blocking_release()?;
    Ok("done")
}
