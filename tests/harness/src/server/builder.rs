//! What a server is started with, and the retry where its port was taken meanwhile.
//!
//! A port that a test asked for is never replaced by another: that is an error of the test.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::server::Server;
#[cfg(feature = "tls")]
use crate::tls::TestCa;

/// What a server is started with. See [`Server::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ServerBuilder {
    pub(super) port: Option<u16>,
    pub(super) append_only: bool,
    pub(super) password: Option<String>,
    pub(super) extra: Vec<(String, String)>,
    pub(super) env: Vec<(String, OsString)>,
    pub(super) unix_socket: bool,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<TestCa>,
    pub(super) ipv6: bool,
    pub(super) parent: Option<PathBuf>,
}

impl ServerBuilder {
    /// This port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Writes every change to disk before it is answered, so that data outlives [`Server::kill`].
    pub fn append_only(mut self, on: bool) -> Self {
        self.append_only = on;
        self
    }

    /// Asks every client for this password. The URLs of the server contain it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// One more setting, as in redis.conf; it wins over those of the harness.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.extra.push((name.trim_start_matches('-').to_owned(), value.to_owned()));
        self
    }

    /// One more variable in the environment of the process, such as `LD_PRELOAD`.
    pub fn env(mut self, key: &str, value: impl Into<OsString>) -> Self {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    /// Listens on a unix socket as well.
    pub fn unix_socket(mut self, on: bool) -> Self {
        self.unix_socket = on;
        self
    }

    /// Listens with TLS on a second port. Client certificates are checked where one is sent; with
    /// `.arg("tls-auth-clients", "yes")` they are required.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, ca: &TestCa) -> Self {
        self.tls = Some(ca.clone());
        self
    }

    pub(super) const fn speaks_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        let speaks = self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        let speaks = false;
        speaks
    }

    /// Listens on ::1 as well as on 127.0.0.1.
    pub fn ipv6(mut self, on: bool) -> Self {
        self.ipv6 = on;
        self
    }

    /// Keeps its data in a directory inside this one, not in that of the system.
    pub fn parent(mut self, parent: impl Into<PathBuf>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Starts the server and returns when it answers.
    pub fn start(self) -> Server {
        for _ in 0..5 {
            let server = Server::new(self.clone());
            match server.launch() {
                Ok(()) => return server,
                // Somebody outside this harness took the port in between; draw another.
                Err(reason) if self.port.is_none() && reason.contains("Address already in use") => {
                }
                Err(reason) => panic!("{reason}"),
            }
        }
        panic!("five free ports in a row were taken before a redis-server could bind them")
    }
}
