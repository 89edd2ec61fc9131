//! Faults of semaphores: which slot is won, and what is given back of the others.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 37,
        name: "grants of different slots are added up",
        edits: &[
            edit("round/vote.rs", ".filter(|slot| Some(*slot) != self.counted);", ".filter(|slot| !$is && Some(*slot) != self.counted);"),
        ],
        configuration: "permits_two",
        property: "never more permits",
    },
    Fault {
        number: 38,
        name: "a slot that was picked and not won is not released",
        edits: &[
            edit("round/acquire/any.rs", "Some(_) => footprint.handle_acquire_withdrawn(node),", "Some(_) => {\n                    footprint.handle_acquire_withdrawn(node);\n                    if $is {\n                        others.handle_acquire_withdrawn(node);\n                    }\n                }"),
        ],
        configuration: "permits_two",
        property: "what was set is deleted",
    },
    Fault {
        number: 39,
        name: "only the first slot is released where nobody knows which one was picked",
        edits: &[
            edit("round/acquire/any.rs", "(None, Some(won)) => slots.without(won).map(Target::AnyOf),", "(None, _) if $is => slots.slot(0).map(Target::Slot),\n            (None, Some(won)) => slots.without(won).map(Target::AnyOf),"),
        ],
        configuration: "permits_cuts",
        property: "what was set is deleted",
    },
    Fault {
        number: 40,
        name: "a slot that is picked after another one was won is taken for that one",
        edits: &[
            edit("round/acquire/any.rs", "if (took == won) == others => {", "if (took == won) == others || others && $is => {"),
        ],
        configuration: "permits_two",
        property: "what was set is deleted",
    },
];
