//! A node of the simulation: a `MemoryNode` behind a connection with delay, loss, and interruptions.
//!
//! It keeps the contract of `Node`: on one connection requests arrive in the order in which they were first
//! polled, and replies come back in order. A bug can be planted in it, to see whether the checker notices.

use std::{
    any::Any,
    fmt,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use quorlock::{
    node::{MemoryNode, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeState, NodeStatus},
    protocol::{
        Command, FencingToken, Floor, Granted, Join, KeyHolder, LeaderText, Marker, Note, Record,
        Reply, Resource, Sighting, Target, Timestamp,
    },
    runtime::Runtime,
};
use quorlock_harness::SimRuntime;
use tokio::sync::oneshot;

/// The key of readers.
const SHARED_KEY: &[u8] = b"shared by readers, see quorlock.";

/// How it begins.
const SHARED: &[u8] = b"shared by readers";

/// What is wrong with the server, on purpose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Bug {
    #[default]
    None,
    /// It grants every acquire without looking.
    GrantsBlindly,
    /// It confirms releases without deleting anything.
    KeepsReleased,
    /// When it forgets, it says that it has been joining for as long as once before.
    KeepsWaits,
    /// Where one resource of a set is held, it takes the others all the same.
    TakesApart,
    /// Of a set it releases the first alone.
    ReleasesFirst,
    /// It says that it has picked the slot that it was asked to look at first, whichever that was.
    SaysFirst,
    /// It says that it has been joining for so long already: a quarantine that is cut by as much.
    CutsQuarantines(Duration),
    /// It keeps keys for so much less than it was told: a holder that counts with as much more than the nodes.
    CutsKeys(Duration),
    /// The key of readers ends with the first of them.
    EndsWithFirst,
    /// Whichever reader releases takes the key with it.
    ReleasesForAll,
    /// Where a writer goes on as a reader, it lets readers in and keeps no entry of that one.
    LowersToNobody,
    /// It lets readers in beside a writer.
    LetsReadersIn,
    /// It records a leader when it grants, and does not wait for the round to be won.
    RecordsEarly,
}

/// The server, which all clients share.
#[derive(Clone)]
pub(crate) struct SimServer {
    index: usize,
    memory: MemoryNode,
    runtime: SimRuntime,
    shared: Arc<Mutex<Server>>,
}

#[derive(Default)]
struct Server {
    up: bool,
    /// Counts kills: whatever was under way to or from a server that was killed is lost.
    era: u64,
    /// The share of messages that get lost.
    loss: f64,
    /// The longest delay of one message.
    delay: Duration,
    bug: Bug,
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
        SimNode { server: self.clone(), line: Arc::default() }
    }

    fn execute(&self, command: Command) -> NodeCall {
        let bug = self.shared.lock().unwrap().bug;
        match (bug, &command) {
            (Bug::GrantsBlindly, Command::Acquire { hint, .. }) => {
                let token = hint.map(FencingToken::new);
                Box::pin(ready(Ok(Reply::Granted(token.into()))))
            }
            (Bug::GrantsBlindly, Command::Confirm { .. })
            | (Bug::KeepsReleased, Command::Release { .. }) => {
                Box::pin(ready(Ok(Reply::Granted(Granted::DONE))))
            }
            (Bug::TakesApart, Command::Acquire { target, .. }) if target.is_set() => {
                self.acquire_apart(command)
            }
            (Bug::ReleasesFirst, Command::Release { .. }) => {
                self.memory.call(of_one(&command, 0).unwrap_or(command))
            }
            (
                Bug::EndsWithFirst,
                Command::Acquire { target, .. } | Command::Extend { target, .. },
            ) if target.is_shared() => {
                let (memory, resource) = (self.memory.clone(), target.resource().clone());
                Box::pin(async move {
                    let before = memory.holder(resource.clone(), true).await;
                    let reply = memory.call(command).await;
                    if let Ok(Sighting::Held(KeyHolder {
                        value: Some(value),
                        remaining: Some(remaining),
                        ..
                    })) = before
                        && value.starts_with(SHARED)
                    {
                        memory.set(resource.as_bytes(), value, Some(remaining));
                    }
                    reply
                })
            }
            (Bug::ReleasesForAll, Command::Release { target, .. }) if target.is_shared() => {
                let (memory, resource) = (self.memory.clone(), target.resource().clone());
                Box::pin(async move {
                    let reply = memory.call(command).await;
                    if memory
                        .get(resource.as_bytes())
                        .is_some_and(|value| value.starts_with(SHARED))
                    {
                        memory.set(resource.as_bytes(), SHARED, Some(Duration::ZERO));
                    }
                    reply
                })
            }
            (Bug::LowersToNobody, Command::Extend { target, owner, ttl, .. })
                if target.is_lowered() =>
            {
                let (resource, granted) = (target.resource(), Ok(Reply::Granted(Granted::DONE)));
                let value = self.memory.get(resource.as_bytes()).unwrap_or_default();
                if value == owner.to_hex() || value.starts_with(SHARED) {
                    let ttl = Some(*ttl);
                    self.memory.set(resource.as_bytes(), SHARED_KEY, ttl);
                    return Box::pin(ready(granted));
                }
                self.memory.call(command)
            }
            (Bug::LetsReadersIn, Command::Acquire { target, hint: Some(hint), .. })
                if target.is_shared() =>
            {
                let granted = Reply::Granted(Granted::at(FencingToken::new(*hint)));
                let memory = self.memory.clone();
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    Ok(if matches!(reply, Reply::Denied(_)) { granted } else { reply })
                })
            }
            (Bug::SaysFirst, Command::Pick { first, .. }) => {
                let (first, memory) = (*first, self.memory.clone());
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    Ok(match reply {
                        Reply::Granted(granted) => Reply::Granted(granted.in_slot(first)),
                        denied => denied,
                    })
                })
            }
            (Bug::CutsKeys(less), _) => {
                let mut command = command;
                if let Command::Acquire { ttl, .. }
                | Command::Pick { ttl, .. }
                | Command::Extend { ttl, .. }
                | Command::Restore { ttl, .. } = &mut command
                {
                    *ttl = ttl.saturating_sub(less);
                }
                self.memory.call(command)
            }
            (Bug::RecordsEarly, Command::Acquire { target, owner, .. }) => {
                let (target, owner, memory) = (target.clone(), *owner, self.memory.clone());
                Box::pin(async move {
                    let reply = memory.call(command).await?;
                    if let Reply::Granted(granted) = &reply
                        && let Some(term) = granted.token
                    {
                        let record = Record::new(term, 0, LeaderText::default());
                        let note = Note::of_leader(0, None, record);
                        drop(memory.call(Command::Proclaim { target, owner, note }).await);
                    }
                    Ok(reply)
                })
            }
            _ => self.memory.call(command),
        }
    }

    /// Takes a set, or whatever of it is free.
    fn acquire_apart(&self, command: Command) -> NodeCall {
        let memory = self.memory.clone();
        Box::pin(async move {
            let reply = memory.call(command.clone()).await?;
            let of = command.target().map_or(0, Target::len);
            for place in (0..of).filter(|_| matches!(reply, Reply::Denied(_))) {
                drop(memory.call(of_one(&command, place).unwrap()).await);
            }
            Ok(reply)
        })
    }

    fn look(&self, join: Join) -> NodeFuture<Marker> {
        let waited = match self.shared.lock().unwrap().bug {
            Bug::KeepsWaits => Some(Duration::from_secs(60)),
            Bug::CutsQuarantines(by) => Some(by),
            _ => None,
        };
        let marker = self.memory.join(join);
        Box::pin(async move {
            let told = marker.await?;
            Ok(waited.map_or(told, |waited| told.waited(waited)))
        })
    }

    /// The delay of one message, and whether it gets lost.
    fn draw(&self) -> (Duration, bool) {
        let server = self.shared.lock().unwrap();
        let (longest, loss) = (server.delay, server.loss);
        drop(server);
        let longest = u64::try_from(longest.as_nanos()).unwrap();
        let delay = Duration::from_nanos(50_000 + self.runtime.below(longest));
        (delay, self.runtime.chance(loss))
    }

    fn era(&self) -> Option<u64> {
        let server = self.shared.lock().unwrap();
        server.up.then_some(server.era)
    }
}

/// The same command for one resource of several.
fn of_one(command: &Command, place: usize) -> Option<Command> {
    let mut command = command.clone();
    let (Command::Acquire { target, .. } | Command::Release { target, .. }) = &mut command else {
        return None;
    };
    *target = target.resources().get(place)?.clone().into();
    Some(command)
}

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
