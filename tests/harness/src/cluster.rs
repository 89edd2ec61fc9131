//! Several independent servers, and the one way in which tests wait.
//!
//! The servers know nothing of each other, as Redlock wants it. `eventually` is the only wait of
//! the harness that a test sees: it must never return without its condition having been true.

use std::ops::Index;
use std::time::{Duration, Instant};

use crate::server::{Server, ServerBuilder};

/// Independent servers, by index.
#[derive(Debug)]
pub struct Cluster {
    /// The servers.
    pub servers: Vec<Server>,
}

impl Cluster {
    /// Starts `n` servers at the same time.
    pub fn start(n: usize) -> Self {
        Self::start_with(n, |_, builder| builder)
    }

    /// Starts `n` servers at the same time, each configured by its index.
    pub fn start_with(n: usize, configure: impl Fn(usize, ServerBuilder) -> ServerBuilder) -> Self {
        let builders: Vec<_> = (0..n).map(|i| configure(i, Server::builder())).collect();
        let servers = std::thread::scope(|scope| {
            let starts: Vec<_> =
                builders.into_iter().map(|builder| scope.spawn(|| builder.start())).collect();
            starts.into_iter().map(|start| start.join().expect("a started server")).collect()
        });
        Self { servers }
    }

    /// The URLs in the order of the servers.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// The number of servers, running or not.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is no server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The servers in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Server> {
        self.servers.iter()
    }

    /// Every key that is left, with the index of its server. Servers that are killed or paused
    /// cannot be asked and are left out.
    pub fn keys_left(&self) -> Vec<(usize, Vec<u8>)> {
        self.left(Server::keys)
    }

    /// The same of the locks alone: see [`Server::locks`].
    pub fn locks_left(&self) -> Vec<(usize, Vec<u8>)> {
        self.left(Server::locks)
    }

    fn left(&self, keys: impl Fn(&Server) -> Vec<Vec<u8>>) -> Vec<(usize, Vec<u8>)> {
        let answering = self
            .iter()
            .enumerate()
            .filter(|(_, server)| server.is_running() && !server.is_paused());
        answering.flat_map(|(i, server)| keys(server).into_iter().map(move |k| (i, k))).collect()
    }

    /// Removes all keys from the servers that can be asked.
    pub fn flush(&self) {
        self.iter().filter(|s| s.is_running() && !s.is_paused()).for_each(Server::flush);
    }
}

impl Index<usize> for Cluster {
    type Output = Server;

    fn index(&self, index: usize) -> &Server {
        &self.servers[index]
    }
}

impl<'a> IntoIterator for &'a Cluster {
    type Item = &'a Server;
    type IntoIter = std::slice::Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Waits until the condition is true, asking every five milliseconds, and panics with `what` when
/// it has not become true in time. It is asked once more after the deadline, so that a test on a
/// busy machine does not fail for having slept too long.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    loop {
        let late = Instant::now() >= deadline;
        if condition() {
            return;
        }
        assert!(!late, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
