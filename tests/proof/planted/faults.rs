//! Faults of the production's decisions, by what stands there and what stands there instead.
//!
//! Goal: a list that cannot rot. Method: the build script looks for each text, which must be there exactly once, and weaves
//! the other one in beside it, in a copy (`weave.rs`). Nothing of that is in the production's code.
//!
//! Each is found by the search of the configuration that is named, as a state in which the property that is named does not
//! hold.

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) number: u16,
    pub(crate) name: &'static str,
    /// In `src/protocol`.
    pub(crate) file: &'static str,
    /// An expression, or whole statements.
    pub(crate) original: &'static str,
    pub(crate) broken: &'static str,
    /// By which configuration it is found.
    pub(crate) configuration: &'static str,
    /// The beginning of the property that does not hold then.
    pub(crate) property: &'static str,
}

/// All of them, by their numbers.
#[rustfmt::skip]
pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        number: 1,
        name: "a quorum is one node less than a majority",
        file: "round/quorum.rs",
        original: "self.nodes / 2 + 1",
        broken: "self.nodes / 2",
        configuration: "exclusive",
        property: "at most one holds",
    },
    Fault {
        number: 2,
        name: "a grant counts whatever its counter: no confirmation",
        file: "round/vote.rs",
        original: "vote == Vote::Granted(token) || vote == Vote::Confirmed",
        broken: "matches!(vote, Vote::Granted(_) | Vote::Confirming | Vote::Confirmed) || vote == Vote::Granted(token)",
        configuration: "exclusive_ranges",
        property: "tokens are unique",
    },
    Fault {
        number: 3,
        name: "a grant that comes after the round was lost is not released",
        file: "footprint.rs",
        original: "is_lost && place.acquire != Trace::Nothing",
        broken: "false",
        configuration: "exclusive_undo",
        property: "what was set is deleted",
    },
];
