//! Makes `docs/evidence.md` of the sentences in `tests/evidence/claims.txt` and of figures.
//!
//! Goal: no figure in the page is typed by hand. Method: `collect` adds up the lines that runs have left in `target/evidence`,
//! with the date and the commit of the run, and they are kept in `docs/evidence.json`; `page` fills them in. A test in
//! `tests/documents.rs` makes the page again of what is committed, and compares.
//!
//! - `cargo run -p quorlock-evidence`: figures from `target/evidence`, where there are any, and the page;
//! - `… -- --page`: the page alone, of the figures that are committed;
//! - `… -- --summary`: says what was run, and writes nothing.

mod collect;
mod page;

use std::{error::Error, fs, path::Path, process::ExitCode};

fn run(root: &Path, argument: Option<&str>) -> Result<(), Box<dyn Error>> {
    let (runs, kept) = (root.join("target/evidence"), root.join("docs/evidence.json"));
    if argument == Some("--summary") {
        print!("{}", page::summary(&collect::figures(&runs)?));
        return Ok(());
    }
    if argument.is_none() && runs.join("commit").exists() {
        let figures = collect::figures(&runs)?;
        fs::write(&kept, serde_json::to_string_pretty(&figures)? + "\n")?;
    }
    let figures = serde_json::from_str(&fs::read_to_string(&kept)?)?;
    let claims = fs::read_to_string(root.join("tests/evidence/claims.txt"))?;
    fs::write(root.join("docs/evidence.md"), page::page(&claims, &figures)?)?;
    Ok(())
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        None | Some("--page" | "--summary") => {}
        Some(other) => {
            eprintln!("{other}: take --page, --summary, or nothing");
            return ExitCode::from(2);
        }
    }
    match run(&root, argument.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quorlock-evidence: {error}");
            ExitCode::FAILURE
        }
    }
}
