//! Asks a person on the terminal before something is done that cannot be undone.
//!
//! It decides what a yes is. It must never take silence, or the lack of a terminal, for one.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::exit::{Failure, Status};

/// Shows these lines, and waits for a yes. Without a terminal it is an error, which begins with `what`.
pub(crate) fn confirmed(what: &str, lines: &[String], prompt: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        let text = format!("{what}: give --yes, or call it on a terminal");
        return Err(Failure::new(Status::Usage, text));
    }
    let mut terminal = anstream::stderr().lock();
    for line in lines {
        let _ = writeln!(terminal, "{line}");
    }
    let _ = write!(terminal, "{prompt}: ");
    let _ = terminal.flush();
    drop(terminal);
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(Status::Failed, error))?;
    Ok(answer.trim() == "yes")
}
