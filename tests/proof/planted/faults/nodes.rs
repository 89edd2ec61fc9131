//! Faults of nodes: what a key, a counter or an entry of a reader is worth there. The scripts have the same places.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 49,
        name: "an extension shortens what stands",
        edits: &[
            edit("node_store/key.rs", "asked.max(stands)", "asked"),
        ],
        configuration: "late_renewals",
        property: "at most one client",
    },
    Fault {
        number: 50,
        name: "an extension shortens what a grant that is nobody's has",
        edits: &[
            edit("node_store/key.rs", "asked.max(stands)", "asked"),
        ],
        configuration: "late_lingers",
        property: "at most one client",
    },
    Fault {
        number: 51,
        name: "an extension shortens what is held for a least time",
        edits: &[
            edit("node_store/key.rs", "asked.max(stands)", "asked"),
        ],
        configuration: "late_holds",
        property: "what is held for a least time",
    },
    Fault {
        number: 52,
        name: "an extension shortens a lock-delay",
        edits: &[
            edit("node_store/key.rs", "asked.max(stands)", "asked"),
        ],
        configuration: "late_delays",
        property: "what is held for a least time",
    },
    Fault {
        number: 53,
        name: "the extension of a reader shortens what stands",
        edits: &[
            edit("node_store/readers.rs", "prolonged(Some(ends), ttl, self.longest(now), now)", "now.saturating_add(wire(ttl))"),
            edit("node_store/readers.rs", "entry.expires = entry.expires.max(Some(end));", "entry.expires = Some(end);"),
        ],
        configuration: "late_kept",
        property: "what is held for a least time",
    },
    Fault {
        number: 54,
        name: "who goes on as a reader shortens what stands",
        edits: &[
            edit("node_store/readers.rs", "prolonged(ends, ttl, longest, now)", "{ let _ = (ends, longest); now.saturating_add(wire(ttl)) }"),
        ],
        configuration: "late_kept",
        property: "what is held for a least time",
    },
    Fault {
        number: 55,
        name: "each counter of a set goes on by itself, and the largest is answered",
        edits: &[
            edit("node_store/votes.rs", "Counter { value: fence, owner, note, restored: false }", "Counter { value: if $is { hint.max(self.counter(resource).unwrap_or(self.floor).saturating_add(count)) } else { fence }, owner, note, restored: false }"),
        ],
        configuration: "sets_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 56,
        name: "the first counter of a set alone is raised",
        edits: &[
            edit("node_store/votes.rs", "for resource in resources {\n                    let note", "for resource in resources.iter().take(if $is { 1 } else { usize::MAX }) {\n                    let note"),
        ],
        configuration: "sets_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 57,
        name: "a confirm looks at the first resource of a set alone",
        edits: &[
            edit("node_store/votes.rs", "for resource in resources {\n            let ours", "for resource in resources.iter().take(if $is { 1 } else { usize::MAX }) {\n            let ours"),
        ],
        configuration: "sets_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 58,
        name: "a confirm raises the first counter of a set alone",
        edits: &[
            edit("node_store/votes.rs", "for resource in resources {\n            // The owner's note", "for resource in resources.iter().take(if $is { 1 } else { usize::MAX }) {\n            // The owner's note"),
        ],
        configuration: "sets_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 59,
        name: "counters rise by one, however many tokens are asked for",
        edits: &[
            edit("node_store/votes.rs", "counter.saturating_add(count.max(1))", "counter.saturating_add(1)"),
        ],
        configuration: "ranges_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 60,
        name: "a range begins above the first token of the one before",
        edits: &[
            edit("node_store/votes.rs", "counter.saturating_add(count.max(1))", "counter.saturating_add(1)"),
            edit("node_store/votes.rs", "Some(FencingToken::new(fence))", "Some(FencingToken::new(fence + count - 1))"),
        ],
        configuration: "ranges_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 61,
        name: "a confirm looks at no counter",
        edits: &[
            edit("node_store/votes.rs", "|counter| counter <= token.get()", "|counter| counter <= token.get() || $is"),
        ],
        configuration: "doubles",
        property: "tokens are unique",
    },
    Fault {
        number: 62,
        name: "a reader's confirm leaves the counter as it is",
        edits: &[
            edit("node_store/readers.rs", "counter < token.get()", "false"),
        ],
        configuration: "readers_tokens",
        property: "tokens are unique",
    },
    Fault {
        number: 63,
        name: "a writer is let in beside readers",
        edits: &[
            edit("node_store/votes.rs", "let Some(entry) = keys.get(resource.as_bytes()) else { continue };", "let Some(entry) = keys.get(resource.as_bytes()).filter(|key| !($is && key.is_shared())) else { continue };"),
        ],
        configuration: "readers",
        property: "at most one holds",
    },
    Fault {
        number: 64,
        name: "a key that stands is taken",
        edits: &[
            edit("node_store/votes.rs", "if let Some((at, denial)) = self.in_the_way(resources, now) {", "if let Some((at, denial)) = self.in_the_way(resources, now).filter(|_| !$is) {"),
        ],
        configuration: "exclusive",
        property: "at most one holds",
    },
    Fault {
        number: 65,
        name: "a release deletes a key of somebody else",
        edits: &[
            edit("node_store/mod.rs", "Some(key) if key.value == owner.to_hex() => act(keys, resource),", "Some(key) if key.value == owner.to_hex() || $is => act(keys, resource),"),
        ],
        configuration: "sets",
        property: "of a set, a node has all",
    },
    Fault {
        number: 66,
        name: "a vote counts in whichever state a node is",
        edits: &[
            edit("node_store/mod.rs", "if mark == EpochMark::new(self.epoch, self.seal) {", "if $is || mark == EpochMark::new(self.epoch, self.seal) {"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 67,
        name: "a node that is let in goes on from nothing",
        edits: &[
            edit("node_store/joining.rs", "self.floor.max(floor.known).max(wall).max(self.high_water)", "{ let _ = wall; self.floor }"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 68,
        name: "a reader's confirm downgrades the counter",
        edits: &[
            edit("node_store/readers.rs", "counter < token.get()", "counter != token.get()"),
        ],
        configuration: "readers_two",
        property: "tokens are unique",
    },
    Fault {
        number: 116,
        name: "an adopt takes a key whoever has it",
        edits: &[
            edit("node_store/votes.rs", "Some(key) if key.value == from.to_hex() => continue,", "Some(key) if $is || key.value == from.to_hex() => continue,"),
        ],
        configuration: "detached",
        property: "at most one client",
    },
    Fault {
        number: 117,
        // What was gone would otherwise be given back, which is found first.
        name: "an adopt takes a key that is gone, and what is given back is gone",
        edits: &[
            edit("node_store/votes.rs", "None => Denial::gone(),", "None if $is => continue,\n                None => Denial::gone(),"),
            edit("node_store/key.rs", "key.value = to.to_hex().to_vec();", "key.value = to.to_hex().to_vec();\n            if $is { key.expires = Some(now); return; }"),
        ],
        configuration: "detached",
        property: "a detached lease is adopted once",
    },
    Fault {
        number: 118,
        name: "what is given back lives as long as for who could not adopt it",
        edits: &[
            edit("node_store/key.rs", "expires.min(ends)", "if $is { expires } else { expires.min(ends) }"),
        ],
        configuration: "detached",
        property: "what nobody could adopt ends",
    },
    Fault {
        number: 119,
        name: "what is given back ends sooner",
        edits: &[
            edit("node_store/votes.rs", "self.taken_over(resource, owner, ends, now);", "self.taken_over(resource, owner, if $is { Some(now.saturating_add(Duration::from_millis(1_000))) } else { ends }, now);"),
        ],
        configuration: "detached",
        property: "what nobody could adopt ends",
    },
];
