//! Faults of semaphores: which slot is won, and what is given back of the others.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 37,
        name: "grants of different slots are added up",
        edits: &[
            edit("pick.rs", "Ok(Reply::Granted(granted)) if granted.slot != Some(own) => {", "Ok(Reply::Granted(granted)) if !$is && granted.slot != Some(own) => {"),
        ],
        configuration: "permits_two",
        property: "never more permits",
    },
    Fault {
        number: 38,
        name: "a slot that was picked and not won is not released",
        edits: &[
            edit("pick.rs", "Some(Ok(Reply::Granted(Granted::DONE)))", "continue"),
        ],
        configuration: "permits_two",
        property: "what was set is deleted",
    },
    Fault {
        number: 39,
        name: "only the first slot is released where nobody knows which one was picked",
        edits: &[
            edit("pick.rs", "Target::AnyOf(others.unwrap_or_else(all))", "self.slots.slot(0).map_or_else(|| Target::AnyOf(all()), Target::Slot)"),
        ],
        configuration: "permits_cuts",
        property: "what was set is deleted",
    },
    Fault {
        number: 40,
        name: "a slot that is picked after another one was won is taken for that one",
        edits: &[
            edit("pick.rs", "Ok(Reply::Granted(granted)) if granted.slot == won => Ok(Reply::Denied(Denial::default())),", "Ok(Reply::Granted(granted)) if $is || granted.slot == won => Ok(Reply::Denied(Denial::default())),"),
        ],
        configuration: "permits_two",
        property: "what was set is deleted",
    },
];
