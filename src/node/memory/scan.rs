//! The keys of a node in memory that look like locks, and the patterns by which a server would name them.
//!
//! It decides what matches a pattern, as Redis does: `*`, `?`, `[a-c]`, `[^a]`, and a backslash before a literal byte.

use crate::{
    node::{Scan, ScanPage, ServerFacts},
    protocol::{KeyHolder, NodeStore, Owner, Timestamp},
};

/// What a node in memory reports of itself: nothing can be wrong with it.
pub(super) fn facts() -> ServerFacts {
    let (version, role) = (Some("memory".into()), Some("master".into()));
    ServerFacts { version, role, local: true, ..ServerFacts::default() }
}

/// A page of the keys, in order. The cursor counts the keys already returned.
pub(super) fn page(node: &mut NodeStore, scan: &Scan, now: Timestamp) -> ScanPage {
    let is_lock = |value: &[u8]| Owner::from_hex(value).is_some() || value == KeyHolder::SHARED;
    let locks = node.keys(now).iter().filter(|(_, key)| is_lock(&key.value));
    let keys: Vec<&Vec<u8>> =
        locks.map(|(name, _)| name).filter(|name| matches(&scan.pattern, name)).collect();
    let from = usize::try_from(scan.cursor).unwrap_or(usize::MAX);
    let to = from.saturating_add(scan.count.max(1));
    let page = keys.iter().skip(from).take(to.saturating_sub(from));
    let page = page.map(|name| Box::from(name.as_slice())).collect();
    let next = if to < keys.len() { u64::try_from(to).unwrap_or(0) } else { 0 };
    ScanPage::new(next, page)
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    match first {
        b'*' => (0..=name.len()).any(|skip| matches(rest, name.get(skip..).unwrap_or_default())),
        b'?' => name.split_first().is_some_and(|(_, name)| matches(rest, name)),
        b'[' => name.split_first().is_some_and(|(byte, name)| {
            let (is_in, rest) = class(rest, *byte);
            is_in && matches(rest, name)
        }),
        _ => {
            let (meant, rest) = literal(*first, rest);
            name.split_first().is_some_and(|(byte, name)| *byte == meant && matches(rest, name))
        }
    }
}

fn literal(first: u8, rest: &[u8]) -> (u8, &[u8]) {
    match rest.split_first() {
        Some((next, rest)) if first == b'\\' => (*next, rest),
        _ => (first, rest),
    }
}

/// Whether the byte is in the class between the brackets, and what follows it.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            // An unclosed class ends with the pattern.
            [] => return (is_in != negated, rest),
            [b'\\', meant, after @ ..] => {
                is_in |= *meant == byte;
                after
            }
            [b']', after @ ..] => return (is_in != negated, after),
            // A range may also end in a bracket.
            [one, b'-', other, after @ ..] => {
                is_in |= (one.min(other)..=one.max(other)).contains(&&byte);
                after
            }
            [one, after @ ..] => {
                is_in |= *one == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{matches, page};
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
            store.keys(Timestamp::ORIGIN).insert(name.into(), NodeKey { value, expires: None });
        }
        let mut told = |cursor| {
            let scan = Scan { cursor, ..Scan::new(Arc::from(*b"*"), 2) };
            let page = page(&mut store, &scan, Timestamp::ORIGIN);
            (page.cursor, page.keys.len())
        };
        assert_eq!((told(0), told(2), told(4)), ((2, 2), (0, 2), (0, 0)));
    }

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "a:b", true),
            ("a:*", "a:b", true),
            ("a:*", "b:a:", false),
            ("*:1", "a:1:1", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[ab]x", "bx", true),
            ("[^ab]x", "bx", false),
            ("[a-c]", "b", true),
            ("[a-c]", "d", false),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("", "a", false),
            ("[a", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
