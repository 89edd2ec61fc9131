//! A node's messages besides its reply, to waiters, and the reasons of its refusals.
//!
//! It decides nothing. The clients hear a message once the node has let go of its own locks.

use alloc::vec::Vec;
use core::{error::Error, fmt};

use crate::{
    line::{ClientId, LineHint, LineNews, Ticket},
    resource::Resource,
};

/// A message because of a command.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum NodeNews {
    /// To one client, of a line.
    Line {
        /// The resource of the line.
        resource: Resource,
        /// The client.
        client: ClientId,
        /// The message.
        hint: LineHint,
    },
    /// To all: the key of this resource is gone.
    Freed(Resource),
}

/// Why a node refused a command. It granted nothing.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub enum NodeRefusal {
    /// The node does not vote, or is not in the state that the command names.
    NotAdmitted,
    /// A counter is at its end.
    CounterExhausted,
}

debug_is_text!(
    enum NodeRefusal {
        NotAdmitted,
        CounterExhausted,
    }
);

impl fmt::Display for NodeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAdmitted => "the node does not vote in this state",
            Self::CounterExhausted => "the counter of the resource is at its end",
        })
    }
}

impl Error for NodeRefusal {}

/// The messages of one command, as they come. No client has heard any yet.
pub(super) struct Telling<'a> {
    hears: &'a dyn Fn(ClientId) -> bool,
    news: Vec<NodeNews>,
}

impl<'a> Telling<'a> {
    /// `hears` says whether a client is connected.
    pub(super) const fn new(hears: &'a dyn Fn(ClientId) -> bool) -> Self {
        Self { hears, news: Vec::new() }
    }

    /// Notes the messages of a resource's line, which learns by `is_stuck` which of its places are stuck.
    pub(super) fn of<T>(
        &mut self,
        resource: &Resource,
        is_stuck: &dyn Fn(ClientId, Ticket) -> bool,
        look: impl FnOnce(&mut LineNews<'_>) -> T,
    ) -> T {
        let mut line = LineNews::new(self.hears).knowing(is_stuck);
        let seen = look(&mut line);
        for (client, hint) in line.into_told() {
            self.news.push(NodeNews::Line { resource: resource.clone(), client, hint });
        }
        seen
    }

    /// A key is gone.
    pub(super) fn freed(&mut self, resource: Resource) {
        self.news.push(NodeNews::Freed(resource));
    }

    pub(super) fn into_news(self) -> Vec<NodeNews> {
        self.news
    }
}
