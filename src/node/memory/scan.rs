//! What a node in memory tells operators: its keys that look like locks, and its lines, page by page.
//!
//! It decides nothing that a lock rests on.

use crate::{
    node::{NodeLine, Page, Scan, ServerFacts, pattern::matches},
    protocol::{KeyHolder, LinePlace, NodeStore, Owner, Ticket, Timestamp},
};

/// What a node in memory reports of itself: nothing can be wrong with it.
pub(super) fn facts() -> ServerFacts {
    let (version, role) = (Some("memory".into()), Some("master".into()));
    ServerFacts { version, role, local: true, ..ServerFacts::default() }
}

/// A page of the keys, in order.
pub(super) fn keys(node: &mut NodeStore, scan: &Scan, now: Timestamp) -> Page<Box<[u8]>> {
    let is_lock = |value: &[u8]| Owner::from_hex(value).is_some() || value == KeyHolder::SHARED;
    let locks = node.keys(now).iter().filter(|(_, key)| is_lock(&key.value));
    let found = locks.map(|(name, _)| name).filter(|name| matches(&scan.pattern, name));
    page(found.map(|name| Box::from(name.as_slice())).collect(), scan)
}

/// A page of the lines, in order.
pub(super) fn lines(node: &mut NodeStore, scan: &Scan, now: Timestamp) -> Page<NodeLine> {
    let told = node.lines().iter().filter_map(|(resource, line)| {
        let (places, _) = line.shown(now)?;
        let ticket = |score| Ticket::new(u64::try_from(score).unwrap_or_default());
        let places =
            places.iter().filter_map(|(name, at)| LinePlace::read(name.as_bytes(), ticket(*at)));
        let places: Vec<LinePlace> = places.collect();
        let first = places.iter().take(NodeLine::TOLD).copied().collect();
        Some(NodeLine::new(resource.as_bytes(), first, places.len()))
    });
    page(told.filter(|line| matches(&scan.pattern, &line.key)).collect(), scan)
}

/// The cursor counts those already told.
fn page<T>(all: Vec<T>, scan: &Scan) -> Page<T> {
    let from = usize::try_from(scan.cursor).unwrap_or(usize::MAX);
    let to = from.saturating_add(scan.count.max(1));
    let next = if to < all.len() { u64::try_from(to).unwrap_or(0) } else { 0 };
    Page::new(next, all.into_iter().skip(from).take(to.saturating_sub(from)).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::keys;
    use crate::{
        node::Scan,
        protocol::{NodeKey, NodeStore, Owner, Timestamp},
    };

    /// An empty page after it would be a round trip in vain.
    #[test]
    fn the_page_with_the_last_key_is_the_last_one() {
        let mut store = NodeStore::new();
        for name in ["a", "b", "c", "d"] {
            let value = Owner::from_random([1; 16]).to_hex().to_vec();
            store.keys(Timestamp::ORIGIN).insert(name.into(), NodeKey::new(value, None));
        }
        let mut told = |cursor| {
            let scan = Scan { cursor, ..Scan::new(Arc::from(*b"*"), 2) };
            let page = keys(&mut store, &scan, Timestamp::ORIGIN);
            (page.cursor, page.found.len())
        };
        assert_eq!((told(0), told(2), told(4)), ((2, 2), (0, 2), (0, 0)));
    }
}
