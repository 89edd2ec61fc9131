//! The requests that ask the nodes for one queue, by place.
//!
//! It decides nothing.

use alloc::collections::BTreeMap;

use super::AskId;
use crate::{queue::Place, rare::Rare};

/// The requests that ask for one queue: nearly always at most one.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct AskList {
    one: Option<(Place, AskId)>,
    more: Rare<BTreeMap<Place, AskId>>,
}

impl AskList {
    pub(super) fn add(&mut self, place: Place, id: AskId) {
        if let Some((place, id)) = self.one.replace((place, id)) {
            self.more.insert(place, id);
        }
    }

    pub(super) fn remove(&mut self, place: Place) {
        let more = self.more.written();
        if self.one.is_some_and(|(one, _)| one == place) {
            self.one = more.and_then(BTreeMap::pop_first);
        } else if let Some(more) = more {
            more.remove(&place);
        }
    }

    /// The request that asks under this place.
    pub(super) fn find(&self, place: Place) -> Option<AskId> {
        let one = self.one.filter(|(one, _)| *one == place).map(|(_, id)| id);
        one.or_else(|| self.more.get(&place).copied())
    }
}
