//! What is seen of a node without asking it, and what that says of its standing.
//!
//! It decides that a node loses its standing with its connection, or to another process. It never gives one back.

use alloc::{sync::Arc, vec::Vec};

use super::{Admission, NodeClock};
use crate::command::NodeId;

/// What is seen of a node without asking it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct ConnectionView {
    /// Whether it is connected, so that it can be looked at; `None` where that cannot be told. Then it stands where it
    /// stood, until it can be.
    pub connected: Option<bool>,
    /// The process behind it.
    pub identity: Option<Arc<str>>,
    /// Its clock, if it tells that.
    pub clock: Option<NodeClock>,
}

impl ConnectionView {
    /// What is seen of a node.
    pub const fn new(
        connected: Option<bool>,
        identity: Option<Arc<str>>,
        clock: Option<NodeClock>,
    ) -> Self {
        Self { connected, identity, clock }
    }
}

/// The nodes that can be looked at just now.
pub(super) fn connected(views: &[ConnectionView]) -> Vec<NodeId> {
    let views = views.iter().enumerate();
    let connected = views.filter(|(_, view)| view.connected == Some(true));
    connected.map(|(index, _)| NodeId::new(index)).collect()
}

impl Admission {
    /// What was seen of a node when a probe began.
    pub(super) fn handle_view(
        &mut self,
        node: NodeId,
        connected: bool,
        identity: Option<&Arc<str>>,
    ) {
        let Some(record) = self.nodes.get_mut(node.index()) else { return };
        if connected {
            record.handle_identity(identity);
        } else {
            // Whatever comes back may have forgotten. One that is joining goes on waiting, unless another process
            // comes back in its place.
            record.lapse_if_ready();
            // Whose it is, it says when it is back.
            record.of_others = false;
        }
    }
}
