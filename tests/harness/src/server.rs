//! One real redis-server: how it is configured, when it counts as ready, what tests ask of it.
//!
//! A server keeps its port for as long as the `Server` lives, so it can be killed and come back.
//! It is ready only when the process that answers is the one started here; a stranger on the same
//! port must never be taken for it. Nothing is kept across a restart but the append-only file.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::PortLease;
use crate::process::Process;

mod builder;
mod control;

pub use builder::ServerBuilder;

/// The commands that a user needs for locks with tokens, as a rule of an ACL names them.
pub const RIGHTS: [&str; 15] = [
    "+set",
    "+getrange",
    "+del",
    "+pttl",
    "+pexpire",
    "+eval",
    "+evalsha",
    "+info",
    "+hget",
    "+hmget",
    "+hset",
    "+time",
    "+unlink",
    "+rename",
    "+client|tracking",
];

/// What a waiter needs besides, to stand in line and to be woken, beside the keys of lines.
pub const LINE_RIGHTS: [&str; 11] = [
    "&quorlock:wake:*",
    "+exists",
    "+zadd",
    "+zrem",
    "+zcard",
    "+zrank",
    "+zrange",
    "+zrangebyscore",
    "+publish",
    "+subscribe",
    "+client|caching",
];

const READY_WITHIN: Duration = Duration::from_secs(10);

/// A real redis-server on a port of its own. It is killed when dropped.
pub struct Server {
    builder: ServerBuilder,
    port: PortLease,
    tls_port: Option<PortLease>,
    process: Mutex<Option<Process>>,
    control: Mutex<Option<redis::Connection>>,
    dir: TempDir,
}

impl Server {
    /// A server with nothing kept on disk, no password and no TLS.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The TCP port, the same after every restart.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// The TLS port. Panics without [`ServerBuilder::tls`].
    pub fn tls_port(&self) -> u16 {
        self.tls_port.as_ref().expect("a server started with .tls(..)").port()
    }

    /// `redis://127.0.0.1:PORT`, with the password where there is one.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.user_info(), self.port())
    }

    /// `redis://[::1]:PORT`. Panics without [`ServerBuilder::ipv6`].
    pub fn ipv6_url(&self) -> String {
        assert!(self.builder.ipv6, "a server started with .ipv6(true)");
        format!("redis://{}[::1]:{}", self.user_info(), self.port())
    }

    /// `rediss://127.0.0.1:TLS_PORT`. The certificate also names localhost and ::1.
    pub fn tls_url(&self) -> String {
        format!("rediss://{}127.0.0.1:{}", self.user_info(), self.tls_port())
    }

    /// `redis+unix://PATH`. Panics without [`ServerBuilder::unix_socket`].
    pub fn unix_url(&self) -> String {
        assert!(self.builder.unix_socket, "a server started with .unix_socket(true)");
        let mut url = format!("redis+unix://{}", self.socket().display());
        if let Some(password) = &self.builder.password {
            url.push_str("?pass=");
            url.push_str(&percent_encoded(password));
        }
        url
    }

    /// The process id. Panics while the server is killed.
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("a running server").pid()
    }

    /// Whether the process exists. A paused server is running.
    pub fn is_running(&self) -> bool {
        self.process().as_mut().is_some_and(|process| process.exited().is_none())
    }

    /// Whether the process is stopped by [`Server::pause`].
    pub fn is_paused(&self) -> bool {
        self.process().as_ref().is_some_and(Process::paused)
    }

    /// SIGKILL, and waits until the process is gone: its port then refuses connections.
    pub fn kill(&self) {
        *self.process() = None;
        *self.cached() = None;
    }

    /// SIGSTOP, and waits until it has taken effect: connections stay, and nothing answers.
    pub fn pause(&self) {
        self.process().as_mut().expect("a running server to pause").pause();
    }

    /// SIGCONT: the server carries out what has arrived while it was paused.
    pub fn resume(&self) {
        self.process().as_mut().expect("a running server to resume").resume();
    }

    /// Kills the server where it runs and starts it again on the same port.
    pub fn restart(&self) {
        self.kill();
        self.launch().unwrap_or_else(|reason| panic!("{reason}"));
    }

    /// The same, after throwing away what it had on disk.
    pub fn restart_empty(&self) {
        self.kill();
        std::fs::remove_dir_all(self.data()).expect("remove the data directory");
        self.launch().unwrap_or_else(|reason| panic!("{reason}"));
    }

    /// The directory of what the server has on disk, for a test that puts back an older state of it.
    pub fn data_dir(&self) -> PathBuf {
        self.data()
    }

    /// The log of the server since it was first started.
    pub fn log(&self) -> String {
        std::fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Configured and not yet running.
    fn new(builder: ServerBuilder) -> Self {
        Self {
            port: builder.port.map_or_else(PortLease::free, PortLease::fixed),
            tls_port: builder.speaks_tls().then(PortLease::free),
            dir: {
                let parent = builder.parent.clone().unwrap_or_else(std::env::temp_dir);
                tempfile::Builder::new().prefix("qlk-").tempdir_in(parent).expect("a directory")
            },
            builder,
            process: Mutex::new(None),
            control: Mutex::new(None),
        }
    }

    /// Spawns the process and waits until it answers, or says why it does not.
    fn launch(&self) -> Result<(), String> {
        std::fs::create_dir_all(self.data()).map_err(|error| format!("data directory: {error}"))?;
        let logged = self.log().len();
        let process = self.process().insert(Process::spawn(&self.args(), &self.builder.env)).pid();
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            // The lock must be free again by then: a server that does not start is killed like any other.
            let exited = self.process().as_mut().and_then(Process::exited);
            if let Some(status) = exited {
                let log = self.log();
                self.kill();
                return Err(format!("redis-server exited with {status}:\n{}", &log[logged..]));
            }
            let trouble = match self.answering_pid() {
                Ok(pid) if pid == process => return Ok(()),
                Ok(pid) => format!("process {pid} answers on the port instead"),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= deadline {
                let log = self.log();
                self.kill();
                return Err(format!("redis-server not ready ({trouble}):\n{}", &log[logged..]));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut set = |name: &str, values: &[OsString]| {
            args.push(format!("--{name}").into());
            args.extend_from_slice(values);
        };
        set("port", &[self.port().to_string().into()]);
        if self.builder.ipv6 {
            set("bind", &["127.0.0.1".into(), "::1".into()]);
        } else {
            set("bind", &["127.0.0.1".into()]);
        }
        set("save", &["".into()]);
        set("dir", &[self.data().into()]);
        set("loglevel", &["notice".into()]);
        set("logfile", &[self.log_file().into()]);
        set("daemonize", &["no".into()]);
        if self.builder.append_only {
            set("appendonly", &["yes".into()]);
            set("appendfsync", &["always".into()]);
        }
        if let Some(password) = &self.builder.password {
            set("requirepass", &[password.into()]);
        }
        if self.builder.unix_socket {
            set("unixsocket", &[self.socket().into()]);
        }
        #[cfg(feature = "tls")]
        if let Some(ca) = &self.builder.tls {
            set("tls-port", &[self.tls_port().to_string().into()]);
            set("tls-cert-file", &[ca.server_cert_path().into()]);
            set("tls-key-file", &[ca.server_key_path().into()]);
            set("tls-ca-cert-file", &[ca.ca_path().into()]);
            set("tls-auth-clients", &["optional".into()]);
        }
        for (name, value) in &self.builder.extra {
            set(name, &[value.into()]);
        }
        args
    }

    fn user_info(&self) -> String {
        let password = self.builder.password.as_deref();
        password.map_or_else(String::new, |password| format!(":{}@", percent_encoded(password)))
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    /// A test that panicked elsewhere must still be able to kill its servers.
    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("port", &self.port()).finish_non_exhaustive()
    }
}

/// A password may contain what a URL reserves.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes everything");
        }
    }
    encoded
}
