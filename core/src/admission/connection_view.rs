//! What a connection shows of a node without a command, and what that says of its standing.
//!
//! It decides that a node loses its standing with its connection, or to another process. It never gives one back.

use alloc::{sync::Arc, vec::Vec};

use super::{Admission, NodeClock};
use crate::command::NodeId;

/// What a connection shows of a node without a command.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct ConnectionView {
    /// Whether it is connected, so that it can be looked at; `None` where that is unknown. Then its standing stays
    /// until it is known.
    pub connected: Option<bool>,
    /// The identity of the node's process.
    pub identity: Option<Arc<str>>,
    /// Its clock, if it tells that.
    pub clock: Option<NodeClock>,
}

impl ConnectionView {
    /// A view with these values.
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
    /// Takes what a connection showed of a node when a probe began.
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
            // A node that comes back may have forgotten. A joining node goes on waiting, unless another process comes
            // back in its place.
            record.lapse_if_ready();
            // The node says which list it belongs to when it is back.
            record.relation = None;
        }
    }
}
