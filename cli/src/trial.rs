//! What `chaos` and `bench` share: whether servers can be started, the wish of the user that it ends, and the part that
//! a helper process is given.
//!
//! It decides nothing about what is tried, and starts nothing by itself.

use std::{
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use nix::sys::signal::Signal;
use quorlock_harness::server_program;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use crate::{
    exit::{Failure, Status},
    output::say,
    run::is_ignored,
};

/// Whether there is a program to start servers with; `why` says what they are for.
pub(crate) fn possible(why: &str) -> Result<(), Failure> {
    let text = "neither redis-server nor valkey-server is on the PATH: install one, or name one in REDIS_SERVER_BIN.";
    let missing = || Failure::new(Status::Config, format!("{text} {why}"));
    server_program().map(drop).ok_or_else(missing)
}

/// Set when the user wants it to end, by Ctrl-C, SIGTERM or a terminal that is closed. The second time ends it at once,
/// after `last`, which puts things right. Under `nohup` a terminal may be closed.
pub(crate) fn interrupted(last: fn()) -> Result<Arc<AtomicBool>, Failure> {
    let over = Arc::<AtomicBool>::default();
    let failed = |error| Failure::new(Status::Failed, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let told = Arc::clone(&over);
    // Before anything is begun, so that no signal goes by.
    let (mut int, mut term, mut hup) = {
        let _here = runtime.enter();
        let listen = |kind| signal(kind).map_err(failed);
        let hup = (!is_ignored(Signal::SIGHUP)).then(|| listen(SignalKind::hangup()));
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, hup.transpose()?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let status = tokio::select! {
                    Some(()) = int.recv() => 130,
                    Some(()) = term.recv() => 143,
                    Some(()) = heard(hup.as_mut()) => 129,
                    else => return,
                };
                if told.swap(true, Relaxed) {
                    last();
                    // Servers, workers and what they keep on disk are gone with this process.
                    std::process::exit(status);
                }
                say("it ends, with what there is; once more ends it at once");
            }
        });
    });
    Ok(over)
}

/// The next signal; never, where none is listened for.
async fn heard(signal: Option<&mut Listener>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// The part of a helper process, which is the first line of its input, and whether its input has ended since.
pub(crate) fn told<Part: DeserializeOwned>() -> Result<(Part, Arc<AtomicBool>), Failure> {
    let usage = |error: &dyn ToString| Failure::new(Status::Usage, error.to_string());
    let mut text = String::new();
    std::io::stdin().read_line(&mut text).map_err(|error| usage(&error))?;
    let part = serde_json::from_str(&text).map_err(|error| usage(&error))?;
    let over = Arc::<AtomicBool>::default();
    let ends = Arc::clone(&over);
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ends.store(true, Relaxed);
    });
    Ok((part, over))
}
