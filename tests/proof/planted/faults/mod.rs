//! Faults of the production's decisions: the original text, and what replaces it.
//!
//! Goal: a list that cannot rot. Method: the build script looks for each text, which must be there exactly once, and weaves
//! the other one in beside it, in a copy (`weave.rs`). Nothing of that is in the production's code.
//!
//! Each is found by the search of the configuration that is named, as a state in which the property that is named does not
//! hold. They stand by the part of the core that they are in, a file for each; a number is given once, and stays.

mod admission;
mod changes;
mod footprints;
mod handles;
mod leases;
mod lines;
mod nodes;
mod rounds;
mod semaphores;

use std::sync::LazyLock;

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) number: u16,
    pub(crate) name: &'static str,
    pub(crate) edits: &'static [Edit],
    /// By which configuration it is found.
    pub(crate) configuration: &'static str,
    /// The beginning of the property that does not hold then.
    pub(crate) property: &'static str,
}

/// What is changed for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit {
    /// In `core/src`.
    pub(crate) file: &'static str,
    /// An expression, or whole statements; anything where the other text says `$is` by itself.
    pub(crate) original: &'static str,
    pub(crate) broken: &'static str,
}

const fn edit(file: &'static str, original: &'static str, broken: &'static str) -> Edit {
    Edit { file, original, broken }
}

/// All of them, by their numbers.
pub(crate) static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
    let mut all = [
        rounds::FAULTS,
        footprints::FAULTS,
        leases::FAULTS,
        handles::FAULTS,
        admission::FAULTS,
        semaphores::FAULTS,
        lines::FAULTS,
        nodes::FAULTS,
        changes::FAULTS,
    ]
    .concat();
    all.sort_unstable_by_key(|fault| fault.number);
    all
});
