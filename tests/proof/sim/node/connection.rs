//! One client's connection to a server, with delay, loss and interruptions, which keeps the contract of `Node`.
//!
//! Requests arrive in the order in which they were first polled, and replies come back in order, but for those that the
//! nemesis makes late or sends twice. As a node on a real server does, it reads the server's clock in each vote, refuses
//! answers under which that clock has jumped, and tells the server up to when an acquire is worth executing.

use std::{
    any::Any,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt;
use quorlock::{
    node::{Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeState, NodeStatus},
    protocol::{
        Command, Completed, Floor, Join, Marker, NodeClock, Reply, Resource, Serves, Sighting,
        Timestamp, lateness::LATE,
    },
    runtime::Runtime,
};
use tokio::sync::oneshot;

use super::{Bug, SimServer, link::Link, watch::Way};
use crate::reached::S21;

/// One client's connection to a server.
#[derive(Clone)]
pub(crate) struct SimNode(Arc<Shared>);

pub(crate) struct Shared {
    server: SimServer,
    link: Arc<Link>,
    line: Mutex<Line>,
}

impl Deref for SimNode {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The last arrivals in each direction: nothing overtakes.
#[derive(Default)]
struct Line {
    request: Timestamp,
    reply: Timestamp,
    /// Answers that never come, kept so that their callers wait in vain.
    silence: Vec<Box<dyn Any + Send>>,
    /// What is known of the server's clock.
    clock: NodeClock,
    /// The connection of the server that it is made to, and its process.
    epoch: Option<u64>,
    process: Option<Arc<str>>,
}

/// A command, with the server's time from which on it is useless.
#[derive(Clone)]
struct Sent {
    command: Command,
    latest: Option<u64>,
}

/// One request under way.
struct Journey<T> {
    /// The server's life in which it was sent.
    epoch: u64,
    arrival: Timestamp,
    lost: bool,
    answer: oneshot::Sender<Result<Answer<T>, NodeError>>,
}

/// What the server says, and its clock: also where it refuses.
type Answer<T> = (Result<T, NodeError>, u64);

impl SimNode {
    pub(super) fn new(server: SimServer, link: Arc<Link>) -> Self {
        Self(Arc::new(Shared { server, link, line: Mutex::default() }))
    }

    /// Takes a request to the server and the answer back, whether or not the caller still waits. Nothing is
    /// sent before the first poll. A vote brings the server's clock along.
    fn send<T: Send + 'static>(
        &self,
        is_vote: bool,
        request: impl FnOnce(&SimServer, Way) -> NodeFuture<T> + Clone + Send + 'static,
    ) -> impl Future<Output = Result<T, NodeError>> + Send + 'static {
        let this = self.clone();
        async move {
            let Some(epoch) = this.server.epoch() else {
                this.line().epoch = None;
                return Err(not_connected());
            };
            this.connect(epoch);
            let (delay, lost) = this.server.draw();
            let runtime = &this.server.runtime;
            let sent = this.steady();
            let (arrival, series) = {
                let mut line = this.line();
                let wanted = runtime.now().saturating_add(delay);
                let arrival = if this.link.is_late() {
                    // Alone on a connection that is given up.
                    wanted.saturating_add(Duration::from_micros(runtime.below(4_000_000)))
                } else if let Some(arrives) = this.link.arrives() {
                    wanted.max(arrives)
                } else {
                    line.request = after(line.request, wanted);
                    line.request
                };
                (arrival, line.clock.series())
            };
            let lost = lost || this.link.loses_requests();
            this.server.watch.reached.hit_if(this.link.loses_requests(), S21);
            let (answer, answered) = oneshot::channel();
            let journey = Journey { epoch, arrival, lost, answer };
            runtime.spawn(Box::pin(this.clone().carry(request, journey)));
            let (said, node_us) = answered.await.unwrap_or_else(|_| Err(connection_lost()))?;
            if is_vote {
                let arrived = this.steady();
                let mut line = this.line();
                // A jump begins a new series.
                let _ = line.clock.handle_reading(sent, arrived, node_us);
                if line.clock.series() != series {
                    return Err(NodeError::ClockJumped);
                }
            }
            said
        }
    }

    async fn carry<T: Send + 'static>(
        self,
        request: impl FnOnce(&SimServer, Way) -> NodeFuture<T> + Clone + Send + 'static,
        Journey { epoch, arrival, lost, answer }: Journey<T>,
    ) {
        let runtime = self.server.runtime.clone();
        let is_late = self.link.is_late() || self.link.arrives().is_some();
        if self.link.is_twice() && runtime.chance(0.3) {
            self.send_again(request.clone(), epoch, arrival);
        }
        runtime.timer(arrival).await;
        let result = if lost || self.server.epoch() != Some(epoch) {
            None
        } else {
            let unheard = answer.is_closed();
            let execute = move |server: &SimServer| {
                let result = request(server, Way { unheard }).now_or_never();
                let result = result.expect("a node in memory answers at once");
                (result, server.now_us())
            };
            if self.server.is_paused() {
                let (done, executed) = oneshot::channel();
                let server = self.server.clone();
                self.server.arrive_later(Box::new(move || drop(done.send(execute(&server)))));
                executed.await.ok()
            } else {
                Some(execute(&self.server))
            }
        };
        let (delay, mut lost) = self.server.draw();
        lost |= is_late || self.link.loses_replies();
        self.server.watch.reached.hit_if(self.link.loses_replies(), S21);
        let back = {
            let mut line = self.line();
            line.reply = after(line.reply, runtime.now().saturating_add(delay));
            line.reply
        };
        runtime.timer(back).await;
        match result.filter(|_| !lost && self.server.epoch() == Some(epoch)) {
            Some(said) => drop(answer.send(Ok(said))),
            // Half of what is lost is noticed at once, and the other half by the node timeout.
            None if runtime.chance(0.5) => drop(answer.send(Err(connection_lost()))),
            None => self.line().silence.push(Box::new(answer)),
        }
    }

    /// Delivers it once more, later than the first time.
    fn send_again<T: Send + 'static>(
        &self,
        request: impl FnOnce(&SimServer, Way) -> NodeFuture<T> + Send + 'static,
        epoch: u64,
        arrival: Timestamp,
    ) {
        let (server, runtime) = (self.server.clone(), self.server.runtime.clone());
        let later = Duration::from_micros(1 + runtime.below(60_000));
        let arrival = arrival.saturating_add(later);
        self.server.runtime.spawn(Box::pin(async move {
            runtime.timer(arrival).await;
            if server.epoch() != Some(epoch) {
                return;
            }
            let executes = server.clone();
            let execute = move || drop(request(&executes, Way { unheard: true }).now_or_never());
            if server.is_paused() {
                server.arrive_later(Box::new(execute));
            } else {
                execute();
            }
        }));
    }

    /// Makes a new connection where the old one is gone.
    fn connect(&self, epoch: u64) {
        let before = {
            let mut line = self.line();
            if line.epoch == Some(epoch) {
                return;
            }
            line.process = Some(Arc::from(format!("process {}", self.server.process())));
            line.epoch.replace(epoch)
        };
        if let Some(context) = self.link.context().filter(|_| before.is_some()) {
            context.connected();
            context.changed();
        }
    }

    /// A command, with the time up to which it is worth executing, as a node on a real server has it.
    fn limited(&self, command: Command) -> Sent {
        let Some(context) = self.link.context() else { return Sent { command, latest: None } };
        let now = self.steady();
        let limit = context.node_timeout().saturating_add(LATE);
        let line = self.line();
        let latest = match &command {
            // Zero says that there is no limit: a clock that was never read cannot be compared with.
            Command::Acquire { hint: Some(_), .. } => line.clock.at_most(now.saturating_add(limit)),
            // Here it is always past, so that one which was never read restores nothing.
            Command::Restore { until, fenced: true, .. } => {
                let left = until.saturating_since(context.runtime().now());
                Some(line.clock.at_most(now.saturating_add(limit.min(left))).unwrap_or(0))
            }
            _ => None,
        };
        Sent { command, latest }
    }

    fn steady(&self) -> Timestamp {
        self.link.context().map_or(Timestamp::ORIGIN, |context| context.runtime().steady())
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap()
    }
}

impl SimServer {
    /// Executes a command, unless it comes too late for that.
    fn take(&self, Sent { command, latest }: Sent, way: Way) -> NodeCall {
        if latest.is_some_and(|latest| self.now_us() > latest) {
            return Box::pin(std::future::ready(Err(NodeError::ArrivedLate)));
        }
        let server = self.clone();
        Box::pin(async move {
            let reply = server.execute(command.clone()).await;
            server.watch.executed(&server, &command, &reply, way);
            reply
        })
    }
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

/// Whether the answer to a command brings the server's clock along, as scripts do that only a node answers which votes.
fn is_vote(command: &Command) -> bool {
    match command {
        Command::Acquire { hint, .. } => hint.is_some(),
        Command::Extend { fenced, .. } | Command::Restore { fenced, .. } => *fenced,
        Command::Confirm { .. } | Command::Proclaim { .. } => true,
        _ => false,
    }
}

/// Nobody is told that a server was killed or is back: a client finds out by asking it, as it would where the
/// connection breaks and is made again between two commands.
impl Node for SimNode {
    fn start(&self, context: NodeContext) {
        // Some clients hear nothing of lines, as where a right to it is missing, and ask again and again.
        if self.server.runtime.chance(0.8) {
            self.server.memory.start(context.clone());
        }
        self.link.begin(context);
    }

    fn call(&self, command: Command) -> NodeCall {
        let is_broken = self.server.bug() == Bug::Panics;
        assert!(!is_broken || self.server.runtime.chance(0.99), "planted");
        let this = self.clone();
        Box::pin(async move {
            let votes = is_vote(&command);
            let sent = this.limited(command);
            this.send(votes, move |server, way| server.take(sent, way)).await
        })
    }

    /// One message, in which the server finds the commands one after another.
    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        let this = self.clone();
        Box::pin(async move {
            let votes = commands.iter().any(is_vote);
            let sent: Vec<Sent> =
                commands.into_iter().map(|command| this.limited(command)).collect();
            let request = move |server: &SimServer, way| -> NodeFuture<Vec<_>> {
                let server = server.clone();
                Box::pin(async move {
                    let mut replies = Vec::with_capacity(sent.len());
                    for one in sent {
                        replies.push(server.take(one, way).await);
                    }
                    Ok(replies)
                })
            };
            this.send(votes, request).await
        })
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        Box::pin(self.send(true, move |server, _| server.look(join)))
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        Box::pin(self.send(true, move |server, _| server.memory.admit(epoch, floor, serves)))
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        Box::pin(self.send(fenced, move |server, _| server.memory.holder(resource, fenced)))
    }

    fn completed(
        &self,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> NodeFuture<Option<Completed>> {
        Box::pin(self.send(true, move |server, _| match server.bug() {
            Bug::ForgetsDone => Box::pin(std::future::ready(Ok(done))),
            _ => server.memory.completed(resource, every, done),
        }))
    }

    fn reachable(&self) -> Result<(), NodeError> {
        self.server.epoch().map(drop).ok_or_else(not_connected)
    }

    fn clock(&self) -> Option<NodeClock> {
        Some(self.line().clock)
    }

    fn keeps_completions(&self) -> bool {
        self.server.memory.keeps_completions()
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
        let state = if self.server.is_up() {
            NodeState::Ready
        } else {
            NodeState::Down { reason: Arc::from("simulated") }
        };
        let mut status = NodeStatus::new(Arc::clone(&self.server.address), state);
        status.identity.clone_from(&self.line().process);
        status
    }
}

impl fmt::Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimNode {}", self.server.index)
    }
}
