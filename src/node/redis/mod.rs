//! A node on a real Redis or Valkey server.
//!
//! It owns the address and the latest link; the supervisor makes and checks links, and the wire module
//! turns commands into bytes and replies into answers. It must never wait for a connection.

mod address;
mod check;
mod link;
mod supervisor;
mod wire;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

pub use self::address::AddressError;
pub(crate) use self::address::{Address, TlsSettings};
use self::link::Link;
use super::{Node, NodeCall, NodeContext, NodeError, NodeState, NodeStatus};
use crate::protocol::Command;

/// A Redis or Valkey server, on one multiplexed connection under a supervisor of its own.
pub(crate) struct RedisNode {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    view: Mutex<View>,
    /// Wakes the supervisor, to reconnect or to end.
    wake: Notify,
}

struct View {
    state: NodeState,
    version: Option<Arc<str>>,
    link: Option<Arc<Link>>,
    closed: bool,
}

impl RedisNode {
    pub(crate) fn new(address: Address) -> Self {
        let view = View { state: NodeState::Connecting, version: None, link: None, closed: false };
        Self { shared: Arc::new(Shared { address, view: Mutex::new(view), wake: Notify::new() }) }
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link, if there is one that is not known to be dead.
    fn link(&self) -> Result<Arc<Link>, NodeError> {
        let view = self.view();
        if let Some(link) = view.link.as_ref().filter(|link| !link.is_down()) {
            return Ok(Arc::clone(link));
        }
        Err(match &view.state {
            NodeState::Refused(refusal) => NodeError::Refused(refusal.clone()),
            NodeState::Down { reason } => NodeError::NotConnected { reason: Arc::clone(reason) },
            NodeState::Connecting => {
                NodeError::NotConnected { reason: Arc::from("the first connection is being made") }
            }
            NodeState::Ready => {
                NodeError::NotConnected { reason: Arc::from("the connection has just been lost") }
            }
        })
    }
}

impl Node for RedisNode {
    fn start(&self, context: NodeContext) {
        let supervisor = supervisor::run(Arc::clone(&self.shared), context.clone());
        context.runtime().spawn(Box::pin(supervisor));
    }

    fn call(&self, command: Command) -> NodeCall {
        match self.shared.link() {
            Ok(link) => wire::execute(link, command),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn reachable(&self) -> Result<(), NodeError> {
        self.shared.link().map(drop)
    }

    fn status(&self) -> NodeStatus {
        let view = self.shared.view();
        let lost = view.link.as_ref().is_some_and(|link| link.is_down());
        let state = match &view.state {
            NodeState::Ready if lost => {
                NodeState::Down { reason: Arc::from("the connection has just been lost") }
            }
            state => state.clone(),
        };
        let mut status = NodeStatus::new(Arc::clone(self.shared.address.display()), state);
        status.version.clone_from(&view.version);
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
