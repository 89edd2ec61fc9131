//! What a node has to say beside its reply: to those who wait, and why it did nothing.
//!
//! It decides nothing. The clients that are named are told once the node has let go of its own locks.

use alloc::vec::Vec;
use core::{error::Error, fmt};

use crate::{
    line::{ClientId, LineHint, LineNews, Ticket},
    resource::Resource,
};

/// What is told because of a command.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum NodeNews {
    /// To one client, of a line.
    Line {
        /// Whose line it is.
        resource: Resource,
        /// Who is told.
        client: ClientId,
        /// What it is told.
        hint: LineHint,
    },
    /// To all: the key of this resource is gone.
    Freed(Resource),
}

/// Why a node did not do what it was asked. Nobody has been granted anything then.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub enum NodeRefusal {
    /// It does not vote, or not in the state that the command names.
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

/// The news of one command, as they come. Nobody has heard any of it yet.
pub(super) struct Telling<'a> {
    hears: &'a dyn Fn(ClientId) -> bool,
    news: Vec<NodeNews>,
}

impl<'a> Telling<'a> {
    /// `hears` says whether a client is connected.
    pub(super) const fn new(hears: &'a dyn Fn(ClientId) -> bool) -> Self {
        Self { hears, news: Vec::new() }
    }

    /// Notes what the line of a resource has to tell, and says which of its places are stuck.
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
