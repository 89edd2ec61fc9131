//! The end by a signal of a command that would go on for ever.
//!
//! It decides that such an end is a good one. It must not wait for anything: the command may be writing to a pipe or a terminal
//! that nobody reads.

use std::{io, process, thread};

use tokio::runtime::Builder;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Failure, Status};

/// From now on an interrupt, a terminate and the end of the terminal end this process with status 0.
pub(crate) fn well_by_a_signal() -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(Status::Failed, error);
    let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen().map_err(failed)?
    };
    thread::Builder::new()
        .spawn(move || {
            runtime.block_on(signals.wait());
            process::exit(i32::from(Status::Done.code()))
        })
        .map_err(failed)?;
    Ok(())
}

struct Signals {
    #[cfg(unix)]
    all: [tokio::signal::unix::Signal; 3],
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> io::Result<Self> {
        let all = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Self { all })
    }

    #[cfg(not(unix))]
    fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(unix)]
    async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.all;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn wait(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
