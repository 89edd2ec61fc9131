//! One clock for a server, for a node in memory and for their clients, which stands still until a test moves it.
//!
//! The server reads it through a preload shim (`clock.c`, built here with `cc`). No time passes but by
//! [`Clock::pass`], so that both nodes see every command at the same microsecond. It can be set back.
#![allow(clippy::disallowed_methods, reason = "it is a runtime, for tests alone")]

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    process,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use quorlock_harness::Server;

use crate::{
    protocol::Timestamp,
    runtime::{Runtime, Task},
};

/// The first of January 2100: the node in memory takes the later of this clock and the system's, also where it was set back.
const START_US: u64 = 4_102_444_800_000_000;

/// The clock, as a runtime on the caller's tokio.
#[derive(Clone, Debug)]
pub(super) struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    us: AtomicU64,
    /// By so much it was set back, which no client's steady clock is.
    back: AtomicU64,
    drawn: AtomicU64,
    /// What the server sees of it.
    file: File,
    path: PathBuf,
}

impl Clock {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder().join(format!("clock-{}-{number}", process::id()));
        let file = File::create(&path).expect("a file for the clock");
        let (us, back, drawn) = (AtomicU64::new(START_US), AtomicU64::new(0), AtomicU64::new(0));
        let shared = Shared { us, back, drawn, file, path };
        let clock = Self(Arc::new(shared));
        clock.show();
        clock
    }

    /// A server that goes by this clock, and neither deletes what has expired by itself nor writes to disk.
    pub(super) fn server(&self) -> Server {
        Server::builder()
            .env("LD_PRELOAD", shim())
            .env("QUORLOCK_CLOCK", &self.0.path)
            .arg("save", "")
            .start()
    }

    pub(super) fn us(&self) -> u64 {
        self.0.us.load(Ordering::Relaxed)
    }

    /// So much time passes, for everybody.
    pub(super) fn pass(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("a time");
        self.0.us.fetch_add(us, Ordering::Relaxed);
        self.show();
    }

    /// An operator sets it back by so much.
    pub(super) fn set_back(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).expect("a time");
        self.0.us.fetch_sub(us, Ordering::Relaxed);
        self.0.back.fetch_add(us, Ordering::Relaxed);
        self.show();
    }

    /// The time of a node in memory: since 1970, as that of a server.
    pub(super) fn timestamp(&self) -> Timestamp {
        Timestamp::from_origin(Duration::from_micros(self.us()))
    }

    fn show(&self) {
        self.0.file.write_all_at(&self.us().to_ne_bytes(), 0).expect("the clock can be set");
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Runtime for Clock {
    fn now(&self) -> Timestamp {
        let steady = self.us() + self.0.back.load(Ordering::Relaxed);
        Timestamp::from_origin(Duration::from_micros(steady - START_US))
    }

    fn wall_us(&self) -> u64 {
        self.us()
    }

    fn sleep_until(&self, _: Timestamp) -> Task {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, task: Task) {
        tokio::spawn(task);
    }

    fn random(&self) -> [u8; 16] {
        u128::from(self.0.drawn.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join("quorlock-alike");
    std::fs::create_dir_all(&folder).expect("a folder for clocks");
    folder
}

/// The shim, built once per process.
fn shim() -> &'static PathBuf {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/node/alike_test/clock.c");
        let built = folder().join(format!("clock-{}.so", process::id()));
        let output = process::Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
            .arg(&built)
            .arg(source)
            .output()
            .unwrap_or_else(|error| panic!("this test needs a C compiler, `cc` on PATH: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        built
    })
}
