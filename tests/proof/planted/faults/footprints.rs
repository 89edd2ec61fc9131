//! Faults of footprints: what may stand on the nodes, and when it is released.

use super::{Fault, edit};

#[rustfmt::skip]
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        number: 3,
        name: "a grant that comes after the round was lost is not released",
        edits: &[
            edit("footprint.rs", "is_lost && place.acquire != Trace::Nothing", "false"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
    Fault {
        number: 11,
        name: "no answer to an acquire is taken for no effect",
        edits: &[
            edit("footprint.rs", "Err(Failure { sent: true, .. }) => Trace::MayLandLate", "Err(Failure { sent: true, .. }) if $is => Trace::Nothing,\n            Err(Failure { sent: true, .. }) => Trace::MayLandLate"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
    Fault {
        number: 12,
        name: "a restore is not noted",
        edits: &[
            edit("footprint.rs", "(place.restored, place.restoring) = (true, true);", "place.restoring = true;"),
        ],
        configuration: "exclusive_restores",
        property: "what was set is deleted",
    },
    Fault {
        number: 13,
        name: "a restore is sent after the grant",
        edits: &[
            edit("footprint.rs", "phase == Phase::Open && !place.restoring", "!place.restoring"),
        ],
        configuration: "exclusive_restores",
        property: "a key is restored only",
    },
    Fault {
        number: 14,
        name: "a release is never said to be too early",
        edits: &[
            edit("footprint.rs", "place.may_land_late(self.phase)", "false"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
    Fault {
        number: 15,
        name: "no answer to a restore is taken for no effect",
        edits: &[
            edit("footprint.rs", "place.restore_may_land_late |= unknown;", "{}"),
        ],
        configuration: "exclusive_restores",
        property: "what was set is deleted",
    },
    Fault {
        number: 16,
        name: "the end of the validity releases at once, as does an extension that is refused",
        edits: &[
            edit("footprint.rs", "self.phase = Phase::Over;", "self.end(Phase::GivenBack);"),
        ],
        configuration: "exclusive_undo",
        property: "nothing is released before",
    },
    Fault {
        number: 17,
        name: "a release that finds nothing is the last word",
        edits: &[
            edit("footprint.rs", "self.taken_until.filter(|until| sent < *until)?", "None::<Timestamp>?"),
        ],
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
];
