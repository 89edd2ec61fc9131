//! What this crate tells `tracing`, as lines of text with the instant of each.
//!
//! There is one subscriber for the process, since most events come from the engine thread. Tests look only at lines that
//! name their own address or resource.

use std::{
    io,
    sync::{Mutex, Once, PoisonError},
    time::Instant,
};

use tracing_subscriber::{
    filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

static LINES: Mutex<Vec<(Instant, String)>> = Mutex::new(Vec::new());

/// Takes down every event from now on.
pub(super) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Line);
        let ours = Targets::new().with_target("quorlock", tracing::Level::DEBUG);
        tracing_subscriber::registry().with(lines).with(ours).init();
    });
}

/// The lines since an instant that contain all of these words.
pub(super) fn since(begin: Instant, words: &[&str]) -> Vec<(Instant, String)> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let about = |(at, line): &&(Instant, String)| {
        *at >= begin && words.iter().all(|word| line.contains(word))
    };
    lines.iter().filter(about).cloned().collect()
}

/// The first such line; without one, a panic that shows all that was said since then.
#[track_caller]
pub(super) fn first(begin: Instant, words: &[&str]) -> (Instant, String) {
    let found = since(begin, words).into_iter().next();
    found.unwrap_or_else(|| panic!("no line with {words:?} in {:#?}", since(begin, &[])))
}

/// One event: the subscriber writes a whole line at once.
struct Line;

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).trim_end().to_owned();
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
