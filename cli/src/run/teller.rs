//! What the process that holds the lease says to the supervisor, on a thread of its own.
//!
//! The supervisor may be stopped, and the pipe full: that must never keep the holder from ending the command in time.
//! Of several times that wait to be written, only the last is.

use std::{
    io::Write as _,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{Builder, JoinHandle},
};

use tokio::sync::oneshot;

use super::told::{Held, line};

/// A word, and a channel that closes when the word is in the pipe.
type Word = (Held, Option<oneshot::Sender<()>>);

pub(crate) struct Teller(Sender<Word>);

impl Teller {
    /// The thread ends when all has been said, or the supervisor is gone.
    pub(crate) fn start() -> std::io::Result<(Self, JoinHandle<()>)> {
        let (say, words) = channel();
        let thread = Builder::new().name("teller".to_owned()).spawn(move || write_all(&words))?;
        Ok((Self(say), thread))
    }

    pub(crate) fn say(&self, word: Held) {
        // Where the supervisor is gone, the end of the input says so too.
        let _ = self.0.send((word, None));
    }

    /// The same, and returns when it is in the pipe, or the supervisor is gone.
    pub(crate) async fn say_now(&self, word: Held) {
        let (written, is_written) = oneshot::channel();
        let _ = self.0.send((word, Some(written)));
        let _ = is_written.await;
    }
}

fn write_all(words: &Receiver<Word>) {
    let mut out = std::io::stdout();
    while let Ok(first) = words.recv() {
        let mut all = vec![first];
        all.extend(words.try_iter());
        let mut all = all.into_iter().peekable();
        while let Some((word, told)) = all.next() {
            let is_old =
                matches!((&word, all.peek()), (Held::Until { .. }, Some((Held::Until { .. }, _))));
            let written = is_old || out.write_all(line(&word).as_bytes()).is_ok();
            if !written || out.flush().is_err() {
                return;
            }
            drop(told);
        }
    }
}
