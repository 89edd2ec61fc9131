//! What is written: lines for people on standard error, and what was asked for on standard output.
//!
//! It decides the form. Colours stand only on a terminal, and not where `NO_COLOR` is set; it must never panic because
//! nobody reads.

use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::shown::{line_of_json, plain};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
pub(crate) const FAINT: Style = Style::new().dimmed();

/// A message of this command itself.
pub(crate) fn say(text: &str) {
    say_line(&format!("{} {}", styled(BAD, "quorlock:"), plain(text)));
}

/// A line as it is, written in one piece, since other processes may write there too.
pub(crate) fn say_line(text: &str) {
    drop(anstream::stderr().lock().write_all(format!("{text}\n").as_bytes()));
}

/// What the user must know beforehand, written without a terminal too.
#[cfg(unix)]
pub(crate) fn note(text: &str) {
    drop(writeln!(anstream::stderr().lock(), "{}", styled(FAINT, text)));
}

/// What the command is doing, on a terminal only.
pub(crate) fn doing(text: &str) {
    if io::stderr().is_terminal() {
        drop(writeln!(anstream::stderr().lock(), "{}", styled(FAINT, text)));
    }
}

/// One line of the answer. What others wrote has gone through `shown` before.
pub(crate) fn line(text: &str) {
    drop(writeln!(anstream::stdout().lock(), "{text}"));
}

/// The same for a command that goes on writing, and has to end when its reader is gone.
pub(crate) fn try_line(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Several lines as they are, likewise.
pub(crate) fn try_text(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// One line of JSON, likewise.
pub(crate) fn try_json(value: &impl Serialize) -> io::Result<()> {
    try_line(&line_of_json(&serde_json::to_string(value)?))
}

/// One line of JSON.
pub(crate) fn json(value: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(value) {
        line(&line_of_json(&text));
    }
}

/// Text in a style, in which nothing else acts on a terminal.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{}{style:#}", plain(text))
}
