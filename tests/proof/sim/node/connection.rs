//! One client's connection to a server, with delay, loss and interruptions, which keeps the contract of `Node`.
//!
//! Requests arrive in the order in which they were first polled, and replies come back in order.

use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{
    node::{Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeState, NodeStatus},
    protocol::{Command, Floor, Join, Marker, Reply, Resource, Sighting, Timestamp},
    runtime::Runtime,
};
use tokio::sync::oneshot;

use super::SimServer;

/// One client's connection to a server.
#[derive(Clone)]
pub(crate) struct SimNode {
    server: SimServer,
    line: Arc<Mutex<Line>>,
}

/// The last arrivals in each direction: nothing overtakes.
#[derive(Default)]
struct Line {
    request: Timestamp,
    reply: Timestamp,
    /// Answers that never come, kept so that their callers wait in vain.
    silence: Vec<Box<dyn Any + Send>>,
}

impl SimNode {
    pub(super) fn new(server: SimServer) -> Self {
        Self { server, line: Arc::default() }
    }

    /// Takes a request to the server and the answer back, whether or not the caller still waits. Nothing is
    /// sent before the first poll.
    fn send<T: Send + 'static>(
        &self,
        request: impl FnOnce(SimServer) -> NodeFuture<T> + Send + 'static,
    ) -> NodeFuture<T> {
        let this = self.clone();
        Box::pin(async move {
            let Some(era) = this.server.era() else { return Err(not_connected()) };
            let (delay, lost) = this.server.draw();
            let runtime = this.server.runtime.clone();
            let arrival = {
                let mut line = this.line.lock().unwrap();
                line.request = after(line.request, runtime.now().saturating_add(delay));
                line.request
            };
            let (answer, answered) = oneshot::channel();
            let journey = Journey { era, arrival, lost };
            runtime.spawn(Box::pin(this.carry(request, journey, answer)));
            answered.await.unwrap_or_else(|_| Err(connection_lost()))
        })
    }

    async fn carry<T: Send + 'static>(
        self,
        request: impl FnOnce(SimServer) -> NodeFuture<T> + Send + 'static,
        Journey { era, arrival, lost }: Journey,
        answer: oneshot::Sender<Result<T, NodeError>>,
    ) {
        let runtime = &self.server.runtime;
        runtime.sleep_until(arrival).await;
        let reached = !lost && self.server.era() == Some(era);
        let result = if reached { Some(request(self.server.clone()).await) } else { None };
        let (delay, lost) = self.server.draw();
        let back = {
            let mut line = self.line.lock().unwrap();
            line.reply = after(line.reply, runtime.now().saturating_add(delay));
            line.reply
        };
        runtime.sleep_until(back).await;
        match result.filter(|_| !lost && self.server.era() == Some(era)) {
            Some(result) => drop(answer.send(result)),
            // Half of what is lost is noticed at once, and the other half by the node timeout.
            None if runtime.chance(0.5) => drop(answer.send(Err(connection_lost()))),
            None => self.line.lock().unwrap().silence.push(Box::new(answer)),
        }
    }
}

/// One request under way.
struct Journey {
    /// The server's life in which it was sent.
    era: u64,
    arrival: Timestamp,
    lost: bool,
}

/// `wanted`, but not before something else on the line.
fn after(last: Timestamp, wanted: Timestamp) -> Timestamp {
    wanted.max(last.saturating_add(Duration::from_nanos(1)))
}

fn connection_lost() -> NodeError {
    NodeError::ConnectionLost { reason: Arc::from("simulated") }
}

fn not_connected() -> NodeError {
    NodeError::NotConnected { reason: Arc::from("simulated") }
}

/// Nobody is told that a server was killed or is back: a client finds out by asking it, as it would where the
/// connection breaks and is made again between two commands.
impl Node for SimNode {
    fn start(&self, _context: NodeContext) {}

    fn call(&self, command: Command) -> NodeCall {
        self.send(|server| server.execute(command))
    }

    /// One message, in which the server finds the commands one after another.
    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        self.send(move |server| {
            Box::pin(async move {
                let mut replies = Vec::with_capacity(commands.len());
                for command in commands {
                    replies.push(server.execute(command).await);
                }
                Ok(replies)
            })
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.send(move |server| server.look(join))
    }

    fn admit(&self, era: u64, floor: Floor) -> NodeFuture<bool> {
        self.send(move |server| server.memory.admit(era, floor))
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        self.send(move |server| server.memory.holder(resource, fenced))
    }

    fn reachable(&self) -> Result<(), NodeError> {
        self.server.era().map(drop).ok_or_else(not_connected)
    }

    fn counts_ranges(&self) -> bool {
        self.server.memory.counts_ranges()
    }

    fn takes_sets(&self) -> bool {
        self.server.memory.takes_sets()
    }

    fn takes_readers(&self) -> bool {
        self.server.memory.takes_readers()
    }

    fn picks_slots(&self) -> bool {
        self.server.memory.picks_slots()
    }

    fn status(&self) -> NodeStatus {
        NodeStatus::new(Arc::from(format!("sim:{}", self.server.index)), NodeState::Ready)
    }
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNode {}", self.server.index)
    }
}
