//! What is under way between one client and one node, by connection.
//!
//! Goal: whatever a kernel may deliver. Method: the commands of a connection are executed in their order. A client that
//! connects anew hears no more of the connection before; what that one has not delivered may arrive at any later time.

use super::holder::Letter;
use crate::model::node::Said;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Wire<L = Letter> {
    pub(crate) there: Vec<L>,
    pub(crate) back: Vec<(L, Said)>,
    /// Of the connection before, in its order.
    pub(crate) late: Vec<L>,
}

impl<L> Default for Wire<L> {
    fn default() -> Self {
        Self { there: Vec::new(), back: Vec::new(), late: Vec::new() }
    }
}

impl<L> Wire<L> {
    /// The client has given the connection up and has another one.
    pub(crate) fn reconnect(&mut self) {
        self.late.append(&mut self.there);
        self.back.clear();
    }

    /// Whether the client may hear anything more.
    pub(crate) const fn is_idle(&self) -> bool {
        self.there.is_empty() && self.back.is_empty()
    }
}
