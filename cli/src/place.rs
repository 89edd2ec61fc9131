//! The directory of everything that a run leaves on disk, which is gone with the run, however that ends.
//!
//! A shell waits at a pipe that only this process holds open, and removes the directory when this process is gone. It removes
//! nothing but what was made here.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::exit::{Failure, Status};

/// Servers that are being killed meanwhile may still write there.
const SWEEP: &str =
    "read -r _; for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf \"$1\" && exit; sleep 0.3; done";

pub(crate) struct Place {
    dir: Option<TempDir>,
    sweeper: Child,
}

impl Place {
    pub(crate) fn make() -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("quorlock-servers-").tempdir();
        let dir = dir.map_err(|error| {
            let text = format!(
                "no directory for the servers in {}: {error}",
                std::env::temp_dir().display()
            );
            Failure::new(Status::Failed, text)
        })?;
        let mut sweeper = Command::new("/bin/sh");
        sweeper.args(["-c", SWEEP, "quorlock-sweeper"]).arg(dir.path());
        sweeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let sweeper = sweeper.spawn().map_err(|error| Failure::new(Status::Failed, error))?;
        Ok(Self { dir: Some(dir), sweeper })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.as_ref().map_or_else(|| Path::new("/"), TempDir::path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.dir.take());
        drop(self.sweeper.stdin.take());
        let _ = self.sweeper.wait();
    }
}
