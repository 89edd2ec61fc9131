//! Plants faults in copies of `examples/fences/object_store.rs`, for the tests of what finds them.

use std::{env, fs, path::PathBuf};

/// A copy's name, and what is put in the place of what.
type Fault = (&'static str, &'static [(&'static str, &'static str)]);

const FAULTS: [Fault; 2] = [
    (
        "comparison",
        &[("if largest > token {", "if false {"), ("if largest > token =>", "if false =>")],
    ),
    (
        "version",
        &[
            ("PutMode::Update(version)", "{ drop(version); PutMode::Overwrite }"),
            ("(Vec::new(), PutMode::Create)", "(Vec::new(), PutMode::Overwrite)"),
        ],
    ),
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    let file = here.join("../../examples/fences/object_store.rs");
    println!("cargo::rerun-if-changed={}", file.display());
    let text = fs::read_to_string(&file).expect("the file is there");
    // What is included begins with no comment of its own.
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("//!")).collect();
    for (name, places) in FAULTS {
        let mut faulty = text.join("\n");
        for (from, to) in places {
            assert_eq!(faulty.matches(from).count(), 1, "`{from}` stands once");
            faulty = faulty.replace(from, to);
        }
        fs::write(out.join(name).with_extension("rs"), faulty).expect("a copy");
    }
}
