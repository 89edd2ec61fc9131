//! What `hold` says, written by a thread of its own.
//!
//! The caller may be stopped, and the pipe full: that must hold up nothing but this thread. What waits to be written has a
//! limit: beyond it answers are dropped, and never the events that end a lease.

use std::{
    io::{ErrorKind, stdout},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::Builder,
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::Notify;

use super::said::Event;

/// So many lines wait to be written at most, or to be answered by one extension.
pub(super) const MOST: usize = 1_000;
/// How long the end of this process waits for a reader.
const READ: Duration = Duration::from_secs(1);

pub(super) struct Teller {
    lines: Sender<String>,
    waiting: Arc<AtomicUsize>,
    done: Receiver<()>,
    unread: Arc<Notify>,
    json: bool,
}

impl Teller {
    pub(super) fn start(json: bool) -> std::io::Result<Self> {
        let (lines, all) = channel::<String>();
        let (finish, done) = channel();
        let (waiting, unread) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (written, gone) = (Arc::clone(&waiting), Arc::clone(&unread));
        let write = move || {
            for line in all {
                if !write_all(line.as_bytes()) {
                    gone.notify_one();
                    break;
                }
                written.fetch_sub(1, Relaxed);
            }
            let _ = finish.send(());
        };
        Builder::new().name("teller".to_owned()).spawn(write)?;
        Ok(Self { lines, waiting, done, unread, json })
    }

    /// Notified when it cannot be written any more.
    pub(super) fn unread(&self) -> Arc<Notify> {
        Arc::clone(&self.unread)
    }

    pub(super) fn say(&self, event: &Event, asked: Option<&str>) {
        let line = if self.json { Some(event.json(asked)) } else { event.words() };
        if let Some(line) = line {
            self.waiting.fetch_add(1, Relaxed);
            // Where nobody reads, `unread` has said so.
            let _ = self.lines.send(line + "\n");
        }
    }

    /// The same, unless too much waits to be read.
    pub(super) fn answer(&self, event: &Event, asked: Option<&str>) {
        if self.waiting.load(Relaxed) < MOST {
            self.say(event, asked);
        }
    }

    /// Waits until all has been said, or nobody reads it.
    pub(super) fn end(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(READ);
    }
}

/// Whether it is written: also to a pipe that another process has made one that does not block.
fn write_all(mut rest: &[u8]) -> bool {
    let out = stdout();
    while !rest.is_empty() {
        // Not by `stdout` itself, which does not tell how much of it was written before an error.
        match nix::unistd::write(&out, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) => match std::io::Error::from(error).kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => {
                    let mut pipe = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut pipe, PollTimeout::NONE);
                }
                _ => return false,
            },
        }
    }
    true
}
