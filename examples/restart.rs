//! A service that is restarted on purpose and goes on with its lease: nobody else has the resource in between.
//!
//!     QUORLOCK_NODES=redis://127.0.0.1:7401,... cargo run --example restart
//!
//! Run it, end it by Ctrl-C, and run it again within ten seconds. Whoever can read the file can take the lease.

use std::{
    error::Error,
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    time::Duration,
};

use quorlock::{AcquireError, Builder, DetachedLease, Lease, Redlock};

const FILE: &str = "restart.lease";
/// Longer than a restart takes, and at most `max_ttl`.
const RESTART: Duration = Duration::from_secs(10);

/// What was left there; once, since a lease is adopted once.
fn taken_from_the_file() -> Result<Option<DetachedLease>, Box<dyn Error>> {
    match fs::read_to_string(FILE) {
        Ok(text) => {
            fs::remove_file(FILE)?;
            Ok(Some(text.trim().parse()?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Readable by this user alone, where the system knows users.
fn left_in_the_file(lease: &DetachedLease) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(FILE)?, "{lease}")
}

async fn begun(redlock: &Redlock) -> Result<Lease, Box<dyn Error>> {
    if let Some(detached) = taken_from_the_file()? {
        match redlock.adopt(&detached).await {
            Ok(lease) => {
                println!("goes on, token {} behind {}", lease.token()?, detached.token());
                return Ok(lease);
            }
            Err(AcquireError::NotAdopted { reason, .. }) => println!("{reason}"),
            Err(other) => return Err(other.into()),
        }
    }
    let lease = redlock.acquire("worker").await?;
    println!("begins, token {}", lease.token()?);
    Ok(lease)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = Builder::from_env()?.connect().await?;
    // New servers do not vote for eleven seconds.
    redlock.ready(Duration::from_secs(30)).await?;
    let lease = begun(&redlock).await?;
    tokio::select! {
        lost = lease.lost() => return Err(lost.into()),
        ended = tokio::signal::ctrl_c() => ended?,
    }
    // The work has ended by here.
    let detached = lease.detach_for(RESTART).await?;
    left_in_the_file(&detached)?;
    println!("restarts, and has {:.1?} for that", detached.left());
    Ok(())
}
