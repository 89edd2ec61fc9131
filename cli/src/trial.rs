//! What `chaos` and `bench` share: whether servers of one's own can be started, and the wish of the user that it ends.
//!
//! It decides nothing about what is tried, and starts nothing by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use quorlock_harness::server_program;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    exit::{Failure, Status},
    output::say,
};

/// Whether there is a program to start servers with; `why` says what they are for.
pub(crate) fn possible(why: &str) -> Result<(), Failure> {
    let text = "neither redis-server nor valkey-server is on the PATH: install one, or name one in REDIS_SERVER_BIN.";
    let missing = || Failure::new(Status::Config, format!("{text} {why}"));
    server_program().map(drop).ok_or_else(missing)
}

/// Set when the user wants it to end, by Ctrl-C or SIGTERM; the second time ends it at once, behind what `last` puts right.
pub(crate) fn interrupted(last: fn()) -> Result<Arc<AtomicBool>, Failure> {
    let over = Arc::<AtomicBool>::default();
    let failed = |error| Failure::new(Status::Failed, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let told = Arc::clone(&over);
    // Before anything is begun, so that none of both goes by.
    let (mut int, mut term) = {
        let _here = runtime.enter();
        let listen = |kind| signal(kind).map_err(failed);
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let status = tokio::select! {
                    Some(()) = int.recv() => 130,
                    Some(()) = term.recv() => 143,
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
