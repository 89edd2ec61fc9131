//! What the process that holds the lease says to the other one, on a thread of its own.
//!
//! The other one may be stopped, and the pipe full: that must never keep this one from ending the command in time. Of several
//! times that it has not read, it is told the last.

use std::{
    io::Write as _,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{Builder, JoinHandle},
};

use super::told::{Held, line};

pub(crate) struct Teller(Sender<Held>);

impl Teller {
    /// The thread ends when all has been said, or where nobody is there.
    pub(crate) fn start() -> std::io::Result<(Self, JoinHandle<()>)> {
        let (say, words) = channel();
        let thread = Builder::new().name("teller".to_owned()).spawn(move || write_all(&words))?;
        Ok((Self(say), thread))
    }

    pub(crate) fn say(&self, word: Held) {
        // Where nobody reads it, the end of the input says so too.
        let _ = self.0.send(word);
    }
}

fn write_all(words: &Receiver<Held>) {
    let mut out = std::io::stdout();
    while let Ok(first) = words.recv() {
        let mut all = vec![first];
        all.extend(words.try_iter());
        for (number, word) in all.iter().enumerate() {
            let is_old = matches!(
                (word, all.get(number + 1)),
                (Held::Until { .. }, Some(Held::Until { .. }))
            );
            let written = is_old || out.write_all(line(word).as_bytes()).is_ok();
            if !written || out.flush().is_err() {
                return;
            }
        }
    }
}
