//! Goal: a reader of the log at night learns what is wrong, with which node or lease and since when, on one screen; and
//! a trouble that lasts or comes back does not fill it.
//!
//! Method: a subscriber writes down what an ordinary log would show. Real servers are killed under a lease and a waiter;
//! outages of an hour, and nodes that come and go, are in virtual time.
#![cfg(all(feature = "tokio", feature = "tracing"))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

#[cfg(feature = "redis")]
mod crowd;
mod hours;
#[cfg(feature = "redis")]
mod outage;
mod pairs;
mod spans;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tracing::{Level, Subscriber};
use tracing_subscriber::{fmt::MakeWriter, registry::LookupSpan};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);

/// The lines of a log, as `tracing_subscriber::fmt` writes them, without the time and colours.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// A subscriber for this level.
    fn subscriber(
        &self,
        level: Level,
    ) -> impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync + use<> {
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_writer(self.clone())
            .finish()
    }

    /// The one of this process, empty, and for one test at a time.
    fn of_process() -> (Self, MutexGuard<'static, ()>) {
        static LOG: OnceLock<Log> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let log = LOG.get_or_init(|| {
            let log = Self::default();
            tracing::subscriber::set_global_default(log.subscriber(Level::DEBUG)).unwrap();
            log
        });
        log.clear();
        (log.clone(), turn)
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// The lines so far.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.trim_start().to_owned()).collect()
    }

    /// The lines that contain all of this.
    fn with(&self, words: &[&str]) -> Vec<String> {
        let has = |line: &String| words.iter().all(|word| line.contains(word));
        self.lines().into_iter().filter(has).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
