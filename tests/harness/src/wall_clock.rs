//! The wall clock of a server, in the hands of a test: ahead of the system's, behind it, or standing still.
//!
//! The server reads it through a preload shim (`wall_clock.c`, built here with `cc`). The shim lies beside the test
//! program under one name; another test program that runs meanwhile puts the same there. The monotonic clock is not
//! touched.

use std::{
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::OnceLock,
};

use tempfile::NamedTempFile;

use crate::ServerBuilder;

/// The wall clock of one server, or of several.
#[derive(Debug)]
pub struct WallClock {
    /// What the servers see of it.
    file: NamedTempFile,
    stands: bool,
}

impl WallClock {
    /// The system's clock, until it is set ahead or back.
    pub fn system() -> Self {
        Self::showing(0, false)
    }

    /// A clock that stands at this time, in microseconds since 1970, until it is set.
    pub fn standing_at(us: i64) -> Self {
        Self::showing(us, true)
    }

    fn showing(us: i64, stands: bool) -> Self {
        let file = NamedTempFile::new().expect("a file for the clock");
        let clock = Self { file, stands };
        clock.set(us);
        clock
    }

    /// Sets it: to so many microseconds since 1970 where it stands, and otherwise to so many ahead of the system's.
    pub fn set(&self, us: i64) {
        self.file.as_file().write_all_at(&us.to_ne_bytes(), 0).expect("the clock can be set");
    }

    /// A server that goes by it.
    pub fn give_to(&self, server: ServerBuilder) -> ServerBuilder {
        let server = server.env("LD_PRELOAD", shim()).env("QUORLOCK_CLOCK", self.file.path());
        if self.stands { server.env("QUORLOCK_CLOCK_STANDS", "1") } else { server }
    }
}

/// The shim, built once per process.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let program = std::env::current_exe().expect("this program has a path");
        let built = program.with_file_name("quorlock-wall-clock.so");
        let building = built.with_extension(format!("{}.so", process::id()));
        let mut compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-x", "c", "-", "-ldl", "-o"])
            .arg(&building)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("these tests need a C compiler, `cc` on PATH: {error}"));
        let mut source = compiler.stdin.take().expect("it is piped");
        source.write_all(include_bytes!("wall_clock.c")).expect("the compiler reads");
        drop(source);
        let output = compiler.wait_with_output().expect("the compiler ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // At once: a server that starts meanwhile loads the whole of one or the other.
        std::fs::rename(&building, &built).expect("a file beside the program");
        built
    })
}
