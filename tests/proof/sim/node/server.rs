//! The server, which all clients share: a node in memory, its clock and its process, and how the network to it is.
//!
//! It executes what arrives, in the order of arrival, and counts what of it was worth a test. Whatever it does with a
//! command, the node in memory does; see `bug.rs` for those that do something else on purpose.

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt;
use quorlock::{
    node::{MemoryNode, Node},
    protocol::{Join, Timestamp},
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;

use super::{
    Bug, SimNode,
    clock::ServerClock,
    link::{Link, Links},
    watch::Watch,
};
use crate::MS;

/// One server. A clone is the same one.
#[derive(Clone)]
pub(crate) struct SimServer(Arc<Shared>);

/// What does not change of a server, and what is behind locks of its own.
pub(crate) struct Shared {
    pub(super) index: usize,
    pub(super) address: Arc<str>,
    pub(super) memory: MemoryNode,
    pub(super) runtime: SimRuntime,
    server: Mutex<Server>,
    clock: Arc<Mutex<ServerClock>>,
    pub(super) watch: Watch,
}

impl Deref for SimServer {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// What a server does with something that has arrived.
type Arrival = Box<dyn FnOnce() + Send>;

struct Server {
    up: bool,
    /// Counts what breaks connections: whatever was under way to or from a server that was killed is lost.
    epoch: u64,
    /// What tells its process from others.
    process: u64,
    /// It has forgotten something before.
    forgot: bool,
    paused: bool,
    /// What has arrived while it was stopped.
    arrived: VecDeque<Arrival>,
    /// The share of messages that get lost.
    loss: f64,
    /// The longest delay of one message.
    delay: Duration,
    bug: Bug,
    links: Links,
}

impl SimServer {
    /// `per_mille` is the rate by which the server's clock is fast; negative, slow.
    pub(crate) fn new(
        index: usize,
        runtime: SimRuntime,
        per_mille: i64,
        bug: Bug,
        watch: Watch,
    ) -> Self {
        let clock = Arc::new(Mutex::new(ServerClock::new(runtime.now(), per_mille)));
        let memory = {
            let (clock, runtime) = (Arc::clone(&clock), runtime.clone());
            MemoryNode::with_clock(move || clock.lock().unwrap().read(runtime.now()))
        };
        let server = Server {
            up: true,
            epoch: 0,
            process: 0,
            forgot: false,
            paused: false,
            arrived: VecDeque::new(),
            loss: 0.0,
            delay: MS,
            bug,
            links: Links::default(),
        };
        let address = Arc::from(format!("sim:{index}"));
        let server = Mutex::new(server);
        Self(Arc::new(Shared { index, address, memory, runtime, server, clock, watch }))
    }

    pub(crate) fn per_mille(&self) -> i64 {
        self.clock.lock().unwrap().per_mille()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.lock().unwrap().read(self.runtime.now())
    }

    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.now().since_origin().as_micros()).unwrap_or(u64::MAX)
    }

    /// Ends the process, and its data with it.
    pub(crate) fn kill(&self) {
        self.disconnect();
        self.memory.kill();
        self.state().forgot = true;
    }

    /// All connections are gone, and what was under way on them.
    fn disconnect(&self) {
        let arrived = {
            let mut server = self.state();
            (server.up, server.paused) = (false, false);
            server.epoch += 1;
            std::mem::take(&mut server.arrived)
        };
        drop(arrived);
    }

    pub(crate) fn restart(&self) {
        self.memory.restart();
        let mut server = self.state();
        server.up = true;
        server.process += 1;
    }

    /// Another process goes on with what there was, or with `all` of it but the keys.
    pub(crate) fn take_over(&self, all: bool) {
        self.disconnect();
        if !all {
            for key in self.memory.keys() {
                self.memory.set(key, "", Some(Duration::ZERO));
            }
        }
        // What a client does that finds the marker of another process there.
        let marker = |join: Join| self.memory.join(join).now_or_never().unwrap().unwrap();
        let look = Join::look(Duration::ZERO);
        let epoch = marker(look).epoch;
        marker(look.force(Some(epoch)).lost());
        let mut server = self.state();
        (server.up, server.forgot) = (true, true);
        server.process += 1;
    }

    /// Deletes all data. Connections stay, and with `restarts` the process is another one all the same.
    pub(crate) fn flush(&self, restarts: bool) {
        self.memory.restart();
        let mut server = self.state();
        server.forgot = true;
        server.process += u64::from(restarts);
    }

    pub(crate) fn pause(&self) {
        self.state().paused = true;
    }

    /// What has arrived is executed now, in order, whether or not anybody still waits for it.
    pub(crate) fn resume(&self) {
        let arrived = {
            let mut server = self.state();
            server.paused = false;
            std::mem::take(&mut server.arrived)
        };
        arrived.into_iter().for_each(|execute| execute());
    }

    pub(crate) fn set_network(&self, loss: f64, delay: Duration) {
        let mut server = self.state();
        (server.loss, server.delay) = (loss, delay);
    }

    pub(crate) fn step_ahead(&self, by: Duration) {
        self.clock.lock().unwrap().step_ahead(self.runtime.now(), by);
    }

    pub(crate) fn step_back(&self, by: Duration) {
        self.clock.lock().unwrap().step_back(self.runtime.now(), by);
    }

    pub(crate) fn stand(&self, stands: bool) {
        self.clock.lock().unwrap().stand(self.runtime.now(), stands);
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.memory.keys()
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.memory.keys().is_empty()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state().up
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state().paused
    }

    /// Whether it may vote, as its marker says.
    pub(crate) fn is_joining(&self) -> bool {
        let look = self.memory.join(Join::look(Duration::ZERO));
        look.now_or_never().unwrap().is_ok_and(|marker| !marker.ready)
    }

    /// No counter of it is above this.
    pub(crate) fn high_water(&self) -> u64 {
        let look = self.memory.join(Join::look(Duration::ZERO));
        look.now_or_never().unwrap().map_or(0, |marker| marker.high_water)
    }

    /// A client's own connection to it.
    pub(crate) fn connection(&self) -> SimNode {
        let link = Arc::new(Link::default());
        self.state().links.add(&link);
        SimNode::new(self.clone(), link)
    }

    /// The links that there are.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.state().links.all()
    }

    /// Executes something that has arrived, when the server goes on.
    pub(super) fn arrive_later(&self, execute: Arrival) {
        self.state().arrived.push_back(execute);
    }

    /// The delay of one message, and whether it gets lost.
    pub(super) fn draw(&self) -> (Duration, bool) {
        let server = self.state();
        let (longest, loss) = (server.delay, server.loss);
        drop(server);
        let longest = u64::try_from(longest.as_nanos()).unwrap();
        let delay = Duration::from_nanos(50_000 + self.runtime.below(longest));
        (delay, loss > 0.0 && self.runtime.chance(loss))
    }

    /// What tells one connection from the next; none while there is nobody to connect to.
    pub(super) fn epoch(&self) -> Option<u64> {
        let server = self.state();
        server.up.then_some(server.epoch)
    }

    pub(super) fn bug(&self) -> Bug {
        self.state().bug
    }

    pub(super) fn process(&self) -> u64 {
        self.state().process
    }

    pub(super) fn has_forgotten(&self) -> bool {
        self.state().forgot
    }

    fn state(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }
}
