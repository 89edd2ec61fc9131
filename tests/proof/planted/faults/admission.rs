//! Faults of admission: when a node that may have forgotten votes again, and where its counters go on.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 32,
        name: "the quarantine leaves nothing for clocks that run at other rates",
        edits: &[
            edit("admission/mod.rs", "longest.saturating_add(longest / 10).saturating_add(self.longest_round)", "longest.saturating_add(self.longest_round)"),
        ],
        configuration: "admission_time",
        property: "at most one client",
    },
    Fault {
        number: 33,
        name: "a node is let in before its quarantine is over",
        edits: &[
            edit("admission/schedule.rs", "self.remaining(*node, now) == Some(Duration::ZERO)", "self.remaining(*node, now).is_some()"),
            edit("admission/admitting.rs", "admission.remaining(self.node, now).is_some_and(|left| left.is_zero())", "true"),
        ],
        configuration: "admission_time",
        property: "at most one client",
    },
    Fault {
        number: 34,
        name: "the others are not sealed before they are believed",
        edits: &[
            edit("admission/admitting.rs", "look_at(others, admission.look().seal())", "look_at(others, admission.look())"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 35,
        name: "a node that is let in does not go on above the others",
        edits: &[
            edit("admission/floor.rs", "return Ok(Floor::new(high, 0));", "return Ok(Floor::new(0, 0));"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
    Fault {
        number: 36,
        name: "one other node is enough to say how high the counters are",
        edits: &[
            edit("admission/floor.rs", "is_met(knows)", "!knows.is_empty()"),
        ],
        configuration: "admission_silent",
        property: "tokens are unique",
    },
];
