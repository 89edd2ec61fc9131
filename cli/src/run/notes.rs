//! What the process that watches the command says, on a thread of its own.
//!
//! Standard error may be a pipe that nobody reads, or a terminal that is another's now: neither may keep this process from
//! ending the command in time.

use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread::Builder,
    time::Duration,
};

use super::{Run, said::Event, terminal::without_stop};
use crate::output;

/// How long the end of this process waits for a reader.
const READ: Duration = Duration::from_secs(1);

pub(crate) struct Notes {
    events: Sender<Event>,
    done: Receiver<()>,
}

impl Notes {
    pub(crate) fn start(run: &Run) -> std::io::Result<Self> {
        let (events, all) = channel::<Event>();
        let (finish, done) = channel();
        let (resource, json) = (run.want.resource.clone(), run.json);
        let write = move || {
            without_stop(|| all.iter().for_each(|event| say(&event, &resource, json)));
            let _ = finish.send(());
        };
        Builder::new().name("notes".to_owned()).spawn(write)?;
        Ok(Self { events, done })
    }

    pub(crate) fn say(&self, event: impl Into<Event>) {
        let _ = self.events.send(event.into());
    }

    /// Waits until all has been said, or nobody reads it.
    pub(crate) fn end(self) {
        drop(self.events);
        let _ = self.done.recv_timeout(READ);
    }
}

/// In the form that was asked for.
pub(crate) fn say(event: &Event, resource: &str, json: bool) {
    if json {
        output::say_line(&event.json(resource));
    } else if let Some(words) = event.words(resource) {
        output::say(&words);
    }
}
