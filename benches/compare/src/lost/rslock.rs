//! A worker of `quorlock chaos --worker` with rslock, through its public API: `lock`, and `extend` before half of the time is over.
//!
//! It looks at the clock before each write: the time that `validity_time` says is the library's promise.

use std::{
    env,
    io::{Write as _, stdin, stdout},
    time::{Duration, Instant},
};

use ::rslock::{Lock, LockManager};
use serde_json::json;
use tokio::{runtime::Builder, time::sleep};

const MS: Duration = Duration::from_millis(1);

pub(super) fn work() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a tokio runtime");
    // None where the input has ended.
    let _ = runtime.block_on(turns());
}

fn told(name: &str) -> String {
    env::var(format!("CHAOS_{name}")).expect("chaos has started it")
}

/// Prints an event, and waits for the answer.
fn say(event: &str, why: Option<String>) -> Option<()> {
    let line =
        why.map_or_else(|| json!({ "event": event }), |why| json!({ "event": event, "why": why }));
    writeln!(stdout().lock(), "{line}").ok()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer).ok().filter(|read| *read > 0).map(drop)
}

/// Right behind the grant.
fn end(lock: &Lock) -> Instant {
    Instant::now() + MS * u32::try_from(lock.validity_time).unwrap_or_default()
}

async fn turns() -> Option<()> {
    let mut locks = LockManager::new(told("NODES").split(',').map(str::to_owned).collect());
    // One attempt for each `ask`.
    locks.set_retry(1, MS);
    let ttl = MS * told("TTL_MS").parse().expect("a number");
    let mut dice: u64 = told("SEED").parse().expect("a number");
    let resource = told("RESOURCE");
    loop {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let drawn = f64::from(u32::try_from(dice >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        say("ask", None)?;
        let mut lock = match locks.lock(resource.as_str(), ttl).await {
            Ok(lock) => lock,
            Err(error) => {
                say("failed", Some(error.to_string()))?;
                sleep(MS.mul_f64(10.0 + 40.0 * drawn)).await;
                continue;
            }
        };
        let mut until = end(&lock);
        say("got", None)?;
        let work_ends = Instant::now() + ttl.mul_f64(0.4 + 0.9 * drawn);
        let mut lost = None;
        while lost.is_none() && Instant::now() < work_ends {
            if Instant::now() + ttl / 2 > until {
                say("ask", None)?;
                match locks.extend(&lock, ttl).await {
                    Ok(extended) => lock = extended,
                    Err(error) => {
                        say("failed", None)?;
                        lost = Some(error.to_string());
                        break;
                    }
                }
                until = end(&lock);
                say("got", None)?;
            }
            say("read", None)?;
            if Instant::now() >= until {
                lost = Some("its time is over".to_owned());
                break;
            }
            say("write", None)?;
        }
        match lost {
            Some(why) => say("lost", Some(why))?,
            None => {
                say("release", None)?;
                locks.unlock(&lock).await;
            }
        }
    }
}
