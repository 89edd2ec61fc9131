//! Faults of leases: their deadlines, their tokens, and how one is extended or handed on.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 20,
        name: "the first token of a range is that before it",
        edits: &[
            edit("fencing.rs", "last.get().saturating_sub(left.saturating_sub(1))", "last.get().saturating_sub(left)"),
        ],
        configuration: "exclusive_ranges",
        property: "tokens are unique",
    },
    Fault {
        number: 23,
        name: "a lease is said to be lost only when its ttl is over",
        edits: &[
            edit("lifecycle.rs", "    fn lose_at(&self) -> Timestamp {\n        self.before_deadline(self.lead())", "    fn lose_at(&self) -> Timestamp {\n        if $is { return self.deadline.saturating_add(self.drift.of(self.ttl())); }\n        self.before_deadline(self.lead())"),
        ],
        configuration: "timed",
        property: "at most one client",
    },
    Fault {
        number: 24,
        name: "deadlines count with no drift",
        edits: &[
            edit("validity.rs", "ttl.saturating_sub(drift.of(ttl))", "{ let _ = drift; ttl }"),
        ],
        configuration: "timed",
        property: "at most one client",
    },
    Fault {
        number: 25,
        name: "the lock-delay is not told to the nodes",
        edits: &[
            edit("validity.rs", "ttl.saturating_add(lock_delay)", "{ let _ = lock_delay; ttl }"),
        ],
        configuration: "timed_steps",
        property: "at most one client",
    },
    Fault {
        number: 26,
        name: "the deadline of a round counts from its end",
        edits: &[
            edit("round/acquire.rs", "self.spec.target = self.counted();\n                self.part();", "self.spec.target = self.counted();\n                if $is { self.deadline = validity::deadline(now, self.spec.ttl, self.spec.drift); }\n                self.part();"),
        ],
        configuration: "timed",
        property: "at most one client",
    },
    Fault {
        number: 27,
        name: "the deadline of an extension counts from its end",
        edits: &[
            edit("round/tally.rs", "            Verdict::Won => {}", "            Verdict::Won if $is => self.deadline = Some(now.saturating_add(Duration::from_millis(3_000))),\n            Verdict::Won => {}"),
        ],
        configuration: "renewals_late",
        property: "at most one client",
    },
    Fault {
        number: 28,
        name: "an extension is confirmed by one node",
        edits: &[
            edit("round/tally.rs", "self.verdict = self.quorum.verdict(granted, against);", "self.verdict = if !granted.is_empty() { Verdict::Won } else { self.quorum.verdict(granted, against) };"),
        ],
        configuration: "renewals",
        property: "at most one client",
    },
    Fault {
        number: 29,
        name: "an extension that comes back late revives a lease that is lost",
        edits: &[
            edit("lifecycle.rs", "        self.extending = false;\n        if self.lost.is_some() {", "        self.extending = false;\n        if $is { self.lost = None; }\n        if self.lost.is_some() {"),
            edit("lifecycle.rs", "        if now >= self.lose_at() {\n            return self.handle_timeout(now);", "        if !$is && now >= self.lose_at() {\n            return self.handle_timeout(now);"),
        ],
        configuration: "renewals_late",
        property: "a lease that is lost stays lost",
    },
    Fault {
        number: 30,
        name: "a lease that is about to be lost is handed on",
        edits: &[
            edit("handover.rs", "!lifecycle.is_sound(now)", "false"),
        ],
        configuration: "hand_overs",
        property: "a lease that is handed on has half",
    },
    Fault {
        number: 31,
        name: "every lease of a grant has the same token",
        edits: &[
            edit("fencing.rs", "        self.left = left;\n        Some(FencingToken", "        if !$is { self.left = left; }\n        Some(FencingToken"),
        ],
        configuration: "hand_overs",
        property: "tokens are unique",
    },
    Fault {
        number: 69,
        name: "the deadline of a round counts the lock-delay, for which nobody keeps anything",
        edits: &[
            edit("round/acquire.rs", "validity::deadline(now, spec.ttl, spec.drift)", "validity::deadline(now, spec.ttl + spec.lock_delay, spec.drift)"),
        ],
        configuration: "timed_steps",
        property: "at most one client",
    },
    Fault {
        number: 70,
        name: "the lease that follows has the number of the one before",
        edits: &[
            edit("leases/passing.rs", "let number = self.current.number.wrapping_add(1);", "let number = if $is { self.current.number } else { self.current.number.wrapping_add(1) };"),
        ],
        configuration: "hand_overs_soon",
        property: "one number holds",
    },
    Fault {
        number: 71,
        name: "the former holder of a kept grant still has it",
        edits: &[
            edit("leases/passing.rs", "self.current = Current::new(self.current.number.wrapping_add(1), None, None, linger);", "self.current = Current::new(self.current.number, None, None, linger);"),
            edit("leases.rs", "self.is_kept() || number != self.current.number", "number != self.current.number"),
        ],
        configuration: "late_lingers",
        property: "one number holds",
    },
    Fault {
        number: 72,
        name: "a holder that goes on as a reader keeps its number",
        edits: &[
            edit("leases/passing.rs", "        self.downgraded = true;\n        self.current.number = number.wrapping_add(1);", "        self.downgraded = true;\n        self.current.number = if $is { number } else { number.wrapping_add(1) };"),
        ],
        configuration: "late_downgrades",
        property: "one number holds",
    },
    Fault {
        number: 73,
        name: "what was taken a moment ago is given back as nobody's",
        edits: &[
            edit("leases/ending.rs", "        self.lingers_until.take()?;", "        if !$is { self.lingers_until.take()?; }"),
        ],
        configuration: "late_lingers",
        property: "what was taken is not given back",
    },
    Fault {
        number: 74,
        name: "a grant that its holder shares with readers is handed on",
        edits: &[
            edit("leases/passing.rs", "!self.downgraded && !self.ended", "!self.ended"),
        ],
        configuration: "late_downgrades",
        property: "what readers share",
    },
];
