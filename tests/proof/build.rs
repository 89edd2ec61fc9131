//! Weaves faults into a copy of the production's decisions, for the test program `planted`: `planted/weave.rs`.

#[allow(dead_code, reason = "which property fails is the test's business")]
#[path = "planted/faults/mod.rs"]
mod faults;
#[path = "planted/weave.rs"]
mod weave;

use std::{env, fs, path::PathBuf};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    let from = here.join("../../core/src");
    println!("cargo::rerun-if-changed={}", from.display());
    println!("cargo::rerun-if-changed=planted/faults");
    println!("cargo::rerun-if-changed=planted/weave.rs");
    println!("cargo::rerun-if-changed=build.rs");
    weave::weave(&from, &out.join("protocol"));
    let path = out.join("protocol").join("lib.rs");
    let module =
        format!("#[allow(warnings, clippy::all)]\n#[path = {path:?}]\npub mod protocol;\n");
    fs::write(out.join("woven.rs"), module).expect("a file in OUT_DIR");
}
