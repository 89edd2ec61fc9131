//! A node on a real Redis or Valkey server.
//!
//! It owns the address and the latest session; the supervisor makes and checks links, `votes` and `joining` run
//! commands on a session, and `codec` says what they look like on the wire. It must never wait for a connection.

mod address;
mod check;
mod codec;
mod connecting;
mod credentials;
mod dispatch;
mod errors;
#[cfg(feature = "inspect")]
mod examine;
#[cfg(feature = "inspect")]
mod facts;
#[cfg(test)]
#[cfg(feature = "inspect")]
mod fuzz_test;
mod info;
mod joining;
mod link;
mod liveness;
mod marker;
mod push;
mod resolve;
#[cfg(feature = "inspect")]
mod scan;
mod script;
mod sentinels;
mod session;
mod supervisor;
mod texts;
mod track;
mod votes;

#[cfg(feature = "inspect")]
use std::sync::OnceLock;
use std::{
    fmt,
    sync::{Arc, MutexGuard, atomic::AtomicBool},
    time::Duration,
};

use tokio::sync::Notify;

pub use self::address::{AddressError, UrlPart, WrongAddress};
pub use self::credentials::Credentials;
pub(super) use self::errors::advice;
pub(crate) use self::{
    address::{Address, TlsSettings},
    credentials::CredentialSource,
};
use self::{sentinels::Sentinels, session::Session};
use super::{LineState, Node, NodeCall, NodeContext, NodeError, NodeFuture, NodeState, NodeStatus};
#[cfg(feature = "inspect")]
use super::{NodeLine, Page, Scan, ServerFacts};
use crate::{
    lock::Lock,
    protocol::{
        Command, Completed, Floor, Join, Marker, NodeClock, Reply, Resource, Serves, Sighting,
    },
};

/// A Redis or Valkey server, on one multiplexed connection under a supervisor of its own.
pub(crate) struct RedisNode {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    /// Those that name the master, if it is found by them.
    sentinels: Option<Arc<Sentinels>>,
    view: Lock<View>,
    /// Kept across reconnects, so that a jump in between is seen.
    clock: Arc<Lock<NodeClock>>,
    /// Wakes the supervisor, to reconnect or to end.
    wake: Notify,
    /// Whether the missing line has been reported, which happens once.
    told_of_line: AtomicBool,
    /// For `examine`, which opens a connection of its own.
    #[cfg(feature = "inspect")]
    context: OnceLock<NodeContext>,
}

struct View {
    state: NodeState,
    version: Option<Arc<str>>,
    session: Option<Arc<Session>>,
    /// The attempts to connect that have failed since the last session.
    failed_attempts: u64,
    /// Whether there is a line on the latest session.
    line: LineState,
    closed: bool,
}

impl RedisNode {
    pub(crate) fn new(address: Address) -> Self {
        let view = View {
            state: NodeState::Connecting,
            version: None,
            session: None,
            failed_attempts: 0,
            line: LineState::Unknown,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                sentinels: address.group().map(|group| Arc::new(Sentinels::new(group))),
                address,
                view: Lock::new(view),
                clock: Arc::default(),
                wake: Notify::new(),
                told_of_line: AtomicBool::new(false),
                #[cfg(feature = "inspect")]
                context: OnceLock::new(),
            }),
        }
    }
}

impl RedisNode {
    /// Sends on the session, or fails at once where there is none.
    fn with_session<T: Send + 'static>(
        &self,
        send: impl FnOnce(Arc<Session>) -> NodeFuture<T>,
    ) -> NodeFuture<T> {
        match self.shared.session() {
            Ok(session) => send(session),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock()
    }

    /// The session, if there is one whose link is not known to be dead, and whose server the Sentinels still name.
    fn session(&self) -> Result<Arc<Session>, NodeError> {
        let (session, state) = {
            let view = self.view();
            (view.session.clone(), view.state.clone())
        };
        // The clock is user code.
        if let Some(session) = session.filter(|session| session.is_usable()) {
            return Ok(session);
        }
        Err(match &state {
            NodeState::Refused(refusal) => NodeError::Refused(refusal.clone()),
            NodeState::Down { reason } => NodeError::NotConnected { reason: Arc::clone(reason) },
            NodeState::Connecting => {
                NodeError::NotConnected { reason: Arc::from("the first connection is being made") }
            }
            NodeState::Ready | NodeState::Quarantined { .. } => {
                NodeError::NotConnected { reason: Arc::from("the connection has just been lost") }
            }
        })
    }
}

impl Node for RedisNode {
    fn start(&self, context: NodeContext) {
        #[cfg(feature = "inspect")]
        let _ = self.shared.context.set(context.clone());
        let supervisor = supervisor::run(Arc::clone(&self.shared), context.clone());
        context.runtime().spawn(Box::pin(supervisor));
    }

    fn call(&self, command: Command) -> NodeCall {
        self.with_session(|session| votes::execute(session, command))
    }

    fn call_many(&self, commands: Vec<Command>) -> NodeFuture<Vec<Result<Reply, NodeError>>> {
        self.with_session(|session| votes::execute_many(session, commands))
    }

    fn join(&self, join: Join) -> NodeFuture<Marker> {
        self.with_session(|session| Box::pin(joining::join(session, join)))
    }

    fn keeps_members(&self) -> bool {
        true
    }

    fn admit(&self, epoch: u64, floor: Floor, serves: Serves) -> NodeFuture<bool> {
        self.with_session(|session| Box::pin(joining::admit(session, epoch, floor, serves)))
    }

    fn holder(&self, resource: Resource, fenced: bool) -> NodeFuture<Sighting> {
        self.with_session(|session| Box::pin(votes::who_holds(session, resource, fenced)))
    }

    fn completed(
        &self,
        resource: Resource,
        every: Duration,
        done: Option<Completed>,
    ) -> NodeFuture<Option<Completed>> {
        self.with_session(|session| Box::pin(votes::completed(session, resource, every, done)))
    }

    #[cfg(feature = "inspect")]
    fn examine(&self, over: Duration) -> NodeFuture<ServerFacts> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let Some(context) = shared.context.get().cloned() else {
                let reason = Arc::from("it has not been started");
                return Err(NodeError::NotConnected { reason });
            };
            examine::examine(shared, context, over).await
        })
    }

    #[cfg(feature = "inspect")]
    fn scan(&self, scan: Scan) -> NodeFuture<Page<Box<[u8]>>> {
        self.with_session(|session| Box::pin(scan::keys(session, scan)))
    }

    #[cfg(feature = "inspect")]
    fn scan_lines(&self, scan: Scan) -> NodeFuture<Page<NodeLine>> {
        self.with_session(|session| Box::pin(scan::lines(session, scan)))
    }

    fn moves_within(&self) -> Duration {
        self.shared.sentinels.as_ref().map_or(Duration::ZERO, |_| sentinels::MOVES_WITHIN)
    }

    fn takes_sets(&self) -> bool {
        true
    }

    fn takes_readers(&self) -> bool {
        true
    }

    fn picks_slots(&self) -> bool {
        true
    }

    fn hands_over(&self) -> bool {
        true
    }

    fn keeps_completions(&self) -> bool {
        true
    }

    fn counts_ranges(&self) -> bool {
        true
    }

    fn reachable(&self) -> Result<(), NodeError> {
        self.shared.session().map(drop)
    }

    fn clock(&self) -> Option<NodeClock> {
        Some(*self.shared.clock.lock())
    }

    fn status(&self) -> NodeStatus {
        let view = self.shared.view();
        let lost = view.session.as_ref().is_some_and(|session| session.link().is_down());
        let state = match &view.state {
            NodeState::Ready if lost => {
                NodeState::Down { reason: Arc::from("the connection has just been lost") }
            }
            state => state.clone(),
        };
        let mut status = NodeStatus::new(Arc::clone(self.shared.address.display()), state);
        status.version.clone_from(&view.version);
        status.failed_attempts = view.failed_attempts;
        status.line = match &view.session {
            Some(session) if view.line == LineState::On && !session.lines().are_on() => {
                LineState::Off { reason: Arc::from("the user has lost a right to it") }
            }
            _ => view.line.clone(),
        };
        let session = view.session.clone();
        // The clock is user code.
        drop(view);
        status.clock = session.as_ref().and_then(|session| session.clock_offset());
        status.epoch = session.as_ref().and_then(|session| session.epoch());
        status.identity = session.map(|session| Arc::from(session.process().run_id.as_str()));
        status
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.shared.view().closed = true;
        self.shared.wake.notify_one();
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("address", self.shared.address.display()).finish()
    }
}
