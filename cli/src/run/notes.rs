//! What the process that watches the command says to people, on a thread of its own.
//!
//! Standard error may be a pipe that nobody reads, or a terminal that is another's now: neither may keep this process from
//! ending the command in time.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::Builder,
    time::Duration,
};

use super::terminal::without_stop;
use crate::output;

/// How long the end of this process waits for whoever reads.
const READ: Duration = Duration::from_secs(1);

pub(crate) struct Notes {
    texts: Sender<String>,
    done: Receiver<()>,
}

impl Notes {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (texts, all) = channel::<String>();
        let (finish, done) = channel();
        let write = move || {
            without_stop(|| all.iter().for_each(|text| output::say(&text)));
            let _ = finish.send(());
        };
        Builder::new().name("notes".to_owned()).spawn(write)?;
        Ok(Self { texts, done })
    }

    pub(crate) fn say(&self, text: impl Into<String>) {
        let _ = self.texts.send(text.into());
    }

    /// All has been said, or nobody reads it.
    pub(crate) fn end(self) {
        drop(self.texts);
        let _ = self.done.recv_timeout(READ);
    }
}
