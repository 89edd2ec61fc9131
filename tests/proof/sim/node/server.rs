//! The server, which all clients share: a node in memory, its clock, and how the network to it is.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{node::MemoryNode, protocol::Timestamp, runtime::Runtime};
use quorlock_harness::SimRuntime;

use super::{Bug, SimNode};

/// The server, which all clients share.
#[derive(Clone)]
pub(crate) struct SimServer {
    pub(super) index: usize,
    pub(super) memory: MemoryNode,
    pub(super) runtime: SimRuntime,
    pub(super) shared: Arc<Mutex<Server>>,
}

#[derive(Default)]
pub(super) struct Server {
    up: bool,
    /// Counts kills: whatever was under way to or from a server that was killed is lost.
    era: u64,
    /// The share of messages that get lost.
    loss: f64,
    /// The longest delay of one message.
    delay: Duration,
    pub(super) bug: Bug,
}

impl SimServer {
    /// `per_mille` is the rate by which the server's clock is fast; negative, slow.
    pub(crate) fn new(index: usize, runtime: SimRuntime, per_mille: i64, bug: Bug) -> Self {
        let clock = runtime.clone();
        let memory = MemoryNode::with_clock(move || {
            let nanos = u64::try_from(clock.now().since_origin().as_nanos()).unwrap();
            let rate = u128::try_from(1000 + per_mille).unwrap();
            let nanos = u64::try_from(u128::from(nanos) * rate / 1000).unwrap();
            Timestamp::from_origin(Duration::from_nanos(nanos))
        });
        let delay = Duration::from_millis(1);
        let server = Server { up: true, era: 0, loss: 0.0, delay, bug };
        Self { index, memory, runtime, shared: Arc::new(Mutex::new(server)) }
    }

    pub(crate) fn kill(&self) {
        let mut server = self.shared.lock().unwrap();
        server.up = false;
        server.era += 1;
        drop(server);
        self.memory.kill();
    }

    pub(crate) fn restart(&self) {
        self.memory.restart();
        self.shared.lock().unwrap().up = true;
    }

    pub(crate) fn pause(&self) {
        self.memory.pause();
    }

    pub(crate) fn resume(&self) {
        self.memory.resume();
    }

    pub(crate) fn set_network(&self, loss: f64, delay: Duration) {
        let mut server = self.shared.lock().unwrap();
        server.loss = loss;
        server.delay = delay;
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.memory.keys()
    }

    /// A client's own connection to it.
    pub(crate) fn connection(&self) -> SimNode {
        SimNode::new(self.clone())
    }

    /// The delay of one message, and whether it gets lost.
    pub(super) fn draw(&self) -> (Duration, bool) {
        let server = self.shared.lock().unwrap();
        let (longest, loss) = (server.delay, server.loss);
        drop(server);
        let longest = u64::try_from(longest.as_nanos()).unwrap();
        let delay = Duration::from_nanos(50_000 + self.runtime.below(longest));
        (delay, self.runtime.chance(loss))
    }

    pub(super) fn era(&self) -> Option<u64> {
        let server = self.shared.lock().unwrap();
        server.up.then_some(server.era)
    }
}
