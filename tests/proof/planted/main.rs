//! Faults in the production's decisions, each of which the model checker has to find.
//!
//! Goal: a search that finds nothing in the production's code would have found something. Method: the files of the model
//! checker (`tests/proof/model`) once more, but over a copy of `core/src` into which the build script has woven the
//! faults of `faults`; each is switched on for one search, which must end with a state in which the named property does
//! not hold. Without any of them the searches find nothing, here in the first 20,000 states, in the model itself to their end. The shortest trace of each is written to a file where
//! `QUORLOCK_EVIDENCE` says a directory.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests are free to, and not everything of the model is used for each of them"
)]

extern crate alloc;

// The copy, as `crate::protocol`.
include!(concat!(env!("OUT_DIR"), "/woven.rs"));

mod faults;
#[path = "../model/mod.rs"]
mod model;

use self::{
    faults::{FAULTS, Fault},
    model::{configs, report, search::Limits},
};

/// Which fault is there.
mod switch {
    use std::cell::Cell;

    thread_local! {
        static FAULT: Cell<u16> = const { Cell::new(0) };
    }

    /// Whether it is this one.
    pub(crate) fn is(number: u16) -> bool {
        FAULT.with(Cell::get) == number
    }

    /// From now on, on this thread, it is this one; zero is none.
    pub(crate) fn set(number: u16) {
        FAULT.with(|fault| fault.set(number));
    }
}

fn find(fault: &Fault) -> Result<(), String> {
    let config = configs::ALL.iter().find(|config| config.name == fault.configuration);
    let config = config.expect("a configuration of this name");
    switch::set(fault.number);
    // The trace must lead to the named property; that nobody can have a lease is a sequel of many faults.
    let sequels = ["somebody can always win", "a waiter gets it", "who waits no more"];
    let heals = sequels.contains(&fault.property);
    let found = (config.search)(Limits { heals, ..Limits::of(config.states) });
    switch::set(0);
    let (number, name, trace) = (fault.number, fault.name, report::trace(config.name, &found));
    let steps = found.trace.as_ref().map_or(0, |trace| trace.steps.len());
    report::line(
        "planted",
        &format!(
            r#"{{"what":"planted","fault":{number},"name":"{name}","file":"{}","configuration":"{}","property":"{}","caught":{},"states":{},"steps":{steps},"seconds":{:.1}}}"#,
            fault.edits[0].file,
            config.name,
            found.trace.as_ref().map_or("", |trace| trace.property),
            found.trace.is_some(),
            found.states,
            found.seconds
        ),
    );
    if let Some(directory) = report::evidence() {
        let path = directory.join(format!("fault-{number:02}.txt"));
        std::fs::write(path, format!("{number}. {name}\n\n{trace}")).expect("a file");
    }
    println!("{trace}");
    let property = found.trace.map(|trace| trace.property);
    if property.is_some_and(|property| property.starts_with(fault.property)) {
        return Ok(());
    }
    Err(format!("fault {number}, {name}: {property:?} in {} states", found.states))
}

/// Some of the faults, one search behind the other.
macro_rules! finds {
    ($($name:ident: $numbers:expr,)*) => {
        $(
            #[test]
            fn $name() {
                let missed: Vec<String> = FAULTS[$numbers].iter().filter_map(|fault| find(fault).err()).collect();
                assert!(missed.is_empty(), "{missed:#?}");
            }
        )*

        #[test]
        fn every_fault_has_its_number_and_is_looked_for_once() {
            assert!(FAULTS.iter().zip(1..).all(|(fault, number)| fault.number == number));
            let looked_for: usize = [$(FAULTS[$numbers].len()),*].iter().sum();
            assert_eq!(looked_for, FAULTS.len());
        }
    };
}

// The index of a fault is its number less one.
finds! {
    faults_1_to_8_are_found_each_by_its_property: ..8,
    faults_9_to_16_are_found_each_by_its_property: 8..16,
    faults_17_to_24_are_found_each_by_its_property: 16..24,
    faults_25_to_32_are_found_each_by_its_property: 24..32,
    faults_33_to_40_are_found_each_by_its_property: 32..40,
    faults_41_to_44_are_found_each_by_its_property: 40..44,
    faults_45_to_54_are_found_each_by_its_property: 44..54,
    faults_55_to_74_are_found_each_by_its_property: 54..74,
    faults_75_to_88_are_found_each_by_its_property: 74..88,
    faults_89_to_107_are_found_each_by_its_property: 88..107,
    faults_from_108_on_are_found_each_by_its_property: 107..,
}

#[test]
fn without_a_fault_the_copy_is_as_the_original() {
    for config in configs::ALL {
        let found = (config.search)(Limits::of(20_000));
        assert!(found.trace.is_none(), "{}", report::trace(config.name, &found));
    }
}
