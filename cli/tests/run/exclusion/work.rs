//! The command: this test binary, run again, that logs every few milliseconds that it runs, and writes to a store with its token.
//!
//! Each line is one write to the end of a file, so that lines of several processes are never mixed. It judges nothing.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    process::Command,
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    time::{ClockId, clock_gettime},
};

use crate::host::{Host, MS};

/// The variable that tells a process its part, and the test that plays it.
const PART: &str = "RUN_EXCLUSION_PART";
const TEST: &str = "exclusion::work::a_command_logs_and_writes";

/// Between two lines of the log.
const TICK: Duration = Duration::from_millis(3);

pub(crate) struct Work {
    pub(crate) number: usize,
    pub(crate) time: Duration,
}

impl Work {
    /// As the next arguments, and in the environment.
    pub(crate) fn put(&self, command: &mut Command, host: &Host) {
        command.arg(std::env::current_exe().unwrap()).args([TEST, "--exact", "--nocapture"]);
        let folder = host.file("");
        let part = format!("{} {} {}", self.number, self.time.as_millis(), folder.display());
        command.env(PART, part);
    }

    pub(crate) fn has_begun(&self, host: &Host) -> bool {
        host.file(&format!("begun.{}", self.number)).exists()
    }
}

/// A clock that all processes of the machine share, in microseconds.
pub(crate) fn now() -> u128 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_micros()
}

fn play(part: &str) {
    let [number, time, folder] = part.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let token: u64 = std::env::var("QUORLOCK_TOKEN").unwrap().parse().unwrap();
    let file = |name: &str| {
        let path = std::path::Path::new(folder).join(name);
        OpenOptions::new().create(true).append(true).read(true).open(path).unwrap()
    };
    let mut log = file("log");
    let mut say = |what: &str| {
        let line = format!("{what} {number} {token} {}\n", now());
        log.write_all(line.as_bytes()).unwrap();
    };
    say("runs");
    let end = now() + time.parse::<u128>().unwrap() * 1000;
    file(&format!("begun.{number}"));
    let mut store = file("store");
    while now() < end {
        say("runs");
        store = match write(store, number, token) {
            (store, true) => store,
            (store, false) => {
                say("refused");
                store
            }
        };
        std::thread::sleep(TICK);
    }
    say("runs");
}

/// A write that the store takes where no larger token has written to it; whether it did.
fn write(store: File, number: &str, token: u64) -> (File, bool) {
    let mut store =
        Flock::lock(store, FlockArg::LockExclusive).map_err(|(_, error)| error).unwrap();
    let length = store.metadata().unwrap().len();
    store.seek(SeekFrom::Start(length.saturating_sub(100))).unwrap();
    let mut end = String::new();
    store.read_to_string(&mut end).unwrap();
    let last = end.lines().last().and_then(|line| line.split_once(' ')?.1.parse::<u64>().ok());
    let is_taken = last.is_none_or(|last| token >= last);
    if is_taken {
        store.write_all(format!("{number} {token}\n").as_bytes()).unwrap();
    }
    (store.unlock().map_err(|(_, error)| error).unwrap(), is_taken)
}

#[test]
fn a_command_logs_and_writes() {
    if let Ok(part) = std::env::var(PART) {
        return play(&part);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = File::create_new(folder.path().join("store")).unwrap();
    drop(store);
    let path = folder.path().join("store");
    let open = || OpenOptions::new().append(true).read(true).open(&path).unwrap();
    let taken = [7, 7, 9, 7, 8, 9, 10].map(|token| write(open(), "0", token).1);
    assert_eq!(taken, [true, true, true, false, false, true, true]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "0 7\n0 7\n0 9\n0 9\n0 10\n");
    assert!(now() > 0 && TICK < 50 * MS);
}
