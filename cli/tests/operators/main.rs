//! Goal: operators get right answers about a fleet, on real servers: `doctor` names each of the ills that it is for,
//! and nothing on a good fleet; `fleet`, `list`, `watch` and `release --force` show and do what they say.
//!
//! Method: servers of the harness, admitted before; one thing is planted; then the command itself is run, and its JSON and its
//! status are read. No test waits for a fixed time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to"
)]

mod doctor;
mod fleet;
mod list;
mod refused;
mod release;
mod shown;
mod top;
mod watch;

use std::{
    process::{Command, Output, Stdio},
    time::Duration,
};

use quorlock::{Builder, Redlock};
use quorlock_harness::{Cluster, admit};

const SECOND: Duration = Duration::from_secs(1);
/// For what certainly happens, on however busy a machine.
const SOON: Duration = Duration::from_secs(60);

/// Settings for tests in which timing is not the subject; the command has the same.
fn patient() -> Builder {
    Redlock::builder().node_timeout(2 * SECOND).connect_timeout(10 * SECOND)
}

/// Servers that have been admitted long ago.
fn admitted(nodes: usize) -> Cluster {
    let cluster = Cluster::start(nodes);
    admit(patient().nodes(cluster.urls()));
    cluster
}

/// The command, without the settings in the environment of the test run.
fn quorlock(command: &str) -> Command {
    quorlock_with(command, ["node_timeout=2s", "connect_timeout=10s"])
}

/// The same with these settings.
fn quorlock_with(command: &str, settings: [&str; 2]) -> Command {
    let mut quorlock = Command::new(env!("CARGO_BIN_EXE_quorlock"));
    let own = std::env::vars().filter(|(name, _)| name.starts_with("QUORLOCK_"));
    own.for_each(|(name, _)| {
        quorlock.env_remove(name);
    });
    quorlock.args(command.split(' ')).stdin(Stdio::null());
    quorlock.args(settings.iter().flat_map(|setting| ["--set", setting]));
    quorlock
}

fn on(urls: &[String]) -> [String; 2] {
    ["--nodes".to_owned(), urls.join(",")]
}

#[track_caller]
fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).expect("text")
}

#[track_caller]
fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}
