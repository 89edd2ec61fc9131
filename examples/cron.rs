//! A job that a timer starts on every host once a day, and that runs once.
//!
//!     QUORLOCK_NODES=redis://127.0.0.1:7401,... cargo run --example cron
//!
//! Exit status: 0 the job ran here, or somewhere else; 1 it failed, or it is not known whether it ran.

use std::{error::Error, process::ExitCode, time::Duration};

use quorlock::{Builder, Once, Redlock};

const DAY: Duration = Duration::from_secs(86_400);

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

fn run() -> Result<String, Box<dyn Error>> {
    let redlock: Redlock = Builder::from_env()?.blocking_connect()?;
    // New servers do not vote for eleven seconds. The time that this process watches them counts for the next one too.
    redlock.blocking_ready(Duration::from_secs(30))?;

    // Hosts whose clocks are hours apart agree about the day, however soon the job ends. One that waits runs it if the one before
    // fails.
    let lease = match redlock.acquire("report:daily").once_per(DAY).blocking() {
        Ok(Once::Due(lease)) => lease,
        Ok(already_done) => return Ok(already_done.to_string()),
        Err(busy) if busy.is_contended() => return Ok("another host is at it".to_owned()),
        Err(broken) => return Err(broken.into()),
    };
    println!("writing the report, token {}", lease.token()?);
    lease.check()?;
    // If it fails before this, the next host that asks runs it.
    lease.blocking_done()?;
    lease.blocking_release()?;
    Ok("done".to_owned())
}
