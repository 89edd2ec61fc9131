//! The clients that are connected to the nodes, by their lists, for `quorlock fleet show`.
//!
//! It counts what clients have named themselves, which anybody may do: nothing may rest on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use quorlock::{inspect::Inspection, protocol::Serves};
use serde_json::{Value, json};

use super::show::marker;
use crate::shown::counted;

/// The clients that are connected with one list, or with both lists of a change.
pub(super) struct Connected {
    lists: String,
    /// Of the first list, if a node knows it.
    generation: Option<u32>,
    clients: usize,
}

/// Each once, however many nodes it is connected to; `None` where this user may not see that
/// on each node that answers.
pub(super) fn connected(inspection: &Inspection) -> Option<Vec<Connected>> {
    let mut by_lists: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for server in inspection.nodes.iter().filter_map(|node| node.server.as_ref().ok()) {
        for client in server.clients.as_ref()? {
            by_lists.entry(&client.members).or_default().insert(&client.client);
        }
    }
    let records = || inspection.nodes.iter().filter_map(|node| marker(node)?.members.as_ref());
    let generation_of = |names: &str| {
        let each = records().flat_map(|record| {
            [Serves::Before, Serves::After].map(|serves| record.serving(serves))
        });
        each.filter(|list| list.names() == names).map(|list| list.generation()).max()
    };
    let generation = |lists: &str| match lists.split_once('>') {
        Some((before, after)) => generation_of(before)
            .or_else(|| generation_of(after).map(|behind| behind.saturating_sub(1))),
        None => generation_of(lists),
    };
    let connected = by_lists.into_iter().map(|(lists, clients)| Connected {
        lists: lists.to_owned(),
        generation: generation(lists),
        clients: clients.len(),
    });
    Some(connected.collect())
}

impl Connected {
    pub(super) fn as_object(&self) -> Value {
        let (before, after) = self
            .lists
            .split_once('>')
            .map_or((&*self.lists, None), |(before, after)| (before, Some(after)));
        let list = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
        json!({
            "clients": self.clients,
            "members": list(before),
            "members_after": after.map(list),
            "generation": self.generation,
        })
    }
}

impl fmt::Display for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = self.lists.replace(',', ", ").replace('>', ") to (");
        write!(f, "connected: {} with ({lists})", counted(self.clients, "client"))?;
        match (self.generation, self.lists.contains('>')) {
            (Some(first), true) => write!(f, ", generation {first} to {}", first.saturating_add(1)),
            (Some(first), false) => write!(f, ", generation {first}"),
            (None, _) => Ok(()),
        }
    }
}
